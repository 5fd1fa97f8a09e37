/**
 * Arbitrary messages for the inbound reader: it always returns in bounded time, its result has no partial characters, and its files are
 * parts of the message and equal whether read whole or streamed. Always from the same seeds.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { type MailFile, readMail } from '../../src/mail/inbound/read-mail.ts';
import { replyText } from '../../src/mail/inbound/reply-text.ts';
import { decodeStream, decodeTransfer } from '../../src/mail/inbound/transfer-decoding.ts';
import { fastestOf } from '../kit/running-time.ts';
import { mutatedMail } from './mutated-mail.ts';

const mails = ['../corpus/', '../corpus/reports/'].flatMap((name) => {
  const folder = new URL(name, import.meta.url);
  const files = readdirSync(folder).filter((file) => file.endsWith('.eml'));
  return files.map((file) => readFileSync(new URL(file, folder), 'latin1').slice(0, 60_000));
});

const SEEDS = [17, 2045, 2046, 5322, 6532];
const TOKENS = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  '\0',
  '--',
  '--b\r\n',
  '--b--',
  '=',
  '==',
  '=?',
  '?=',
  '=\r\n',
  '=4',
  '=C3',
  ' \r\n',
  '\x1b$B',
  '\xff',
  '\xc3',
  '\xf0\x9f',
  '"',
  ';',
  '<',
  '>',
  '(',
  '> ',
  'QUI=',
  'QQ==',
  '=?utf-8?B?8J8=?=',
  'Content-Type: multipart/mixed; boundary=b\r\n\r\n',
  'Content-Type: text/html\r\n',
  'Content-Type: message/rfc822\r\n',
  'Content-Transfer-Encoding: base64\r\n\r\n',
  'Content-Transfer-Encoding: quoted-printable\r\n\r\n',
  'charset=utf-16',
  'charset=iso-2022-jp',
  'charset=x-none',
  "filename*0*=utf-8''%F0%9F",
  'boundary=""',
  'Content-Disposition: attachment; filename="',
  '../',
  '\\',
  'On 20 Nov 2026 Shop wrote:',
  '-- \r\n',
  'From: a\r\nTo: b\r\n',
];
const LONGEST_MS = 250;
const [TEXT, HTML] = [64 * 1024, 128 * 1024];

const isWhole = (text: string | null, most: number): boolean =>
  text === null || (text.isWellFormed() && text.length <= most);

async function streamed(encoded: Buffer, encoding: MailFile['encoding']): Promise<Buffer> {
  async function* pieces() {
    for (let at = 0; at < encoded.length; at += 97) yield encoded.subarray(at, at + 97);
  }
  const decoded: Buffer[] = [];
  for await (const chunk of decodeStream(pieces(), encoding)) decoded.push(chunk);
  return Buffer.concat(decoded);
}

async function checkFile(
  content: Buffer,
  { name, contentType, sizeBytes, encoding, from, to }: MailFile,
): Promise<void> {
  assert.ok(from >= 0 && from <= to && to <= content.length, `${from} to ${to} of ${content.length}`);
  assert.ok(name !== '' && isWhole(name, 200) && !/[\p{Cc}/\\]/u.test(name), name);
  assert.match(contentType, /^[\w.+-]{1,100}\/[\w.+-]{1,100}$/);
  const encoded = content.subarray(from, to);
  const decoded = decodeTransfer(encoded, encoding);
  assert.equal(decoded.length, sizeBytes);
  assert.ok(decoded.equals(await streamed(encoded, encoding)), encoding);
}

async function check(text: string): Promise<void> {
  const content = Buffer.from(text, 'latin1');
  const { result, ms } = await fastestOf(LONGEST_MS, async () => {
    const mail = await readMail(content);
    return { mail, reply: replyText(mail.text) };
  });
  const { mail, reply } = result;
  assert.ok(ms < LONGEST_MS, `${ms} ms`);
  assert.ok(isWhole(mail.text, TEXT) && isWhole(mail.html, HTML) && isWhole(reply, TEXT));
  assert.ok(reply === null || (reply !== '' && reply === reply.trim()));
  for (const { name, value } of mail.headers) {
    assert.match(name, /^[!-9;-~]+$/);
    assert.ok(isWhole(value, 8 * 1024) && !/[\r\n\0]/.test(value), value);
  }
  assert.ok(mail.files.length <= 501 && mail.hops <= content.length);
  for (const file of mail.files) await checkFile(content, file);
  for (const sentence of mail.unreadable) assert.match(sentence, /^[A-Z][^\r\n]{10,200}\.$/);
}

test('the corpus without mutations', async () => {
  for (const mail of mails) await check(mail);
});

test('the corpus with mutations, from committed seeds', async () => {
  const property = fc.asyncProperty(mutatedMail(mails, TOKENS), check);
  for (const seed of SEEDS) await fc.assert(property, { seed, numRuns: 300 });
});

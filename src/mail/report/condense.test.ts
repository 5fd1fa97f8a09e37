/** A condensed report is read the same as the complete one, in any size, order, and chunks. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { runningMs } from '../../../test/kit/running-time.ts';
import { CONDENSED_BYTES, condensed, ReportCondenser } from './condense.ts';
import { readReport } from './report.ts';

const folder = new URL('../../../test/corpus/reports/', import.meta.url);
const corpus = readdirSync(folder).filter((name) => name.endsWith('.eml'));

const HEAD = 'From: MAILER-DAEMON@mx.example\r\nSubject: Undeliverable: Your order\r\nMIME-Version: 1.0\r\n';
const STATUS = [
  'Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\n',
  'Final-Recipient: rfc822; ann@example.com\r\nAction: failed\r\nStatus: 5.1.1\r\n',
].join('');
const ORIGINAL =
  'From: shop@shop.example\r\nTo: ann@example.com\r\nMessage-ID: <m@shop.example>\r\nSubject: Your order\r\n';
const FILLER = `${'QUJD'.repeat(19)}\r\n`;
const LARGE = 10_000_000;
const large = FILLER.repeat(LARGE / FILLER.length);

/** A multipart/report with these parts, each with its header. */
function reportWith(...parts: string[]): Buffer {
  const body = parts.map((part) => `--b\r\n${part}\r\n`).join('');
  return Buffer.from(`${HEAD}Content-Type: multipart/report; boundary=b\r\n\r\n${body}--b--\r\n`, 'latin1');
}

/** 10 MB of parts before the machine-readable part. */
const LARGE_PARTS: Record<string, string> = {
  'the returned message': `Content-Type: message/rfc822\r\n\r\n${ORIGINAL}\r\n${large}`,
  'the returned message with parts of its own': [
    `Content-Type: message/rfc822\r\n\r\n${ORIGINAL}Content-Type: multipart/mixed; boundary=inner\r\n\r\n--inner\r\n\r\n`,
    `text\r\n--inner\r\nContent-Type: application/pdf\r\n\r\n${large}--inner--\r\n`,
  ].join(''),
  'the returned message in Base64': [
    'Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n',
    Buffer.from(`${ORIGINAL}\r\n${large}`).toString('base64').replace(/.{76}/g, '$&\r\n'),
  ].join(''),
  'a picture': `Content-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n${large}`,
  'a text': `Content-Type: text/plain\r\n\r\nDelivery has failed.\r\n${large}`,
  'a text in HTML without a line end': `Content-Type: text/html\r\n\r\n<p>Delivery has failed.</p>${'x'.repeat(LARGE)}`,
  'lines that begin as delimiters do': `Content-Type: image/png\r\n\r\n${'--b1\r\n-\r\n--\r\n'.repeat(LARGE / 13)}`,
  'a multipart of its own': [
    'Content-Type: multipart/related; boundary=r\r\n\r\n--r\r\nContent-Type: text/html\r\n\r\n<p>no</p>\r\n',
    `--r\r\nContent-Type: image/png\r\n\r\n${large}\r\n--r--\r\n${large}`,
  ].join(''),
};

test('every report of the corpus is read identically after condensing, in any chunks', async () => {
  for (const name of corpus) {
    const whole = readFileSync(new URL(name, folder));
    const short = condensed(whole);
    assert.deepEqual(await readReport(short), await readReport(whole), name);
    const pieces: Buffer[] = [];
    const condenser = new ReportCondenser((piece) => pieces.push(Buffer.from(piece)));
    for (const byte of whole) condenser.write(Buffer.from([byte]));
    condenser.end();
    assert.ok(Buffer.concat(pieces).equals(short), name);
  }
});

for (const [what, part] of Object.entries(LARGE_PARTS)) {
  test(`the machine-readable part is read after 10 MB of ${what}`, async () => {
    const text = 'Content-Type: text/plain\r\n\r\nDelivery has failed.\r\n';
    const whole = reportWith(text, part, STATUS);
    assert.ok(whole.length > LARGE);
    const short = condensed(whole);
    assert.ok(short.length < 200_000, `${short.length} bytes`);
    for (const report of [await readReport(whole), await readReport(short)]) {
      assert.ok(report.kind === 'bounce' && report.isForMachines);
      assert.deepEqual(
        [report.recipients[0]!.finalRecipient, report.recipients[0]!.status],
        ['ann@example.com', '5.1.1'],
      );
      if (what.startsWith('the returned')) assert.equal(report.mail.messageId, '<m@shop.example>');
    }
  });
}

test('a 10 MB text bounce is read by its start, and later text after a long part', async () => {
  const failure = '<ann@example.com>: 550 5.1.1 no such user\r\n';
  const plain = await readReport(Buffer.from(`${HEAD}\r\n${failure}\r\n${ORIGINAL}\r\n${large}`));
  assert.ok(plain.kind === 'bounce');
  assert.deepEqual([plain.recipients[0]!.status, plain.mail.messageId], ['5.1.1', '<m@shop.example>']);
  const short = condensed(
    reportWith(`Content-Type: text/plain\r\n\r\n${large}`, `Content-Type: text/plain\r\n\r\n${failure}`),
  );
  assert.ok(short.includes(failure));
});

test('a report without returned content is unchanged, and returned content is removed', () => {
  const text = 'Content-Type: text/plain\r\n\r\nDelivery has failed.\r\n';
  const short = reportWith(text, STATUS, `Content-Type: text/rfc822-headers\r\n\r\n${ORIGINAL}`);
  assert.equal(condensed(short).toString('latin1'), short.toString('latin1'));
  const returning = reportWith(
    text,
    STATUS,
    `Content-Type: message/rfc822\r\n\r\n${ORIGINAL}\r\nThe secret is 4711.\r\n`,
  );
  assert.ok(!condensed(returning).includes('4711'));
});

test('limits what is kept and takes linear time for any input', () => {
  const many = 'Content-Type: text/plain\r\n\r\nx\r\n';
  const hostile: Record<string, string> = {
    'a header without end': 'X-Long: x\r\n'.repeat(LARGE / 11),
    'a header line without end': `X-Long: ${'x'.repeat(LARGE)}`,
    'parts without end': `${HEAD}Content-Type: multipart/report; boundary=b\r\n\r\n${`--b\r\n${many}`.repeat(LARGE / 40)}`,
    'multiparts in each other': Array.from(
      { length: 50_000 },
      (_, i) => `Content-Type: multipart/mixed; boundary=b${i}\r\n\r\n--b${i}\r\n`,
    ).join(''),
    'a part header without end': `${HEAD}Content-Type: multipart/report; boundary=b\r\n\r\n--b\r\n${'X-Long: x\r\n'.repeat(LARGE / 11)}`,
    'delimiters alone': `${HEAD}Content-Type: multipart/report; boundary=b\r\n\r\n${'--b\r\n'.repeat(LARGE / 5)}`,
    'a returned header without end': `${HEAD}Content-Type: message/rfc822\r\n\r\n${'X-Long: x\r\n'.repeat(LARGE / 11)}`,
    'nothing but line ends': '\r\n'.repeat(LARGE / 2),
    'nothing but dashes': '-'.repeat(LARGE),
  };
  for (const [what, text] of Object.entries(hostile)) {
    const bytes = Buffer.from(text, 'latin1');
    const since = runningMs();
    assert.ok(condensed(bytes).length <= CONDENSED_BYTES, what);
    assert.ok(runningMs() - since < 2_000, `${what}: ${runningMs() - since} ms`);
  }
});

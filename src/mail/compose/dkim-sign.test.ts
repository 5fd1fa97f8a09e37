import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { parseAddress } from '../address.ts';
import { compose } from './compose.ts';
import {
  type DkimKey,
  type GeneratedDkimKey,
  generateDkimKeys,
  prepareDkim,
  signDkim,
  signDkimSync,
} from './dkim-sign.ts';

let generated: { rsa: GeneratedDkimKey; ed25519: GeneratedDkimKey };
let keys: DkimKey[];

before(async () => {
  generated = await generateDkimKeys();
  keys = [generated.rsa, generated.ed25519].map(({ algorithm, privateKeyPem }) => ({
    algorithm,
    selector: `s-${algorithm}`,
    privateKey: createPrivateKey(privateKeyPem),
  }));
});

async function resolver(name: string, type: string): Promise<string[][]> {
  assert.equal(type, 'TXT');
  const algorithm = /^s-(rsa|ed25519)\._domainkey\.example\.com$/.exec(name)?.[1] as 'rsa' | 'ed25519' | undefined;
  assert.ok(algorithm, name);
  return [[generated[algorithm].dnsValue]];
}

/** Returns mailauth's result for each signature, in order: `rsa-sha256 pass`. */
async function verdicts(message: Buffer): Promise<string[]> {
  const { results } = await dkimVerify(message, { resolver });
  return results.map(
    (result: { algo?: string; status: { result: string } }) => `${result.algo} ${result.status.result}`,
  );
}

const nowMs = Date.now();
const sign = (content: Buffer | Buffer[]) => signDkim({ content, domain: 'example.com', keys, nowMs });
const PASS = ['rsa-sha256 pass', 'ed25519-sha256 pass'];

async function signed(content: Buffer): Promise<Buffer> {
  return Buffer.concat([Buffer.from(await sign(content)), content]);
}

const HEADER =
  'From: Ann <ann@example.com>\r\nTo: b@example.org\r\nSubject: Hello\r\nDate: Fri, 20 Nov 2026 09:44:00 +0000\r\nMessage-ID: <1@example.com>\r\n';

test('mailauth verifies signatures of unusual bodies and headers', async () => {
  const messages = [
    `${HEADER}\r\nHello\r\n`,
    `${HEADER}\r\n`,
    `${HEADER}\r\n\r\n\r\n`,
    `${HEADER}\r\nno line end`,
    `${HEADER}\r\n  leading, \t tabs\t\t and trailing \t \r\n\r\n \t\r\nend\r\n\r\n\r\n`,
    `${HEADER}\r\n \r\n`,
    `Subject:\r\n folded  \r\n\tsubject \r\nFROM : a@example.com \r\nX-Other: x\r\nTo:b@example.org,\r\n\tc@example.org\r\n\r\nx\r\n`,
    `From: a@example.com\r\nList-Id: one\r\nList-Id: two\r\nReferences: <1@x>\r\nReferences: <2@x>\r\nSubject:\r\n\r\nx\r\n`,
    `From: a@example.com\r\nSubject: =?UTF-8?Q?=C3=A0?= \r\nTo: \xc3\xa0@example.org\r\nCc: x \xc3\xa0\r\n\r\nx\xa0 \r\n`,
  ];
  for (const message of messages) {
    assert.deepEqual(await verdicts(await signed(Buffer.from(message, 'latin1'))), PASS, JSON.stringify(message));
  }
});

test('mailauth verifies signatures of random headers and bodies', async () => {
  const word = fc.constantFrom('a', 'word', ' ', '\t', '  ', '\r\n ', ':', '=', ';', 'b=');
  const value = fc
    .array(word, { maxLength: 12 })
    .map((words) => words.join('').replace(/(?:\r\n[ \t]*)+(?=\r\n|$)/g, ''));
  const body = fc.array(fc.constantFrom('\r\n', ' ', '\t', 'x', 'line', '\xff'), { maxLength: 30 });
  const field = fc.tuple(fc.constantFrom('Subject', 'to', 'CC', 'List-Unsubscribe', 'X-Own', 'Reply-To'), value);
  await fc.assert(
    fc.asyncProperty(fc.array(field, { maxLength: 6 }), body, async (fields, parts) => {
      const header = fields.map(([name, text]) => `${name}: ${text}\r\n`).join('');
      const message = Buffer.from(`From: a@example.com\r\n${header}\r\n${parts.join('')}`, 'latin1');
      assert.deepEqual(await verdicts(await signed(message)), PASS);
    }),
    { numRuns: 60 },
  );
});

test('a changed byte and an added or removed signed field fail both signatures', async () => {
  const message = await signed(Buffer.from(`${HEADER}\r\nHello Ann\r\n`));
  const text = message.toString('latin1');
  assert.deepEqual(await verdicts(message), PASS);
  const forgeries = [
    text.replace('Hello Ann', 'Hello Bob'),
    text.replace('Subject: Hello', 'Subject: Hella'),
    text.replace('From: Ann', 'From: Bob'),
    `Subject: Second\r\n${text}`,
    text.replace(/(?=From: Ann)/, 'From: evil@example.net\r\n'),
    text.replace('\r\n\r\nHello', '\r\nReply-To: evil@example.net\r\n\r\nHello'),
    text.replace('\r\n\r\nHello', '\r\nCc: more@example.net\r\n\r\nHello'),
    text.replace('\r\n\r\nHello', '\r\nContent-Type: text/html\r\n\r\nHello'),
    text.replace(/Date: .*\r\n/, ''),
    text.replace(/t=\d+;/g, 't=1;'),
  ];
  for (const forged of forgeries) {
    assert.notEqual(forged, text);
    for (const verdict of await verdicts(Buffer.from(forged, 'latin1'))) assert.doesNotMatch(verdict, /pass/, forged);
  }
  // Harmless changes by relays must not break the signature.
  const kept = [`Received: from x\r\n${text}`, text.replace('Subject: Hello', 'SUBJECT:  Hello '), `${text}\r\n\r\n`];
  for (const other of kept) assert.deepEqual(await verdicts(Buffer.from(other, 'latin1')), PASS, other);
});

test('composed messages get the same signature in one buffer or several', async () => {
  const address = parseAddress('Ann <ann@example.com>');
  assert.ok(address.ok);
  const { content } = compose({
    from: address.value,
    to: [address.value],
    cc: [],
    replyTo: [],
    subject: 'Grüße '.repeat(30),
    text: 'Hallo  Ann \n\n',
    html: `<p>${'Zeile mit Umlaut ü '.repeat(100)}</p>`,
    headers: [
      ['List-Unsubscribe', '<https://example.com/u>'],
      ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'],
    ],
    attachments: [{ name: 'ü.pdf', contentType: 'application/pdf', content: Buffer.alloc(3000, 7) }],
    messageId: '<1@example.com>',
    dateMs: nowMs,
  });
  assert.deepEqual(await verdicts(await signed(content)), PASS);
  const cut = [content.subarray(0, 1500), content.subarray(1500, 1501), content.subarray(1501)];
  assert.deepEqual(prepareDkim(cut), prepareDkim(content));
  assert.equal(await sign(cut.map((part) => Buffer.from(part))), await sign(content));
  assert.equal(signDkimSync({ content, domain: 'example.com', keys, nowMs }), await sign(content));
});

test('the DKIM-Signature field has its tags, folding, and oversigning', async () => {
  const fields = await sign(Buffer.from(`${HEADER}List-Unsubscribe: <https://x>\r\n\r\nx\r\n`));
  const [rsa, ed] = fields.split(/(?=DKIM-Signature:)/) as [string, string];
  assert.match(rsa, /^DKIM-Signature: v=1; a=rsa-sha256; c=relaxed\/relaxed; d=example\.com;\s+s=s-rsa;\s+t=\d{10};/);
  assert.match(ed, /a=ed25519-sha256;/);
  for (const line of fields.trimEnd().split('\r\n')) assert.ok(line.length <= 78 && /\S/.test(line), line);
  const names = /h=([^;]+);/.exec(rsa)![1]!.replace(/\s/g, '').split(':');
  const count = (name: string) => names.filter((other) => other === name).length;
  for (const name of ['from', 'subject', 'to', 'date', 'message-id']) assert.equal(count(name), 2, name);
  for (const name of ['cc', 'reply-to', 'content-type', 'mime-version', 'list-unsubscribe'])
    assert.equal(count(name), 1, name);
});

test('generated keys are PKCS #8 with DNS values of RFC 6376 and RFC 8463', () => {
  assert.match(generated.rsa.privateKeyPem, /^-----BEGIN PRIVATE KEY-----/);
  assert.equal(createPrivateKey(generated.rsa.privateKeyPem).asymmetricKeyDetails?.modulusLength, 2048);
  assert.match(generated.rsa.dnsValue, /^v=DKIM1; k=rsa; p=MIIB[A-Za-z0-9+/=]{300,}$/);
  assert.match(generated.ed25519.dnsValue, /^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/);
});

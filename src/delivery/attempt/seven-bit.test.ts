import assert from 'node:assert/strict';
import { isAscii } from 'node:buffer';
import { createPrivateKey } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import PostalMime from 'postal-mime';
import { deliveryRig, type Rig, type RigMail } from '../../../test/kit/delivery-rig.ts';
import { type SinkMessage, type SmtpSink, smtpSink } from '../../../test/kit/smtp-sink.ts';
import { corpus } from '../../../test/kit/submit.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { type DkimKey, dkimDnsValue, generateDkimKeys } from '../../mail/compose/dkim-sign.ts';

const FROM = 'Shop <orders@shop.example>';
const HEADER = `From: ${FROM}\r\nTo: a@x.example\r\nDate: Fri, 20 Nov 2026 09:44:00 +0000\r\nMessage-ID: <1@shop.example>\r\n`;
const EIGHT_BIT = `${HEADER}Subject: plain\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße\r\n.\r\n`;
const RAW_HEADER = EIGHT_BIT.replace('plain', 'Größe');
const ALL = ['PIPELINING', 'SIZE 50000000', 'ENHANCEDSTATUSCODES', '8BITMIME', 'SMTPUTF8'];

let keys: DkimKey[] = [];
/** Number of times that all keys were read for signing. */
let signings = 0;
const records: Record<string, string> = {};
const open: { rig: Rig; sink: SmtpSink }[] = [];
let whole: { rig: Rig; sink: SmtpSink };
let noUtf8: { rig: Rig; sink: SmtpSink };
let sevenBit: { rig: Rig; sink: SmtpSink };

async function peer(extensions: string[]): Promise<{ rig: Rig; sink: SmtpSink }> {
  const sink = await smtpSink({ extensions });
  const counted = new Proxy(keys, {
    get: (target, name, receiver) => {
      if (name === 'map') signings += 1;
      return Reflect.get(target, name, receiver);
    },
  });
  const keysFor = () => Promise.resolve({ domain: 'shop.example', keys: counted });
  const rig = await deliveryRig({ relayPort: sink.port, deps: { keysFor } });
  open.push({ rig, sink });
  return { rig, sink };
}

before(async () => {
  const made = await generateDkimKeys();
  keys = (['rsa', 'ed25519'] as const).map((algorithm) => {
    const privateKey = createPrivateKey(made[algorithm].privateKeyPem);
    records[`${algorithm}._domainkey.shop.example`] = dkimDnsValue(privateKey);
    return { algorithm, selector: algorithm, privateKey };
  });
  whole = await peer(ALL);
  noUtf8 = await peer(ALL.slice(0, -1));
  sevenBit = await peer(ALL.slice(0, -2));
});

after(async () => {
  for (const { rig, sink } of open) {
    await rig.close();
    await sink.close();
  }
});

beforeEach(() => {
  signings = 0;
});

interface Mail {
  content: string | Buffer;
  smtpUtf8?: boolean;
  from?: string;
  to?: string[];
}

function mailOf({ content, smtpUtf8 = false, from = FROM, to = ['a@x.example'] }: Mail): RigMail {
  const text = content.toString();
  return { from, to, content: text, source: 'smtp', options: { smtpUtf8, eightBit: !isAscii(Buffer.from(text)) } };
}

async function delivered({ rig, sink }: typeof whole, mail: Mail): Promise<SinkMessage[]> {
  const earlier = sink.messages.length;
  const ids = await rig.send(mailOf(mail));
  for (const id of ids) await waitUntil('the delivery', () => rig.status(id) === 'delivered');
  assert.deepEqual(sink.violations, []);
  return sink.messages.slice(earlier);
}

async function bounce({ rig, sink }: typeof whole, mail: Mail): Promise<Record<string, unknown>> {
  const earlier = sink.accepted;
  const [id] = await rig.send(mailOf(mail));
  await waitUntil('the bounce', () => rig.status(id!) === 'bounced');
  assert.equal(sink.accepted, earlier, 'nothing was transmitted');
  return rig.events(id).find((event) => event.type === 'Bounce')!.detail.bounce!;
}

async function verdicts(mail: Buffer): Promise<string[]> {
  const resolver = (name: string): Promise<string[][]> =>
    Promise.resolve(records[name] === undefined ? [] : [[records[name]]]);
  const { results } = await dkimVerify(mail, { resolver });
  return results.map((one: { status: { result: string } }) => one.status.result);
}

test('a server with 8BITMIME and SMTPUTF8 gets the message unchanged', async () => {
  const [mail] = await delivered(whole, { content: RAW_HEADER, smtpUtf8: true });
  assert.ok(mail!.content.toString().endsWith(RAW_HEADER));
  assert.match(mail!.mailParameters, /BODY=8BITMIME SMTPUTF8$/);
  assert.deepEqual(await verdicts(mail!.content), ['pass', 'pass']);
});

test('a server without either gets a 7-bit message, signed after conversion', async () => {
  const [mail] = await delivered(sevenBit, { content: RAW_HEADER, smtpUtf8: true });
  assert.ok(isAscii(mail!.content), 'no byte above 0x7F on the wire');
  assert.doesNotMatch(mail!.mailParameters, /BODY|SMTPUTF8/);
  assert.equal(mail!.mailParameters, `SIZE=${mail!.content.length}`);
  assert.match(mail!.content.toString(), /^Received: [^\r]+\r\n [^\r]+\r\nDKIM-Signature: v=1; a=rsa-sha256;/);
  assert.deepEqual(await verdicts(mail!.content), ['pass', 'pass']);
  const { subject, text } = await PostalMime.parse(mail!.content);
  assert.deepEqual([subject, text], ['Größe', 'Grüße\n.\n']);
});

test('a server without SMTPUTF8 gets encoded headers and an unchanged body', async () => {
  const [mail] = await delivered(noUtf8, { content: RAW_HEADER, smtpUtf8: true });
  assert.match(mail!.mailParameters, /BODY=8BITMIME$/);
  assert.ok(mail!.content.toString().endsWith('Content-Transfer-Encoding: 8bit\r\n\r\nGrüße\r\n.\r\n'));
  assert.ok(isAscii(mail!.content.subarray(0, mail!.content.indexOf('\r\n\r\n'))));
  assert.deepEqual(await verdicts(mail!.content), ['pass', 'pass']);
});

test('a message that needs no extension is sent unchanged to any server', async () => {
  const content = EIGHT_BIT.replace('Grüße', 'Hello');
  for (const at of [sevenBit, noUtf8]) {
    const [mail] = await delivered(at, { content });
    assert.ok(mail!.content.toString().endsWith(content), 'even the label 8bit is unchanged');
    assert.deepEqual(await verdicts(mail!.content), ['pass', 'pass']);
  }
  const [mail] = await delivered(noUtf8, { content: EIGHT_BIT });
  assert.ok(mail!.content.toString().endsWith(EIGHT_BIT));
});

test('the corpus arrives as 7-bit messages with valid signatures', async () => {
  for (const { name, content } of corpus()) {
    if (name.startsWith('smime-signed-8') || name.startsWith('smtputf8')) continue;
    // The rig stores text; the tests of the format cover other content.
    if (!content.equals(Buffer.from(content.toString()))) continue;
    const [mail] = await delivered(sevenBit, { content, smtpUtf8: name.startsWith('raw') });
    assert.ok(isAscii(mail!.content), name);
    // A mailing list's own signature is below Postrider's.
    assert.deepEqual((await verdicts(mail!.content)).slice(0, 2), ['pass', 'pass'], name);
  }
});

test('an email is converted and signed once for all its recipients', async () => {
  const { sink } = sevenBit;
  sink.setScript({ rcpt: ({ to }) => (to.length > 0 ? '452 4.5.3 too many recipients' : undefined) });
  const mails = await delivered(sevenBit, { content: EIGHT_BIT, to: ['a@x.example', 'b@y.example', 'c@z.example'] });
  sink.setScript({});
  assert.equal(mails.length, 3);
  for (const mail of mails) assert.ok(isAscii(mail.content));
  assert.equal(signings, 2, 'as accepted, and after conversion');
});

test('signed content that would need conversion bounces with 5.6.3 and the reason', async () => {
  const { content } = corpus().find((one) => one.name === 'smime-signed-8bit.eml')!;
  const { kind, category, smtpCode, enhancedCode, reply, remoteHost, suppressed } = await bounce(sevenBit, { content });
  assert.deepEqual([kind, category, smtpCode, enhancedCode], ['block', 'content-rejected', 554, '5.6.3']);
  assert.match(
    String(reply),
    /does not support 8-bit content \(8BITMIME\), .* cannot be re-encoded: .*multipart\/signed/,
  );
  assert.equal(remoteHost, '127.0.0.1');
  assert.equal(suppressed, false);
  const [mail] = await delivered(noUtf8, { content });
  assert.ok(mail!.content.toString().endsWith(content.toString()), 'a server with 8BITMIME gets it unchanged');
});

test('a sender that requires SMTPUTF8 bounces with 5.6.7, in the envelope or the header', async () => {
  const inHeader = RAW_HEADER.replace('From: Shop <orders@', 'From: Shop <ünal@');
  for (const at of [noUtf8, sevenBit]) {
    const failure = await bounce(at, { content: inHeader, smtpUtf8: true });
    const { smtpCode, enhancedCode, category, owner, suppressed } = failure;
    assert.deepEqual([smtpCode, enhancedCode, suppressed], [553, '5.6.7', false]);
    assert.deepEqual([category, owner], ['smtputf8', 'sender']);
    assert.match(
      String(failure.reply),
      /\(SMTPUTF8\), and the message cannot be re-encoded: the field From has an address/,
    );
    assert.match(String(failure.advice), /send from an ASCII address/);
  }
  const sender = await bounce(sevenBit, { content: EIGHT_BIT, from: 'ünal@shop.example' });
  assert.deepEqual([sender.smtpCode, sender.enhancedCode, sender.owner], [553, '5.6.7', 'sender']);
});

test('only a recipient with a UTF-8 local part bounces, and others see it as a group', async () => {
  const addressed = RAW_HEADER.replace(
    'To: a@x.example',
    'To: Ünal <ünal@x.example>, bob@x.example\r\nCc: änn@elsewhere.example\r\nReply-To: hallöchen@shop.example',
  );
  for (const at of [noUtf8, sevenBit]) {
    const earlier = at.sink.messages.length;
    const to = ['ünal@x.example', 'bob@x.example'];
    const [ünal, bob] = (await at.rig.send(mailOf({ content: addressed, smtpUtf8: true, to }))) as [string, string];
    await waitUntil('both outcomes', () => at.rig.status(bob) === 'delivered' && at.rig.status(ünal) === 'bounced');
    const [mail] = at.sink.messages.slice(earlier);
    assert.deepEqual(mail!.to, ['bob@x.example']);
    assert.doesNotMatch(mail!.mailParameters, /SMTPUTF8/);
    const text = mail!.content.toString();
    const header = text.slice(0, text.indexOf('\r\n\r\n'));
    assert.ok(isAscii(Buffer.from(header)));
    assert.match(header, /^To: =\?UTF-8\?[QB]\?\S+\?= :;,\s+bob@x\.example\r$/m);
    assert.match(header, /^Cc: =\?UTF-8\?[QB]\?\S+\?= :;\r$/m);
    assert.match(header, /^Reply-To: =\?UTF-8\?[QB]\?\S+\?= :;\r?$/m);
    const parsed = await PostalMime.parse(mail!.content);
    assert.equal(parsed.to![0]!.name, 'Ünal ünal@x.example', 'the other recipient is still displayed');
    assert.deepEqual(await verdicts(mail!.content), ['pass', 'pass']);
    const { bounce: failure } = at.rig.events(ünal).find((one) => one.type === 'Bounce')!.detail;
    assert.deepEqual(
      [failure!.category, failure!.owner, failure!.enhancedCode, failure!.suppressed],
      ['smtputf8', 'recipient', '5.6.7', false],
    );
    assert.match(String(failure!.advice), /ask the recipient for an ASCII address/);
  }
  const [mail] = await delivered(whole, { content: addressed, smtpUtf8: true });
  assert.match(mail!.content.toString(), /To: Ünal <ünal@x\.example>, bob/, 'a server with SMTPUTF8 gets it unchanged');
});

test('a session continues with the next message after a rejection', async () => {
  const total = sevenBit.sink.connections.total;
  const { content } = corpus().find((one) => one.name === 'smime-signed-8bit.eml')!;
  await bounce(sevenBit, { content });
  await delivered(sevenBit, { content: EIGHT_BIT });
  assert.ok(sevenBit.sink.connections.total <= total + 1);
});

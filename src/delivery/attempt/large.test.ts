/** Messages with stored files, from the queue to a real SMTP server: bytes, sizes, signatures, and one read each to hash and to send. */
import assert from 'node:assert/strict';
import { createPrivateKey, randomBytes } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { deliveryRig, type Rig, type RigMail } from '../../../test/kit/delivery-rig.ts';
import { type LargeMail, largeMail } from '../../../test/kit/large-mail.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { type DkimKey, dkimDnsValue, generateDkimKeys } from '../../mail/compose/dkim-sign.ts';
import type { Blobs } from '../../storage/blobs/blobs.ts';

const made = await generateDkimKeys();
const records: Record<string, string> = {};
const keys = (['rsa', 'ed25519'] as const).map((algorithm): DkimKey => {
  const privateKey = createPrivateKey(made[algorithm].privateKeyPem);
  records[`${algorithm}._domainkey.shop.example`] = dkimDnsValue(privateKey);
  return { algorithm, selector: algorithm, privateKey };
});
const signing = { domain: 'shop.example', keys };

function rigMail(mail: LargeMail, to = 'a@x.example'): RigMail {
  return {
    to: [to],
    content: mail.content.toString('latin1'),
    sizeBytes: mail.sizeBytes,
    options: { files: mail.files },
    blob: mail.content.length > 64 * 1024,
  };
}

/** Counts how often a blob is opened. */
function counting(blobs: Blobs): { blobs: Blobs; opened: string[] } {
  const opened: string[] = [];
  const open: NonNullable<Blobs['open']> = (key) => {
    opened.push(key);
    return blobs.open!(key);
  };
  return { blobs: { ...blobs, open }, opened };
}

async function begin(
  t: TestContext,
  options: { sink?: SinkOptions; signed?: boolean } = {},
): Promise<{ sink: SmtpSink; rig: Rig; opened: string[] }> {
  const sink = await smtpSink(options.sink);
  const rig = await deliveryRig({ relayPort: sink.port, idle: true });
  const { blobs, opened } = counting(rig.blobs);
  await rig.restart({ blobs, keysFor: async () => (options.signed === false ? undefined : signing) });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  return { sink, rig, opened };
}

/** Returns the fields added before the accepted content. */
function added(received: Buffer, mail: LargeMail): string {
  return received.toString('latin1', 0, received.length - mail.sizeBytes);
}

async function verify(mail: Buffer): Promise<string[]> {
  const resolver = (name: string): Promise<string[][]> => Promise.resolve([[records[name] ?? 'v=DKIM1; p=']]);
  const result = await dkimVerify(mail, { resolver });
  return result.results.map((one: { status: { result: string } }) => one.status.result);
}

test('29 MB of files arrive unchanged, with the exact SIZE and two valid signatures', async (t) => {
  const { sink, rig, opened } = await begin(t);
  const files = [randomBytes(25_000_000), Buffer.alloc(0), randomBytes(4_000_001)].map((bytes) => ({ bytes }));
  const mail = await largeMail(rig.blobs, files);
  const [id] = await rig.send(rigMail(mail));
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered', 20_000);
  const [received] = sink.messages;
  assert.deepEqual(sink.violations, []);
  assert.match(added(received!.content, mail), /^Received: .*\r\n(DKIM-Signature: .*){2}\r\n$/s);
  assert.ok(received!.content.subarray(-mail.sizeBytes).equals(mail.whole()));
  assert.match(received!.mailParameters, new RegExp(`SIZE=${received!.content.length}\\b`));
  assert.deepEqual(await verify(received!.content), ['pass', 'pass']);
  assert.equal(opened.length, 4, 'each non-empty file is read once for the hash and once for sending');
});

test('concurrent messages over TLS to a server without 8BITMIME arrive complete', async (t) => {
  const sinkOptions: SinkOptions = { tls: 'starttls', extensions: ['PIPELINING', 'SIZE 50000000'] };
  const { sink, rig } = await begin(t, { sink: sinkOptions });
  const mails = new Map<string, LargeMail>();
  for (let i = 0; i < 6; i += 1) {
    const mail = await largeMail(rig.blobs, [
      { bytes: randomBytes(1_000_000 + i) },
      { bytes: randomBytes(100 + i) },
      { bytes: randomBytes(700_000) },
    ]);
    const to = `r${i}@x.example`;
    mails.set(to, mail);
    await rig.send(rigMail(mail, to));
  }
  await waitUntil('all', () => sink.messages.length === mails.size, 20_000);
  for (const { to, content, tls } of sink.messages) {
    const mail = mails.get(to[0]!)!;
    assert.equal(tls, 'TLSv1.3');
    assert.ok(content.subarray(-mail.sizeBytes).equals(mail.whole()));
    assert.deepEqual(await verify(content), ['pass', 'pass']);
  }
});

test('a retry reuses the stored body hash, and content from a blob is signed identically', async (t) => {
  const { sink, rig, opened } = await begin(t, { sink: { script: { dot: ['451 4.3.0 later'] } } });
  const mail = await largeMail(rig.blobs, [{ bytes: randomBytes(300_000) }], { text: 'x \r\n'.repeat(100_000) });
  const [id] = await rig.send(rigMail(mail));
  await waitUntil('the deferral', () => rig.status(id!) === 'delayed');
  assert.equal(opened.length, 2);
  rig.clock.advance(120_000);
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
  assert.equal(opened.length, 3);
  assert.ok(sink.messages[0]!.content.subarray(-mail.sizeBytes).equals(mail.whole()));
  assert.deepEqual(await verify(sink.messages[0]!.content), ['pass', 'pass']);
});

test("a message over the receiver's SIZE limit bounces before any byte is sent or read", async (t) => {
  const { sink, rig, opened } = await begin(t, { sink: { extensions: ['SIZE 400000'] }, signed: false });
  const mail = await largeMail(rig.blobs, [{ bytes: randomBytes(300_000) }]);
  const [id] = await rig.send(rigMail(mail));
  await waitUntil('the bounce', () => rig.status(id!) === 'bounced');
  const { bounce } = rig.events(id!).at(-1)!.detail;
  assert.deepEqual([bounce!.smtpCode, bounce!.enhancedCode], [552, '5.3.4']);
  assert.ok(!sink.commands.some((line) => line.startsWith('MAIL')));
  assert.deepEqual(opened, []);
});

test('sandbox messages are delivered without reading their files', async (t) => {
  const { sink, rig, opened } = await begin(t);
  const mail = await largeMail(rig.blobs, [{ bytes: randomBytes(300_000) }]);
  const [id] = await rig.send({ ...rigMail(mail), mode: 'sandbox' });
  await waitUntil('the outcome', () => rig.status(id!) === 'delivered');
  assert.deepEqual([opened, sink.messages.length], [[], 0]);
});

test('a UTF-8 local part does not affect other recipients if the server lacks SMTPUTF8', async (t) => {
  const { sink, rig } = await begin(t, { sink: { extensions: ['PIPELINING', 'SIZE 50000000'] } });
  const ünal = { name: 'Ünal', address: 'ünal@x.example', local: 'ünal', domain: 'x.example' };
  const bob = { name: '', address: 'bob@x.example', local: 'bob', domain: 'x.example' };
  const mail = await largeMail(rig.blobs, [{ bytes: randomBytes(300_000) }], { to: [ünal, bob] });
  const stored = { ...rigMail(mail), content: mail.content.toString(), to: [ünal.address, bob.address] };
  const [first, second] = (await rig.send({ ...stored, options: { files: mail.files, smtpUtf8: true } })) as string[];
  await waitUntil('both outcomes', () => rig.status(second!) === 'delivered' && rig.status(first!) === 'bounced');
  const [received] = sink.messages;
  assert.deepEqual([received!.to, sink.violations], [['bob@x.example'], []]);
  assert.match(received!.mailParameters, new RegExp(`SIZE=${received!.content.length}\\b`));
  assert.doesNotMatch(received!.mailParameters, /SMTPUTF8|8BITMIME/);
  const bodyOf = (bytes: Buffer): Buffer => bytes.subarray(bytes.indexOf('\r\n\r\n'));
  assert.ok(bodyOf(received!.content).equals(bodyOf(mail.whole())), 'the files are unchanged');
  const header = received!.content.subarray(0, received!.content.indexOf('\r\n\r\n')).toString();
  assert.match(header, /^To: =\?UTF-8\?[QB]\?\S+\?= :;,\s+bob@x\.example\r$/m);
  assert.deepEqual(await verify(received!.content), ['pass', 'pass']);
});

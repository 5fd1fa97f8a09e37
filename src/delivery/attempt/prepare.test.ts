import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { after, before, test } from 'node:test';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { deliveryRig, type Rig } from '../../../test/kit/delivery-rig.ts';
import { type SmtpSink, smtpSink } from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { type DkimKey, dkimDnsValue, generateDkimKeys } from '../../mail/compose/dkim-sign.ts';
import { countReceived } from './prepare.ts';

let sink: SmtpSink;
let rig: Rig;
let asked: string[] = [];
let records: Record<string, string> = {};

before(async () => {
  sink = await smtpSink();
  const made = await generateDkimKeys();
  const keys = (['rsa', 'ed25519'] as const).map((algorithm): DkimKey => {
    const privateKey = createPrivateKey(made[algorithm].privateKeyPem);
    records[`${algorithm}._domainkey.shop.example`] = dkimDnsValue(privateKey);
    return { algorithm, selector: algorithm, privateKey };
  });
  const keysFor = async (_accountId: string, domain: string) => {
    asked.push(domain);
    return domain === 'mail.shop.example' ? { domain: 'shop.example', keys } : undefined;
  };
  rig = await deliveryRig({ relayPort: sink.port, deps: { keysFor } });
});

after(async () => {
  await rig.close();
  await sink.close();
  records = {};
});

const from = 'Shop <orders@mail.shop.example>';
const header = `From: ${from}\r\nTo: a@x.example\r\nSubject: Hello\r\nMessage-ID: <1@shop.example>\r\n\r\n`;

async function sent(content: string, to: string[], blob = false): Promise<Buffer[]> {
  asked = [];
  const before = sink.messages.length;
  const ids = await rig.send({ from, to, content, blob });
  for (const id of ids) await waitUntil('the delivery', () => rig.status(id) === 'delivered');
  return sink.messages.slice(before).map((mail) => mail.content);
}

async function verify(mail: Buffer): Promise<string[]> {
  const resolver = (name: string): Promise<string[][]> => {
    const record = records[name];
    return record
      ? Promise.resolve([[record]])
      : Promise.reject(Object.assign(new Error('none'), { code: 'ENOTFOUND' }));
  };
  const result = await dkimVerify(mail, { resolver });
  return result.results.map((one: { status: { result: string } }) => one.status.result);
}

test('a sent message has a Received field, two valid signatures, and unchanged content', async () => {
  const content = `${header}.a line with a dot\r\n\ttab  and spaces  \r\n\r\n\r\n`;
  const [mail] = await sent(content, ['a@x.example']);
  assert.match(mail!.toString(), /^Received: [^\r]+\r\n [^\r]+\r\nDKIM-Signature: v=1; a=rsa-sha256;/);
  assert.ok(mail!.toString().endsWith(content));
  assert.deepEqual(await verify(mail!), ['pass', 'pass']);
  const altered = Buffer.from(mail!.toString().replace('with a dot', 'with a dog'));
  assert.ok(!(await verify(altered)).includes('pass'), 'a changed message does not verify');
});

test('a large message from a blob is hashed in slices to the same signature', async () => {
  const content = `${header}${'0123456789 some words of a line \r\n'.repeat(45_000)}\r\n\r\n`;
  const [mail] = await sent(content, ['a@x.example'], true);
  assert.ok(mail!.length > 1_500_000);
  assert.deepEqual(await verify(mail!), ['pass', 'pass']);
});

test('one email is signed once for all its recipients', async () => {
  await sent(`${header}x\r\n`, ['a@x.example', 'b@y.example', 'c@z.example']);
  assert.equal(asked.length, 1);
});

test('Received fields are counted only in the header, in any case, folded or not', () => {
  assert.equal(countReceived(Buffer.from('received: a\r\nX: y\r\nRECEIVED : b\r\n c\r\n\r\nReceived: body\r\n')), 2);
  assert.equal(countReceived(Buffer.from('X-Received: a\r\n\r\n')), 0);
});

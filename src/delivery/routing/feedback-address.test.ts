/** CFBL-Address of sent messages as received by the server: which messages have it, its signature, and the copy that it identifies. */
import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { before, type TestContext, test } from 'node:test';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { deliveryRig, type Rig, type RigMail } from '../../../test/kit/delivery-rig.ts';
import { type SmtpSink, smtpSink } from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { systemClock } from '../../base/clock.ts';
import { type DkimKey, dkimDnsValue, generateDkimKeys } from '../../mail/compose/dkim-sign.ts';
import { createTokenAddresses } from '../../mail/token-address.ts';
import type { SigningKeys } from '../attempt/prepare.ts';
import { createReturnPaths } from './return-path.ts';

const tokens = createTokenAddresses(Buffer.alloc(32, 1));
const returnPaths = createReturnPaths({ tokens, clock: systemClock, bounceDomain: 'bounces.example' });
const records: Record<string, string> = {};
let keys: DkimKey[] = [];

before(async () => {
  const made = await generateDkimKeys();
  keys = (['rsa', 'ed25519'] as const).map((algorithm) => {
    const privateKey = createPrivateKey(made[algorithm].privateKeyPem);
    records[`${algorithm}._domainkey.shop.example`] = dkimDnsValue(privateKey);
    return { algorithm, selector: algorithm, privateKey };
  });
});

interface World {
  sink: SmtpSink;
  rig: Rig;
  /** Sends to recipients of x.example, and returns the accepted messages with their recipient and MAIL FROM. */
  sent(mail?: Partial<RigMail>): Promise<{ from: string; to: string[]; content: Buffer; ids: string[] }[]>;
}

async function begin(
  t: TestContext,
  options: { signing?: Partial<SigningKeys>; isSender?: boolean; extensions?: string[] } = {},
): Promise<World> {
  const { signing, isSender = false, extensions } = options;
  const sink = await smtpSink(extensions ? { extensions } : {});
  const keysFor = async () => ({ domain: 'shop.example', keys, returnPath: 'bounces.shop.example', ...signing });
  const rig = await deliveryRig({ relayPort: sink.port, deps: { keysFor, ...(!isSender && { returnPaths }) } });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const sent: World['sent'] = async (mail) => {
    const earlier = sink.messages.length;
    const ids = await rig.send({ from: FROM, to: ['a@x.example'], source: 'http', content: CONTENT, ...mail });
    for (const id of ids) await waitUntil('the delivery', () => rig.status(id) === 'delivered');
    return sink.messages.slice(earlier).map(({ from, to, content }) => ({ from, to, content, ids }));
  };
  return { sink, rig, sent };
}

const FROM = 'Shop <orders@shop.example>';
const HEADER = `From: ${FROM}\r\nTo: a@x.example\r\nSubject: Hello\r\nMIME-Version: 1.0\r\nMessage-ID: <1@shop.example>\r\n`;
const CONTENT = `${HEADER}\r\nHello\r\n`;
const FIELD = /^CFBL-Address: ([^;\r]+);\r\n report=arf\r\n/gim;

const addressesIn = (mail: Buffer): string[] => [...mail.toString('latin1').matchAll(FIELD)].map(([, one]) => one!);

/** Returns mailauth's verdict on each signature. */
async function verdicts(mail: Buffer): Promise<string[]> {
  const resolver = async (name: string): Promise<string[][]> => {
    if (!records[name]) throw Object.assign(new Error('none'), { code: 'ENOTFOUND' });
    return [[records[name]]];
  };
  const { results } = await dkimVerify(mail, { resolver });
  return results.map((one: { status: { result: string } }) => one.status.result);
}

test('the feedback address is the return path of the copy, signed by the From domain', async (t) => {
  const { sent } = await begin(t);
  const to = ['a@x.example', 'b@x.example', 'c@x.example'];
  const mails = await sent({ to });
  assert.equal(mails.length, 3);
  for (const { from, to: recipients, content, ids } of mails) {
    assert.deepEqual(addressesIn(content), [from]);
    const [local, domain] = from.split('@');
    assert.equal(domain, 'bounces.shop.example');
    const claim = tokens.open(local!, Date.now());
    assert.deepEqual([claim?.messageId, claim?.isShared], [ids[to.indexOf(recipients[0]!)], false]);
    assert.deepEqual(await verdicts(content), ['pass', 'pass']);
    const changed = content.toString('latin1').replace(/^CFBL-Address: b\+/m, 'CFBL-Address: b-');
    assert.ok(!(await verdicts(Buffer.from(changed, 'latin1'))).includes('pass'), 'control: the field is signed');
    assert.ok(content.toString('latin1').endsWith(CONTENT));
  }
});

test('no feedback address without a return path and signature aligned with the From domain', async (t) => {
  for (const signing of [{ returnPath: undefined }, { domain: 'example' }, { keys: [] }]) {
    const { sent } = await begin(t, { signing });
    const [mail] = await sent();
    assert.deepEqual(addressesIn(mail!.content), [], JSON.stringify(signing));
    assert.match(mail!.from, /^b\+/);
  }
  const { sent } = await begin(t, { isSender: true });
  const [mail] = await sent();
  assert.deepEqual([addressesIn(mail!.content), mail!.from], [[], 'orders@shop.example'], 'without a bounce domain');
});

test('SMTP submissions are sent unchanged, and only their own feedback address is signed', async (t) => {
  const { sent } = await begin(t);
  const [plain] = await sent({ source: 'smtp' });
  assert.deepEqual(addressesIn(plain!.content), []);
  const content = `CFBL-Address: fbl@shop.example;\r\n report=arf\r\n${CONTENT}`;
  for (const source of ['smtp', 'http'] as const) {
    const [mail] = await sent({ source, content });
    assert.deepEqual(addressesIn(mail!.content), ['fbl@shop.example']);
    assert.deepEqual(await verdicts(mail!.content), ['pass', 'pass'], source);
    const changed = mail!.content.toString('latin1').replace('fbl@shop', 'fbi@shop');
    assert.ok(!(await verdicts(Buffer.from(changed, 'latin1'))).includes('pass'), 'control: it is signed');
  }
});

test('the feedback address is present and signed after conversion for the server', async (t) => {
  const { sent } = await begin(t, { extensions: ['PIPELINING', 'SIZE 50000000'] });
  const eightBit = `${HEADER}Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße\r\n`;
  const mails = await sent({ to: ['a@x.example', 'b@x.example'], content: eightBit, options: { eightBit: true } });
  assert.equal(new Set(mails.map(({ from }) => from)).size, 2);
  for (const { from, content } of mails) {
    assert.deepEqual(addressesIn(content), [from]);
    assert.match(content.toString('latin1'), /Content-Transfer-Encoding: quoted-printable/i);
    assert.deepEqual(await verdicts(content), ['pass', 'pass']);
  }
});

test('large content for several recipients has one shared feedback address', async (t) => {
  const { sent } = await begin(t);
  const content = `${HEADER}\r\n${`${'x'.repeat(98)}\r\n`.repeat(1_000)}`;
  const [mail, ...others] = await sent({ to: ['a@x.example', 'b@x.example'], content, blob: true });
  const [address] = addressesIn(mail!.content);
  assert.deepEqual([others.length, address, mail!.to.length], [0, mail!.from, 2]);
  assert.equal(tokens.open(address!.split('@')[0]!, Date.now())?.isShared, true);
  assert.deepEqual(await verdicts(mail!.content), ['pass', 'pass']);
});

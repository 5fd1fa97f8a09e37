/** OpenSMTPD as the receiving server, with a sink as its next hop that shows what was relayed. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Rig } from '../kit/delivery-rig.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { noOpenSmtpd, type PrivateOpenSmtpd, startOpenSmtpd } from './private-opensmtpd.ts';
import { countRows, fillWith, rigToPeer } from './rig-to-peer.ts';

const DOMAIN = 'opensmtpd.example';
const skip = noOpenSmtpd();
const domains = { [DOMAIN]: ['127.0.0.1'] };
let behind: SmtpSink;
let peer: PrivateOpenSmtpd;

before(async () => {
  if (skip) return;
  behind = await smtpSink({});
  peer = await startOpenSmtpd({
    domain: DOMAIN,
    relayPort: behind.port,
    filters: {
      lines: [
        'filter "later" phase rcpt-to match rcpt-to regex "^<?later" reject "451 4.3.0 come back later"',
        'filter "gone" phase rcpt-to match rcpt-to regex "^<?gone" reject "550 5.1.1 no such user here"',
        'filter "close" phase mail-from match mail-from regex "^<?close" disconnect "421 4.7.0 too fast, try again in 5 minutes"',
        'filter "listed" phase mail-from match mail-from regex "^<?listed" reject "550 5.7.1 your host is on the blocklist of example.org"',
      ],
      chain: ['later', 'gone', 'close', 'listed'],
    },
  });
});

after(async () => {
  await peer?.stop();
  await behind?.close();
});

const outcomeOf = (rig: Rig, id: string) =>
  waitUntil(`an outcome of ${id}`, () => rig.events(id).find((one) => one.type !== 'Send')).catch((error: Error) => {
    throw new Error(`${error.message}\n${peer.log().slice(-3000)}`);
  });

test('OpenSMTPD receives 100 messages unchanged, each once', { skip }, async (t) => {
  const rig = await rigToPeer(t, { port: peer.port, domains });
  await fillWith(rig, 100, DOMAIN);
  await waitUntil('all messages to be delivered', () => countRows(rig, 'work') === 0, 60_000);
  await waitUntil('all messages to be relayed', () => behind.accepted >= 100, 60_000);
  const users = behind.messages.flatMap(({ to }) => to);
  assert.equal(new Set(users).size, 100);
  assert.equal(users.length, 100, 'no duplicates');
  for (const { content } of behind.messages) {
    const [head, body] = content.toString().split('\r\n\r\n') as [string, string];
    assert.match(head, /\r\nSubject: Hello\r\nMessage-ID: <1@shop\.example>(\r\nDate: .*)?$/);
    assert.equal(body, 'Hello\r\n');
  }
  assert.equal(countRows(rig, 'attempt WHERE number > 1'), 0);
});

test('its broken TLS prevents no delivery, and is tried once per affected server', {
  skip,
}, async (t) => {
  const encrypting = await startOpenSmtpd({ domain: DOMAIN, relayPort: behind.port, tls: true });
  const rig = await rigToPeer(t, { port: encrypting.port, domains });
  t.after(() => encrypting.stop());
  const ids = (
    await Promise.all(Array.from({ length: 100 }, (_, user) => rig.store({ to: [`tls${user}@${DOMAIN}`] })))
  ).flat();
  rig.delivery.nudge();
  await waitUntil('all messages to be delivered', () => countRows(rig, 'work') === 0, 60_000);
  const broken = encrypting.log().match(/SSL routines/g)?.length ?? 0;
  t.diagnostic(broken > 0 ? 'its TLS is broken' : 'its TLS works');
  assert.ok(broken <= 1, `${broken} handshakes failed`);
  for (const id of ids) {
    const [{ tls, tlsFallback }] = rig.attempts(id) as unknown as [{ tls: string | null; tlsFallback: string | null }];
    if (broken > 0) assert.deepEqual([tls, typeof tlsFallback], [null, 'string']);
    else assert.match(String(tls), /^TLSv1/);
  }
});

test('recipients of one message have their own outcomes', { skip }, async (t) => {
  const rig = await rigToPeer(t, { port: peer.port, domains });
  const [ok, later, gone] = (await rig.send({
    to: [`fine@${DOMAIN}`, `later@${DOMAIN}`, `gone@${DOMAIN}`],
  })) as [string, string, string];
  assert.equal((await outcomeOf(rig, ok)).type, 'Delivery');
  const delay = await outcomeOf(rig, later);
  assert.equal(delay.type, 'DeliveryDelay');
  assert.equal(delay.detail.deliveryDelay!.smtpCode, 451);
  const bounce = await outcomeOf(rig, gone);
  assert.equal(bounce.type, 'Bounce');
  assert.equal(bounce.detail.bounce!.category, 'mailbox-not-found');
  assert.equal(bounce.detail.bounce!.suppressed, true);
});

test('a 421 that names a time and disconnects pauses all queued mail for that time', { skip }, async (t) => {
  const rig = await rigToPeer(t, { port: peer.port, domains });
  const before = count(/smtp connected/g);
  for (let user = 0; user < 40; user += 1) await rig.store({ to: [`${user}@${DOMAIN}`], from: 'close@shop.example' });
  rig.delivery.nudge();
  await waitUntil('all messages to be deferred', () => countRows(rig, "message WHERE status = 'delayed'") === 40);
  const [paused] = rig.delivery.state().pausedDestinations;
  assert.equal(paused?.untilMs, rig.clock.now() + 5 * 60_000);
  assert.equal(count(/smtp connected/g) - before, 1, 'one connection in all');
  assert.equal(countRows(rig, 'attempt'), 1, 'one attempt was counted');
});

test('a block of our host defers the message and suppresses no address', { skip }, async (t) => {
  const rig = await rigToPeer(t, { port: peer.port, domains });
  const [id] = await rig.send({ to: [`x@${DOMAIN}`], from: 'listed@shop.example' });
  const { type, detail } = await outcomeOf(rig, id!);
  assert.equal(type, 'DeliveryDelay');
  assert.equal(detail.deliveryDelay!.category, 'blocked');
  assert.equal(countRows(rig, 'suppression'), 0);
});

function count(pattern: RegExp): number {
  return peer.log().match(pattern)?.length ?? 0;
}

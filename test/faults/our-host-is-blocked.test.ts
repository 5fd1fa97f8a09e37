/**
 * A server that refuses our host, not the mail: nothing bounces and nobody is suppressed, the schedule is a slow one, the server is
 * dialled a few times at most for all that waits, and everything arrives when the block is lifted. What the server saw counts.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { parseCidrs } from '../../src/net/address-guard.ts';
import { openDns } from '../../src/net/dns.ts';
import { deliveryRig, type Rig } from '../kit/delivery-rig.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { relayRig } from '../kit/relay-rig.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const LISTED = '554 5.7.1 Service unavailable; Client host [203.0.113.7] blocked using zen.spamhaus.org';
const MINUTE = 60_000;

async function rigWithSink(t: TestContext, script: SinkOptions['script']): Promise<{ rig: Rig; sink: SmtpSink }> {
  const { sink, rig } = await relayRig(t, { ...(script && { script }) });
  return { rig, sink };
}

const countOf = (rig: Rig, status: string): number =>
  rig.rows<{ n: number }>('SELECT count(*) AS n FROM message WHERE status = ?', status)[0]!.n;

test('50 mails at a server whose banner names a block list: none bounces, few connections, all arrive later', async (t) => {
  const dns = await fakeDns({ 'x.example': { MX: [[10, 'mx.x.example']] }, 'mx.x.example': { A: ['127.0.0.1'] } });
  const resolver = openDns({ servers: [dns.server] });
  t.after(async () => {
    resolver.close();
    await dns.close();
  });
  const sink = await smtpSink({ script: { banner: LISTED } });
  const allowed = parseCidrs('127.0.0.1/32');
  assert.ok(allowed.ok);
  const routing = { route: { kind: 'mx' as const }, dns: resolver, mxPort: sink.port, mxAllow: allowed.cidrs };
  const rig = await deliveryRig({ routing, idle: true });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const ids: string[] = [];
  for (let n = 0; n < 50; n += 1) ids.push(...(await rig.store({ to: [`r${n}@x.example`] })));
  await rig.restart();
  await waitUntil('all to wait', () => countOf(rig, 'delayed') === 50);
  assert.equal(countOf(rig, 'bounced'), 0);
  assert.ok(sink.connections.total <= 10, `${sink.connections.total} connections for 50 mails`);
  assert.deepEqual(rig.rows('SELECT * FROM suppression'), []);
  const { deliveryDelay } = rig.events(ids[0]!)[1]!.detail;
  assert.deepEqual(
    [deliveryDelay!.category, deliveryDelay!.owner, deliveryDelay!.smtpCode, deliveryDelay!.suppressed],
    ['blocked', 'our-side', 554, false],
  );
  const waitsMs = Date.parse(deliveryDelay!.nextAttemptAt as string) - rig.clock.now();
  assert.ok(waitsMs >= 13 * MINUTE && waitsMs <= 17 * MINUTE, `${waitsMs} ms to the second attempt`);

  sink.setScript({});
  rig.clock.advance(17 * MINUTE);
  rig.delivery.nudge();
  await waitUntil('all to arrive', () => countOf(rig, 'delivered') === 50, 60_000);
  assert.equal(sink.accepted, 50);
});

for (const [stage, reply] of [
  ['banner', '550 5.7.1 go away'],
  ['ehlo', '550 5.7.1 your host name is not welcome'],
  ['mail', '550 5.7.1 your IP 203.0.113.7 is blocked'],
  ['rcpt', LISTED],
  ['rcpt', '550 5.1.1 sender blocked: your IP 203.0.113.7 is listed by zen.spamhaus.org'],
  ['dot', '550 5.7.1 rejected, 203.0.113.7 is listed in dnsbl.example.org'],
] as const) {
  test(`a block of our host at ${stage} waits, at 15 min, 1, 2, 4 h and then every 6 h, and ends with the lifetime`, async (t) => {
    const script = stage === 'ehlo' ? { ehlo: reply, helo: reply } : { [stage]: reply };
    const { rig } = await rigWithSink(t, script);
    const [id] = await rig.send({ to: ['ann@x.example'] });
    const startedAt = rig.clock.now();
    for (const minutes of [15, 60, 120, 240, 360]) {
      await waitUntil('the delay', () => rig.status(id!) === 'delayed');
      const before = rig.attempts(id!).length;
      const [row] = rig.rows<{ next_attempt_at: number }>('SELECT next_attempt_at FROM message WHERE id = ?', id!);
      const waitsMs = row!.next_attempt_at - rig.clock.now();
      assert.ok(Math.abs(waitsMs - minutes * MINUTE) <= minutes * MINUTE * 0.11, `${waitsMs} ms, not ${minutes} min`);
      rig.clock.advance(waitsMs);
      rig.delivery.nudge();
      await waitUntil('the next attempt', () => rig.attempts(id!).length > before);
    }
    rig.clock.advance(startedAt + 24 * 60 * MINUTE - rig.clock.now());
    rig.delivery.nudge();
    await waitUntil('the attempt of the first day', () => rig.attempts(id!).length > 6);
    assert.equal(rig.status(id!), 'delayed', 'it does not bounce within 24 hours');
    rig.clock.advance(startedAt + 72 * 60 * MINUTE - rig.clock.now());
    rig.delivery.nudge();
    await waitUntil('the end', () => rig.status(id!) === 'bounced');
    const { bounce } = rig.events(id!).at(-1)!.detail;
    assert.deepEqual([bounce!.category, bounce!.owner, bounce!.suppressed], ['expired', 'our-side', false]);
    assert.deepEqual(rig.rows('SELECT * FROM suppression'), []);
  });
}

test('a lifetime that is shorter than a day ends a blocked mail when it is over, as its sender asked', async (t) => {
  const { rig } = await rigWithSink(t, { banner: LISTED });
  const [id] = await rig.send({ to: ['ann@x.example'], lifetimeMs: 10 * MINUTE });
  await waitUntil('the delay', () => rig.status(id!) === 'delayed');
  rig.clock.advance(10 * MINUTE);
  rig.delivery.nudge();
  await waitUntil('the end', () => rig.status(id!) === 'bounced');
  assert.equal(rig.events(id!).at(-1)!.detail.bounce!.category, 'expired');
});

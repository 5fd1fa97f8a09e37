/**
 * A server that rejects our host instead of the message: nothing bounces and no address is suppressed, retries are slow, few connections
 * are opened for all queued messages, and everything arrives when the block is lifted. Counted at the server.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Rig, RigOptions } from '../kit/delivery-rig.ts';
import { mxRig } from '../kit/mx-rig.ts';
import { relayRig } from '../kit/relay-rig.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const LISTED = '554 5.7.1 Service unavailable; Client host [203.0.113.7] blocked using zen.spamhaus.org';
const MINUTE = 60_000;

async function rigWithSink(t: TestContext, script: SinkOptions['script']): Promise<{ rig: Rig; sink: SmtpSink }> {
  const { sink, rig } = await relayRig(t, { ...(script && { script }) });
  return { rig, sink };
}

/** x.example with an MX host whose banner names a blocklist. */
async function blockedMx(
  t: TestContext,
  options: RigOptions = {},
  script: SinkOptions['script'] = { banner: LISTED },
): Promise<{ rig: Rig; sink: SmtpSink }> {
  const mx = await mxRig({ peer: script ? { script } : {} }, options);
  t.after(() => mx.close());
  mx.serve('peer', ['x.example']);
  return { rig: mx.rig, sink: mx.sinks.peer! };
}

async function fill(rig: Rig, mails: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < mails; n += 1) ids.push(...(await rig.store({ to: [`r${n}@x.example`] })));
  rig.delivery.nudge();
  return ids;
}

/** Waits until all messages are deferred to a later time. */
const allWait = (rig: Rig, mails: number): Promise<unknown> =>
  waitUntil('all messages to be deferred', () => {
    const [row] = rig.rows<{ n: number }>(
      "SELECT count(*) AS n FROM work WHERE leased = 0 AND due > ? AND subject IN (SELECT id FROM message WHERE status = 'delayed')",
      rig.clock.now(),
    );
    return row!.n === mails;
  });

const countOf = (rig: Rig, status: string): number =>
  rig.rows<{ n: number }>('SELECT count(*) AS n FROM message WHERE status = ?', status)[0]!.n;

test('50 messages to a server whose banner names a blocklist: none bounces, all arrive later', async (t) => {
  const { rig, sink } = await blockedMx(t, { idle: true });
  const ids: string[] = [];
  for (let n = 0; n < 50; n += 1) ids.push(...(await rig.store({ to: [`r${n}@x.example`] })));
  await rig.restart();
  await waitUntil('all messages to be deferred', () => countOf(rig, 'delayed') === 50);
  assert.equal(countOf(rig, 'bounced'), 0);
  assert.equal(sink.connections.total, 1);
  assert.deepEqual(rig.rows('SELECT * FROM suppression'), []);
  const { deliveryDelay } = rig.events(ids[0]!)[1]!.detail;
  assert.deepEqual(
    [deliveryDelay!.category, deliveryDelay!.owner, deliveryDelay!.smtpCode, deliveryDelay!.suppressed],
    ['blocked', 'service', 554, false],
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
  test(`a block of our host at ${stage} is retried after 15 min, 1, 2, 4 h, then every 6 h until expiry`, async (t) => {
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
    assert.deepEqual([bounce!.category, bounce!.owner, bounce!.suppressed], ['expired', 'service', false]);
    assert.deepEqual(rig.rows('SELECT * FROM suppression'), []);
  });
}

test('a blocked message with a lifetime under a day bounces when it expires', async (t) => {
  const { rig } = await rigWithSink(t, { banner: LISTED });
  const [id] = await rig.send({ to: ['ann@x.example'], lifetimeMs: 10 * MINUTE });
  await waitUntil('the delay', () => rig.status(id!) === 'delayed');
  rig.clock.advance(10 * MINUTE);
  rig.delivery.nudge();
  await waitUntil('the end', () => rig.status(id!) === 'bounced');
  assert.equal(rig.events(id!).at(-1)!.detail.bounce!.category, 'expired');
});

for (const [stage, reply] of [
  ['banner', LISTED],
  ['mail', '550 5.7.1 your IP 203.0.113.7 is blocked'],
  ['rcpt', '550 5.1.1 sender blocked: your IP 203.0.113.7 is listed by zen.spamhaus.org'],
] as const) {
  test(`a day of being blocked at ${stage}: one probe after 15 minutes, then one an hour, no other attempts`, async (t) => {
    const { rig, sink } = await blockedMx(t, {}, { [stage]: reply });
    /** Transactions, if the server lets us get that far. */
    const tries = (): number =>
      stage === 'banner' ? sink.connections.total : sink.commands.filter((line) => line.startsWith('MAIL')).length;
    await fill(rig, 40);
    await allWait(rig, 40);
    assert.equal(tries(), 1);
    const blockedAt = rig.clock.now();
    rig.clock.advance(17 * MINUTE);
    rig.delivery.nudge();
    await waitUntil('the first probe', () => tries() === 2);
    await allWait(rig, 40);
    for (let hour = 1; hour <= 24; hour += 1) {
      rig.clock.advance(67 * MINUTE);
      rig.delivery.nudge();
      await waitUntil('the probe of the hour', () => tries() === 2 + hour);
      await allWait(rig, 40);
    }
    assert.equal(tries(), 26);
    const [{ n: charged }] = rig.rows<{ n: number }>('SELECT count(*) AS n FROM attempt') as [{ n: number }];
    assert.equal(charged, 26, 'only probes count an attempt');
    const [published] = rig.delivery.published();
    assert.deepEqual([published?.blockedSince, published?.fallback], [blockedAt, false]);
    assert.equal(countOf(rig, 'bounced'), 0);
    assert.deepEqual(rig.rows('SELECT * FROM suppression'), []);
  });
}

test('a blocklist reply to RCPT affects only that recipient if others are accepted', async (t) => {
  const script: SinkOptions['script'] = {
    rcpt: ({ line }) => (line.includes('<r1') ? { reply: LISTED, delayMs: 300 } : undefined),
  };
  const { rig, sink } = await blockedMx(t, {}, script);
  await fill(rig, 60);
  await waitUntil('the others to be accepted', () => countOf(rig, 'delivered') === 49);
  await allWait(rig, 11);
  assert.equal(sink.accepted, 49);
  assert.deepEqual(rig.delivery.state().pausedDestinations, []);
});

test('a fallback route delivers after 15 minutes of being blocked, while one message an hour probes', async (t) => {
  const relay = await smtpSink();
  t.after(() => relay.close());
  const fallback = { host: '127.0.0.1', port: relay.port, implicitTls: false };
  const { rig, sink } = await blockedMx(t, { routing: { fallback } });
  await fill(rig, 50);
  await allWait(rig, 50);
  rig.clock.advance(14 * MINUTE);
  await rig.send({ to: ['early@x.example'] });
  await allWait(rig, 51);
  assert.deepEqual([sink.connections.total, relay.accepted], [1, 0], 'not before');

  rig.clock.advance(3 * MINUTE);
  rig.delivery.nudge();
  await waitUntil('the relay to accept all but the probe', () => countOf(rig, 'delivered') === 50);
  await allWait(rig, 1);
  rig.clock.advance(1_000);
  await waitUntil('the relay to accept the probe as well', () => countOf(rig, 'delivered') === 51);
  assert.equal(relay.accepted, 51);
  assert.equal(new Set(relay.messages.map(({ to }) => to[0])).size, 51, 'no duplicates');
  assert.equal(sink.connections.total, 2, 'one probe');
  const [published] = rig.delivery.published();
  assert.equal(published?.fallback, true);

  for (let n = 0; n < 20; n += 1) await rig.send({ to: [`later${n}@x.example`] });
  await waitUntil('new mail to use the relay immediately', () => relay.accepted === 71);
  assert.equal(sink.connections.total, 2, 'no connection within the hour');
  rig.clock.advance(61 * MINUTE);
  for (let n = 0; n < 20; n += 1) await rig.send({ to: [`next${n}@x.example`] });
  await waitUntil('the mail of the next hour', () => relay.accepted === 90);
  await allWait(rig, 1);
  rig.clock.advance(1_000);
  await waitUntil('the probe', () => relay.accepted === 91);
  assert.equal(sink.connections.total, 3, 'one probe');

  sink.setScript({});
  rig.clock.advance(61 * MINUTE);
  const [probe] = await rig.send({ to: ['probe@x.example'] });
  await waitUntil('the probe to be accepted', () => rig.status(probe!) === 'delivered');
  for (let n = 0; n < 20; n += 1) await rig.send({ to: [`free${n}@x.example`] });
  await waitUntil('mail to be sent to the server again', () => sink.accepted === 21);
  assert.equal(relay.accepted, 91);
  assert.deepEqual(rig.rows('SELECT * FROM suppression'), []);
  assert.equal(countOf(rig, 'bounced'), 0);
});

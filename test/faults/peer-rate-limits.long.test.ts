/** A peer that replies that we send too fast: one pause for all queued messages, one probe at its end. Counted at the peer. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Rig, RigMail } from '../kit/delivery-rig.ts';
import { mxRig } from '../kit/mx-rig.ts';
import { relayRig } from '../kit/relay-rig.ts';
import type { SinkOptions, SmtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MAILS = 400;
const MINUTE = 60_000;

interface World {
  rig: Rig;
  sink: SmtpSink;
}

async function behindRelay(t: TestContext, options: SinkOptions): Promise<World> {
  const { sink, rig } = await relayRig(t, options);
  return { rig, sink };
}

async function behindMx(t: TestContext, options: SinkOptions): Promise<World> {
  const mx = await mxRig({ peer: options });
  t.after(() => mx.close());
  mx.serve('peer', ['x.example']);
  return { rig: mx.rig, sink: mx.sinks.peer! };
}

async function fill({ rig }: World, mail: Partial<RigMail> = {}): Promise<void> {
  await Promise.all(Array.from({ length: MAILS }, (_, i) => rig.store({ ...mail, to: [`${i}@x.example`] })));
  rig.delivery.nudge();
}

const count = (rig: Rig, sql: string): number => rig.rows<{ n: number }>(`SELECT count(*) AS n FROM ${sql}`)[0]!.n;

/** Waits until all queued messages are deferred, not before the end of the pause. */
async function allPutOff({ rig }: World, pauseMs: number): Promise<void> {
  const until = rig.clock.now() + pauseMs;
  const early = `work WHERE leased = 1 OR due < ${until}`;
  await waitUntil('all messages to be deferred', () => count(rig, 'work') > 0 && count(rig, early) === 0);
  const late = count(rig, `work WHERE attempts = 0 AND due > ${until + pauseMs * 0.1}`);
  assert.equal(late, 0, 'paused messages are not deferred much longer');
}

/** Transactions at the peer, or connections if it allows no transaction. */
function triesAt(sink: SmtpSink): number {
  const transactions = sink.commands.filter((line) => line.startsWith('MAIL')).length;
  return transactions > 0 ? transactions : sink.connections.total;
}

const places = { 'a relay': behindRelay, 'an exchanger': behindMx };
const refusals: [name: string, script: NonNullable<SinkOptions['script']>, most: number][] = [
  ['421 4.7.28 at MAIL', { mail: '421 4.7.28 our system has detected an unusual rate of mail' }, 3],
  ['421 at the banner', { banner: { reply: '421 4.7.0 try again later', drop: true } }, 1],
  ['451 4.7.1 of rate at RCPT', { rcpt: '451 4.7.1 you are sending too fast, rate limited' }, 3],
  ['421 at the dot', { dot: '421 4.3.2 system is busy' }, 3],
];

for (const [place, open] of Object.entries(places)) {
  for (const [name, script, most] of refusals) {
    test(`${place} that replies ${name}: one pause, one probe, and no attempts counted for queued mail`, async (t) => {
      const world = await open(t, { script });
      const { rig, sink } = world;
      await fill(world);
      await allPutOff(world, MINUTE);
      assert.ok(sink.connections.total <= most, `${sink.connections.total} connections in the first minute`);
      assert.ok(triesAt(sink) <= most, `${triesAt(sink)} tries in the first minute`);
      const tried = count(rig, 'attempt');
      assert.ok(tried <= most, `${tried} attempts were counted`);
      assert.equal(count(rig, "message WHERE status = 'delayed'"), MAILS);
      assert.equal(count(rig, "event WHERE type = 'DeliveryDelay'"), MAILS, 'each has one event');
      const [paused] = rig.delivery.state().pausedDestinations;
      assert.equal(paused?.untilMs, rig.clock.now() + MINUTE);
      // One probe at the end of the pause; if it is rejected, the next pause is longer.
      let before = triesAt(sink);
      rig.clock.advance(MINUTE * 1.1);
      await allPutOff(world, 2 * MINUTE);
      assert.equal(triesAt(sink), before + 1, 'one probe');
      before = triesAt(sink);
      rig.clock.advance(MINUTE);
      rig.delivery.nudge();
      const late = await rig.send({ to: ['late@x.example'] });
      await waitUntil('the late message to be deferred', () => rig.status(late[0]!) === 'delayed');
      assert.equal(triesAt(sink), before, 'no connection during the pause');
      sink.setScript({});
      rig.clock.advance(MINUTE * 1.2);
      await waitUntil('the queued mail to be delivered', () => count(rig, 'work WHERE attempts = 0') === 0);
      rig.clock.advance(5 * MINUTE);
      await waitUntil('all messages to be delivered', () => count(rig, 'work') === 0);
      assert.equal(sink.messages.length, MAILS + 1);
      assert.equal(new Set(sink.messages.map((mail) => mail.to[0])).size, MAILS + 1, 'no duplicates');
      assert.equal(count(rig, "event WHERE type = 'DeliveryDelay'"), MAILS + 1);
      assert.deepEqual(rig.delivery.state().pausedDestinations, []);
      assert.ok(count(rig, 'attempt WHERE number > 1') <= most + 1, 'only rejected messages count an attempt');
    });
  }
}

test('a retry time from the peer is kept within 10 s to 1 h', async (t) => {
  const world = await behindRelay(t, { script: { mail: '450 4.7.1 rate exceeded, try again in 5 minutes' } });
  await fill(world);
  await allPutOff(world, 5 * MINUTE);
  world.sink.setScript({ mail: '421 4.7.0 come back in 3 days, wait 4320 minutes' });
  world.rig.clock.advance(5 * MINUTE * 1.1);
  await allPutOff(world, 60 * MINUTE);
});

test('greylisting at RCPT and a full mailbox affect one message and pause nothing', async (t) => {
  const script = {
    rcpt: ({ line }: { line: string }) =>
      line.includes('<1')
        ? '451 4.7.1 Greylisted, try again in 60 seconds'
        : line.includes('<2')
          ? '452 4.2.2 mailbox full'
          : line.includes('<3')
            ? '450 4.2.1 this user receives mail too quickly, rate limited'
            : undefined,
  };
  const world = await behindMx(t, { script });
  await fill(world);
  const others = Array.from({ length: MAILS }, (_, i) => `${i}`).filter((one) => !/^[123]/.test(one)).length;
  await waitUntil('the others to be delivered', () => world.sink.messages.length === others);
  assert.deepEqual(world.rig.delivery.state().pausedDestinations, []);
});

test('a message that expires during a pause bounces with the reply that caused the pause', async (t) => {
  const world = await behindMx(t, { script: { mail: '450 4.7.1 rate exceeded, try again in 45 minutes' } });
  const { rig, sink } = world;
  await fill(world, { lifetimeMs: 10 * MINUTE });
  await waitUntil('all messages to be deferred', () => count(rig, "message WHERE status = 'delayed'") === MAILS);
  const before = sink.connections.total;
  rig.clock.advance(10 * MINUTE);
  await waitUntil('all to bounce', () => count(rig, "message WHERE status = 'bounced'") === MAILS);
  assert.equal(sink.connections.total, before);
  const [bounce] = rig.events().filter(({ type }) => type === 'Bounce');
  const { category, reply, kind, remoteHost } = bounce!.detail.bounce!;
  assert.deepEqual(
    { category, reply, kind, remoteHost },
    {
      category: 'expired',
      reply: '450 4.7.1 rate exceeded, try again in 45 minutes',
      kind: 'soft',
      remoteHost: 'x.example',
    },
  );
  assert.equal(count(rig, 'work'), 0);
});

test('after a restart during a pause, neither queued nor new mail opens a connection', async (t) => {
  const world = await behindMx(t, { script: { mail: '450 4.7.1 rate exceeded, try again in 5 minutes' } });
  const { rig, sink } = world;
  await fill(world);
  await allPutOff(world, 5 * MINUTE);
  const [sessions, tries] = [sink.connections.total, triesAt(sink)];
  rig.clock.advance(MINUTE);
  await rig.restart();
  rig.tamper(`UPDATE work SET due = ${rig.clock.now()}`);
  const [late] = await rig.store({ to: ['late@x.example'] });
  rig.delivery.nudge();
  await waitUntil('the late message to be deferred', () => rig.status(late!) === 'delayed');
  await waitUntil('the others as well', () => count(rig, `work WHERE due <= ${rig.clock.now()}`) === 0);
  assert.deepEqual([sink.connections.total, triesAt(sink)], [sessions, tries]);
  const [{ at }] = rig.rows<{ at: number }>('SELECT max(next_attempt_at) AS at FROM message') as [{ at: number }];
  assert.ok(at <= rig.clock.now() + 4 * MINUTE + 0.1 * 5 * MINUTE, 'the new message has expired its pause');
});

test('after a restart, one connection probes a paused destination', async (t) => {
  const world = await behindRelay(t, { script: { banner: { reply: '421 4.7.0 later', drop: true } } });
  const { rig, sink } = world;
  await fill(world);
  await allPutOff(world, MINUTE);
  rig.clock.advance(MINUTE * 1.1);
  const before = triesAt(sink);
  await rig.restart();
  await allPutOff(world, 2 * MINUTE);
  assert.equal(triesAt(sink), before + 1);
});

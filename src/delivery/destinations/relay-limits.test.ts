/** Limits of a relay, counted at the relay. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import { relayRig } from '../../../test/kit/relay-rig.ts';
import type { SinkOptions } from '../../../test/kit/smtp-sink.ts';
import { tempDatabase } from '../../../test/kit/temp-database.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { silentLog } from '../../base/log.ts';
import type { RelayLimitSettings } from '../../config.ts';
import { openDns } from '../../net/dns.ts';
import { openSourceAddresses } from '../../net/source-addresses.ts';
import { openRelayLimits, type RelayLimits } from './relay-limits.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

async function cappedRelay(
  t: TestContext,
  limits: RelayLimitSettings,
  { sources = [], ...sinkOptions }: SinkOptions & { sources?: string[] } = {},
) {
  const dns = openDns({ servers: [], timeoutMs: 500 });
  t.after(() => dns.close());
  const relay = { host: '127.0.0.1', port: 0, implicitTls: false, limits };
  const routing = { route: { kind: 'relay' as const, relay }, dns, sources: openSourceAddresses(sources) };
  const { sink, rig } = await relayRig(t, sinkOptions, { routing });
  relay.port = sink.port;
  const send = async (count: number, mail = {}): Promise<string[]> => {
    const ids: string[] = [];
    for (let one = 0; one < count; one += 1) ids.push(...(await rig.send({ to: [`${one}@example.org`], ...mail })));
    return ids;
  };
  const among = (ids: readonly string[], status: string): number =>
    ids.filter((id) => rig.status(id) === status).length;
  const settled = (ids: readonly string[], counts: Record<string, number>): Promise<unknown> =>
    waitUntil(JSON.stringify(counts), () =>
      Object.entries(counts).every(([status, count]) => among(ids, status) === count),
    );
  /** Moves the clock, and lets due messages be tried until the relay is paused or all are sent. */
  const advance = async (ms: number, ids: readonly string[], delivered: number): Promise<void> => {
    rig.clock.advance(ms);
    rig.delivery.nudge();
    await settled(ids, { delivered, delayed: ids.length - delivered });
  };
  return { sink, rig, send, settled, advance };
}

test('messages above the limit per minute wait without an attempt, say why, and are sent when the limit allows', async (t) => {
  const { sink, rig, send, settled, advance } = await cappedRelay(t, { perMinute: 10 });
  const ids = await send(25);
  await settled(ids, { delivered: 10, delayed: 15 });
  assert.equal(sink.accepted, 10);
  assert.equal(sink.commands.filter((line) => line.startsWith('MAIL')).length, 10, 'no further try');

  const resumesMs = Math.floor(rig.clock.now() / 1000) * 1000 + 61_000;
  const waiting = ids.filter((id) => rig.status(id) === 'delayed');
  for (const id of waiting) {
    assert.deepEqual(rig.attempts(id), []);
    const delays = rig.events(id).filter(({ type }) => type === 'DeliveryDelay');
    assert.equal(delays.length, 1);
    const { category, owner, kind, reply } = delays[0]!.detail.deliveryDelay!;
    assert.deepEqual([category, owner, kind], ['relay-limit', 'service', 'soft']);
    assert.equal(
      reply,
      `relay limit perMinute=10 reached: 10 messages in the last minute; sending resumes at ${new Date(resumesMs).toISOString()}`,
    );
  }
  const dueTimes = waiting.map((id) => rig.rows<{ due: number }>('SELECT due FROM work WHERE subject = ?', id)[0]!.due);
  const inTurn = dueTimes.toSorted((a, b) => a - b).map((due) => due - resumesMs);
  assert.deepEqual(
    inTurn,
    Array.from({ length: 15 }, (_, index) => index * 6_000),
    'one after the other, as fast as the limit allows',
  );
  const [published] = rig.delivery.published();
  assert.match(published!.limitReason, /relay limit perMinute=10 reached/);
  assert.equal(published!.pausedUntil, resumesMs);
  assert.deepEqual(
    published!.replies.filter(({ accepted }) => !accepted),
    [],
  );

  await rig.restart();
  rig.clock.set(resumesMs - 1);
  const [late] = await send(1);
  await settled([late!], { delayed: 1 });
  assert.equal(sink.accepted, 10, 'a restart forgets nothing');
  await advance(1 + 10 * 6_000, [...ids, late!], 20);
  await advance(5 * MINUTE, [...ids, late!], 26);
  assert.equal(sink.accepted, 26, 'none twice');
});

test('the limit per day holds for any 24 hours, whatever the limit per minute allows', async (t) => {
  const { sink, send, settled, advance, rig } = await cappedRelay(t, { perMinute: 10, perDay: 15 });
  const ids = await send(20);
  await settled(ids, { delivered: 10, delayed: 10 });
  await advance(2 * MINUTE, ids, 15);
  const waiting = ids.find((id) => rig.status(id) === 'delayed')!;
  const late = await send(1);
  await settled(late, { delayed: 1 });
  const { reply } = rig.events(late[0]!).at(-1)!.detail.deliveryDelay!;
  assert.match(
    String(reply),
    /^relay limit perDay=15 reached: 15 messages in the last 24 hours; sending resumes at 2026-/,
  );
  // Tried again every hour, since messages may have been returned.
  for (let hour = 1; hour < 24; hour += 1) await advance(HOUR, [...ids, ...late], 15);
  assert.deepEqual(rig.attempts(waiting), []);
  await advance(HOUR + 20 * MINUTE, [...ids, ...late], 21);
  assert.equal(sink.accepted, 21);
});

test('a deferred message does not count, a permanently refused one does, and one email counts its recipients', async (t) => {
  let refusals = 0;
  const rcpt: NonNullable<SinkOptions['script']>['rcpt'] = ({ line }) => {
    if (line.includes('gone@')) return '550 5.1.1 no such user';
    refusals += 1;
    return refusals <= 3 ? '450 4.2.0 greylisted' : undefined;
  };
  const { sink, rig, send, settled } = await cappedRelay(t, { perDay: 10 }, { script: { rcpt } });
  const [gone] = await rig.send({ to: ['gone@example.org'] });
  await settled([gone!], { bounced: 1 });
  const deferred: string[] = [];
  for (let one = 0; one < 3; one += 1) {
    deferred.push(...(await send(1)));
    await settled(deferred, { delayed: one + 1 });
  }
  // The next tick returns them.
  await waitUntil(
    'the deferred messages to be returned',
    () => rig.rows<{ mails: number }>("SELECT sum(mails) AS mails FROM relay_limit WHERE span = 'day'")[0]!.mails === 1,
  );
  const to = Array.from({ length: 12 }, (_, index) => `r${index}@example.org`);
  const ids = await rig.send({ to });
  await settled(ids, { delivered: 9, delayed: 3 });
  assert.equal(sink.messages.flatMap((one) => one.to).length, 9);
});

test('a relay that no source address reaches is dialed as the system chooses, within the limit', async (t) => {
  const { sink, send, settled } = await cappedRelay(t, { perMinute: 3 }, { sources: ['::1'] });
  await settled(await send(5), { delivered: 3, delayed: 2 });
  assert.equal(sink.accepted, 3);
});

test('a message that expires before the limit allows it bounces when it expires, not earlier', async (t) => {
  const { rig, send, settled, advance } = await cappedRelay(t, { perDay: 5 });
  await settled(await send(5), { delivered: 5 });
  const [short] = await send(1, { lifetimeMs: HOUR / 2 });
  await settled([short!], { delayed: 1 });
  await advance(HOUR / 2 - 1, [short!], 0);
  rig.clock.advance(1);
  rig.delivery.nudge();
  await settled([short!], { bounced: 1 });
  const { category, reply } = rig.events(short!).at(-1)!.detail.bounce!;
  assert.equal(category, 'expired');
  assert.match(String(reply), /relay limit perDay=5 reached/);
});

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: nodes that take at the same moment never exceed a limit in any 60 seconds or 24 hours`, async (t) => {
    const storage = await tempDatabase(dialect);
    t.after(storage.close);
    const clock = fakeClock();
    const node = (limits: RelayLimitSettings): RelayLimits =>
      openRelayLimits({
        database: storage.database,
        clock,
        log: silentLog,
        relay: limits,
        fallback: undefined,
        share: () => 1,
      });
    const nodes = [1, 2, 3].map(() => node({ perMinute: 100, perDay: 1_000 }));
    assert.equal(nodes[0]!.of('fallback'), undefined);
    assert.equal(nodes[0]!.of('example.org'), undefined);
    const sent: { atMs: number; mails: number }[] = [];
    const takeAll = async (): Promise<number> => {
      const takers = nodes.flatMap((one) => Array.from({ length: 4 }, () => one.of('relay')!));
      let sum = 0;
      await Promise.all(
        takers.map(async (shares) => {
          for (let got = await shares.take(undefined, 3); got > 0; got = await shares.take(undefined, 3)) sum += got;
        }),
      );
      sent.push({ atMs: clock.now(), mails: sum });
      await Promise.all(nodes.map((one) => one.releaseUnused()));
      return sum;
    };
    assert.equal(await takeAll(), 100);
    for (let second = 0; second < 1_300; second += 1) {
      clock.advance(1_000);
      await takeAll();
    }
    const most = (spanMs: number): number =>
      Math.max(
        ...sent.map(({ atMs }) =>
          sent.reduce((sum, one) => sum + (one.atMs >= atMs && one.atMs < atMs + spanMs ? one.mails : 0), 0),
        ),
      );
    assert.equal(most(MINUTE), 100);
    assert.equal(most(24 * HOUR), 1_000);
    clock.advance(24 * HOUR);
    // A node that holds some messages returns them after a second, and the others can use them.
    const [idle, busy] = [nodes[0]!, nodes[1]!];
    await idle.of('relay')!.prepare(60);
    clock.advance(1_000);
    await idle.releaseUnused();
    let got = 0;
    const shares = busy.of('relay')!;
    for (let one = 1; one > 0; got += one) one = await shares.take(undefined, 50);
    assert.equal(got, 100);
  });
}

test('messages that wait for a limit are sent if the clock is set back', async (t) => {
  const { sink, rig, send, settled } = await cappedRelay(t, { perMinute: 10 });
  const ids = await send(15);
  await settled(ids, { delivered: 10, delayed: 5 });
  rig.clock.advance(-25 * HOUR);
  await settled(ids, { delivered: 15, delayed: 0 });
  assert.equal(sink.accepted, 15);
});

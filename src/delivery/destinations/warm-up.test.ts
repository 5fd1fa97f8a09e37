/** Warm-up of source addresses, counted at the provider's server. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import { type MxRig, mxRig } from '../../../test/kit/mx-rig.ts';
import type { SinkOptions } from '../../../test/kit/smtp-sink.ts';
import { tempDatabase } from '../../../test/kit/temp-database.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { silentLog } from '../../base/log.ts';
import type { WarmUpStart } from '../../config.ts';
import { openSourceAddresses } from '../../net/source-addresses.ts';
import { PROVIDERS } from './providers.ts';
import { openWarmUp, type WarmUp, type WarmUpSettings } from './warm-up.ts';
import { beginningOf, dayOf } from './warm-up-ramp.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const GOOGLE = 'mx.google.com';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** Returns settings with which the rig's current day has this number. */
const begun = (day: number, address: string | null = null): WarmUpStart => ({
  address,
  firstDay: dayOf(fakeClock().now()) - day + 1,
});

async function world(warmUp: WarmUpSettings, google: SinkOptions = {}): Promise<MxRig> {
  const sources = openSourceAddresses(warmUp.sources);
  const rig = await mxRig({ google, other: {} }, { deps: { warmUp }, routing: { sources } });
  rig.exchange('google', GOOGLE, ['gmail.example', 'workspace.example']);
  rig.exchange('other', 'mx.other.example', ['other.example']);
  closers.push(rig.close);
  return rig;
}

async function send({ rig }: MxRig, count: number, domain = 'gmail.example', mail = {}): Promise<string[]> {
  const ids: string[] = [];
  for (let one = 0; one < count; one += 1) ids.push(...(await rig.send({ to: [`${one}@${domain}`], ...mail })));
  return ids;
}

const among = ({ rig }: MxRig, ids: readonly string[], status: string): number =>
  ids.filter((id) => rig.status(id) === status).length;

/** Counts messages that the provider's server accepted from this address. */
const countFrom = ({ sinks: { google } }: MxRig, address: string): number =>
  google!.messages.filter(({ session }) => google!.connections.from[session - 1] === address).length;

const all = (world: MxRig, ids: readonly string[], counts: Record<string, number>): Promise<unknown> =>
  waitUntil(JSON.stringify(counts), () =>
    Object.entries(counts).every(([status, count]) => among(world, ids, status) === count),
  );

test('messages above the daily limit wait for the next day without an attempt', async () => {
  const it = await world({ starts: [begun(1)], sources: [] });
  const { rig, sinks } = it;
  const ids = [...(await send(it, 60)), ...(await send(it, 60, 'workspace.example'))];
  const others = await send(it, 60, 'other.example');
  await all(it, ids, { delivered: 50, delayed: 70 });
  await all(it, others, { delivered: 60 });
  assert.equal(sinks.google!.accepted, 50, 'all domains of a provider together');
  assert.equal(sinks.google!.commands.filter((line) => line.startsWith('MAIL')).length, 50, 'no other attempt');

  const waiting = ids.filter((id) => rig.status(id) === 'delayed');
  const midnight = beginningOf(dayOf(rig.clock.now()) + 1);
  for (const id of waiting) {
    assert.deepEqual(rig.attempts(id), []);
    const delays = rig.events(id).filter(({ type }) => type === 'DeliveryDelay');
    assert.equal(delays.length, 1);
    const { category, owner, reply, nextAttemptAt, kind } = delays[0]!.detail.deliveryDelay!;
    assert.deepEqual([category, owner, kind], ['warm-up', 'service', 'soft']);
    assert.equal(reply, 'warm-up day 1: 50 of 50 messages to google today; sending resumes at 00:00 UTC');
    assert.ok(Date.parse(String(nextAttemptAt)) >= midnight);
  }
  const [published] = rig.delivery.published().filter(({ key }) => key === 'google');
  assert.match(published!.limitReason, /warm-up day 1: 50 of 50 messages to google today/);
  assert.equal(published!.pausedUntil, midnight);

  rig.clock.set(midnight - 1);
  await rig.restart();
  const late = await send(it, 5);
  await all(it, late, { delayed: 5 });
  assert.equal(sinks.google!.accepted, 50, 'the limit survives a restart');
  rig.clock.set(midnight + 3 * HOUR);
  rig.delivery.nudge();
  await all(it, [...ids, ...late], { delivered: 125 });
  assert.equal(
    new Set(sinks.google!.messages.map(({ to }) => to[0])).size,
    120,
    'later messages reuse earlier addresses',
  );
  assert.equal(sinks.google!.accepted, 125, 'no duplicates');
});

test('each address has its own daily limit, and a warmed-up one has none', async () => {
  const sources = ['127.0.0.1', '127.0.0.91'];
  const it = await world({ starts: [begun(1, sources[0]), begun(2, sources[1])], sources });
  const ids = await send(it, 200);
  await all(it, ids, { delivered: 150, delayed: 50 });
  const counts = sources.map((address) => countFrom(it, address));
  assert.deepEqual(counts, [50, 100]);
  const { reply } = it.rig.events(ids.at(-1)!).at(-1)!.detail.deliveryDelay!;
  assert.match(
    String(reply),
    /day 1: 50 of 50 messages .* from 127\.0\.0\.1; .*day 2: 100 of 100 .* from 127\.0\.0\.91/,
  );

  const warm = await world({ starts: [begun(1, sources[0])], sources });
  const more = await send(warm, 200);
  await all(warm, more, { delivered: 200 });
  const cold = countFrom(warm, '127.0.0.1');
  assert.ok(cold > 0 && cold <= 50, `${cold} from the cold address: the excess is sent from the other one`);
});

test('a temporary rejection is retried within the limit, and a permanent one counts toward it', async () => {
  let refusals = 0;
  const rcpt: NonNullable<SinkOptions['script']>['rcpt'] = ({ line }) => {
    if (line.includes('gone@')) return '550 5.1.1 no such user';
    refusals += 1;
    return refusals <= 20 ? '450 4.2.0 greylisted' : undefined;
  };
  const it = await world({ starts: [begun(1)], sources: [] }, { script: { rcpt } });
  const gone = (await it.rig.send({ to: ['gone@gmail.example'] }))[0]!;
  await all(it, [gone], { bounced: 1 });
  const ids = await send(it, 30);
  await all(it, ids, { delivered: 10, delayed: 20 });
  it.rig.clock.advance(2 * 60_000);
  it.rig.delivery.nudge();
  await all(it, ids, { delivered: 30 });
  const more = await send(it, 30);
  await all(it, more, { delivered: 19, delayed: 11 });
  assert.equal(it.sinks.google!.accepted, 49);
});

test('each recipient of an email counts toward the daily limit', async () => {
  const it = await world({ starts: [begun(1)], sources: [] });
  const to = Array.from({ length: 40 }, (_, index) => `${index}@gmail.example`);
  const ids = [...(await it.rig.send({ to })), ...(await it.rig.send({ to }))];
  await all(it, ids, { delivered: 50, delayed: 30 });
  assert.equal(it.sinks.google!.messages.flatMap((one) => one.to).length, 50);
});

test('a message that expires before the next day bounces at its expiry', async () => {
  const it = await world({ starts: [begun(1)], sources: [] });
  await all(it, await send(it, 50), { delivered: 50 });
  const [short] = await send(it, 1, 'gmail.example', { lifetimeMs: HOUR });
  await all(it, [short!], { delayed: 1 });
  it.rig.clock.advance(HOUR - 1);
  it.rig.delivery.nudge();
  const [witness] = await send(it, 1);
  await all(it, [short!, witness!], { delayed: 2 });
  it.rig.clock.advance(1);
  it.rig.delivery.nudge();
  await all(it, [short!], { bounced: 1 });
  assert.equal(it.rig.events(short!).at(-1)!.detail.bounce!.category, 'expired');
});

test('after six weeks there is no limit', async () => {
  const it = await world({ starts: [begun(43)], sources: [] });
  await all(it, await send(it, 60), { delivered: 60 });
  assert.deepEqual(it.rig.rows('SELECT * FROM warm_up'), []);
});

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: concurrent nodes share the limit, and it resets every day`, async () => {
    const storage = await tempDatabase(dialect);
    closers.push(storage.close);
    const clock = fakeClock();
    const node = (): WarmUp =>
      openWarmUp({
        database: storage.database,
        clock,
        log: silentLog,
        providerOf: PROVIDERS.byName,
        starts: [begun(4)],
        sources: [],
      });
    const nodes = [node(), node(), node()];
    const takeAll = async (): Promise<number> => {
      const takers = nodes.flatMap((one) => Array.from({ length: 5 }, () => one.of('google')!));
      const allocations = await Promise.all(
        takers.map(async (shares) => {
          let sum = 0;
          for (let got = await shares.take(undefined, 3); got > 0; got = await shares.take(undefined, 3)) sum += got;
          return sum;
        }),
      );
      return allocations.reduce((a, b) => a + b, 0);
    };
    assert.equal(await takeAll(), 400);
    const yesterday = nodes[0]!.of('google')!;
    clock.advance(DAY);
    assert.equal(await yesterday.take(undefined, 1), 0, "yesterday's allocation uses none of today's limit");
    assert.equal(await takeAll(), 500);
    assert.equal(nodes[0]!.of('mx.other.example'), undefined);

    clock.advance(DAY);
    const [idle, busy] = [nodes[0]!, nodes[1]!];
    await idle.of('google')!.prepare(300);
    let got = 0;
    for (let one = 1; one > 0; got += one) one = await busy.of('google')!.take(undefined, 50);
    assert.equal(got, 330, '630 without the allocation of the other node');
    clock.advance(10_000);
    await idle.releaseUnused();
    const later = node();
    let rest = 0;
    for (let one = 1; one > 0; rest += one) one = await later.of('google')!.take(undefined, 50);
    assert.equal(rest, 300, 'the released allocation is available again');
  });
}

test('whether a node may still send depends on its own addresses; without addresses, all nodes are one host', async (t) => {
  const temp = await tempDatabase('sqlite');
  t.after(() => temp.close());
  const open = (starts: WarmUpStart[], sources: string[]): WarmUp =>
    openWarmUp({
      database: temp.database,
      clock: fakeClock(),
      log: silentLog,
      starts,
      sources,
      providerOf: PROVIDERS.byName,
    });
  const [warming, established] = ['192.0.2.1', '192.0.2.2'] as const;
  const starts = [begun(1, warming)];
  assert.ok(open(starts, [established]).maySend('google'));
  assert.ok(!open([begun(1)], []).maySend('google'));
  const first = open(starts, [warming]);
  assert.ok(first.maySend('google'));
  const shares = first.of('google')!;
  for (let taken = 1; taken > 0; ) taken = await shares.take(warming, 10);
  assert.ok(!first.maySend('google'));
});

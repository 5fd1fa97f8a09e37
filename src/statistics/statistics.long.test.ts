/** Statistics compared with a recount of the raw log on both databases: late events and all dimensions, during and after counting. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { JsonObject } from '../../test/kit/api.ts';
import { type EventMix, eventMix, logOf, spanOf } from '../../test/kit/event-mix.ts';
import { type FakeClock, fakeClock } from '../../test/kit/fake-clock.ts';
import { type FeatureApp, featureApp } from '../../test/kit/feature-app.ts';
import { assertCounted, type Recount } from '../../test/kit/recount.ts';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { DIALECTS, type Dialect } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { statisticsRoutes } from '../api/statistics.ts';
import { silentLog } from '../base/log.ts';
import type { Mode } from '../base/mode.ts';
import { openPostgresDatabase } from '../storage/postgres/database.ts';
import { parsePostgresUrl } from '../storage/postgres/url.ts';
import { type RollUp, startRollUp } from './roll-up.ts';
import { countStepOperation, type StatisticsOwner } from './roll-up-store.ts';

const DAYS = 6;
const OWNERS = [
  ['acc_a', 'live'],
  ['acc_a', 'sandbox'],
  ['acc_b', 'live'],
] as const;

interface Rig {
  app: FeatureApp;
  mix: EventMix;
  clock: FakeClock;
  span: string;
  /** Counts in this process, in quick rounds. */
  rollUp(): RollUp;
}

async function makeRig(t: TestContext, dialect: Dialect): Promise<Rig> {
  const clock = fakeClock(Date.now());
  const app = await featureApp(({ database }) => statisticsRoutes({ database, clock }), undefined, dialect);
  const days = { nowMs: clock.now(), days: DAYS };
  const mix = eventMix(app.temp, days);
  const started: RollUp[] = [];
  t.after(async () => {
    await Promise.all(started.map((one) => one.stop()));
    await mix.close();
    await app.close();
  });
  for (const id of ['acc_a', 'acc_b']) await addAccount(mix, id);
  const rollUp = (): RollUp => {
    const { database } = app.temp;
    const one = startRollUp({ database, clock, log: silentLog, passMs: 20, sweepMs: 0 });
    started.push(one);
    return one;
  };
  return { app, mix, clock, span: spanOf(days), rollUp };
}

const addAccount = (mix: EventMix, id: string): Promise<number> =>
  mix.write((tx) =>
    tx.run(
      `INSERT INTO account (id, name, plan, status, approved_email_bytes, settings, created_at) VALUES (?, ?, 'paid', 'active', 2000000, '{}', 1)`,
      id,
      id,
    ),
  );

/** Compares every interval and dimension of the owner with the current log. */
async function compareAll({ app, mix, span }: Rig, accountId: string, mode: Mode): Promise<void> {
  const events = await logOf(app.temp.database, { accountId, mode });
  assert.ok(events.length > 0);
  for (const interval of ['hour', 'day'] as const) {
    for (const groupBy of ['none', 'tag', 'template', 'recipientDomain', 'mailboxProvider'] as const) {
      const path = `/statistics?${span}&interval=${interval}&groupBy=${groupBy}`;
      const { status, body } = await app.api(accountId, mode).get(path);
      assert.equal(status, 200, JSON.stringify(body));
      const how: Recount = { interval, groupBy, templateOf: mix.templateOf };
      assertCounted(body.buckets, events, how);
    }
  }
}

const isCounted = async ({ app }: Rig, owner: StatisticsOwner): Promise<boolean> =>
  (await app.temp.database.execute(countStepOperation, { owner, limit: 1 })) === null;

/** Waits until every log is counted. */
async function untilCounted(rig: Rig): Promise<void> {
  for (const [accountId, mode] of OWNERS)
    await waitUntil(`${accountId} ${mode} to be counted`, () => isCounted(rig, { accountId, mode }));
}

for (const dialect of DIALECTS) {
  test(`statistics match a recount of the log (${dialect})`, async (t) => {
    const rig = await makeRig(t, dialect);
    const { mix } = rig;
    for (let i = 0; i < 20; i += 1) for (const [accountId, mode] of OWNERS) await mix.addMessage(accountId, mode);
    await mix.append(1_200);
    for (const [accountId, mode] of OWNERS) await compareAll(rig, accountId, mode);
    // Two rounds at the same time, like two processes that both consider themselves responsible.
    const [first] = [rig.rollUp(), rig.rollUp()];
    for (let i = 0; i < 20; i += 1) {
      await Promise.all([mix.append(60), mix.append(3), mix.addMessage('acc_b', 'live')]);
      if (i === 10) await compareAll(rig, 'acc_a', 'live');
    }
    await untilCounted(rig);
    for (const [accountId, mode] of OWNERS) await compareAll(rig, accountId, mode);
    await waitUntil('all logs to be counted', () => first!.lag().events === 0);
    assert.equal(first!.lag().seconds, 0);
    await mix.write((tx) => tx.run("UPDATE statistics SET delayed = delayed + 1 WHERE mode = 'sandbox'"));
    await assert.rejects(compareAll(rig, 'acc_a', 'sandbox'), 'control: a wrong counter is found');
  });
}

test('two nodes on one PostgreSQL write and count concurrently', async (t) => {
  const rig = await makeRig(t, 'postgres');
  const { mix, app, clock } = rig;
  for (let i = 0; i < 20; i += 1) for (const [accountId, mode] of OWNERS) await mix.addMessage(accountId, mode);
  const other = await openPostgresDatabase({ address: parsePostgresUrl(app.temp.url!), log: silentLog });
  const second = startRollUp({ database: other, clock, log: silentLog, passMs: 20, sweepMs: 0 });
  t.after(async () => {
    await second.stop();
    await other.close();
  });
  rig.rollUp();
  for (let i = 0; i < 20; i += 1) {
    // Transactions that commit in another order than they started in.
    await Promise.all(Array.from({ length: 8 }, (_, one) => mix.append(1 + one * 7)));
    if (i % 10 === 9) await compareAll(rig, 'acc_a', 'live');
  }
  await untilCounted(rig);
  for (const [accountId, mode] of OWNERS) await compareAll(rig, accountId, mode);
});

test('groups over the limit are merged, and a log far ahead is rejected until counted', async (t) => {
  const rig = await makeRig(t, 'sqlite');
  const { mix, app, span } = rig;
  for (let i = 0; i < 130; i += 1)
    await seedMail(app.temp.database, { accountId: 'acc_a', nowMs: rig.clock.now(), tags: [`t${i}`] });
  const read = () => app.api('acc_a').get(`/statistics?${span}&interval=hour&groupBy=tag`);
  const check = async (): Promise<void> => {
    const { body } = await read();
    const named = body.buckets.filter((one: JsonObject) => one.group !== null);
    const [others, ...more] = body.buckets.filter((one: JsonObject) => one.group === null);
    assert.equal(more.length, 0);
    assert.equal(named.length + others.accepted, 130);
    assert.ok(named.length > 50 && named.length <= 100 && others.accepted >= 30, `${named.length} named`);
    assert.deepEqual(others.deliverySeconds, { p50: null, p95: null });
  };
  await check();
  rig.rollUp();
  await untilCounted(rig);
  await check();
  await mix.addMessage('acc_b', 'live');
  const { body } = await app.api('acc_b').get('/statistics');
  assert.equal(body.buckets.length, 8, 'one bucket per day, with or without events');
  const refused = await app.api('acc_b').get('/statistics?since=2001-01-01T00:00:00Z');
  assert.deepEqual([refused.status, refused.body.error.details[0].field], [400, 'since']);
  // For an account that is not counted, without time to count it during the call.
  const id = await mix.addMessage('acc_c', 'live');
  await mix.write((tx) =>
    tx.run(
      `INSERT INTO event (account_id, mode, id, type, message_id, at, detail)
       WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5001)
       SELECT 'acc_c', 'live', 'evt_' || i, 'Open', ?, ?, '{}' FROM n`,
      id,
      rig.clock.now(),
    ),
  );
  const hurried = statisticsRoutes({ database: app.temp.database, clock: rig.clock, catchUpMs: 0 })[0]!;
  const request = { caller: { account: { id: 'acc_c' }, mode: 'live' }, query: {} };
  const answer = await hurried.handle(request as unknown as Parameters<typeof hurried.handle>[0]);
  assert.ok(!answer.ok && answer.failure.code === 'OVERLOADED' && answer.failure.retryAfterSeconds! > 0);
  const counted = await app.api('acc_c').get('/statistics');
  assert.equal(counted.body.buckets.at(-1).opened, 5_001);
});

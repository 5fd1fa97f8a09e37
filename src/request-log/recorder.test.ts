/** Recording requests: limited and fair in memory, kept while the database is unavailable, limited in the database. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { EVERY_REQUEST } from '../../test/contract/request-log.ts';
import { type TempDatabase, tempDatabase } from '../../test/kit/temp-database.ts';
import { Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { createRequestLog, type LoggedRequest, type RequestLog, type RequestLogDeps } from './recorder.ts';
import { KEPT_FAILED, listRequestsOperation, omittedRequestsOperation } from './store.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Rig {
  temp: TempDatabase;
  recorder: RequestLog;
  /** Failed requests that were not recorded. */
  dropped(): number;
  omitted(): number;
}

async function rig(
  limits: Pick<RequestLogDeps, 'heldBytes' | 'succeededPerSecond' | 'isOverloaded'> = {},
  through: (real: Database) => Partial<Database> = () => ({}),
): Promise<Rig> {
  const temp = await tempDatabase();
  let [dropped, omitted] = [0, 0];
  const recorder = createRequestLog({
    database: {
      ...temp.database,
      execute: temp.database.execute.bind(temp.database),
      ...through(temp.database),
    } as Database,
    log: silentLog,
    omitted: { failed: { inc: (by = 1) => (dropped += by) }, succeeded: { inc: (by = 1) => (omitted += by) } },
    ...limits,
  });
  closing.push(() => temp.close());
  closing.push(() => recorder.stop());
  return { temp, recorder, dropped: () => dropped, omitted: () => omitted };
}

let made = 0;
function refusal(change: Partial<LoggedRequest> = {}): LoggedRequest {
  made += 1;
  return {
    accountId: 'acc_a',
    mode: 'live',
    requestId: `req_${String(made).padStart(21, '0')}`,
    atMs: made,
    source: 'api',
    call: 'POST /send',
    status: 400,
    refusal: {
      code: 'INVALID_REQUEST',
      message: 'to is missing.',
      details: [{ field: 'to', code: 'REQUIRED', message: 'is missing' }],
    },
    credentialId: 'key_a',
    address: '127.0.0.1',
    ...change,
  };
}

const success = (change: Partial<LoggedRequest> = {}): LoggedRequest =>
  refusal({ status: 202, refusal: undefined, userAgent: 'curl/8.14.1', messageId: 'msg_1', ...change });

const rowsOf = ({ temp }: Rig, accountId: string, limit = 20_000) =>
  temp.database.execute(listRequestsOperation, { ...EVERY_REQUEST, mode: 'live', accountId, limit });

test('a flood of one account leaves space for every other one, and dropped rows are counted', async () => {
  const own = await rig({ heldBytes: 100_000 });
  for (let i = 0; i < 5_000; i += 1) own.recorder.record(refusal({ accountId: 'acc_flood' }));
  const afterOne = own.dropped();
  assert.ok(afterOne > 4_900, `${afterOne} of 5,000 were dropped`);
  for (const accountId of ['acc_b', 'acc_c'])
    for (let i = 0; i < 5; i += 1) own.recorder.record(refusal({ accountId }));
  assert.equal(own.dropped(), afterOne, 'nothing of the others was dropped');
  await own.recorder.flush();
  assert.equal((await rowsOf(own, 'acc_b')).length, 5);
  assert.equal((await rowsOf(own, 'acc_c')).length, 5);
  const flood = (await rowsOf(own, 'acc_flood')).length;
  assert.equal(flood + afterOne, 5_000);
  own.recorder.record(refusal({ accountId: 'acc_flood' }));
  assert.equal(own.dropped(), afterOne, 'what was stored makes room again');
});

test('what the database does not take now is kept and stored once, and lost at a stop without it', async () => {
  let isAway = true;
  const own = await rig({}, (real) => ({
    execute: async (op, args) => {
      if (isAway) throw new Unavailable('away');
      return real.execute(op, args);
    },
  }));
  for (let i = 0; i < 450; i += 1) own.recorder.record(refusal());
  await assert.rejects(own.recorder.flush(), Unavailable);
  assert.equal(own.dropped(), 0);
  isAway = false;
  await Promise.all([own.recorder.flush(), own.recorder.flush()]);
  assert.equal((await rowsOf(own, 'acc_a')).length, 450);
  own.recorder.record(refusal());
  isAway = true;
  await own.recorder.stop();
  assert.equal(own.dropped(), 1);
});

test('rows that the database refuses are dropped and do not block others', async () => {
  let isBroken = true;
  const own = await rig({}, (real) => ({
    execute: async (op, args) => {
      if (isBroken) throw new Error('a bug');
      return real.execute(op, args);
    },
  }));
  own.recorder.record(refusal());
  await own.recorder.flush();
  assert.equal(own.dropped(), 1);
  isBroken = false;
  own.recorder.record(refusal());
  await own.recorder.flush();
  assert.equal((await rowsOf(own, 'acc_a')).length, 1);
});

test('an account keeps its newest failed requests in each mode', async () => {
  const own = await rig({ heldBytes: 50_000_000 });
  const count = KEPT_FAILED + 600;
  for (let i = 0; i < count; i += 1) own.recorder.record(refusal());
  own.recorder.record(refusal({ mode: 'sandbox' }));
  await own.recorder.flush();
  const rows = await rowsOf(own, 'acc_a');
  assert.ok(rows.length >= KEPT_FAILED && rows.length < KEPT_FAILED + 250, `${rows.length} rows`);
  assert.deepEqual(
    rows.map(({ at }) => at),
    Array.from({ length: rows.length }, (_, index) => rows[0]!.at - index),
    'without gaps from the newest on',
  );
});

test('successful requests are recorded with their properties', async () => {
  const own = await rig();
  own.recorder.record(success({ durationMs: 12, path: '/messages/msg_1', userAgent: 'shop (ops@shop.example) 1.0' }));
  await own.recorder.flush();
  const [row] = await rowsOf(own, 'acc_a');
  assert.partialDeepStrictEqual(row, {
    status: 202,
    code: null,
    details: null,
    durationMs: 12,
    path: '/messages/msg_1',
    messageId: 'msg_1',
    userAgent: 'shop (…) 1.0',
  });
});

test('successful requests use only half of the memory, and the omitted ones are counted', async () => {
  const own = await rig({ heldBytes: 100_000 });
  const owners = Array.from({ length: 50 }, (_, index) => `acc_${index}`);
  for (let i = 0; i < 20; i += 1) for (const accountId of owners) own.recorder.record(success({ accountId }));
  assert.ok(own.omitted() > 800, `${own.omitted()} of 1,000 were omitted`);
  for (const accountId of owners) own.recorder.record(refusal({ accountId }));
  assert.equal(own.dropped(), 0, 'failed requests are recorded');
  await own.recorder.flush();
  let [recorded, omitted] = [0, 0];
  for (const accountId of owners) {
    recorded += (await rowsOf(own, accountId)).filter(({ status }) => status === 202).length;
    const owner = { accountId, mode: 'live', sinceMs: 0, untilMs: null } as const;
    omitted += await own.temp.database.execute(omittedRequestsOperation, owner);
  }
  assert.deepEqual([recorded + omitted, omitted], [1_000, own.omitted()]);
});

test('a flood of successful requests is sampled, and failed requests are all recorded', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const own = await rig({ succeededPerSecond: 100 });
  const second = async (): Promise<void> => {
    for (let i = 0; i < 1_000; i += 1) own.recorder.record(success());
    for (let i = 0; i < 10; i += 1) own.recorder.record(refusal());
    t.mock.timers.tick(1_000);
    await own.recorder.flush();
  };
  await second();
  assert.equal(own.omitted(), 0, 'the rate of an account is known after a second');
  await second();
  assert.equal(own.omitted(), 900);
  const rows = await rowsOf(own, 'acc_a');
  assert.equal(rows.filter(({ status }) => status === 202).length, 1_100);
  assert.equal(rows.filter(({ status }) => status === 400).length, 20);
});

test('an overloaded node records few successful requests', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const own = await rig({ isOverloaded: () => true });
  t.mock.timers.tick(1_000);
  for (let i = 0; i < 200; i += 1) own.recorder.record(success());
  for (let i = 0; i < 5; i += 1) own.recorder.record(refusal());
  await own.recorder.flush();
  assert.equal((await rowsOf(own, 'acc_a')).length, 7);
  assert.equal(own.omitted(), 198);
});

test('counts of omitted requests outlast an unavailable database', async () => {
  let isAway = true;
  const own = await rig({ heldBytes: 1 }, (real) => ({
    execute: async (op, args) => {
      if (isAway) throw new Unavailable('away');
      return real.execute(op, args);
    },
  }));
  // The first one fills the memory.
  for (let i = 0; i < 3; i += 1) own.recorder.record(success());
  await assert.rejects(own.recorder.flush(), Unavailable);
  isAway = false;
  own.recorder.record(success());
  await own.recorder.flush();
  const owner = { accountId: 'acc_a', mode: 'live', sinceMs: 0, untilMs: null } as const;
  assert.equal(await own.temp.database.execute(omittedRequestsOperation, owner), 3);
});

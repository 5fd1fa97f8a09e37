/** Recording refusals: bounded and fair in memory, patient with a database that is away, bounded in the database. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { type TempDatabase, tempDatabase } from '../../test/kit/temp-database.ts';
import { Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { createRefusedRequests, type RefusedRequest, type RefusedRequests } from './recorder.ts';
import { KEPT_ROWS, listRefusedOperation } from './store.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Rig {
  temp: TempDatabase;
  recorder: RefusedRequests;
  dropped(): number;
}

async function rig(heldBytes?: number, through: (real: Database) => Partial<Database> = () => ({})): Promise<Rig> {
  const temp = await tempDatabase();
  let dropped = 0;
  const recorder = createRefusedRequests({
    database: {
      ...temp.database,
      execute: temp.database.execute.bind(temp.database),
      ...through(temp.database),
    } as Database,
    log: silentLog,
    dropped: { inc: (by = 1) => (dropped += by) },
    ...(heldBytes !== undefined && { heldBytes }),
  });
  closing.push(() => temp.close());
  closing.push(() => recorder.stop());
  return { temp, recorder, dropped: () => dropped };
}

let made = 0;
function refusal(change: Partial<RefusedRequest> = {}): RefusedRequest {
  made += 1;
  return {
    accountId: 'acc_a',
    mode: 'live',
    requestId: `req_${String(made).padStart(21, '0')}`,
    atMs: made,
    source: 'api',
    call: 'POST /send',
    status: 400,
    code: 'INVALID_REQUEST',
    message: 'to is missing.',
    details: [{ field: 'to', message: 'is missing' }],
    credentialId: 'key_a',
    address: '127.0.0.1',
    ...change,
  };
}

const everything = { mode: 'live', source: null, code: null, sinceMs: 0, untilMs: null, before: null } as const;
const rowsOf = ({ temp }: Rig, accountId: string, limit = 10_000) =>
  temp.database.execute(listRefusedOperation, { ...everything, accountId, limit });

test('a flood from one account leaves capacity for others, and dropped rows are counted', async () => {
  const own = await rig(100_000);
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

test('rows are kept during a database outage and stored once, or lost on stop', async () => {
  let isAway = true;
  const own = await rig(undefined, (real) => ({
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

test('rows that the database rejects are dropped and do not block others', async () => {
  let isBroken = true;
  const own = await rig(undefined, (real) => ({
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

test('an account keeps its newest rows in each mode', async () => {
  const own = await rig(50_000_000);
  const count = KEPT_ROWS + 600;
  for (let i = 0; i < count; i += 1) own.recorder.record(refusal());
  own.recorder.record(refusal({ mode: 'sandbox' }));
  await own.recorder.flush();
  const rows = await rowsOf(own, 'acc_a');
  assert.ok(rows.length >= KEPT_ROWS && rows.length < KEPT_ROWS + 250, `${rows.length} rows`);
  assert.deepEqual(
    rows.map(({ at }) => at),
    Array.from({ length: rows.length }, (_, index) => rows[0]!.at - index),
    'without gaps from the newest on',
  );
});

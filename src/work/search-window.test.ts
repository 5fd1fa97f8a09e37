/** How far back searches for due work look, and how many rows and index entries a claim reads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { SearchWindow } from './search-window.ts';
import { type Claim, claim, enqueue, finish, resumeOperation } from './work.ts';

test('searches look back to the first row of the last one, and to the beginning every few seconds', () => {
  let nowMs = 1_000;
  const searches = new SearchWindow(() => nowMs);
  assert.equal(searches.next(), undefined, 'the first search is complete');
  searches.found(700_000);
  nowMs += 100;
  assert.equal(searches.next(), 705_100, 'overdue then, the time since, and the margin');
  searches.found(0);
  nowMs += 1_000;
  assert.equal(searches.next(), 6_000);
  nowMs += 50;
  assert.equal(searches.next(), 6_050, 'a search that failed changes nothing');
  nowMs += 4_000;
  assert.equal(searches.next(), undefined);
  nowMs += 300;
  searches.found(0);
  nowMs += 14_900;
  assert.equal(searches.next(), 20_200, 'complete searches that take long are less frequent');
  nowMs += 100;
  assert.equal(searches.next(), undefined);
  nowMs += 100_000;
  searches.found(0);
  nowMs += 29_999;
  assert.notEqual(searches.next(), undefined);
  nowMs += 1;
  assert.equal(searches.next(), undefined, 'but not less frequent than every 30 s');
});

const KIND = 'test';

const fill = operation('test.fillQueue', 'write', async (tx, dueMs: number[]): Promise<void> => {
  const row = { kind: KIND, accountId: 'a', mode: 'live', subject: 's', ref: 1, lane: 'l' } as const;
  await enqueue(
    tx,
    dueMs.map((due) => ({ ...row, dueMs: due })),
  );
});

interface Work {
  /** For each claimed row, how long it had been due. */
  overdueMs: number[];
  /** Index entries and rows that the claim read. */
  read: number;
}

/** Returns how many index entries and rows of the table this session has read since some earlier time. */
async function readSoFar(tx: Transaction): Promise<number> {
  const counts = await tx.get<{ read: number }>(
    `SELECT sum(pg_stat_get_xact_tuples_returned(index.indexrelid))
       + pg_stat_get_xact_tuples_returned('work'::regclass) AS read
     FROM pg_index index WHERE index.indrelid = 'work'::regclass`,
  );
  return Number(counts!.read);
}

/** Claims rows, finishes them if asked to, and counts what the claim read. */
const claimCounted = operation(
  'test.claimCounted',
  'write',
  async (tx, { ends, ...request }: Omit<Claim, 'kind' | 'leaseMs'> & { ends: boolean }): Promise<Work> => {
    const before = await readSoFar(tx);
    const rows = await claim(tx, { kind: KIND, leaseMs: 60_000, ...request });
    const read = (await readSoFar(tx)) - before;
    if (ends) await finish(tx, rows);
    return { overdueMs: rows.map((row) => row.overdue_ms), read };
  },
);

test('a claim reads about as many rows as it returns, however many are due and whatever was finished', async (t) => {
  const { database, url, close } = await tempDatabase('postgres');
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.after(async () => {
    await client.end();
    await close();
  });
  const nowMs = database.clock!.now();
  const due = Array.from({ length: 2_000 }, (_, index) => nowMs - 100_000 + index);
  await database.execute(fill, due);
  await client.query('ANALYZE work');
  const all = { nowMs, limit: 20, quarantined: true, ends: true };
  const first = await database.execute(claimCounted, all);
  assert.equal(first.overdueMs.length, 20);
  assert.ok(first.read < 100, `${first.read} read for 20 of 2,000 due rows, and none in quarantine`);

  // Finished rows stay in the index as long as this transaction may see them.
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM work');
  await database.execute(claimCounted, { ...all, limit: 1_500 });
  const complete = await database.execute(claimCounted, all);
  assert.ok(complete.read > 1_500, `${complete.read} read by a complete search`);
  const overdueMs = complete.overdueMs[0]!;
  const limited = await database.execute(claimCounted, { ...all, lookBackMs: Math.ceil(overdueMs) });
  assert.equal(limited.overdueMs.length, 20);
  assert.ok(limited.read < 200, `${limited.read} read by a search that begins at the first due row`);
});

test('rows from before the window are found by the next complete search, and resumed rows within it', async (t) => {
  const { database, close } = await tempDatabase('postgres');
  t.after(close);
  const nowMs = database.clock!.now();
  await database.execute(fill, [nowMs - 60_000, nowMs - 1_000]);
  const request = { nowMs, limit: 10, quarantined: true, ends: false };
  const limited = await database.execute(claimCounted, { ...request, lookBackMs: 30_000 });
  assert.deepEqual(
    limited.overdueMs.map((ms) => ms < 30_000),
    [true],
  );
  const complete = await database.execute(claimCounted, request);
  assert.deepEqual(
    complete.overdueMs.map((ms) => ms >= 60_000),
    [true],
  );

  await database.execute(fill, [nowMs - 60_000, nowMs - 2_000]);
  await database.execute(parkEarliest, undefined);
  const lanes = [{ lane: 'l', limit: 1 }];
  assert.deepEqual(await database.execute(resumeOperation, { kind: KIND, nowMs, lookBackMs: 30_000, lanes }), [1]);
  const resumed = await database.execute(claimCounted, { ...request, lookBackMs: 30_000 });
  assert.equal(resumed.overdueMs.length, 2, 'the resumed row became due just before the first of the window');
});

const parkEarliest = operation('test.parkEarliest', 'write', async (tx): Promise<void> => {
  await tx.run('UPDATE work SET held = 1 WHERE leased = 0 AND due = (SELECT min(due) FROM work)');
});

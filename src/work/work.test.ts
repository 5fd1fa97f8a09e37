/** Parked lanes are listed page by page, each lane once. Also which rows count a crash when a lease expires. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { prepareDataDirectory } from '../storage/data-directory.ts';
import { migrateSqlite } from '../storage/migrate.ts';
import { runWithin } from '../storage/operation.ts';
import { openSqlite, type SqliteConnection } from '../storage/sqlite/connection.ts';
import {
  claim,
  enqueue,
  finish,
  isFreeOnly,
  markRunning,
  park,
  parkedLanes,
  recordCrashes,
  recoverOperation,
  release,
  reschedule,
  resume,
} from './work.ts';

async function openQueue(t: TestContext): Promise<SqliteConnection> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'postrider-queue-'));
  const tx = openSqlite(prepareDataDirectory(folder).databaseFile, { readOnly: false });
  t.after(async () => {
    tx.close();
    await rm(folder, { recursive: true, force: true });
  });
  migrateSqlite(tx, 0);
  return tx;
}

test('parked lanes are paginated', async (t) => {
  const tx = await openQueue(t);
  const names = Array.from({ length: 7 }, (_, i) => `acc/${i}.example`);
  for (const lane of [...names, ...names]) {
    await enqueue(tx, [{ kind: 'k', accountId: 'acc', mode: 'live', subject: 's', ref: 1, lane, dueMs: 0 }]);
  }
  const rows = await claim(tx, { kind: 'k', nowMs: 1, leaseMs: 1_000, limit: 100, quarantined: false });
  assert.equal(rows.length, 14);
  await park(tx, rows, 1);
  assert.deepEqual(await claim(tx, { kind: 'k', nowMs: 9_999, leaseMs: 1, limit: 100, quarantined: true }), []);
  const listed: string[] = [];
  for (let after = ''; ; ) {
    const page = await parkedLanes(tx, { kind: 'k', after, limit: 3 });
    listed.push(...page);
    if (page.length < 3) break;
    after = page.at(-1)!;
  }
  assert.deepEqual(listed, names);
  assert.equal(await resume(tx, { kind: 'k', lane: names[0]!, limit: 1, nowMs: 2 }), 1);
  const [freed] = await claim(tx, { kind: 'k', nowMs: 9_999, leaseMs: 1, limit: 100, quarantined: false });
  assert.equal(freed?.lane, names[0]);
  assert.equal(freed?.crashes, 0, 'parking does not count as a crash');
  assert.equal(
    (await finish(tx, [{ seq: freed!.seq, fence: freed!.fence - 1 }])).size,
    0,
    'an older fence finishes nothing',
  );
  assert.equal((await finish(tx, [freed!])).size, 1);
});

const ROW = {
  kind: 'k',
  accountId: 'acc',
  mode: 'live',
  subject: 's',
  ref: 1,
  lane: 'l',
  dueMs: 0,
} as const;

test('rows can be returned only once per lease', async (t) => {
  const tx = await openQueue(t);
  const [seq] = await enqueue(tx, [ROW]);
  const take = async (nowMs: number) =>
    (await claim(tx, { kind: 'k', nowMs, leaseMs: 10, limit: 1, quarantined: true }))[0]!;
  const row = () => tx.get('SELECT due, leased, held, attempts, crashes FROM work WHERE seq = ?', seq!);
  const first = await take(1);
  assert.equal((await reschedule(tx, [{ ...first, dueMs: 100, tried: true }])).size, 1);
  assert.equal((await reschedule(tx, [{ ...first, dueMs: 200, tried: true }])).size, 0);
  await release(tx, [first], 1);
  await park(tx, [first], 1);
  assert.equal((await recordCrashes(tx, [{ ...first, dueMs: 1 }])).size, 0);
  assert.deepEqual({ ...(await row()) }, { due: 100, leased: 0, held: 0, attempts: 1, crashes: 0 });
  const second = await take(100);
  assert.equal((await recordCrashes(tx, [{ ...second, dueMs: 300 }])).size, 1);
  assert.equal((await recordCrashes(tx, [{ ...second, dueMs: 400 }])).size, 0);
  assert.deepEqual({ ...(await row()) }, { due: 300, leased: 0, held: 0, attempts: 1, crashes: 1 });
});

test('an expired lease counts one crash for each running row', async (t) => {
  const tx = await openQueue(t);
  const [waiting, tried] = await enqueue(tx, [ROW, ROW]);
  const crashes = async (): Promise<number[]> => {
    const rows = await tx.all<{ crashes: number }>('SELECT crashes FROM work ORDER BY seq');
    return rows.map((row) => row.crashes);
  };
  for (let death = 1; death <= 5; death += 1) {
    const nowMs = death * 10;
    const rows = await claim(tx, { kind: 'k', nowMs, leaseMs: 5, limit: 100, quarantined: true });
    assert.deepEqual(
      rows.map((row) => row.seq),
      [waiting, tried],
    );
    await markRunning(tx, { leases: rows, running: true });
    await markRunning(tx, { leases: rows.slice(0, 1), running: false });
    if (death % 2 === 0) assert.equal(await runWithin(tx, recoverOperation, nowMs + 1), 2);
    else await claim(tx, { kind: 'k', nowMs: nowMs + 6, leaseMs: 1, limit: 100, quarantined: true });
    assert.deepEqual(await crashes(), [1, death]);
  }
  const rows = await claim(tx, { kind: 'k', nowMs: 999, leaseMs: 5, limit: 100, quarantined: true });
  await markRunning(tx, { leases: rows, running: true });
  assert.equal(
    (
      await reschedule(
        tx,
        rows.map((row) => ({ ...row, dueMs: 1_000, tried: true })),
      )
    ).size,
    2,
  );
  assert.deepEqual(await crashes(), [0, 0], 'the crash count of a settled row starts over');
});

test('freeOnly skips leased rows even if their lease has expired', async (t) => {
  const tx = await openQueue(t);
  const work = { kind: 'k', accountId: 'acc', mode: 'live', subject: 's', ref: 1, lane: 'l', dueMs: 0 } as const;
  const [held, free] = await enqueue(tx, [{ ...work, dueMs: 100, isLeased: true }, work]);
  const at = { kind: 'k', nowMs: 1_000, leaseMs: 1_000, limit: 10, quarantined: true };
  assert.deepEqual(
    (await claim(tx, { ...at, freeOnly: true })).map((row) => row.seq),
    [free],
  );
  assert.deepEqual(
    (await claim(tx, at)).map((row) => row.seq),
    [held],
  );
  assert.deepEqual(
    [{ ready: true }, { ready: false }, { ready: true, readyForMs: 9_000 }, { ready: true, readyForMs: 11_000 }].map(
      isFreeOnly,
    ),
    [false, false, true, false],
  );
});

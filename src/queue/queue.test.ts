/** Held lanes are told page by page, each lane once. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { prepareDataDirectory } from '../storage/data-directory.ts';
import { migrateSqlite } from '../storage/migrate.ts';
import { openSqlite } from '../storage/sqlite-connection.ts';
import { claim, enqueue, finish, heldLanes, hold, unhold } from './queue.ts';

test('held lanes come in pages that go on where the last one ended', async (t) => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'postrider-queue-'));
  const tx = openSqlite(prepareDataDirectory(folder).databaseFile, { readOnly: false });
  t.after(async () => {
    tx.close();
    await rm(folder, { recursive: true, force: true });
  });
  migrateSqlite(tx, 0);
  const names = Array.from({ length: 7 }, (_, i) => `acc/${i}.example`);
  for (const lane of [...names, ...names]) {
    await enqueue(tx, {
      kind: 'k',
      accountId: 'acc',
      mode: 'live',
      subject: 's',
      ref: 1,
      lane,
      dueMs: 0,
      leased: false,
    });
  }
  const rows = await claim(tx, { kind: 'k', nowMs: 1, leaseMs: 1_000, limit: 100, suspects: false });
  assert.equal(rows.length, 14);
  await hold(tx, rows, 1);
  assert.deepEqual(await claim(tx, { kind: 'k', nowMs: 9_999, leaseMs: 1, limit: 100, suspects: true }), []);
  const told: string[] = [];
  for (let after = ''; ; ) {
    const page = await heldLanes(tx, 'k', { after, limit: 3 });
    told.push(...page);
    if (page.length < 3) break;
    after = page.at(-1)!;
  }
  assert.deepEqual(told, names);
  assert.equal(await unhold(tx, { kind: 'k', lane: names[0]!, limit: 1 }), 1);
  const [freed] = await claim(tx, { kind: 'k', nowMs: 9_999, leaseMs: 1, limit: 100, suspects: false });
  assert.equal(freed?.lane, names[0]);
  assert.equal(freed?.crashes, 0, 'having been held is no crash');
  assert.equal(
    await finish(tx, { seq: freed!.seq, fence: freed!.fence - 1 }),
    false,
    'an older fence finishes nothing',
  );
  assert.equal(await finish(tx, freed!), true);
});

/** The weekly partitions on PostgreSQL: where rows are stored, and that a week is dropped only when it is no longer needed. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { type TempDatabase, tempDatabase } from '../../test/kit/temp-database.ts';
import { newId, timeOfId } from '../base/ids.ts';
import { eachCall, type Row } from '../storage/operation.ts';
import { timeSeqFloor } from '../storage/rows.ts';
import { findMessageOperation } from './api-store.ts';
import { dropOldestWeekOperation, hasWeeksOperation, makePartitions, PARTITION_MS } from './partition-store.ts';
import { removeEmailsOperation } from './retention-store.ts';

const DAY = 86_400_000;
const NOW = Date.now();

async function open(t: TestContext): Promise<TempDatabase & { rows(sql: string): Promise<Row[]> }> {
  const temp = await tempDatabase('postgres');
  t.after(temp.close);
  const rows = (sql: string): Promise<Row[]> =>
    temp.database.execute({ name: 'test.rows', mode: 'write', run: eachCall((tx) => tx.all(sql)) }, null);
  return { ...temp, rows };
}

/** A message of an earlier time, stored as it would have been then. */
async function oldMail(
  { database, rows }: Awaited<ReturnType<typeof open>>,
  atMs: number,
  change: { status?: string; updatedAtMs?: number; blobKey?: string } = {},
): Promise<string> {
  const { status = 'delivered', updatedAtMs = atMs, blobKey } = change;
  await makePartitions(database, { nowMs: atMs });
  const seq = timeSeqFloor(atMs) + Math.floor(Math.random() * 1_000_000);
  const id = newId('msg', atMs);
  await rows(
    `INSERT INTO email (seq, account_id, mode, source, header_from, header_to, envelope_from, subject, header_message_id,
       tags, metadata, options, size_bytes, created_at, retain, blob_key)
     VALUES (${seq}, 'acc_1', 'live', 'http', 'f', '{}', 'e', 's', 'm', '[]', '{}', '{}', 1, ${atMs}, '30d',
       ${blobKey === undefined ? 'NULL' : `'${blobKey}'`})`,
  );
  await rows(
    `INSERT INTO message (account_id, mode, id, email_seq, recipient, role, status, attempts, expires_at, created_at, updated_at)
     VALUES ('acc_1', 'live', '${id}', ${seq}, 'r', 'to', '${status}', 1, 1, ${atMs}, ${updatedAtMs})`,
  );
  await rows(
    `INSERT INTO attempt (account_id, message_id, number, at, record) VALUES ('acc_1', '${id}', 1, ${atMs}, '{}')`,
  );
  await rows(
    `INSERT INTO event (seq, account_id, mode, id, type, message_id, at, detail)
     VALUES (${seq}, 'acc_1', 'live', 'evt_${seq}', 'Send', '${id}', ${atMs}, '{}')`,
  );
  return id;
}

const placeOf = async (rows: (sql: string) => Promise<Row[]>, table: string): Promise<unknown[]> =>
  (await rows(`SELECT tableoid::regclass::text AS place FROM ${table}`)).map((row) => row.place);

async function dropAll({ database }: TempDatabase, beforeMs: number): Promise<number> {
  let dropped = 0;
  while (await database.execute(dropOldestWeekOperation, { beforeMs })) dropped += 1;
  return dropped;
}

test('new messages are stored in weekly partitions that exist weeks ahead', async (t) => {
  const temp = await open(t);
  await seedMail(temp.database, { accountId: 'acc_1' });
  const week = new Date(Math.floor(Date.now() / PARTITION_MS) * PARTITION_MS)
    .toISOString()
    .slice(0, 10)
    .replaceAll('-', '');
  for (const table of ['email', 'message', 'event'])
    assert.deepEqual(await placeOf(temp.rows, table), [`${table}_${week}`]);
  assert.equal(await makePartitions(temp.database, { nowMs: Date.now() }), 0, 'no partition is missing');
  assert.equal(await makePartitions(temp.database, { nowMs: Date.now() + PARTITION_MS }), 4, 'one more week');
  const [ahead] = await temp.rows("SELECT count(*) AS n FROM pg_inherits WHERE inhparent = 'message'::regclass");
  assert.equal(ahead!.n, 9, 'one past week, the current one, six ahead, and the default partition');
});

test('a finished week is dropped when its retention ends, without other partitions being read', async (t) => {
  const temp = await open(t);
  const gone = await oldMail(temp, NOW - 120 * DAY);
  const kept = await oldMail(temp, NOW - 60 * DAY);
  const before = (await temp.rows("SELECT 1 FROM pg_inherits WHERE inhparent = 'event'::regclass")).length;
  const dropped = await dropAll(temp, NOW - 90 * DAY);
  assert.ok(dropped >= 2);
  const after = (await temp.rows("SELECT 1 FROM pg_inherits WHERE inhparent = 'event'::regclass")).length;
  assert.equal(after, before - dropped);
  const find = (messageId: string) =>
    temp.database.execute(findMessageOperation, { accountId: 'acc_1', mode: 'live', messageId });
  assert.equal(await find(gone), undefined);
  assert.equal((await find(kept))!.timeline.length, 1);
  for (const table of ['email', 'message', 'attempt', 'event'])
    assert.equal((await temp.rows(`SELECT 1 FROM ${table}`)).length, 1);
  const plan = await temp.rows(
    `EXPLAIN SELECT 1 FROM message WHERE account_id = 'acc_1' AND mode = 'live' AND id = '${kept}'`,
  );
  assert.equal(JSON.stringify(plan).match(/on message_/g)?.length, 1, JSON.stringify(plan));
});

test('a week with unfinished or recent messages is kept, and old ones are deleted by row', async (t) => {
  for (const change of [{ status: 'delayed' }, { updatedAtMs: NOW - 5 * DAY }, { blobKey: 'zz/1' }]) {
    const temp = await open(t);
    const old = await oldMail(temp, NOW - 150 * DAY);
    const needed = await oldMail(temp, NOW - 150 * DAY, change);
    const behind = await oldMail(temp, NOW - 110 * DAY);
    await dropAll(temp, NOW - 90 * DAY);
    const left = (await temp.rows('SELECT id FROM message')).map((row) => row.id);
    assert.deepEqual(left.sort(), [old, needed, behind].sort(), JSON.stringify(change));
    if (change.blobKey) continue;
    const batch = { beforeMs: NOW - 90 * DAY, limit: 100, afterSeq: 0 };
    assert.equal((await temp.database.execute(removeEmailsOperation, batch)).count, 2);
    assert.deepEqual(await temp.rows('SELECT id FROM message'), [{ id: needed }]);
  }
});

test('messages of a week in the default partition are kept and dropped like any other', async (t) => {
  for (const status of ['scheduled', 'delivered']) {
    const temp = await open(t);
    const atMs = NOW - 150 * DAY;
    const stray = newId('msg', atMs);
    await temp.rows(
      `INSERT INTO message (account_id, mode, id, email_seq, recipient, role, status, attempts, expires_at, created_at, updated_at)
       VALUES ('acc_1', 'live', '${stray}', 1, 'r', 'to', 'delivered', 1, 1, ${atMs}, ${atMs})`,
    );
    await oldMail(temp, atMs, { status });
    assert.deepEqual(await placeOf(temp.rows, 'message'), ['message_rest', 'message_rest'], 'control');
    assert.notDeepEqual(await placeOf(temp.rows, 'email'), ['email_rest'], 'control');
    await dropAll(temp, NOW - 90 * DAY);
    const left = status === 'scheduled' ? [1, 2, 1, 1] : [0, 0, 0, 0];
    for (const [i, table] of ['email', 'message', 'attempt', 'event'].entries())
      assert.equal((await temp.rows(`SELECT 1 FROM ${table}`)).length, left[i], `${status}: ${table}`);
  }
});

test('messages of a week without partitions stay in the default partition', async (t) => {
  const temp = await open(t);
  const atMs = NOW - 300 * DAY;
  const seq = timeSeqFloor(atMs);
  await temp.rows(
    `INSERT INTO event (seq, account_id, mode, id, type, message_id, at, detail)
     VALUES (${seq}, 'acc_1', 'live', 'evt_1', 'Send', 'msg_1', ${atMs}, '{}')`,
  );
  await makePartitions(temp.database, { nowMs: atMs });
  assert.deepEqual(await placeOf(temp.rows, 'event'), ['event_rest']);
});

test('an import creates the weeks of its messages, and low numbers go to the early partition', async (t) => {
  const temp = await open(t);
  const oldMs = NOW - 120 * DAY;
  const id = newId('msg', oldMs);
  assert.equal(timeOfId(id), oldMs);
  assert.equal(timeOfId('msg_short'), undefined);
  await makePartitions(temp.database, { nowMs: NOW, importedMs: [timeOfId(id)!] });
  await makePartitions(temp.database, { nowMs: NOW, importedMs: [timeOfId(id)!] });
  await temp.rows(
    `INSERT INTO email (seq, account_id, mode, source, header_from, header_to, envelope_from, subject, header_message_id,
       tags, metadata, options, size_bytes, created_at, retain)
     VALUES (7, 'acc_1', 'live', 'http', 'f', '{}', 'e', 's', 'm', '[]', '{}', '{}', 1, ${oldMs}, '30d')`,
  );
  await temp.rows(
    `INSERT INTO message (account_id, mode, id, email_seq, recipient, role, status, attempts, expires_at, created_at, updated_at)
     VALUES ('acc_1', 'live', '${id}', 7, 'r', 'to', 'queued', 1, 1, ${oldMs}, ${oldMs})`,
  );
  assert.deepEqual(await placeOf(temp.rows, 'email'), ['email_early']);
  const weekMs = Math.floor(oldMs / PARTITION_MS) * PARTITION_MS;
  const week = new Date(weekMs).toISOString().slice(0, 10).replaceAll('-', '');
  assert.deepEqual(await placeOf(temp.rows, 'message'), [`message_${week}`]);
  assert.equal(await dropAll(temp, NOW - 30 * DAY), 0, 'the message is not finished');
  await temp.rows("UPDATE message SET status = 'delivered'");
  await dropAll(temp, NOW - 30 * DAY);
  assert.deepEqual(await placeOf(temp.rows, 'message'), []);
  assert.deepEqual(await placeOf(temp.rows, 'email'), ['email_early'], 'deleted row by row');
});

test('reports whether the partitions of this week and the next one exist', async (t) => {
  const { database } = await open(t);
  assert.equal(await database.execute(hasWeeksOperation, { nowMs: NOW }), true);
  assert.equal(await database.execute(hasWeeksOperation, { nowMs: NOW + 5 * PARTITION_MS }), false);
});

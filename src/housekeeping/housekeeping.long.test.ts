import assert from 'node:assert/strict';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { deliveryRig, type Rig } from '../../test/kit/delivery-rig.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { silentLog } from '../base/log.ts';
import { type Blobs, newBlobKey } from '../storage/blobs/blobs.ts';

import { openDiskBlobs } from '../storage/blobs/disk.ts';
import type { Database } from '../storage/database.ts';
import { type HousekeepingDeps, startHousekeeping } from './housekeeping.ts';

const DAY = 86_400_000;
let rig: Rig;
before(async () => {
  rig = await deliveryRig({ idle: true });
});
after(() => rig.close());

/** One separate round. With `orphanMs` 0 two rounds are sufficient. */
async function rounds(count = 1, deps: Partial<HousekeepingDeps> = {}): Promise<void> {
  const keeping = startHousekeeping({
    database: rig.storage.database,
    blobs: rig.blobs,
    clock: rig.clock,
    log: silentLog,
    orphanMs: 0,
    ...deps,
  });
  for (let i = 0; i < count; i += 1) await keeping.run();
  await keeping.stop();
}

const blobKeys = async (): Promise<string[]> => {
  const keys: string[] = [];
  for await (const { key } of rig.blobs.list()) keys.push(key);
  return keys.sort();
};
const finish = (id: string): void => rig.tamper("UPDATE message SET status = 'delivered' WHERE id = ?", id);
const age = (key: string, atMs: number): void =>
  utimesSync(path.join(rig.storage.folder, 'rig-blobs', key), atMs / 1000, atMs / 1000);

test('expired content and messages are deleted, except content of unfinished messages', async () => {
  const [done] = await rig.store({ to: ['a@x.example'], blob: true });
  const [open] = await rig.store({ to: ['b@x.example'], blob: true });
  finish(done!);
  rig.clock.advance(31 * DAY);
  await rounds();
  assert.equal((await blobKeys()).length, 1);
  assert.equal(rig.rows('SELECT 1 FROM message').length, 2);
  rig.clock.advance(60 * DAY);
  await rounds();
  assert.deepEqual(
    rig.rows<{ id: string }>('SELECT id FROM message').map((row) => row.id),
    [open],
  );
  assert.deepEqual(
    rig.rows<{ message_id: string }>('SELECT message_id FROM event').map((row) => row.message_id),
    [open],
  );
  assert.equal(rig.rows('SELECT 1 FROM email').length, 1);
  assert.equal((await blobKeys()).length, 1, 'the content of the unfinished message is kept');
});

test('the settings determine the retention of content and messages', async () => {
  const [month] = await rig.store({ to: ['month@k.example'] });
  const [week] = await rig.store({ to: ['week@k.example'], retain: '7d' });
  finish(month!);
  finish(week!);
  const found = (having: string): string[] =>
    rig
      .rows<{ recipient: string }>(
        `SELECT recipient FROM message m JOIN email e ON e.seq = m.email_seq
         WHERE recipient LIKE '%@k.example' AND ${having} ORDER BY recipient`,
      )
      .map((row) => row.recipient);
  const withContent = (): string[] => found('content IS NOT NULL');
  rig.clock.advance(6.5 * DAY);
  await rounds(1, { contentDays: 10, eventDays: 10 });
  assert.deepEqual(withContent(), ['month@k.example', 'week@k.example']);
  rig.clock.advance(1 * DAY);
  await rounds(1, { contentDays: 10, eventDays: 10 });
  assert.deepEqual(withContent(), ['month@k.example'], 'seven days apply within a limit of ten');
  await rounds(1, { contentDays: 7, eventDays: 10 });
  assert.deepEqual(withContent(), []);
  assert.equal(found('1 = 1').length, 2);
  const [later] = await rig.store({ to: ['later@k.example'], retain: '7d' });
  finish(later!);
  rig.clock.advance(3 * DAY);
  await rounds(1, { contentDays: 3, eventDays: 10 });
  assert.deepEqual(withContent(), [], 'even content with a retention of seven days');
  assert.deepEqual(found('1 = 1'), ['later@k.example'], 'messages older than ten days are deleted');
});

test('one round deletes more than one batch, even after unfinished rows', async () => {
  const ids = await Promise.all(Array.from({ length: 450 }, (_, i) => rig.store({ to: [`${i}@y.example`] })));
  for (const [id] of ids) finish(id!);
  rig.clock.advance(91 * DAY);
  await rounds();
  assert.equal(rig.rows("SELECT 1 FROM message WHERE recipient LIKE '%@y.example'").length, 0);
});

test('the times of every full log segment are stored and deleted with its events', async () => {
  const fill = (messageId: string): void =>
    rig.tamper(
      `INSERT INTO event (account_id, mode, id, type, message_id, at, detail)
       WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100)
       SELECT 'acc_1', 'live', 'evt_' || i, 'Send', ?, i, '{}' FROM n`,
      messageId,
    );
  rig.tamper('DELETE FROM event');
  rig.tamper('DELETE FROM event_stretch');
  fill('msg_a');
  fill('msg_b');
  await rounds();
  const noted = rig.rows<{ events: number; live_from: number; live_until: number; sandbox_from: null }>(
    'SELECT last_seq - first_seq + 1 AS events, live_from, live_until, sandbox_from FROM event_stretch ORDER BY last_seq',
  );
  const times = { live_from: 1, sandbox_from: null, events: 1_024 };
  assert.deepEqual(
    noted.map((one) => ({ ...one })),
    [
      { ...times, live_until: 1_024 },
      { ...times, live_until: 1_100 },
    ],
  );
  rig.tamper("DELETE FROM event WHERE message_id = 'msg_a'");
  await rounds();
  assert.equal(rig.rows('SELECT 1 FROM event_stretch').length, 1);
  rig.tamper('DELETE FROM event');
});

test('expired idempotency records are deleted once their messages are settled', async () => {
  const insert = (key: string, messageId: string, expires: number): void =>
    rig.tamper(
      `INSERT INTO idempotency (account_id, mode, endpoint, key, body_hash, status, body, email_seq, created_at, expires_at)
       VALUES ('acc_1', 'live', '/send', ?, x'00', 202, ?, 1, 0, ?)`,
      key,
      JSON.stringify({ data: { recipients: [{ messageId }] } }),
      expires,
    );
  const [done] = await rig.store({ to: ['a@z.example'] });
  const [open] = await rig.store({ to: ['b@z.example'] });
  finish(done!);
  for (let i = 0; i < 450; i += 1) insert(`open-${i}`, open!, rig.clock.now() - 10);
  for (let i = 0; i < 250; i += 1) insert(`settled-${i}`, done!, rig.clock.now() - 1);
  insert('future', done!, rig.clock.now() + 1);
  await rounds();
  const kept = rig.rows<{ key: string }>('SELECT key FROM idempotency ORDER BY key').map((row) => row.key);
  assert.equal(kept.length, 451);
  assert.ok(kept.every((key) => key === 'future' || key.startsWith('open-')));
});

test('the sandbox keeps the last 1,000 items of an account, for seven days', async () => {
  const insert = (account: string, index: number, at: number): void =>
    rig.tamper(
      "INSERT INTO sandbox_item (account_id, message_id, email_seq, recipient, outcome, created_at) VALUES (?, ?, 1, 'a', NULL, ?)",
      account,
      `msg_${account}_${index}`,
      at,
    );
  rig.tamper('BEGIN');
  for (let i = 0; i < 1_500; i += 1) insert('full', i, rig.clock.now() - 1_500 + i);
  insert('old', 0, rig.clock.now() - 8 * DAY);
  insert('old', 1, rig.clock.now() - 6 * DAY);
  rig.tamper('COMMIT');
  await rounds();
  const left = rig.rows<{ account_id: string; n: number; first: number }>(
    'SELECT account_id, count(*) AS n, min(created_at) AS first FROM sandbox_item GROUP BY account_id ORDER BY account_id',
  );
  assert.deepEqual(
    left.map((row) => ({ ...row })),
    [
      { account_id: 'full', n: 1_000, first: rig.clock.now() - 1_000 },
      { account_id: 'old', n: 1, first: rig.clock.now() - 6 * DAY },
    ],
  );
});

test('orphans are deleted after two checks and a day, but referenced blobs never are', async () => {
  await rig.store({ to: ['a@b.example'], blob: true });
  const named = await blobKeys();
  const orphan = await rig.blobs.put(Buffer.from('orphan'));
  const upload = await rig.blobs.put(Buffer.from('upload'));
  const uploads = (keys: string[]): Promise<string[]> => Promise.resolve(keys.filter((key) => key === upload));
  age(orphan, Date.now() - 2 * DAY);
  age(upload, Date.now() - 2 * DAY);
  for (const key of named) age(key, Date.now() - 2 * DAY);
  await rounds(1, { alsoReferenced: uploads });
  assert.ok((await blobKeys()).includes(orphan), 'one check is not enough');
  await rounds(2, { alsoReferenced: uploads });
  assert.ok(!(await blobKeys()).includes(orphan));
  const fresh = await rig.blobs.put(Buffer.from('being accepted'));
  age(fresh, Date.now());
  rig.clock.advance(3 * DAY);
  await rounds(1, { alsoReferenced: uploads });
  rig.clock.advance(-6 * DAY);
  await rounds(1, { alsoReferenced: uploads });
  const left = await blobKeys();
  for (const key of [...named, upload, fresh]) assert.ok(left.includes(key), key);
});

test('a check that misses a reference, such as in an old snapshot, deletes nothing', async () => {
  await rig.store({ to: ['a@c.example'], blob: true });
  const keys = rig
    .rows<{ blob_key: string }>('SELECT blob_key FROM email WHERE blob_key IS NOT NULL')
    .map((row) => row.blob_key);
  const orphan = await rig.blobs.put(Buffer.from('orphan'));
  for (const key of [...keys, orphan]) age(key, Date.now() - 2 * DAY);
  const { database } = rig.storage;
  const blind: Database = {
    ...database,
    execute: (op, args) =>
      op.name === 'messages.namedBlobs' ? Promise.resolve([] as never) : database.execute(op, args),
  };
  const keeping = startHousekeeping({
    database: blind,
    blobs: rig.blobs,
    clock: rig.clock,
    log: silentLog,
    orphanMs: 0,
  });
  for (let i = 0; i < 3; i += 1) await keeping.run();
  await keeping.stop();
  const left = new Set(await blobKeys());
  assert.ok(keys.length > 0 && keys.every((key) => left.has(key)));
  assert.ok(!left.has(orphan), 'control');
});

test('a stop waits only for the current deletion', async () => {
  for (let i = 0; i < 10; i += 1) age(await rig.blobs.put(Buffer.from(`orphan ${i}`)), Date.now() - 2 * DAY);
  let removed = 0;
  let stopped: Promise<void> | undefined;
  const blobs: Blobs = {
    ...rig.blobs,
    remove: (key) => {
      removed += 1;
      stopped ??= keeping.stop();
      return rig.blobs.remove(key);
    },
  };
  const keeping = startHousekeeping({
    database: rig.storage.database,
    blobs,
    clock: rig.clock,
    log: silentLog,
    orphanMs: 0,
  });
  for (let i = 0; i < 3; i += 1) await keeping.run();
  await stopped;
  assert.equal(removed, 1);
  await rounds(2);
});

/** Writes a blob without syncing: the same file that put() would create, in few folders. */
function writeBlob(folder: string): string {
  const key = newBlobKey().replace(/^../, 'aa');
  mkdirSync(path.dirname(path.join(folder, key)), { recursive: true });
  writeFileSync(path.join(folder, key), '.');
  return key;
}

test('concurrent sweeps with clock jumps delete all orphans and none of 10,000 live blobs', async () => {
  const LIVE = 10_000;
  const folder = path.join(rig.storage.folder, 'rig-blobs');
  const [id] = await rig.store({ to: ['a@many.example'], blob: true });
  const seq = rig.rows<{ email_seq: number }>('SELECT email_seq FROM message WHERE id = ?', id!)[0]!.email_seq;
  const columns = rig
    .rows<{ name: string }>("SELECT name FROM pragma_table_info('email')")
    .map(({ name }) => name)
    .filter((name) => name !== 'seq' && name !== 'blob_key');
  const live = Array.from({ length: LIVE }, () => writeBlob(folder));
  const uploads = new Set(live.slice(0, 1_000));
  rig.tamper('BEGIN');
  for (const key of live.slice(1_000)) {
    rig.tamper(`INSERT INTO email (blob_key, ${columns}) SELECT ?, ${columns} FROM email WHERE seq = ?`, key, seq);
  }
  rig.tamper('COMMIT');
  // Every second blob is old, as is every orphan. The others were just written.
  const orphans = Array.from({ length: 300 }, () => writeBlob(folder));
  for (const key of [...live.filter((_, i) => i % 2 === 0), ...orphans]) age(key, Date.now() - 2 * DAY);
  const fresh = Array.from({ length: 300 }, () => writeBlob(folder));
  const clocks = [fakeClock(), fakeClock()];
  const nodes = clocks.map((clock) =>
    startHousekeeping({
      database: rig.storage.database,
      blobs: openDiskBlobs(folder),
      clock,
      log: silentLog,
      orphanMs: 0,
      alsoReferenced: (keys) => Promise.resolve(keys.filter((key) => uploads.has(key))),
    }),
  );
  for (const jumpMs of [0, 3 * DAY, -9 * DAY]) {
    clocks[0]!.advance(jumpMs);
    clocks[1]!.advance(-jumpMs);
    await Promise.all(nodes.map((node) => node.run()));
  }
  await Promise.all(nodes.map((node) => node.stop()));
  const left = new Set(await blobKeys());
  assert.equal(live.filter((key) => !left.has(key)).length, 0, 'live blobs that were deleted');
  assert.equal(fresh.filter((key) => !left.has(key)).length, 0, 'new unreferenced blobs that were deleted');
  assert.equal(orphans.filter((key) => left.has(key)).length, 0, 'control: unreferenced old blobs are deleted');
});

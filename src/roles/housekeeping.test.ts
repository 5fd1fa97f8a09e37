import assert from 'node:assert/strict';
import { utimesSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { deliveryRig, type Rig } from '../../test/kit/delivery-rig.ts';
import { silentLog } from '../base/log.ts';
import { startHousekeeping } from './housekeeping.ts';

const DAY = 86_400_000;
let rig: Rig;
before(async () => {
  rig = await deliveryRig({ idle: true });
});
after(() => rig.close());

/** One round of its own; `orphanMs` 0 makes two rounds enough. */
async function rounds(count = 1, alsoNamed?: (keys: string[]) => Promise<string[]>): Promise<void> {
  const keeping = startHousekeeping({
    database: rig.storage.database,
    blobs: rig.blobs,
    clock: rig.clock,
    log: silentLog,
    orphanMs: 0,
    ...(alsoNamed ? { alsoNamed } : {}),
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

test('content past its time goes, that of unfinished messages stays; messages go after 90 days with all they have', async () => {
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
  assert.equal((await blobKeys()).length, 1, 'the content of the unfinished one is still there');
});

test('more than one batch goes in one round, also behind unfinished ones', async () => {
  const ids = await Promise.all(Array.from({ length: 450 }, (_, i) => rig.store({ to: [`${i}@y.example`] })));
  for (const [id] of ids) finish(id!);
  rig.clock.advance(91 * DAY);
  await rounds();
  assert.equal(rig.rows("SELECT 1 FROM message WHERE recipient LIKE '%@y.example'").length, 0);
});

test('idempotency records go when their time is over and their messages are settled', async () => {
  const insert = (key: string, emailSeq: number, expires: number): void =>
    rig.tamper(
      `INSERT INTO idempotency (account_id, mode, endpoint, key, body_hash, status, body, email_seq, created_at, expires_at)
       VALUES ('acc_1', 'live', '/send', ?, x'00', 202, '{}', ?, 0, ?)`,
      key,
      emailSeq,
      expires,
    );
  const [done] = await rig.store({ to: ['a@z.example'] });
  const [open] = await rig.store({ to: ['b@z.example'] });
  finish(done!);
  const seqOf = (id: string): number =>
    rig.rows<{ email_seq: number }>('SELECT email_seq FROM message WHERE id = ?', id)[0]!.email_seq;
  insert('past-settled', seqOf(done!), rig.clock.now() - 1);
  insert('past-open', seqOf(open!), rig.clock.now() - 1);
  insert('future', seqOf(done!), rig.clock.now() + 1);
  rig.tamper("UPDATE email SET header_message_id = '<' || seq || '@z.example>'");
  await rounds();
  assert.deepEqual(
    rig.rows<{ key: string }>('SELECT key FROM idempotency ORDER BY key').map((row) => row.key),
    ['future', 'past-open'],
  );
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

test('orphans go after two looks and a day; what a row or an upload names never does, wherever the clock jumps', async () => {
  await rig.store({ to: ['a@b.example'], blob: true });
  const named = await blobKeys();
  const orphan = await rig.blobs.put(Buffer.from('orphan'));
  const upload = await rig.blobs.put(Buffer.from('upload'));
  const uploads = (keys: string[]): Promise<string[]> => Promise.resolve(keys.filter((key) => key === upload));
  age(orphan, rig.clock.now() - 2 * DAY);
  age(upload, rig.clock.now() - 2 * DAY);
  for (const key of named) age(key, rig.clock.now() - 2 * DAY);
  await rounds(1, uploads);
  assert.ok((await blobKeys()).includes(orphan), 'one look is not enough');
  await rounds(2, uploads);
  assert.ok(!(await blobKeys()).includes(orphan));
  const fresh = await rig.blobs.put(Buffer.from('being accepted'));
  age(fresh, rig.clock.now());
  rig.clock.advance(3 * DAY);
  await rounds(1, uploads);
  rig.clock.advance(-6 * DAY);
  await rounds(1, uploads);
  const left = await blobKeys();
  for (const key of [...named, upload, fresh]) assert.ok(left.includes(key), key);
});

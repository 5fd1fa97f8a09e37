/** Messages about SQLite errors for the operator: the cause, the place, and the fix. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { openSqlite } from './connection.ts';
import { describeStorageError, isStorageError } from './errors.ts';

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-fault-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const opening = (file: string): string => {
  try {
    openSqlite(file, { readOnly: false }).close();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('it could be opened');
};

test('a database that cannot be opened is reported with its path, the cause, and the fix', (t) => {
  const folder = folderOf(t);
  writeFileSync(path.join(folder, 'file'), 'x');
  mkdirSync(path.join(folder, 'taken', 'postrider.db'), { recursive: true });
  const place = (...names: string[]): string => path.join(folder, ...names, 'postrider.db');
  const elsewhere = 'or choose another POSTRIDER_DATA_DIR';
  assert.equal(
    opening(place('none')),
    `${place('none')} cannot be opened: the folder ${folder}/none does not exist; create it, ${elsewhere}`,
  );
  assert.equal(
    opening(place('file')),
    `${place('file')} cannot be opened: ${folder}/file is not a folder; move that file away, ${elsewhere}`,
  );
  assert.equal(
    opening(place('taken')),
    `${place('taken')} cannot be opened: ${place('taken')} is not a file; move it away`,
  );
});

test('a readable file with other content is reported as damaged, not as a disk error', async (t) => {
  const file = path.join(folderOf(t), 'postrider.db');
  const made = openSqlite(file, { readOnly: false });
  made.raw.exec('CREATE TABLE a (b)');
  for (let i = 0; i < 500; i += 1) made.run('INSERT INTO a VALUES (?)', 'x'.repeat(100));
  made.close();
  const handle = await open(file, 'r+');
  await handle.write(Buffer.alloc(statSync(file).size - 4096, 7), 0, undefined, 4096);
  await handle.close();
  const connection = openSqlite(file, { readOnly: false });
  t.after(() => connection.close());
  assert.throws(
    () => connection.all('SELECT * FROM a'),
    (error: Error) => {
      assert.ok(isStorageError(error));
      const text = 'is damaged, or the disk failed for a moment (database disk image is malformed); check the disk';
      assert.equal(describeStorageError(error, file).split(',').slice(0, -2).join(','), `${file} ${text}`);
      return true;
    },
  );
  const other = path.join(folderOf(t), 'postrider.db');
  writeFileSync(other, 'no database, but long enough to be taken for one'.repeat(100));
  assert.match(opening(other), /postrider\.db is damaged, .* \(file is not a database\); check the disk/);
});

test('a disk error names the failed step and the disk', () => {
  const io = (errcode: number): string =>
    describeStorageError(Object.assign(new Error('disk I/O error'), { errcode }), '/data/postrider.db');
  assert.equal(io(1034), 'the disk stopped responding: a sync failed on /data/postrider.db');
  assert.equal(io(778), 'the disk stopped responding: a write failed on /data/postrider.db');
  assert.equal(io(266), 'the disk stopped responding: a read failed on /data/postrider.db');
  assert.equal(io(10), 'the disk stopped responding: disk I/O error on /data/postrider.db');
});

test('an error that is not due to storage keeps its message', () => {
  const busy = Object.assign(new Error('database is locked'), { errcode: 5 });
  assert.equal(isStorageError(busy), false);
  assert.equal(describeStorageError(busy, '/data/postrider.db'), 'database is locked');
  assert.equal(isStorageError(new TypeError('a bug')), false);
});

/** SQLite: groups isolate a failing operation, a dead thread is reported, and a lost file is rejected. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import {
  countOperation,
  endOperation,
  failOperation,
  longSearchOperation,
  writeOperation,
} from '../../../test/kit/storage-operations.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { Unavailable } from '../../base/failure.ts';
import { silentLog } from '../../base/log.ts';
import {
  assertDatabaseNotLost,
  type DataDirectory,
  holdDataDirectory,
  prepareDataDirectory,
} from '../data-directory.ts';
import type { Database } from '../database.ts';
import { migrateSqlite } from '../migrate.ts';
import { openSqlite } from './connection.ts';
import { openSqliteDatabase } from './database.ts';

const folders: string[] = [];
const databases: Database[] = [];
after(async () => {
  // Closing twice is harmless. What a failed test left open would keep the process alive.
  for (const database of databases) await database.close();
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

async function emptyDirectory(): Promise<DataDirectory> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'postrider-storage-'));
  folders.push(folder);
  return prepareDataDirectory(folder);
}

async function open() {
  const directory = await emptyDirectory();
  const connection = openSqlite(directory.databaseFile, { readOnly: false });
  migrateSqlite(connection, 0);
  connection.close();
  const broken: string[] = [];
  const database = await openSqliteDatabase({
    file: directory.databaseFile,
    operationsModule: new URL('../../../test/kit/storage-operations.ts', import.meta.url).href,
    log: silentLog,
    onBroken: (reason) => broken.push(reason),
  });
  databases.push(database);
  return { database, broken, file: directory.databaseFile };
}

test('only the operation that throws fails in a group, and it is rolled back', async () => {
  const { database, broken } = await open();
  const results = await Promise.allSettled([
    database.execute(writeOperation, 'a1'),
    database.execute(failOperation, 'a2'),
    database.execute(writeOperation, 'a3'),
    database.execute(writeOperation, 'a1'),
  ]);
  assert.deepEqual(
    results.map((one) => one.status),
    ['fulfilled', 'rejected', 'fulfilled', 'rejected'],
  );
  assert.equal((await database.execute(countOperation, 'a'))?.n, 2);
  assert.deepEqual(broken, []);
  await database.close();
  assert.deepEqual(broken, [], 'closing is not a failure');
});

test('a read does not wait for a search once searches have their own thread', async () => {
  const { database } = await open();
  const order: string[] = [];
  const round = async (): Promise<boolean> => {
    order.length = 0;
    const search = database.execute(longSearchOperation, 1_000_000).then(() => order.push('search'));
    // Both are sent to their threads at the same time.
    const read = database.execute(countOperation, 'a').then(() => order.push('read'));
    await Promise.all([search, read]);
    return order[0] === 'read';
  };
  assert.equal(await round(), false, 'the first search starts the thread and runs on the reader');
  await waitUntil('a read to overtake a search', round);
  await database.close();
});

test('arguments that cannot be cloned are rejected alone, without affecting other operations', async () => {
  const { database, broken } = await open();
  const uncloneable = (() => 'no data') as never;
  const calls = Array.from({ length: 100 }, (_, index) =>
    database.execute(writeOperation, index === 3 ? uncloneable : `c${index}`),
  );
  const settled = await Promise.allSettled(calls);
  const refused = settled.flatMap((one, index) => (one.status === 'rejected' ? [[index, one.reason.name]] : []));
  assert.deepEqual(refused, [[3, 'DataCloneError']]);
  await assert.rejects(database.execute(writeOperation, uncloneable), { name: 'DataCloneError' });
  assert.equal((await database.execute(countOperation, 'c'))?.n, 99);
  assert.deepEqual(broken, []);
  await database.close();
});

test('many concurrent operations finish in groups, each with its own result', async () => {
  const { database } = await open();
  const names = Array.from({ length: 500 }, (_, index) => `d${index}`);
  const written: Promise<unknown>[] = [];
  for (const [index, name] of names.entries()) {
    written.push(database.execute(writeOperation, name));
    if (index % 30 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  const twice = database.execute(writeOperation, 'd250');
  assert.deepEqual(await Promise.all(written), Array(500).fill(1));
  await assert.rejects(twice, /UNIQUE/);
  assert.equal((await database.execute(countOperation, 'd'))?.n, 500);
  await database.close();
});

test('operations that wait for a lock are rejected together with the first', async () => {
  const { database, file } = await open();
  const other = openSqlite(file, { readOnly: false });
  other.begin();
  other.run("INSERT INTO meta (key, value) VALUES ('lock', '1')");
  const waiting: Promise<unknown>[] = [];
  // More than two groups: one that waits for the lock, one queued in the thread, and others queued before the thread.
  for (let index = 0; index < 80; index += 1) {
    waiting.push(database.execute(writeOperation, `e${index}`));
    if (index % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  const all = Promise.allSettled(waiting);
  await assert.rejects(waiting[0]!, Unavailable);
  // From here on nothing is locked, so another round would succeed.
  other.rollback();
  for (const one of await all) {
    assert.equal(one.status, 'rejected');
    assert.ok(one.reason instanceof Unavailable && /locked/.test(one.reason.message), String(one.reason));
  }
  other.close();
  await database.execute(writeOperation, 'f');
  await database.close();
});

test('reports a storage thread that ends unexpectedly, and accepts nothing more', async () => {
  const { database, broken } = await open();
  await assert.rejects(database.execute(endOperation, null as never), Unavailable);
  assert.equal(broken.length, 1);
  assert.equal(database.state().ready, false);
  await assert.rejects(database.execute(writeOperation, 'b'), Unavailable);
  await database.close();
});

test('a missing or empty database is rejected if the directory contains other data', async () => {
  const left: Record<string, (directory: DataDirectory) => Promise<unknown> | unknown> = {
    'secret.key': ({ path: folder }) => writeFile(path.join(folder, 'secret.key'), 'x'),
    'first-run.json': ({ path: folder }) => writeFile(path.join(folder, 'first-run.json'), '{}'),
    'postrider.db-wal': ({ path: folder }) => writeFile(path.join(folder, 'postrider.db-wal'), 'x'),
    'serving.lock': (directory) => {
      const hold = holdDataDirectory(directory);
      hold.noteDatabase();
      hold.release();
    },
    blobs: async ({ blobsFolder }) => {
      await mkdir(path.join(blobsFolder, 'ab'), { recursive: true });
      await writeFile(path.join(blobsFolder, 'ab', 'abcd'), 'x');
    },
  };
  for (const [name, leave] of Object.entries(left)) {
    for (const file of ['missing', 'empty']) {
      const directory = await emptyDirectory();
      await leave(directory);
      if (file === 'empty') await writeFile(directory.databaseFile, '');
      assert.throws(
        () => assertDatabaseNotLost(directory),
        (error: Error) =>
          error.message.includes(`is ${file}`) && error.message.includes(name) && /restore FILE/.test(error.message),
        `${file} beside ${name}`,
      );
      await writeFile(directory.databaseFile, 'something');
      assertDatabaseNotLost(directory);
    }
  }
});

test('a directory without a previous database is initialized, even after a killed first start', async () => {
  const directory = await emptyDirectory();
  assertDatabaseNotLost(directory);
  await mkdir(path.join(directory.path, 'lost+found'));
  await mkdir(path.join(directory.blobsFolder, 'lost+found'), { recursive: true });
  holdDataDirectory(directory).release();
  await writeFile(directory.databaseFile, '');
  assertDatabaseNotLost(directory);
});

test('a folder that cannot be created is rejected immediately', () => {
  assert.throws(() => prepareDataDirectory('/proc/postrider/data'), /cannot be created/);
});

test('a lock file corrupted by a power failure is recreated', async () => {
  const directory = await emptyDirectory();
  await writeFile(path.join(directory.path, 'serving.lock'), Buffer.alloc(512, 7));
  const hold = holdDataDirectory(directory);
  assert.throws(() => holdDataDirectory(directory), /already serving/);
  hold.release();
});

test('a directory is held by one process at a time and then released', async () => {
  const directory = await emptyDirectory();
  const hold = holdDataDirectory(directory);
  assert.throws(() => holdDataDirectory(directory), /already serving/);
  hold.noteDatabase();
  assert.throws(() => holdDataDirectory(directory), /already serving/);
  hold.release();
  holdDataDirectory(directory).release();
});

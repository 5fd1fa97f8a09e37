/** The embedded database: groups isolate the operation that fails, a thread that dies is told, a lost file is refused. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { countOperation, endOperation, failOperation, writeOperation } from '../../test/kit/storage-operations.ts';
import { Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import {
  assertDatabaseNotLost,
  type DataDirectory,
  holdDataDirectory,
  prepareDataDirectory,
} from './data-directory.ts';
import { migrateSqlite } from './migrate.ts';
import { openSqliteDatabase } from './sqlite.ts';
import { openSqlite } from './sqlite-connection.ts';

const folders: string[] = [];
after(async () => {
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
    operationsModule: new URL('../../test/kit/storage-operations.ts', import.meta.url).href,
    log: silentLog,
    onBroken: (reason) => broken.push(reason),
  });
  return { database, broken };
}

test('in a group only the operation that throws fails, and nothing of it is kept', async () => {
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
  assert.deepEqual(broken, [], 'a close is no breakdown');
});

test('a storage thread that ends unasked is told, and nothing is accepted any more', async () => {
  const { database, broken } = await open();
  await assert.rejects(database.execute(endOperation, null as never), Unavailable);
  assert.equal(broken.length, 1);
  assert.equal(database.state().ready, false);
  await assert.rejects(database.execute(writeOperation, 'b'), Unavailable);
  await database.close();
});

test('a directory whose database is gone is refused, an empty one is not', async () => {
  const directory = await emptyDirectory();
  assertDatabaseNotLost(directory);
  for (const name of ['first-run.json', 'secret.key']) await writeFile(path.join(directory.path, name), 'x');
  assert.throws(() => assertDatabaseNotLost(directory), /its database postrider\.db is gone/);
  await writeFile(directory.databaseFile, '');
  assertDatabaseNotLost(directory);
});

test('a folder that the system will not have is refused at once', () => {
  assert.throws(() => prepareDataDirectory('/proc/postrider/data'), /cannot be made/);
});

test('a directory is held by one at a time, and free after', async () => {
  const directory = await emptyDirectory();
  const release = holdDataDirectory(directory);
  assert.throws(() => holdDataDirectory(directory), /already serving/);
  release();
  holdDataDirectory(directory)();
});

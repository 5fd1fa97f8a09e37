/**
 * A real embedded database in a directory of its own: migrated, with its real threads. Closed and removed by close().
 */
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { silentLog } from '../../src/base/log.ts';
import { prepareDataDirectory } from '../../src/storage/data-directory.ts';
import type { Database } from '../../src/storage/database.ts';
import { migrateSqlite } from '../../src/storage/migrate.ts';
import { openSqliteDatabase } from '../../src/storage/sqlite.ts';
import { openSqlite } from '../../src/storage/sqlite-connection.ts';

export interface TempDatabase {
  database: Database;
  folder: string;
  close(): Promise<void>;
}

export async function tempDatabase(): Promise<TempDatabase> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'postrider-test-'));
  const directory = prepareDataDirectory(folder);
  const connection = openSqlite(directory.databaseFile, { readOnly: false });
  migrateSqlite(connection, Date.now());
  connection.close();
  const database = await openSqliteDatabase({
    file: directory.databaseFile,
    operationsModule: new URL('../../src/roles/operations.ts', import.meta.url).href,
    log: silentLog,
    onBroken: (reason) => {
      throw new Error(`test database broke: ${reason}`);
    },
  });
  return {
    database,
    folder,
    close: async () => {
      await database.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/**
 * An embedded database with its real threads, migrated and empty, in its own data directory. A database closed by one test is reused by a
 * later one: starting the threads takes more CPU time than most tests. It is reset page by page from a copy; a database that failed, or was
 * closed by the test itself, is not reused.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { Unavailable } from '../../src/base/failure.ts';
import { silentLog } from '../../src/base/log.ts';
import { prepareDataDirectory } from '../../src/storage/data-directory.ts';
import type { Database } from '../../src/storage/database.ts';
import { migrateSqlite } from '../../src/storage/migrate.ts';
import { openSqlite } from '../../src/storage/sqlite/connection.ts';
import { openSqliteDatabase } from '../../src/storage/sqlite/database.ts';
import { keep } from './shared-resources.ts';

export interface EmbeddedDatabase {
  database: Database;
  folder: string;
  /** Resets it to its initial state. */
  empty(): Promise<void>;
  close(): Promise<void>;
}

interface Threads {
  database: Database;
  folder: string;
  file: string;
  /** Detects a file that a test has replaced. */
  inode: number;
  isBroken: boolean;
}

const idle: Threads[] = [];
let template: DatabaseSync | undefined;

/** Returns a database that was migrated once in this process, to be copied. */
function migrated(): DatabaseSync {
  if (template) return template;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-template-'));
  const file = path.join(folder, 'template.db');
  const connection = openSqlite(file, { readOnly: false });
  migrateSqlite(connection, Date.now());
  connection.close();
  const opened = new DatabaseSync(file, { readOnly: true });
  template = opened;
  process.once('exit', () => {
    opened.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return opened;
}

const copyTo = (file: string): Promise<number> => backup(migrated(), file, { rate: 100_000 });

async function startThreads(): Promise<Threads> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-test-'));
  const file = prepareDataDirectory(folder).databaseFile;
  await copyTo(file);
  prepareDataDirectory(folder);
  const state = { isBroken: false };
  const database = await openSqliteDatabase({
    file,
    operationsModule: new URL('../../src/roles/operations.ts', import.meta.url).href,
    log: silentLog,
    onBroken: (reason) => {
      state.isBroken = true;
      throw new Error(`test database broke: ${reason}`);
    },
  });
  return Object.assign(state, { database, folder, file, inode: statSync(file).ino });
}

async function endThreads({ database, folder }: Threads): Promise<void> {
  await database.close();
  rmSync(folder, { recursive: true, force: true });
}

async function endIdle(): Promise<void> {
  for (const threads of idle.splice(0)) await endThreads(threads);
}

/** Resets the database; returns whether that succeeded. */
async function isMadeNew({ folder, file, inode, isBroken }: Threads): Promise<boolean> {
  if (isBroken || statSync(file, { throwIfNoEntry: false })?.ino !== inode) return false;
  try {
    for (const name of readdirSync(folder)) {
      if (!name.startsWith(path.basename(file))) rmSync(path.join(folder, name), { recursive: true });
    }
    prepareDataDirectory(folder);
    await copyTo(file);
    return true;
  } catch {
    // It is locked, or its folder is read-only.
    return false;
  }
}

export async function embeddedDatabase(): Promise<EmbeddedDatabase> {
  const threads = idle.pop() ?? (await startThreads());
  const { database, folder } = threads;
  const running = new Set<Promise<unknown>>();
  let isClosed = false;
  let isEnded = false;
  return {
    folder,
    database: {
      dialect: database.dialect,
      execute: (op, args) => {
        if (isClosed) return Promise.reject(new Unavailable('the test has closed this database'));
        const result = database.execute(op, args);
        const done = result.then(
          () => undefined,
          () => undefined,
        );
        running.add(done);
        void done.then(() => running.delete(done));
        return result;
      },
      state: () => database.state(),
      close: () => {
        isEnded = true;
        return database.close();
      },
    },
    empty: async () => void (await copyTo(threads.file)),
    close: async () => {
      isClosed = true;
      await Promise.all(running);
      if (!isEnded && keep(endIdle) && (await isMadeNew(threads))) idle.push(threads);
      else await endThreads(threads);
    },
  };
}

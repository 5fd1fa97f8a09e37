/**
 * One SQLite connection, with its pragmas verified and its statements prepared once. It blocks, so it is only used in storage threads, on
 * the command line, and in tests, never where requests are served.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { Unavailable } from '../../base/failure.ts';
import type { Database } from '../database.ts';
import { type Row, runWithin, type SqlValue, type Transaction } from '../operation.ts';
import { describeStorageError, describeWriteError, isStorageError } from './errors.ts';

const BUSY_TIMEOUT_MS = 5_000;

export interface SqliteConnection extends Transaction {
  readonly dialect: 'sqlite';
  all<T = Row>(sql: string, ...params: SqlValue[]): T[];
  get<T = Row>(sql: string, ...params: SqlValue[]): T | undefined;
  run(sql: string, ...params: SqlValue[]): number;
  readonly raw: DatabaseSync;
  begin(): void;
  commit(): void;
  rollback(): void;
  close(): void;
}

/**
 * Opens the file (created if missing unless `readOnly`) in WAL mode with `synchronous=FULL`. Throws if either cannot be set, since a 202
 * would then promise too much, and with an error for the operator if the file cannot be opened.
 */
export function openSqlite(file: string, options: { readOnly: boolean }): SqliteConnection {
  const reason = options.readOnly ? undefined : describeWriteError(file);
  if (reason !== undefined) throw new Error(reason);
  try {
    return connect(file, options);
  } catch (error) {
    if (!isStorageError(error)) throw error;
    throw new Error(describeStorageError(error, file), { cause: error });
  }
}

function connect(file: string, options: { readOnly: boolean }): SqliteConnection {
  const raw = new DatabaseSync(file, { readOnly: options.readOnly, timeout: BUSY_TIMEOUT_MS });
  try {
    setPragmas(raw, options);
    return connectionOf(raw);
  } catch (error) {
    raw.close();
    throw error;
  }
}

function setPragmas(raw: DatabaseSync, options: { readOnly: boolean }): void {
  raw.exec('PRAGMA foreign_keys=ON');
  if (!options.readOnly) {
    raw.exec('PRAGMA journal_mode=WAL');
    raw.exec('PRAGMA synchronous=FULL');
    // The checkpointer's own connection moves the log into the file (checkpoint.ts).
    raw.exec('PRAGMA wal_autocheckpoint=0');
    raw.exec('PRAGMA journal_size_limit=67108864');
    assertPragma(raw, 'journal_mode', 'wal');
    assertPragma(raw, 'synchronous', 2);
  }
  raw.exec('PRAGMA cache_size=-16384');
  raw.exec('PRAGMA temp_store=MEMORY');
}

function connectionOf(raw: DatabaseSync): SqliteConnection {
  const statements = new Map<string, StatementSync>();
  const prepare = (sql: string): StatementSync => {
    let statement = statements.get(sql);
    if (!statement) {
      statement = raw.prepare(sql);
      if (statements.size > 500) statements.clear();
      statements.set(sql, statement);
    }
    return statement;
  };
  const begin = raw.prepare('BEGIN IMMEDIATE');
  const commit = raw.prepare('COMMIT');
  return {
    raw,
    dialect: 'sqlite',
    all: <T = Row>(sql: string, ...params: SqlValue[]) => prepare(sql).all(...params) as T[],
    get: <T = Row>(sql: string, ...params: SqlValue[]) => prepare(sql).get(...params) as T | undefined,
    run: (sql: string, ...params: SqlValue[]) => Number(prepare(sql).run(...params).changes),
    begin: () => void begin.run(),
    commit: () => void commit.run(),
    rollback: () => {
      if (raw.isTransaction) raw.exec('ROLLBACK');
    },
    close: () => raw.close(),
  };
}

function assertPragma(raw: DatabaseSync, name: string, wanted: string | number): void {
  const row = raw.prepare(`PRAGMA ${name}`).get() as Record<string, unknown>;
  const got = Object.values(row)[0];
  if (got !== wanted) {
    throw new Error(`the embedded database runs with ${name}=${String(got)}, but ${name}=${wanted} is required`);
  }
}

const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;

function translated(error: unknown, file: string): Error {
  const { errcode, message } = error as { errcode?: number; message: string };
  const primary = errcode === undefined ? undefined : errcode & 0xff;
  if (primary === SQLITE_BUSY) return new Unavailable('the database is locked by another process; try again');
  if (primary === SQLITE_FULL) return new Unavailable(`the disk is full: ${message}`);
  if (isStorageError(error)) return new Unavailable(describeStorageError(error, file));
  return error as Error;
}

interface DirectDatabase extends Database {
  readonly connection: SqliteConnection;
}

/** Opens an existing, migrated file. */
export function openDirect(file: string): DirectDatabase {
  const connection = openSqlite(file, { readOnly: false });
  let last: Promise<unknown> = Promise.resolve();
  return {
    connection,
    dialect: 'sqlite',
    execute: (op, args) => {
      const run = async () => {
        try {
          connection.begin();
          const value = await runWithin(connection, op, args);
          connection.commit();
          return value;
        } catch (error) {
          connection.rollback();
          throw translated(error, file);
        }
      };
      const result = last.then(run, run);
      last = result.catch(() => undefined);
      return result;
    },
    state: () => ({ ready: true }),
    close: async () => {
      await last;
      connection.close();
    },
  };
}

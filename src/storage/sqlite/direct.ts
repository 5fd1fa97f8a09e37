/**
 * The embedded database without threads: each operation runs here and now in its own transaction. For the command line,
 * which works beside a running service and has nothing else to do; never where requests are served. A database that
 * another process keeps locked for longer than the busy timeout is Unavailable.
 */
import { Unavailable } from '../../base/failure.ts';
import type { Database } from '../database.ts';
import { runWithin } from '../operation.ts';
import { openSqlite, type SqliteConnection } from './connection.ts';
import { describeStorageError, isStorageError } from './errors.ts';

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

export interface DirectDatabase extends Database {
  readonly connection: SqliteConnection;
}

/** Opens the file, which exists and is migrated. */
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

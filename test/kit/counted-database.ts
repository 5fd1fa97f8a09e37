/** The embedded database without threads, in its own directory, with counts of statements and rows. */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { prepareDataDirectory } from '../../src/storage/data-directory.ts';
import type { Database } from '../../src/storage/database.ts';
import { migrateSqlite } from '../../src/storage/migrate.ts';
import { type Row, runWithin, type SqlValue, type Transaction } from '../../src/storage/operation.ts';
import { openSqlite } from '../../src/storage/sqlite/connection.ts';

export interface Counted {
  statements: number;
  /** Rows returned by statements. */
  read: number;
  written: number;
}

export async function storage() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-counted-'));
  const connection = openSqlite(prepareDataDirectory(folder).databaseFile, { readOnly: false });
  migrateSqlite(connection, Date.now());
  connection.raw.exec('PRAGMA synchronous=OFF');
  const counted: Counted = { statements: 0, read: 0, written: 0 };
  const tx: Transaction = {
    dialect: 'sqlite',
    all: <T = Row>(sql: string, ...params: SqlValue[]) => {
      const found = connection.all(sql, ...params) as T[];
      counted.statements += 1;
      counted.read += found.length;
      return found;
    },
    get: <T = Row>(sql: string, ...params: SqlValue[]) => {
      const found = connection.get(sql, ...params) as T | undefined;
      counted.statements += 1;
      counted.read += found === undefined ? 0 : 1;
      return found;
    },
    run: (sql, ...params) => {
      const changed = connection.run(sql, ...params) as number;
      counted.statements += 1;
      counted.written += changed;
      return changed;
    },
  };
  const execute: Database['execute'] = async (op, args) => {
    connection.begin();
    const value = await runWithin(tx, op, args);
    connection.commit();
    return value;
  };
  return {
    database: { execute },
    counted,
    rows: (sql: string): Row[] => connection.all(sql) as Row[],
    close: async (): Promise<void> => {
      connection.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

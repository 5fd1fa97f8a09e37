/**
 * Applies the numbered migrations of a dialect and records them. Refuses a database that a newer version has migrated (no downgrade), one
 * whose recorded history differs from the files, and one of another program.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { PROGRAM_FOLDER } from '../base/program-files.ts';
import type { SqliteConnection } from './sqlite/connection.ts';

export interface Migration {
  number: number;
  name: string;
  sql: string;
}

/** A migration that the database records. */
export interface AppliedMigration {
  number: number;
  name: string;
  appliedAtMs: number;
}

const FOLDER = path.join(PROGRAM_FOLDER, 'migrations');

/** Returns the migrations of a dialect in order; throws if a number is missing or duplicated. */
export function listMigrations(dialect: 'sqlite' | 'postgres'): Migration[] {
  const list = readdirSync(path.join(FOLDER, dialect))
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({
      number: Number(name.slice(0, 4)),
      name: name.slice(0, -4),
      sql: readFileSync(path.join(FOLDER, dialect, name), 'utf8'),
    }));
  for (const [index, one] of list.entries()) {
    if (one.number !== index + 1) throw new Error(`migration ${one.name} should have number ${index + 1}`);
  }
  return list;
}

/**
 * Migrates the SQLite database; returns the names of the applied migrations, none if it was up to date. Each is one transaction, but a new
 * database gets all of them in a single one, with one sync.
 */
export function migrateSqlite(connection: SqliteConnection, nowMs: number): string[] {
  const wanted = listMigrations('sqlite');
  const applied: string[] = [];
  connection.begin();
  try {
    connection.raw.exec(
      'CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL)',
    );
    const isNew = connection.get('SELECT 1 FROM migration') === undefined;
    for (;;) {
      const done = connection.all('SELECT number, name FROM migration ORDER BY number') as {
        number: number;
        name: string;
      }[];
      const next = pendingMigration(wanted, done);
      if (!next) break;
      connection.raw.exec(next.sql);
      connection.run(
        'INSERT INTO migration (number, name, applied_at) VALUES (?, ?, ?)',
        next.number,
        next.name,
        nowMs,
      );
      if (!isNew) {
        connection.commit();
        connection.begin();
      }
      applied.push(next.name);
    }
    connection.commit();
    return applied;
  } catch (error) {
    connection.rollback();
    throw error;
  }
}

/** Returns the migrations that a SQLite database records, in order; none if it is empty. Changes nothing. */
export function recordedSqlite(connection: SqliteConnection): AppliedMigration[] {
  if (!connection.get("SELECT 1 AS found FROM sqlite_master WHERE name = 'migration'")) return [];
  return connection.all(
    'SELECT number, name, applied_at AS "appliedAtMs" FROM migration ORDER BY number',
  ) as unknown as AppliedMigration[];
}

/** Returns the next one to apply; throws an error for the operator if the recorded history does not match the files. */
export function pendingMigration(wanted: Migration[], done: { number: number; name: string }[]): Migration | undefined {
  for (const one of done) {
    const known = wanted[one.number - 1];
    if (!known) {
      throw new Error(
        `the database was migrated by a newer version of postrider (migration ${one.name}); run that version, or restore a backup made before the upgrade`,
      );
    }
    if (known.name !== one.name) {
      throw new Error(
        `the database records migration ${JSON.stringify(one.name)}, but this version has ${known.name}: the database belongs to another program or is damaged; restore a backup, or use another database`,
      );
    }
  }
  return wanted[done.length];
}

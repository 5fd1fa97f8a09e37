/**
 * Applies the numbered migrations of a dialect, each in one transaction, and records what was applied. Refuses a
 * database that a newer version of the program has already migrated (no downgrade), one whose recorded history differs
 * from the files, and one that is not ours.
 */
import { readdirSync, readFileSync } from 'node:fs';
import type { SqliteConnection } from './sqlite/connection.ts';

export interface Migration {
  number: number;
  name: string;
  sql: string;
}

const folder = new URL('../../migrations/', import.meta.url);

/** The migrations of a dialect in order of number; throws when a number is missing or doubled. */
export function listMigrations(dialect: 'sqlite' | 'postgres'): Migration[] {
  const list = readdirSync(new URL(`${dialect}/`, folder))
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({
      number: Number(name.slice(0, 4)),
      name: name.slice(0, -4),
      sql: readFileSync(new URL(`${dialect}/${name}`, folder), 'utf8'),
    }));
  for (const [index, one] of list.entries()) {
    if (one.number !== index + 1) throw new Error(`migration ${one.name} should have number ${index + 1}`);
  }
  return list;
}

/** Brings the embedded database up to date; returns the names of what was applied, none when it already was. */
export function migrateSqlite(connection: SqliteConnection, nowMs: number): string[] {
  connection.raw.exec(
    'CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL)',
  );
  const wanted = listMigrations('sqlite');
  const applied: string[] = [];
  for (;;) {
    connection.begin();
    try {
      const done = connection.all('SELECT number, name FROM migration ORDER BY number') as {
        number: number;
        name: string;
      }[];
      const next = pendingMigration(wanted, done);
      if (!next) {
        connection.commit();
        return applied;
      }
      connection.raw.exec(next.sql);
      connection.run(
        'INSERT INTO migration (number, name, applied_at) VALUES (?, ?, ?)',
        ...[next.number, next.name, nowMs],
      );
      connection.commit();
      applied.push(next.name);
    } catch (error) {
      connection.rollback();
      throw error;
    }
  }
}

/** The next one to apply; throws a sentence when the recorded history is not a beginning of ours. */
export function pendingMigration(wanted: Migration[], done: { number: number; name: string }[]): Migration | undefined {
  for (const one of done) {
    const ours = wanted[one.number - 1];
    if (!ours) {
      throw new Error(
        `the database was migrated by a newer version of postrider (migration ${one.name}); run that version, or restore a backup made before the upgrade`,
      );
    }
    if (ours.name !== one.name) {
      throw new Error(
        `the database records migration ${JSON.stringify(one.name)} where this version has ${ours.name}: it belongs to another program, or it is damaged; restore a backup, or name another database`,
      );
    }
  }
  return wanted[done.length];
}

/**
 * Writes a portable file from a PostgreSQL database, beside running nodes as well: every table as of one moment (one
 * snapshot), and every blob, read after the snapshot so that none it names is missed; one that was removed meanwhile belonged to
 * content that was being deleted. Written aside, counted, synced, and put in place whole.
 */
import { chmodSync, closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import type { Client } from 'pg';
import { randomText } from '../../base/ids.ts';
import type { Blobs } from '../blobs/blobs.ts';
import { type CopiedBlobs, copyBlobs, NAMED_BY } from '../blobs/copy.ts';
import { syncDirectory, syncFile } from '../durable-file.ts';
import { migrateSqlite } from '../migrate.ts';
import { type Copied, type PortableTable, type Progress, portableTables } from '../portable-file.ts';
import { openSqlite } from '../sqlite/connection.ts';

const ROWS_AT_ONCE = 1_000;

export interface Export {
  client: Client;
  blobs: Blobs;
  nowMs: number;
  progress: Progress;
}

/** What was copied, and the blobs that were not though rows name them. */
export type Exported = Copied & CopiedBlobs;

async function isNamed(client: Client, key: string): Promise<boolean> {
  for (const sql of NAMED_BY) if ((await client.query(sql('$1'), [key])).rows.length > 0) return true;
  return false;
}

/** Writes to a file that does not exist yet; resolves with what was copied, counted on both sides. */
export async function exportFromPostgres(source: Export, file: string): Promise<Exported> {
  if (existsSync(file)) throw new Error(`${file} exists already; name a new file`);
  const part = `${file}.${randomText(8)}.part`;
  closeSync(openSync(part, 'wx', 0o600));
  try {
    const made = openSqlite(part, { readOnly: false });
    migrateSqlite(made, source.nowMs);
    made.close();
    const raw = new DatabaseSync(part);
    let copied: Exported;
    try {
      raw.exec('PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF');
      raw.exec('BEGIN');
      const tables = await copySnapshot(source, raw);
      const blobs = await copyBlobs(raw, { ...source, isNamed: (key) => isNamed(source.client, key) });
      raw.exec('COMMIT');
      copied = { tables, ...blobs };
    } finally {
      raw.close();
    }
    chmodSync(part, 0o600);
    syncFile(part);
    renameSync(part, file);
    syncDirectory(path.dirname(path.resolve(file)));
    return copied;
  } catch (error) {
    for (const tail of ['', '-wal', '-shm', '-journal']) rmSync(`${part}${tail}`, { force: true });
    throw error;
  }
}

async function copySnapshot({ client, progress }: Export, raw: DatabaseSync): Promise<Record<string, number>> {
  const tables: Record<string, number> = {};
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  try {
    await client.query('SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0');
    const portable = portableTables(raw);
    // Before the first row is read: a week that housekeeping drops behind the snapshot would be missing in it.
    await client.query(`LOCK TABLE ${portable.map(({ name }) => name).join(', ')} IN ACCESS SHARE MODE`);
    for (const table of portable) tables[table.name] = await copyTable(client, raw, table, progress);
    return tables;
  } finally {
    await client.query('ROLLBACK').catch(() => undefined);
  }
}

async function copyTable(
  client: Client,
  raw: DatabaseSync,
  { name, columns }: PortableTable,
  progress: Progress,
): Promise<number> {
  raw.exec(`DELETE FROM ${name}`);
  const total = Number((await client.query<{ n: number }>(`SELECT count(*) AS n FROM ${name}`)).rows[0]?.n);
  const list = columns.join(', ');
  const insert = raw.prepare(`INSERT INTO ${name} (${list}) VALUES (${columns.map(() => '?').join(', ')})`);
  await client.query(`DECLARE rows_of_table NO SCROLL CURSOR FOR SELECT ${list} FROM ${name}`);
  let done = 0;
  for (;;) {
    const { rows } = await client.query<Record<string, SQLInputValue>>(`FETCH ${ROWS_AT_ONCE} FROM rows_of_table`);
    if (rows.length === 0) break;
    for (const row of rows) insert.run(...columns.map((column) => row[column] ?? null));
    done += rows.length;
    progress(name, done, total);
  }
  await client.query('CLOSE rows_of_table');
  if (done !== total) throw new Error(`${done} rows of ${total} were read from the table ${name}`);
  return done;
}

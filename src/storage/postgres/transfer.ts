/**
 * Copies a complete PostgreSQL database to and from a portable file. An export can run while nodes are running. It copies every table as of
 * one snapshot, and after that every blob, so no referenced blob is missed; a blob that was removed in the meantime belonged to content
 * that was being deleted. The file is written under a temporary name. After its rows are counted, it is synced and renamed.
 *
 * An import requires an empty database. It stores the blobs first, then inserts all rows in one transaction and counts them before the
 * commit. If it fails, the database stays empty, and blobs that were already stored are swept later. Leases from the file are released, so
 * queued mail is sent immediately.
 */
import { chmodSync, existsSync, renameSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import type { Client } from 'pg';
import { randomText } from '../../base/ids.ts';
import type { Blobs } from '../blobs/blobs.ts';
import { type CopiedBlobs, copyBlobs, NAMED_BY } from '../blobs/copy.ts';
import { OWN_META } from '../blobs/mark.ts';
import { syncDirectory, syncFile } from '../durable-file.ts';
import { migrateSqlite } from '../migrate.ts';
import {
  type Copied,
  type FileBlob,
  fileBlobs,
  type PortableFile,
  type PortableTable,
  type Progress,
  portableTables,
} from '../portable-file.ts';
import { createFile, removeDatabase } from '../sqlite/backup.ts';
import { openSqlite } from '../sqlite/connection.ts';

const ROWS_AT_ONCE = 1_000;

interface Export {
  client: Client;
  blobs: Blobs;
  nowMs: number;
  progress: Progress;
  /** Called with the temporary file, which contains all mail, before it is created. */
  onPart?(part: string): void;
}

/** The numbers of copied rows and blobs, and the keys of blobs that rows reference but that could not be copied. */
type Exported = Copied & CopiedBlobs;

async function isNamed(client: Client, key: string): Promise<boolean> {
  for (const sql of NAMED_BY) if ((await client.query(sql('$1'), [key])).rows.length > 0) return true;
  return false;
}

/** Exports to a file that must not exist yet. Resolves with the copied rows and blobs, after comparing row counts with the database. */
export async function exportFromPostgres(source: Export, file: string): Promise<Exported> {
  if (existsSync(file)) throw new Error(`${file} already exists; choose another file name`);
  const part = `${file}.${randomText(8)}.part`;
  source.onPart?.(part);
  createFile(part);
  try {
    const database = openSqlite(part, { readOnly: false });
    migrateSqlite(database, source.nowMs);
    database.close();
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
    removeDatabase(part);
    throw error;
  }
}

async function copySnapshot({ client, progress }: Export, raw: DatabaseSync): Promise<Record<string, number>> {
  const tables: Record<string, number> = {};
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  try {
    await client.query('SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0');
    const portable = portableTables(raw);
    // The lock precedes the first read. Otherwise housekeeping could drop a weekly partition after the snapshot, and its rows would be
    // missing.
    await client.query(`LOCK TABLE ${portable.map(({ name }) => name).join(', ')} IN ACCESS SHARE MODE`);
    for (const table of portable) tables[table.name] = await copyTableOut(client, raw, table, progress);
    return tables;
  } finally {
    await client.query('ROLLBACK').catch(() => undefined);
  }
}

/**
 * Written to the file instead of a column's value. In the file, events are ordered by their number alone, and so is the position up to
 * which statistics have counted them. Events of concurrent transactions may have lower numbers, so all events must be counted before an
 * export.
 */
const LAST_COUNTED = `(SELECT coalesce(max(v.seq), 0) FROM event v WHERE v.account_id = t.account_id AND v.mode = t.mode
  AND (v.position, v.seq) <= (t.position, t.seq))`;
const IN_FILE: Record<string, Record<string, string>> = {
  statistics_cursor: { position: LAST_COUNTED, seq: LAST_COUNTED },
};

async function copyTableOut(
  client: Client,
  raw: DatabaseSync,
  { name, columns }: PortableTable,
  progress: Progress,
): Promise<number> {
  raw.exec(`DELETE FROM ${name}`);
  const total = Number((await client.query<{ n: number }>(`SELECT count(*) AS n FROM ${name}`)).rows[0]?.n);
  const list = columns.join(', ');
  const insert = raw.prepare(`INSERT INTO ${name} (${list}) VALUES (${columns.map(() => '?').join(', ')})`);
  const selected = columns.map((column) => `${IN_FILE[name]?.[column] ?? `t.${column}`} AS ${column}`).join(', ');
  await client.query(`DECLARE rows_of_table NO SCROLL CURSOR FOR SELECT ${selected} FROM ${name} t`);
  let done = 0;
  for (;;) {
    const { rows } = await client.query<Record<string, SQLInputValue>>(`FETCH ${ROWS_AT_ONCE} FROM rows_of_table`);
    if (rows.length === 0) break;
    for (const row of rows) insert.run(...columns.map((column) => row[column] ?? null));
    done += rows.length;
    progress(name, done, total);
  }
  await client.query('CLOSE rows_of_table');
  if (done !== total) throw new Error(`only ${done} of ${total} rows were read from the table ${name}`);
  return done;
}

const BYTES_AT_ONCE = 8_000_000;
const BLOBS_AT_ONCE = 8;

interface Import {
  file: PortableFile;
  /** Connected to a migrated database that no other process uses. */
  client: Client;
  blobs: Blobs;
  progress: Progress;
}

/**
 * Resolves with the copied rows and blobs, after comparing row counts with the file. If it rejects with an error for the operator, no row
 * has changed.
 */
export async function importIntoPostgres({ file, client, blobs, progress }: Import): Promise<Copied> {
  await assertEmpty(client);
  const stored = await storeBlobs(file, blobs, progress);
  await client.query('BEGIN');
  try {
    await client.query(
      'SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SET LOCAL synchronous_commit = on',
    );
    await client.query('LOCK TABLE account IN ACCESS EXCLUSIVE MODE');
    await assertEmpty(client);
    // The rows of the file replace those that the service may have written at its first start.
    await client.query('DELETE FROM meta');
    const tables: Record<string, number> = {};
    for (const table of file.tables) tables[table.name] = await copyTable(file, client, table, progress);
    // The blob store id in the file does not apply here; the current store gets its own id when the service starts.
    await client.query(`DELETE FROM meta WHERE key IN ${OWN_META}`);
    await client.query('UPDATE work SET leased = 0, due = now_ms() WHERE leased <> 0');
    await client.query('COMMIT');
    return { tables, blobs: stored };
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

async function assertEmpty(client: Client): Promise<void> {
  const { rows } = await client.query('SELECT 1 FROM account LIMIT 1');
  if (rows.length > 0) throw new Error('the database already has accounts; import into an empty database');
}

async function storeBlobs(file: PortableFile, blobs: Blobs, progress: Progress): Promise<number> {
  const total = file.count('blob_backup');
  let done = 0;
  let batch: FileBlob[] = [];
  const flush = async (): Promise<void> => {
    await Promise.all(batch.map((blob) => storeBlob(blobs, blob)));
    done += batch.length;
    batch = [];
    progress('blobs', done, total);
  };
  for (const blob of fileBlobs(file)) {
    batch.push(blob);
    if (batch.length === BLOBS_AT_ONCE) await flush();
  }
  await flush();
  return done;
}

async function storeBlob(blobs: Blobs, { key, content }: FileBlob): Promise<void> {
  const source = (async function* () {
    yield content;
  })();
  await blobs.putStream(source, { key, sizeBytes: content.length });
  const storedBytes = await blobs.sizeOf(key);
  if (storedBytes !== content.length)
    throw new Error(`the blob ${key} was stored with ${storedBytes} instead of ${content.length} bytes`);
}

async function columnTypes(client: Client, table: string): Promise<Map<string, string>> {
  const { rows } = await client.query<{ column_name: string; data_type: string }>(
    'SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1',
    [table],
  );
  return new Map(rows.map((row) => [row.column_name, row.data_type]));
}

async function copyTable(
  file: PortableFile,
  client: Client,
  table: PortableTable,
  progress: Progress,
): Promise<number> {
  const { name, columns } = table;
  const types = await columnTypes(client, name);
  const unknown = columns.filter((column) => !types.has(column));
  if (unknown.length > 0) throw new Error(`the table ${name} has no column ${unknown.join(', ')} in this database`);
  const parameters = columns.map((column, i) => `$${i + 1}::${types.get(column)}[]`);
  const list = columns.join(', ');
  // The number of an event becomes its position, so events keep their order and the cursors of followers stay valid.
  const [extraColumn, extraValue] = name === 'event' ? [', position', ', seq'] : ['', ''];
  const insert = `INSERT INTO ${name} (${list}${extraColumn}) OVERRIDING SYSTEM VALUE
    SELECT *${extraValue} FROM unnest(${parameters.join(', ')}) AS given (${list})`;
  const total = file.count(name);
  let done = 0;
  let rows: unknown[][] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    if (rows.length === 0) return;
    await client.query(
      insert,
      columns.map((_, i) => rows.map((row) => row[i])),
    );
    done += rows.length;
    rows = [];
    bytes = 0;
    progress(name, done, total);
  };
  for (const row of file.raw.prepare(`SELECT ${columns.join(', ')} FROM ${name}`).iterate()) {
    const values = columns.map((column) => asParameter(row[column]));
    rows.push(values);
    for (const value of values) if (Buffer.isBuffer(value) || typeof value === 'string') bytes += value.length;
    if (rows.length === ROWS_AT_ONCE || bytes >= BYTES_AT_ONCE) await flush();
  }
  await flush();
  await assertCopied(client, table, total);
  return total;
}

/** PostgreSQL does not store NUL in texts; it is replaced so that the text keeps its length. */
function asParameter(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
}

async function assertCopied(client: Client, table: PortableTable, total: number): Promise<void> {
  const { rows } = await client.query<{ n: number }>(`SELECT count(*) AS n FROM ${table.name}`);
  const imported = Number(rows[0]?.n);
  if (imported !== total)
    throw new Error(`the table ${table.name} has ${imported} rows after the import instead of ${total}`);
  // New numbers continue after the last one: readers' cursors contain numbers, so none may be assigned twice.
  if (table.lastSeq !== undefined && table.lastSeq > 0) {
    await client.query("SELECT setval(pg_get_serial_sequence($1, 'seq'), $2)", [table.name, table.lastSeq]);
  }
}

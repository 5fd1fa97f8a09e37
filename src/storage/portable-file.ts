/**
 * The file that a complete database is exported to: a SQLite file with every table as SQLite has it, and the content of every blob in the
 * table `blob_backup`. Both databases have the same tables under the same migration numbers, so a file exported from one can be imported
 * into the other.
 */
import { closeSync, openSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { listMigrations } from './migrate.ts';

const NOT_DATA = new Set([
  'migration',
  'blob_backup',
  'sqlite_sequence',
  'sqlite_stat1',
  'sqlite_stat4',
  'node',
  'destination_pause',
]);

/** A table with its columns in order. */
export interface PortableTable {
  name: string;
  columns: string[];
  /** Highest number that its key ever had, for tables with numbered rows. */
  lastSeq: number | undefined;
}

/** Called repeatedly while rows or blobs are copied. */
export type Progress = (what: string, done: number, total: number) => void;

export interface Copied {
  tables: Record<string, number>;
  blobs: number;
}

export interface PortableFile {
  readonly raw: DatabaseSync;
  /** Ordered so that every table comes after the tables that it refers to. */
  readonly tables: PortableTable[];
  count(table: string): number;
  close(): void;
}

/** Returns every data table of an open SQLite database. */
export function portableTables(raw: DatabaseSync): PortableTable[] {
  const names = raw
    .prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    .all()
    .map((row) => String(row.name))
    .filter((name) => !NOT_DATA.has(name));
  const numbered = new Map(
    raw
      .prepare('SELECT name, seq FROM sqlite_sequence')
      .all()
      .map((row) => [String(row.name), Number(row.seq)]),
  );
  const ordered: string[] = [];
  const add = (name: string): void => {
    if (ordered.includes(name)) return;
    for (const row of raw.prepare(`PRAGMA foreign_key_list(${name})`).all()) {
      if (row.table !== name) add(String(row.table));
    }
    ordered.push(name);
  };
  for (const name of names) add(name);
  return ordered.map((name) => {
    const columns = raw
      .prepare(`PRAGMA table_info(${name})`)
      .all()
      .map((row) => String(row.name));
    return { name, columns, lastSeq: lastSeqOf(raw, name, columns, numbered) };
  });
}

function lastSeqOf(
  raw: DatabaseSync,
  name: string,
  columns: readonly string[],
  numbered: ReadonlyMap<string, number>,
): number | undefined {
  if (!columns.includes('seq')) return undefined;
  const highest = Number(raw.prepare(`SELECT coalesce(max(seq), 0) AS seq FROM ${name}`).get()?.seq ?? 0);
  return Math.max(highest, numbered.get(name) ?? 0);
}

export function countRows(raw: DatabaseSync, table: string): number {
  return Number(raw.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n);
}

/** Throws an error for the operator if the file is missing or cannot be read, which SQLite would report as damage. */
export function assertReadable(file: string): void {
  try {
    closeSync(openSync(file, 'r'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new Error(`the file ${file} does not exist`);
    throw new Error(`${file} cannot be read (${code}); check its path and permissions`);
  }
}

/** Opens a file for reading; throws an error if it is incomplete or from another version of Postrider. */
export function openPortableFile(file: string): PortableFile {
  assertReadable(file);
  let raw: DatabaseSync | undefined;
  try {
    raw = new DatabaseSync(file, { readOnly: true });
    assertWhole(raw, file);
    const tables = portableTables(raw);
    const opened = raw;
    return {
      raw: opened,
      tables,
      count: (table) => countRows(opened, table),
      close: () => opened.close(),
    };
  } catch (error) {
    raw?.close();
    throw error;
  }
}

function assertWhole(raw: DatabaseSync, file: string): void {
  const broken = `${file} is not a complete file of postrider export or postrider backup`;
  let done: { number: number; name: string }[];
  try {
    const marks = raw.prepare("SELECT name FROM sqlite_master WHERE name IN ('migration', 'blob_backup')").all();
    const check = raw.prepare('PRAGMA quick_check(1)').get();
    if (marks.length !== 2 || Object.values(check ?? {})[0] !== 'ok') throw new Error(broken);
    done = raw.prepare('SELECT number, name FROM migration ORDER BY number').all() as typeof done;
  } catch {
    throw new Error(broken);
  }
  const wanted = listMigrations('sqlite');
  if (done.length > wanted.length) {
    throw new Error(`${file} was created by a newer version of postrider; import it with that version`);
  }
  if (done.length < wanted.length || done.some((one, i) => one.name !== wanted[i]!.name)) {
    throw new Error(
      `${file} was created by another version of postrider; restore it into an empty data directory with this version, start the service there once, and export it again`,
    );
  }
}

export interface FileBlob {
  key: string;
  content: Uint8Array;
}

/** Yields the blobs of the file one by one, so that one at a time is in memory. */
export function* fileBlobs(file: PortableFile): Generator<FileBlob> {
  for (const row of file.raw.prepare('SELECT key, content FROM blob_backup ORDER BY key').iterate()) {
    yield { key: String(row.key), content: row.content as Uint8Array };
  }
}

/**
 * Fills an empty PostgreSQL database from a portable file: blobs first, then all rows in one transaction, counted in the
 * target before it commits. Whatever fails leaves the database as empty as it was; blobs that were stored by then are
 * swept later. Leases of the file's last process are given back, so that its mail goes out at once.
 */
import type { Client } from 'pg';
import type { Blobs } from '../blobs/blobs.ts';
import { OWN_META } from '../blobs/mark.ts';
import {
  type Copied,
  type FileBlob,
  fileBlobs,
  type PortableFile,
  type PortableTable,
  type Progress,
} from '../portable-file.ts';

const ROWS_AT_ONCE = 1_000;
const BYTES_AT_ONCE = 8_000_000;
const BLOBS_AT_ONCE = 8;

export interface Import {
  file: PortableFile;
  /** Connected to a migrated database, used by nobody else. */
  client: Client;
  blobs: Blobs;
  progress: Progress;
}

/** Resolves with what was copied, counted on both sides; rejects with a sentence, and then nothing has changed. */
export async function importIntoPostgres({ file, client, blobs, progress }: Import): Promise<Copied> {
  await assertEmpty(client);
  const stored = await storeBlobs(file, blobs, progress);
  await client.query('BEGIN');
  try {
    await client.query('SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0');
    await client.query('LOCK TABLE account IN ACCESS EXCLUSIVE MODE');
    await assertEmpty(client);
    // What the service may have written at its first start is replaced by what the file says.
    await client.query('DELETE FROM meta');
    const tables: Record<string, number> = {};
    for (const table of file.tables) tables[table.name] = await copyTable(file, client, table, progress);
    // Of the store that the file's blobs lay in; the one they are in now gets its own at the start.
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
  if (rows.length > 0) throw new Error('the database has accounts already; import into an empty one');
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
  const there = await blobs.sizeOf(key);
  if (there !== content.length) throw new Error(`the blob ${key} was stored with ${there} bytes of ${content.length}`);
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
  // Events keep their order, and the cursors of those who follow them their position.
  const [also, from] = name === 'event' ? [', position', ', seq'] : ['', ''];
  const insert = `INSERT INTO ${name} (${list}${also}) OVERRIDING SYSTEM VALUE
    SELECT *${from} FROM unnest(${parameters.join(', ')}) AS given (${list})`;
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

/** PostgreSQL has no NUL in texts; what carries one keeps its length. */
function asParameter(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
}

async function assertCopied(client: Client, table: PortableTable, total: number): Promise<void> {
  const { rows } = await client.query<{ n: number }>(`SELECT count(*) AS n FROM ${table.name}`);
  const there = Number(rows[0]?.n);
  if (there !== total)
    throw new Error(`the table ${table.name} has ${there} rows after the import instead of ${total}`);
  // Numbers that were given out before are never given out again: cursors of readers hold them.
  if (table.lastSeq !== undefined && table.lastSeq > 0) {
    await client.query("SELECT setval(pg_get_serial_sequence($1, 'seq'), $2)", [table.name, table.lastSeq]);
  }
}

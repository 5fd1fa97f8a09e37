/** Everything that a service stores, as text: the rows of all tables of either database, and the files of the blob store. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { connectPostgres } from '../../src/storage/postgres/connection.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';

/** A place where a text was found: a table and column, or a file. */
export type Place = string;

/** The text itself, and Base64 of it at each of the three offsets within a longer text. */
function forms(text: string): string[] {
  const inBase64 = [0, 1, 2].map((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]);
    // Characters that also depend on the bytes before and after are cut off.
    const end = Math.floor((bytes.length * 8) / 6);
    return bytes.toString('base64').slice(Math.ceil((offset * 8) / 6), end);
  });
  return [text, encodeURIComponent(text), Buffer.from(text).toString('hex'), ...inBase64];
}

function finder(text: string): (bytes: Buffer) => boolean {
  const [plain, encoded, hex, ...base64] = forms(text) as [string, string, string, ...string[]];
  const insensitive = [plain, encoded, hex].map((one) => one.toLowerCase());
  return (bytes) => {
    const found = bytes.toString('utf8');
    // Base64 in mail is broken into lines.
    const joined = found.replace(/\r?\n/g, '');
    const lower = found.toLowerCase();
    return insensitive.some((one) => lower.includes(one)) || base64.some((one) => joined.includes(one));
  };
}

const asBytes = (value: unknown): Buffer =>
  value instanceof Uint8Array
    ? Buffer.from(value)
    : Buffer.from(typeof value === 'object' ? JSON.stringify(value) : String(value));

async function tablesOf(dataDir: string, url: string | undefined): Promise<Map<string, Record<string, unknown>[]>> {
  const tables = new Map<string, Record<string, unknown>[]>();
  if (url === undefined) {
    const connection = new DatabaseSync(path.join(dataDir, 'postrider.db'), { readOnly: true });
    const names = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
    for (const { name } of names) tables.set(String(name), connection.prepare(`SELECT * FROM ${name}`).all());
    connection.close();
    return tables;
  }
  const { client, destroy } = await connectPostgres(parsePostgresUrl(url));
  try {
    const { rows } = await client.query<{ name: string }>(
      `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`,
    );
    for (const { name } of rows) tables.set(name, (await client.query(`SELECT * FROM ${name}`)).rows);
    return tables;
  } finally {
    destroy();
  }
}

/** Returns where a text is stored, in any case and encoding, sorted. `url` is that of a PostgreSQL database. */
export async function placesOf(
  text: string,
  { dataDir, url }: { dataDir: string; url?: string | undefined },
): Promise<Place[]> {
  const has = finder(text);
  const places = new Set<Place>();
  for (const [table, rows] of await tablesOf(dataDir, url)) {
    for (const row of rows)
      for (const [column, value] of Object.entries(row)) if (has(asBytes(value))) places.add(`${table}.${column}`);
  }
  const blobs = path.join(dataDir, 'blobs');
  for (const name of readdirSync(blobs, { recursive: true, withFileTypes: true })) {
    if (name.isFile() && has(readFileSync(path.join(name.parentPath, name.name)))) places.add('blobs');
  }
  return [...places].sort();
}

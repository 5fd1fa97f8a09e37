/**
 * Defines a table by its columns and their types. These definitions are the source of multi-row inserts, lists of rows within a statement,
 * and the codec to the storage thread (operation.ts). A row is an object of named fields; `accountId` is the column `account_id`. This is
 * the only place where the two databases differ in how they write several rows: VALUES and JSON on SQLite, arrays on PostgreSQL.
 *
 * PostgreSQL gets lists as parameters in the binary form of arrays: `unnest(CAST(? AS TEXT[]), CAST(? AS BIGINT[]))`, which is faster than
 * the driver's text form.
 */
import type { ColumnType, Fragment, SqlValue, Transaction } from './operation.ts';

const HEADER_BYTES = 20;
const TEXT = 25;
const BIGINT = 20;
const BYTEA = 17;
const TWO_TO_32 = 4_294_967_296;

/** Writes the header of an array with one dimension and `count` elements, indexed from 1, with nulls allowed. */
function header(buffer: Buffer, elementType: number, count: number): void {
  buffer.writeInt32BE(count === 0 ? 0 : 1, 0);
  buffer.writeInt32BE(1, 4);
  buffer.writeInt32BE(elementType, 8);
  if (count === 0) return;
  buffer.writeInt32BE(count, 12);
  buffer.writeInt32BE(1, 16);
}

function lengthOfHeader(count: number): number {
  return count === 0 ? 12 : HEADER_BYTES;
}

/** Encodes TEXT[]; NUL, which PostgreSQL does not store, becomes U+FFFD. */
function textArray(list: readonly (string | null)[]): Uint8Array {
  const sizes = new Int32Array(list.length);
  const texts = list.map((text) => (text?.includes('\0') ? text.replaceAll('\0', '\uFFFD') : text));
  let size = lengthOfHeader(list.length);
  for (const [index, text] of texts.entries()) {
    const bytes = text === null ? -1 : Buffer.byteLength(text as string);
    sizes[index] = bytes;
    size += 4 + Math.max(0, bytes);
  }
  const buffer = Buffer.allocUnsafe(size);
  header(buffer, TEXT, list.length);
  let at = HEADER_BYTES;
  for (const [index, text] of texts.entries()) {
    const bytes = sizes[index]!;
    buffer.writeInt32BE(bytes, at);
    at += 4;
    if (bytes > 0) at += buffer.write(text as string, at, bytes);
  }
  return buffer;
}

/** Encodes BIGINT[] of whole numbers within ±2^53. */
function bigintArray(list: readonly (number | null)[]): Uint8Array {
  let size = lengthOfHeader(list.length);
  for (const number of list) size += number === null ? 4 : 12;
  const buffer = Buffer.allocUnsafe(size);
  header(buffer, BIGINT, list.length);
  let at = HEADER_BYTES;
  for (const number of list) {
    if (number === null) {
      buffer.writeInt32BE(-1, at);
      at += 4;
      continue;
    }
    buffer.writeInt32BE(8, at);
    buffer.writeInt32BE(Math.floor(number / TWO_TO_32), at + 4);
    buffer.writeUInt32BE(number - Math.floor(number / TWO_TO_32) * TWO_TO_32, at + 8);
    at += 12;
  }
  return buffer;
}

/** Encodes BYTEA[]. */
function bytesArray(list: readonly (Uint8Array | null)[]): Uint8Array {
  let size = lengthOfHeader(list.length);
  for (const bytes of list) size += 4 + (bytes?.length ?? 0);
  const buffer = Buffer.allocUnsafe(size);
  header(buffer, BYTEA, list.length);
  let at = HEADER_BYTES;
  for (const bytes of list) {
    buffer.writeInt32BE(bytes?.length ?? -1, at);
    at += 4;
    if (bytes === null) continue;
    buffer.set(bytes, at);
    at += bytes.length;
  }
  return buffer;
}

type Columns = Readonly<Record<string, ColumnType>>;

type Value<T> = T extends 'int' | 'int?' ? number : T extends 'text' | 'text?' ? string : Uint8Array;
type MayBeNull<T> = T extends `${string}?` ? true : false;

/** A row of a table or row list with these columns; nullable ones may be omitted. */
type RowOf<C extends Columns> = {
  [N in keyof C as MayBeNull<C[N]> extends true ? never : N]: Value<C[N]>;
} & { [N in keyof C as MayBeNull<C[N]> extends true ? N : never]?: Value<C[N]> | null | undefined };

interface Table<C extends Columns> {
  readonly name: string;
  readonly columns: C;
  /** SQLite's INSERT statements for each of STEPS, and PostgreSQL's. */
  readonly inserts: { readonly sqlite: readonly string[]; readonly postgres: string };
}

export type TableRow<T> = T extends Table<infer C> ? RowOf<C> : never;

/**
 * Rows per statement on SQLite, largest first, so there are few distinct statements, each prepared once. With one row per statement, each
 * row takes a third more time.
 */
const STEPS = [16, 8, 4, 2, 1];

/**
 * Defines a table. PostgreSQL fills the `computed` columns with an expression: a subquery is evaluated once for all rows of a statement.
 */
export function table<const C extends Columns>(
  name: string,
  columns: C,
  computed: Readonly<Record<string, string>> = {},
): Table<C> {
  const names = Object.keys(columns).map(columnName);
  const list = names.join(', ');
  const marks = `(${names.map(() => '?').join(', ')})`;
  const computedColumns = Object.entries(computed);
  return {
    name,
    columns,
    inserts: {
      sqlite: STEPS.map((rows) => `INSERT INTO ${name} (${list}) VALUES ${Array(rows).fill(marks).join(', ')}`),
      postgres: `INSERT INTO ${name} (${[...names, ...computedColumns.map(([column]) => column)].join(', ')})
        SELECT ${['*', ...computedColumns.map(([, expression]) => expression)].join(', ')} FROM unnest(${arraysOf(columns)}) AS new`,
    },
  };
}

/** Returns the columns except the named ones. */
export function withoutColumns<C extends Columns, N extends keyof C>(columns: C, names: readonly N[]): Omit<C, N> {
  const others = Object.entries(columns).filter(([name]) => !(names as readonly string[]).includes(name));
  return Object.fromEntries(others) as Omit<C, N>;
}

/**
 * Inserts the rows in order. `conflict` is an ON CONFLICT clause; if it is set, no two of the rows may conflict with each other. On
 * PostgreSQL, an error fails the transaction even if the returned promise is not awaited.
 */
export function insertMany<C extends Columns>(
  tx: Transaction,
  { columns, inserts }: Table<C>,
  rows: readonly RowOf<C>[],
  conflict = '',
): Promise<number> | number {
  if (rows.length === 0) return 0;
  if (tx.dialect === 'postgres') return tx.run(`${inserts.postgres} ${conflict}`, ...arrayValues(columns, rows));
  const names = Object.keys(columns);
  let done = 0;
  for (const [index, step] of STEPS.entries()) {
    for (; rows.length - done >= step; done += step) {
      const values: SqlValue[] = [];
      for (let at = done; at < done + step; at += 1) {
        const row = rows[at] as Readonly<Record<string, SqlValue>>;
        for (const name of names) values.push(row[name] ?? null);
      }
      tx.run(conflict === '' ? inserts.sqlite[index]! : `${inserts.sqlite[index]} ${conflict}`, ...values);
    }
  }
  return rows.length;
}

/**
 * Returns rows as a table within a statement, such as `UPDATE work SET … FROM ${lease.sql} WHERE work.seq = lease.seq`. The text is the
 * same for any number of rows. Columns are matched by name; unknown fields are ignored. On SQLite, the rows are one JSON parameter.
 */
export function rowset<const C extends Columns>(
  tx: Transaction,
  name: string,
  columns: C,
  rows: readonly RowOf<C>[],
): Fragment {
  const names = Object.keys(columns);
  if (tx.dialect === 'postgres') {
    return {
      sql: `unnest(${arraysOf(columns)}) AS ${name} (${names.map(columnName).join(', ')})`,
      params: arrayValues(columns, rows),
    };
  }
  const picked = names.map((field, index) => `value ->> ${index} AS ${columnName(field)}`).join(', ');
  return {
    sql: `(SELECT ${picked} FROM json_each(?)) AS ${name}`,
    params: [JSON.stringify(rows.map((row) => names.map((field) => (row as Record<string, unknown>)[field])))],
  };
}

/**
 * Returns unique ascending numbers for new rows, one list per table. SQLite has one writer, so the numbers follow the highest one; they are
 * never reused if the table is AUTOINCREMENT.
 */
export async function takeNumbers(
  tx: Transaction,
  ...wanted: [table: { readonly name: string }, count: number][]
): Promise<number[][]> {
  const all = wanted.reduce((sum, [, count]) => sum + count, 0);
  if (all === 0) return wanted.map(() => []);
  if (tx.dialect === 'postgres') {
    // The numbers are returned as one text, because the driver is slow with one row per number.
    const row = await tx.get<{ numbers: string | null }>(
      "SELECT string_agg(CAST(time_seq() AS TEXT), ',') AS numbers FROM generate_series(1, CAST(? AS INTEGER))",
      all,
    );
    const numbers = row!.numbers!.split(',').map(Number);
    let used = 0;
    return wanted.map(([, count]) => {
      used += count;
      return numbers.slice(used - count, used);
    });
  }
  const lists: number[][] = [];
  for (const [{ name }, count] of wanted) {
    if (count === 0) {
      lists.push([]);
      continue;
    }
    const row = await tx.get<{ last: number }>(
      `SELECT max(coalesce((SELECT max(seq) FROM ${name}), 0),
         coalesce((SELECT seq FROM sqlite_sequence WHERE name = '${name}'), 0)) AS last`,
    );
    lists.push(Array.from({ length: count }, (_, index) => row!.last + 1 + index));
  }
  return lists;
}

function columnName(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

const ARRAYS = { int: 'CAST(? AS BIGINT[])', text: 'CAST(? AS TEXT[])', bytes: 'CAST(? AS BYTEA[])' };

function baseType(type: ColumnType): keyof typeof ARRAYS {
  return type.replace('?', '') as keyof typeof ARRAYS;
}

function arraysOf(columns: Columns): string {
  return Object.values(columns)
    .map((type) => ARRAYS[baseType(type)])
    .join(', ');
}

function arrayValues<C extends Columns>(columns: C, rows: readonly RowOf<C>[]): Uint8Array[] {
  return Object.entries(columns).map(([name, type]) => {
    const values = rows.map((row) => ((row as Record<string, unknown>)[name] ?? null) as never);
    const base = baseType(type);
    return base === 'int' ? bigintArray(values) : base === 'text' ? textArray(values) : bytesArray(values);
  });
}

const EPOCH_MS = 1_767_225_600_000;
const UNIT_MS = 4_096;
const NUMBERS_IN_UNIT = 2 ** 24;

/** Returns the lowest number that time_seq() can assign at this time; its clock has a resolution of 4,096 ms. */
export function timeSeqFloor(ms: number): number {
  return Math.floor((ms - EPOCH_MS) / UNIT_MS) * NUMBERS_IN_UNIT;
}

/** Returns a number: every time-numbered row below it was created before `ms`. On SQLite, numbers are not based on the time. */
export function numbersBefore(tx: Transaction, ms: number): number {
  return tx.dialect === 'postgres' ? timeSeqFloor(ms) : Number.MAX_SAFE_INTEGER;
}

/** Returns whether two rows that were read by the same statement are equal. */
export function isSameRow(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

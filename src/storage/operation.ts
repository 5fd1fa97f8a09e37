/**
 * The one way to access the database: an operation, a named function of a transaction and of plain (cloneable) data. SQLite runs it in the
 * thread that owns the file; a server database runs it on a pooled connection. Operations of one commit group share one transaction and one
 * sync; each is all or nothing on its own.
 *
 * Rules for the functions: no I/O, no clock, no randomness (these come in as arguments), no state between calls, SQL with `?` placeholders
 * that both dialects understand. Refusals are returned, not thrown; a throw rolls back this operation alone.
 *
 * Arguments that take too long to clone are sent to the storage thread as one JSON text of lists without names, with the bytes of a group
 * of calls in one transferred buffer. Such codecs are built from the columns of tables (rows.ts).
 */

/** Type of a column; with `?` the value may be null. */
export type ColumnType = 'int' | 'int?' | 'text' | 'text?' | 'bytes' | 'bytes?';

interface Codec<T> {
  /** Returns a JSON value; bytes are added to `bytes`. */
  pack(value: T, bytes: PackedBytes): unknown;
  /** Takes the bytes in the order in which they were added. */
  unpack(packed: unknown, bytes: UnpackedBytes): T;
}

/** How a field is packed: a column's type, `json` for any JSON value, or a codec. */
// biome-ignore lint/suspicious/noExplicitAny: the field may have any type
type FieldCodec = ColumnType | 'json' | Codec<any>;

/** Returns a codec for an object with these fields. */
export function record<T extends object>(fields: { readonly [N in keyof T]-?: FieldCodec }): Codec<T> {
  const codecs = Object.entries<FieldCodec>(fields).map(([name, field]) => [name, codecOf(field)] as const);
  return {
    pack: (value, bytes) => {
      const packed: unknown[] = [];
      for (const [name, codec] of codecs) {
        const one = (value as Record<string, unknown>)[name];
        packed.push(codec === undefined ? one : codec.pack(one, bytes));
      }
      return packed;
    },
    unpack: (packed, bytes) => {
      const value: Record<string, unknown> = {};
      let at = 0;
      for (const [name, codec] of codecs) {
        const one = (packed as unknown[])[at++];
        value[name] = codec === undefined ? one : codec.unpack(one, bytes);
      }
      return value as T;
    },
  };
}

export function list<T>(item: Codec<T>): Codec<T[]> {
  return {
    pack: (values, bytes) => values.map((value) => item.pack(value, bytes)),
    unpack: (packed, bytes) => (packed as unknown[]).map((one) => item.unpack(one, bytes)),
  };
}

export function nullable<T>(inner: Codec<T>): Codec<T | null> {
  return {
    pack: (value, bytes) => (value === null ? null : inner.pack(value, bytes)),
    unpack: (packed, bytes) => (packed === null ? null : inner.unpack(packed, bytes)),
  };
}

/** The length is part of the JSON. */
const BYTES: Codec<Uint8Array | null> = {
  pack: (value, bytes) => {
    if (value === null) return null;
    bytes.add(value);
    return value.length;
  },
  unpack: (packed, bytes) => (packed === null ? null : bytes.take(packed as number)),
};

/** Returns the codec of a field; undefined for values that need no packing. */
function codecOf(field: FieldCodec): Codec<unknown> | undefined {
  if (typeof field === 'object') return field as Codec<unknown>;
  return field === 'bytes' || field === 'bytes?' ? (BYTES as Codec<unknown>) : undefined;
}

/** Bytes of a group of calls, being packed. */
export class PackedBytes {
  readonly #pieces: Uint8Array[] = [];
  #sizeBytes = 0;

  add(bytes: Uint8Array): void {
    this.#pieces.push(bytes);
    this.#sizeBytes += bytes.length;
  }

  /** Returns all bytes in order; null if there are none. */
  joined(): ArrayBuffer | null {
    if (this.#sizeBytes === 0) return null;
    const whole = Buffer.allocUnsafeSlow(this.#sizeBytes);
    let at = 0;
    for (const piece of this.#pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole.buffer;
  }
}

/** The bytes of a group of calls, being unpacked in the storage thread. Views of them stay valid. */
export class UnpackedBytes {
  readonly #whole: ArrayBuffer | null;
  #at = 0;

  constructor(whole: ArrayBuffer | null) {
    this.#whole = whole;
  }

  take(length: number): Uint8Array {
    if (length === 0) return new Uint8Array(0);
    if (this.#whole === null || this.#at + length > this.#whole.byteLength)
      throw new RangeError('the message to the storage thread has fewer bytes than its calls need');
    const taken = new Uint8Array(this.#whole, this.#at, length);
    this.#at += length;
    return taken;
  }
}

export type SqlValue = string | number | bigint | null | Uint8Array;
export type Row = Record<string, unknown>;

export interface Transaction {
  readonly dialect: 'sqlite' | 'postgres';
  /** Returns all rows. Numbers come as numbers (64-bit integers within 2^53), blobs as Uint8Array. */
  all<T = Row>(sql: string, ...params: SqlValue[]): Promise<T[]> | T[];
  /** Returns the first row or undefined. */
  get<T = Row>(sql: string, ...params: SqlValue[]): Promise<T | undefined> | T | undefined;
  /** Returns the number of rows changed. */
  run(sql: string, ...params: SqlValue[]): Promise<number> | number;
}

/** `search`: a read that may scan many rows; SQLite has a separate reader for these. */
export type OperationMode = 'read' | 'search' | 'write';

export interface Operation<A, R> {
  readonly name: string;
  readonly mode: OperationMode;
  /** Batch in, batch out: returns the result of each call, in order. Does not change its arguments. */
  run(tx: Transaction, calls: readonly A[]): Promise<R[]> | R[];
  /** Calls that wait at the same time run as one batch, or one by one if that throws; otherwise each call is a batch. */
  readonly isSet?: boolean;
  /** How arguments are sent to the storage thread, if cloning them is too slow. */
  readonly codec?: Codec<A>;
  /** May take minutes over many rows; no request waits for it. */
  readonly slow?: boolean;
}

/**
 * Ends a SELECT of rows that the transaction will change based on what it read: locks them against other transactions. SQLite has one
 * writer and needs nothing.
 */
export function locked(tx: Transaction): string {
  return tx.dialect === 'postgres' ? 'FOR NO KEY UPDATE' : '';
}

/** Like locked(), but only prevents changes: other transactions can read the rows and lock them in the same way. */
export function shared(tx: Transaction): string {
  return tx.dialect === 'postgres' ? 'FOR SHARE' : '';
}

/** Ends a SELECT of rows that others may be taking at the same time: skips the rows they have locked. */
export function skipLocked(tx: Transaction): string {
  return tx.dialect === 'postgres' ? 'FOR UPDATE SKIP LOCKED' : '';
}

/** The current time, in Unix ms, as SQL: a server uses its own clock for all nodes; `nowMs` is the time of SQLite's only process. */
export function currentTime(tx: Transaction, nowMs: number): Fragment {
  return tx.dialect === 'postgres'
    ? { sql: '(SELECT now_ms())', params: [] }
    : { sql: 'CAST(? AS BIGINT)', params: [nowMs] };
}

/** Returns the time of the server; undefined for SQLite. */
export async function serverTime(tx: Transaction): Promise<number | undefined> {
  if (tx.dialect === 'sqlite') return undefined;
  return (await tx.get<{ now: number }>('SELECT now_ms() AS now'))?.now;
}

/** Part of a statement, with the values of its placeholders. */
export interface Fragment {
  sql: string;
  params: SqlValue[];
}

const registry = new Map<string, Operation<never, unknown>>();

type OperationOptions<A> = Pick<Operation<A, unknown>, 'codec' | 'slow'>;

/** Defines and registers an operation; the name is `<folder>.<verb>` and unique. */
export function operation<A, R>(
  name: string,
  mode: OperationMode,
  run: (tx: Transaction, args: A) => Promise<R> | R,
  options: OperationOptions<A> = {},
): Operation<A, R> {
  return registered({ name, mode, run: eachCall(run), ...options });
}

/** Runs one call after the other. */
export function eachCall<A, R>(run: (tx: Transaction, args: A) => Promise<R> | R): Operation<A, R>['run'] {
  return async (tx, calls) => {
    const results: R[] = [];
    for (const args of calls) results.push(await run(tx, args));
    return results;
  };
}

/** Defines an operation that runs many calls in few statements. */
export function batch<A, R>(
  name: string,
  mode: OperationMode,
  run: (tx: Transaction, calls: readonly A[]) => Promise<R[]>,
  options: OperationOptions<A> = {},
): Operation<A, R> {
  return registered({ name, mode, run, isSet: true, ...options });
}

function registered<A, R>(defined: Operation<A, R>): Operation<A, R> {
  if (registry.has(defined.name)) throw new Error(`operation ${defined.name} is defined twice`);
  registry.set(defined.name, defined as unknown as Operation<never, unknown>);
  return defined;
}

/** Runs a call of an operation within another transaction. */
export async function runWithin<A, R>(tx: Transaction, op: Operation<A, R>, args: A): Promise<R> {
  return (await op.run(tx, [args]))[0]!;
}

/** Returns the names of all operations registered in this thread. */
export function operationNames(): string[] {
  return [...registry.keys()].sort();
}

export function findOperation(name: string): Operation<unknown, unknown> {
  const found = registry.get(name);
  if (!found) throw new Error(`operation ${name} is not registered; import its store in roles/operations.ts`);
  return found as unknown as Operation<unknown, unknown>;
}

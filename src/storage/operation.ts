/**
 * The one way to touch the database: an operation, a named function of a transaction and of plain (cloneable) data.
 * SQLite runs it in the thread that owns the file; a server database runs the same function on a pooled connection.
 * Operations of one commit group share one transaction and one sync; each is all or nothing for itself.
 *
 * Rules for the functions: no I/O, no clock, no randomness of their own (all of it comes in as arguments), no state
 * kept between calls, SQL with `?` placeholders that both dialects understand. Refusals are returned, not thrown; a
 * throw rolls back this operation alone.
 */

export type SqlValue = string | number | bigint | null | Uint8Array;
export type Row = Record<string, unknown>;

export interface Transaction {
  readonly dialect: 'sqlite' | 'postgres';
  /** All rows. Numbers come as numbers (64-bit integers within 2^53), blobs as Uint8Array. */
  all<T = Row>(sql: string, ...params: SqlValue[]): Promise<T[]> | T[];
  /** The first row or undefined. */
  get<T = Row>(sql: string, ...params: SqlValue[]): Promise<T | undefined> | T | undefined;
  /** Number of rows changed. */
  run(sql: string, ...params: SqlValue[]): Promise<number> | number;
  /** Inserts one row into a table whose key is `seq`, and answers it; cheaper than RETURNING where that is possible. */
  insert(sql: string, ...params: SqlValue[]): Promise<number> | number;
}

/** That of the embedded database: whoever asks has his answer at once. */
export interface EmbeddedTransaction extends Transaction {
  readonly dialect: 'sqlite';
  all<T = Row>(sql: string, ...params: SqlValue[]): T[];
  get<T = Row>(sql: string, ...params: SqlValue[]): T | undefined;
  run(sql: string, ...params: SqlValue[]): number;
  insert(sql: string, ...params: SqlValue[]): number;
}

export function isEmbedded(tx: Transaction): tx is EmbeddedTransaction {
  return tx.dialect === 'sqlite';
}

export interface Operation<A, R> {
  readonly name: string;
  readonly mode: 'read' | 'write';
  run(tx: Transaction, args: A): Promise<R> | R;
  /** How arguments and results cross to the storage thread, where cloning them as they are is too slow. */
  readonly wire?: Wire<A, R>;
  /** It may take minutes over many rows; no request waits for it. */
  readonly slow?: boolean;
  /** Several calls that wait at the same moment as one transaction, for databases that do not group commits themselves. */
  together?(tx: Transaction, calls: readonly A[]): Promise<R[]>;
  /** Several calls of one commit group of the embedded database, where that is cheaper than one after the other. */
  inARow?(tx: EmbeddedTransaction, calls: readonly A[]): R[];
}

/**
 * Does what `run` does for each of the calls, in few statements of many rows; answers in their order. Throws when the
 * calls cannot be done together: each is run alone then. Changes nothing of its arguments.
 */
export type Together<A, R> = (tx: Transaction, calls: readonly A[]) => Promise<R[]>;

/** Does what `run` does for each of the calls, in their order, and answers in it; a throw rolls all of them back. */
export type InARow<A, R> = (tx: EmbeddedTransaction, calls: readonly A[]) => R[];

/**
 * To end a SELECT of rows that the transaction goes on to change by what it has read of them: holds them against other
 * transactions. The embedded database has one writer and needs nothing.
 */
export function locked(tx: Transaction): string {
  return tx.dialect === 'postgres' ? 'FOR NO KEY UPDATE' : '';
}

/**
 * How arguments and results cross to the storage thread. Strings cross for the price of a copy; cloning an object of thirty
 * members costs ten times its JSON. Bytes go beside them, those of a whole group as one.
 */
export interface Wire<A, R> {
  packArgs(args: A, bytes: PackedBytes): unknown;
  /** Takes the bytes in the order in which they were added. */
  unpackArgs(packed: unknown, bytes: UnpackedBytes): A;
  packResult(result: R): unknown;
  unpackResult(packed: unknown, args: A): R;
}

export interface PackedBytes {
  add(bytes: Uint8Array): void;
}

export interface UnpackedBytes {
  take(length: number): Uint8Array;
}

const registry = new Map<string, Operation<never, unknown>>();

export interface Ways<A, R> {
  slow?: boolean;
  wire?: Wire<A, R>;
  together?: Together<A, R>;
  inARow?: InARow<A, R>;
}

/** Defines and registers an operation; the name is `<folder>.<verb>` and unique. */
export function operation<A, R>(
  name: string,
  mode: 'read' | 'write',
  run: (tx: Transaction, args: A) => Promise<R> | R,
  ways: Ways<A, R> = {},
): Operation<A, R> {
  if (registry.has(name)) throw new Error(`operation ${name} is defined twice`);
  const defined: Operation<A, R> = { name, mode, run, ...ways };
  registry.set(name, defined as unknown as Operation<never, unknown>);
  return defined;
}

/** The names of all operations that are registered where this is called. */
export function operationNames(): string[] {
  return [...registry.keys()].sort();
}

export function findOperation(name: string): Operation<unknown, unknown> {
  const found = registry.get(name);
  if (!found) throw new Error(`operation ${name} is not registered; import its store in roles/operations.ts`);
  return found as unknown as Operation<unknown, unknown>;
}

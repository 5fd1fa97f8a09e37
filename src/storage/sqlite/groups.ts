/**
 * The batches of a storage thread: runs the operations of each on one SQLite connection and returns each batch once.
 *
 * Writer: a batch is one transaction and one sync (group commit). If an operation throws, the transaction is rolled back and the operations
 * run one by one, so that only the faulty one fails. If the commit fails because of space or a lock, nothing was changed and every
 * operation fails with that error. After an I/O error during the commit the outcome is unknown: its last frame may be complete in the
 * write-ahead log, and the next start then treats it as committed. A failed sync is never retried: after an I/O error the thread refuses
 * all further work and the process is expected to exit (pages that a failed fsync dropped may be lost, and a second fsync would report
 * success).
 */
import { findOperation, type Operation, type OperationMode, UnpackedBytes } from '../operation.ts';
import type { SqliteConnection } from './connection.ts';
import { describeStorageError, isStorageError } from './errors.ts';

export interface ThreadRequest {
  calls: [name: string, args: unknown][];
  /** Bytes of the arguments that were sent with a codec. */
  bytes: ArrayBuffer | null;
}
/** `lost`: an I/O error during the commit. */
export type OperationAnswer = { value: unknown } | { error: string; kind: 'bug' | 'busy' | 'full' | 'io' | 'lost' };
/** One result per call; only values if all succeeded. */
export type ThreadAnswer = { values: unknown[] } | { answers: OperationAnswer[] };

interface Call {
  op: Operation<unknown, unknown>;
  args: unknown;
}

/** A connection and, if it no longer accepts writes, the reason. */
interface Storage {
  readonly connection: SqliteConnection;
  readonly mode: OperationMode;
  readonly file: string;
  broken?: string;
}

export interface GroupRunner {
  answerTo(request: ThreadRequest): Promise<ThreadAnswer>;
  /** Moves the rest of the write-ahead log. */
  moveLog(): void;
}

/** Runs one batch after the other: an overlapping one would start within the first one's transaction. */
export function createGroupRunner(options: Omit<Storage, 'broken'>): GroupRunner {
  const storage: Storage = { ...options };
  return { answerTo: (request) => answerTo(storage, request), moveLog: () => moveLog(storage) };
}

async function answerTo(storage: Storage, request: ThreadRequest): Promise<ThreadAnswer> {
  let calls: Call[];
  try {
    calls = unpacked(request);
  } catch (error) {
    return { answers: request.calls.map(() => describe(error, storage.file)) };
  }
  return storage.mode === 'write' ? runWrites(storage, calls) : runReads(storage, calls);
}

function unpacked(request: ThreadRequest): Call[] {
  const bytes = new UnpackedBytes(request.bytes);
  return request.calls.map(([name, args]) => {
    const op = findOperation(name);
    return { op, args: op.codec ? op.codec.unpack(JSON.parse(args as string), bytes) : args };
  });
}

/**
 * Moves the rest of the log. Sends no response: if a full disk or a lock prevents the move, the next call repeats it. A failed sync ends
 * all writing, as everywhere; following operations are refused.
 */
function moveLog(storage: Storage): void {
  if (storage.broken) return;
  try {
    storage.connection.raw.exec('PRAGMA wal_checkpoint(PASSIVE)');
  } catch (error) {
    const answer = describe(error, storage.file);
    if ('kind' in answer && answer.kind === 'io') storage.broken = answer.error;
  }
}

async function runReads({ connection, file }: Storage, calls: Call[]): Promise<ThreadAnswer> {
  const answers: OperationAnswer[] = [];
  for (const { op, args } of calls) {
    try {
      answers.push({ value: (await op.run(connection, [args]))[0] });
    } catch (error) {
      answers.push(describe(error, file));
    }
  }
  return { answers };
}

async function runWrites(storage: Storage, calls: Call[]): Promise<ThreadAnswer> {
  if (storage.broken) return { answers: calls.map(() => ({ error: storage.broken!, kind: 'io' })) };
  const together = await runGroup(storage, calls);
  if (together.ok) return { values: together.values };
  if (together.fatal || calls.length === 1) return { answers: calls.map(() => together.answer) };
  const answers: OperationAnswer[] = [];
  for (const call of calls) {
    const alone: GroupOutcome = storage.broken
      ? { ok: false, fatal: true, answer: { error: storage.broken, kind: 'io' } }
      : await runGroup(storage, [call]);
    answers.push(alone.ok ? { value: alone.values[0] } : alone.answer);
  }
  return { answers };
}

type GroupOutcome = { ok: true; values: unknown[] } | { ok: false; fatal: boolean; answer: OperationAnswer };

async function runGroup(storage: Storage, calls: Call[]): Promise<GroupOutcome> {
  const { connection: tx, file } = storage;
  let committing = false;
  try {
    tx.begin();
    const values = await runCalls(tx, calls);
    committing = true;
    tx.commit();
    return { ok: true, values };
  } catch (error) {
    const answer = describe(error, file);
    try {
      tx.rollback();
    } catch (rollbackError) {
      storage.broken = `rollback failed: ${(rollbackError as Error).message}`;
    }
    if ('kind' in answer && answer.kind === 'io') storage.broken = answer.error;
    const fatal = committing || !('kind' in answer) || answer.kind !== 'bug';
    if (committing && 'kind' in answer && answer.kind === 'io') {
      return { ok: false, fatal, answer: { ...answer, kind: 'lost' } };
    }
    return { ok: false, fatal, answer };
  }
}

/** Calls of a set operation run together at the position of the first. */
async function runCalls(tx: SqliteConnection, calls: Call[]): Promise<unknown[]> {
  const values: unknown[] = new Array(calls.length);
  const done = new Set<Call['op']>();
  for (const [index, { op, args }] of calls.entries()) {
    if (!op.isSet) values[index] = (await op.run(tx, [args]))[0];
    else if (!done.has(op)) {
      done.add(op);
      const same = calls.filter((call) => call.op === op);
      const results = await op.run(
        tx,
        same.map((call) => call.args),
      );
      let next = 0;
      for (const [at, call] of calls.entries()) if (call.op === op) values[at] = results[next++];
    }
  }
  return values;
}

/** SQLite's primary result codes: 5 BUSY, 6 LOCKED, 13 FULL. */
function describe(error: unknown, file: string): OperationAnswer {
  const { message, errcode, stack } = error as { message?: string; errcode?: number; stack?: string };
  const primary = errcode === undefined ? undefined : errcode & 0xff;
  const text = message ?? String(error);
  if (primary === 5 || primary === 6) return { error: text, kind: 'busy' };
  if (primary === 13) return { error: text, kind: 'full' };
  if (isStorageError(error)) return { error: describeStorageError(error, file), kind: 'io' };
  return { error: stack ?? text, kind: 'bug' };
}

/**
 * The batches of a storage thread: runs the operations of each on one SQLite connection, and answers each batch once.
 *
 * Writer: a batch is one transaction and one sync (group commit). If one of its operations throws, the transaction is
 * rolled back and the operations run again one by one, so that only the one that threw fails. If the commit itself fails
 * for want of space or behind a lock, nothing of the batch has happened and every operation is answered so. After an I/O error
 * of the commit nobody knows: its last frame may stand in the write-ahead log, whole, and the next start then takes it for
 * committed. A failed sync is never retried: after an I/O error the thread refuses all further work and the process is
 * expected to end (the pages a failed fsync dropped may be gone, and a second fsync would claim otherwise).
 */
import { findOperation, type Operation, type OperationMode, UnpackedBytes } from '../operation.ts';
import type { SqliteConnection } from './connection.ts';
import { describeStorageError, isStorageError } from './errors.ts';

export interface ThreadRequest {
  calls: [name: string, args: unknown][];
  /** Those of the arguments that crossed by a codec. */
  bytes: ArrayBuffer | null;
}
/** `lost`: an I/O error while the commit was written. */
export type OperationAnswer = { value: unknown } | { error: string; kind: 'bug' | 'busy' | 'full' | 'io' | 'lost' };
/** One for each call: values where all went well. */
export type ThreadAnswer = { values: unknown[] } | { answers: OperationAnswer[] };

interface Call {
  op: Operation<unknown, unknown>;
  args: unknown;
}

/** A connection, and why nothing is written on it any more, if so. */
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

/** One batch after the other: the next would begin within the transaction of one that waits for something. */
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
 * Moves the rest of the log. No answer is due: what a full disk or a lock prevents now, the next one does. A sync that
 * failed ends all writing, as everywhere; the operations that come next are answered so.
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

/** Calls of an operation on sets are done at the place of the first: those of one group wait together. */
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

/**
 * The thread that owns one SQLite connection: the writer, or a reader. It takes batches of operations from the
 * serving thread and answers each batch once.
 *
 * Writer: a batch is one transaction and one sync (group commit). If one of its operations throws, the transaction is
 * rolled back and the operations run again one by one, so that only the one that threw fails. If the commit itself fails
 * for want of space or behind a lock, nothing of the batch has happened and every operation is answered so. After an I/O error
 * of the commit nobody knows: its last frame may stand in the write-ahead log, whole, and the next start then takes it for
 * committed. A failed sync is never retried: after an I/O error the thread refuses all further work and the process is
 * expected to end (the pages a failed fsync dropped may be gone, and a second fsync would claim otherwise).
 */
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { collectGarbage } from '../../base/collector.ts';
import { findOperation, type Operation, type OperationMode, UnpackedBytes } from '../operation.ts';

import { openSqlite, type SqliteConnection } from './connection.ts';
import { describeStorageError, isStorageError } from './errors.ts';

export interface ThreadSetup {
  file: string;
  mode: OperationMode;
  /** URL of the module that imports every store, so that all operations are registered here too. */
  operationsModule: string;
}

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

/** What loading left in this thread, 4 MB each; the threads of a process not at the same moment. */
const COLLECT_AFTER_MS = { write: 500, read: 700, search: 900 };

type Message = ThreadRequest | 'close' | 'checkpoint';

const port = parentPort;
if (!port) throw new Error('sqlite/thread.ts runs as a worker thread only');
const setup = workerData as ThreadSetup;
await import(setup.operationsModule);
const connection = openSqlite(setup.file, { readOnly: setup.mode !== 'write' });
let broken: string | undefined;

// One group after the other, also should an operation wait for something: the next would begin within its transaction.
let last: Promise<void> = Promise.resolve();
port.on('message', (message: Message) => {
  last = last.then(() => handle(port, message));
});
port.postMessage('open');
setTimeout(collectGarbage, COLLECT_AFTER_MS[setup.mode]).unref();

async function handle(port: MessagePort, message: Message): Promise<void> {
  if (message === 'close') {
    connection.close();
    port.close();
    return;
  }
  if (message === 'checkpoint') {
    moveLog(connection);
    return;
  }
  const answer = await answerTo(message);
  const busy = 'answers' in answer && answer.answers.find((one) => 'error' in one && one.kind === 'busy');
  // Taken before the answer is sent: what is sent after it did not wait for the lock.
  const late = busy ? waitingAt(port) : [];
  port.postMessage(answer);
  if (busy) await refuse(port, late, busy);
}

function waitingAt(port: MessagePort): Message[] {
  const waiting: Message[] = [];
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    waiting.push(next.message as Message);
  }
  return waiting;
}

/** Who came while the lock was waited for has waited as long; another round would double it for them. */
async function refuse(port: MessagePort, late: readonly Message[], busy: OperationAnswer): Promise<void> {
  for (const message of late) {
    if (typeof message === 'string') await handle(port, message);
    else port.postMessage({ answers: message.calls.map(() => busy) } satisfies ThreadAnswer);
  }
}

async function answerTo(request: ThreadRequest): Promise<ThreadAnswer> {
  let calls: Call[];
  try {
    calls = unpacked(request);
  } catch (error) {
    return { answers: request.calls.map(() => describe(error)) };
  }
  return setup.mode === 'write' ? runWrites(connection, calls) : runReads(connection, calls);
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
function moveLog(tx: SqliteConnection): void {
  if (broken) return;
  try {
    tx.raw.exec('PRAGMA wal_checkpoint(PASSIVE)');
  } catch (error) {
    const answer = describe(error);
    if ('kind' in answer && answer.kind === 'io') broken = answer.error;
  }
}

async function runReads(tx: SqliteConnection, calls: Call[]): Promise<ThreadAnswer> {
  const answers: OperationAnswer[] = [];
  for (const { op, args } of calls) {
    try {
      answers.push({ value: (await op.run(tx, [args]))[0] });
    } catch (error) {
      answers.push(describe(error));
    }
  }
  return { answers };
}

async function runWrites(tx: SqliteConnection, calls: Call[]): Promise<ThreadAnswer> {
  if (broken) return { answers: calls.map(() => ({ error: broken!, kind: 'io' })) };
  const together = await runGroup(tx, calls);
  if (together.ok) return { values: together.values };
  if (together.fatal || calls.length === 1) return { answers: calls.map(() => together.answer) };
  const answers: OperationAnswer[] = [];
  for (const call of calls) {
    const alone: GroupOutcome = broken
      ? { ok: false, fatal: true, answer: { error: broken, kind: 'io' } }
      : await runGroup(tx, [call]);
    answers.push(alone.ok ? { value: alone.values[0] } : alone.answer);
  }
  return { answers };
}

type GroupOutcome = { ok: true; values: unknown[] } | { ok: false; fatal: boolean; answer: OperationAnswer };

async function runGroup(tx: SqliteConnection, calls: Call[]): Promise<GroupOutcome> {
  let committing = false;
  try {
    tx.begin();
    const values = await runCalls(tx, calls);
    committing = true;
    tx.commit();
    return { ok: true, values };
  } catch (error) {
    const answer = describe(error);
    try {
      tx.rollback();
    } catch (rollbackError) {
      broken = `rollback failed: ${(rollbackError as Error).message}`;
    }
    if ('kind' in answer && answer.kind === 'io') broken = answer.error;
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
function describe(error: unknown): OperationAnswer {
  const { message, errcode, stack } = error as { message?: string; errcode?: number; stack?: string };
  const primary = errcode === undefined ? undefined : errcode & 0xff;
  const text = message ?? String(error);
  if (primary === 5 || primary === 6) return { error: text, kind: 'busy' };
  if (primary === 13) return { error: text, kind: 'full' };
  if (isStorageError(error)) return { error: describeStorageError(error, setup.file), kind: 'io' };
  return { error: stack ?? text, kind: 'bug' };
}

/**
 * The thread that owns one SQLite connection: the writer, or the reader. It takes batches of operations from the
 * serving thread and answers each batch once.
 *
 * Writer: a batch is one transaction and one sync (group commit). If one of its operations throws, the transaction is
 * rolled back and the operations run again one by one, so that only the guilty one fails. If the commit itself fails
 * for want of space or behind a lock, nothing of the batch has happened and every operation is answered so. After an I/O error
 * of the commit nobody knows: its last frame may stand in the write-ahead log, whole, and the next start then takes it for
 * committed. A failed sync is never retried: after an I/O error the thread refuses all further work and the process is
 * expected to end (the pages a failed fsync dropped may be gone, and a second fsync would claim otherwise).
 */
import { parentPort, workerData } from 'node:worker_threads';
import { findOperation, type Operation } from './operation.ts';
import { openSqlite, type SqliteConnection } from './sqlite-connection.ts';

export interface ThreadSetup {
  file: string;
  mode: 'read' | 'write';
  /** URL of the module that imports every store, so that all operations are registered here too. */
  operationsModule: string;
}

export type ThreadRequest = [name: string, args: unknown][];
/** `lost`: an I/O error while the commit was written. */
export type OperationAnswer = { value: unknown } | { error: string; kind: 'bug' | 'busy' | 'full' | 'io' | 'lost' };

const port = parentPort;
if (!port) throw new Error('sqlite-thread runs as a worker thread only');
const setup = workerData as ThreadSetup;
await import(setup.operationsModule);
const connection = openSqlite(setup.file, { readOnly: setup.mode === 'read' });
let broken: string | undefined;

port.on('message', async (batch: ThreadRequest | 'close' | 'checkpoint') => {
  if (batch === 'close') {
    connection.close();
    port.close();
    return;
  }
  if (batch === 'checkpoint') {
    moveLog(connection);
    return;
  }
  const answers = setup.mode === 'write' ? await runWrites(connection, batch) : await runReads(connection, batch);
  port.postMessage(answers);
});
port.postMessage('open');

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

async function runReads(tx: SqliteConnection, batch: ThreadRequest): Promise<OperationAnswer[]> {
  const answers: OperationAnswer[] = [];
  for (const [name, args] of batch) {
    try {
      const { run, wire } = findOperation(name);
      answers.push({ value: wire ? wire.packResult(await run(tx, wire.unpackArgs(args))) : await run(tx, args) });
    } catch (error) {
      answers.push(describe(error));
    }
  }
  return answers;
}

async function runWrites(tx: SqliteConnection, batch: ThreadRequest): Promise<OperationAnswer[]> {
  if (broken) return batch.map(() => ({ error: broken!, kind: 'io' }));
  const together = await runGroup(tx, batch);
  if (together.ok) return together.answers;
  if (together.fatal || batch.length === 1) return batch.map(() => together.answer);
  const answers: OperationAnswer[] = [];
  for (const request of batch) {
    const alone: GroupOutcome = broken
      ? { ok: false, fatal: true, answer: { error: broken, kind: 'io' } }
      : await runGroup(tx, [request]);
    answers.push(alone.ok ? alone.answers[0]! : alone.answer);
  }
  return answers;
}

type GroupOutcome = { ok: true; answers: OperationAnswer[] } | { ok: false; fatal: boolean; answer: OperationAnswer };

async function runGroup(tx: SqliteConnection, batch: ThreadRequest): Promise<GroupOutcome> {
  const answers: OperationAnswer[] = [];
  let committing = false;
  try {
    tx.begin();
    committing = false;
    for (const [name, args] of batch) {
      const op: Operation<unknown, unknown> = findOperation(name);
      const { wire } = op;
      if (wire) answers.push({ value: wire.packResult(await op.run(tx, wire.unpackArgs(args))) });
      else answers.push({ value: await op.run(tx, args) });
    }
    committing = true;
    tx.commit();
    return { ok: true, answers };
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

/** SQLite's primary result codes: 5 BUSY, 6 LOCKED, 8 READONLY, 10 IOERR, 11 CORRUPT, 13 FULL, 14 CANTOPEN, 26 NOTADB. */
function describe(error: unknown): OperationAnswer {
  const { message, errcode, stack } = error as { message?: string; errcode?: number; stack?: string };
  const primary = errcode === undefined ? undefined : errcode & 0xff;
  const text = message ?? String(error);
  if (primary === 5 || primary === 6) return { error: text, kind: 'busy' };
  if (primary === 13) return { error: text, kind: 'full' };
  if (primary === 8 || primary === 10 || primary === 11 || primary === 14 || primary === 26) {
    return { error: text, kind: 'io' };
  }
  return { error: stack ?? text, kind: 'bug' };
}

/**
 * The SQLite database: one writer thread with group commit, one reader thread, one for searches (started with the first), one checkpointer.
 * Operations that wait during a commit form the next group, so that under load many share one sync and the serving thread never waits for
 * the disk. Refuses to open a directory that another serving process holds.
 */
import { Worker } from 'node:worker_threads';
import { OutcomeUnknown, Unavailable } from '../../base/failure.ts';
import type { Log } from '../../base/log.ts';
import { moduleUrl } from '../../base/program-files.ts';
import type { Database, DatabaseState } from '../database.ts';
import { type Operation, PackedBytes } from '../operation.ts';
import { startCheckpointer } from './checkpoint.ts';
import type { OperationAnswer, ThreadAnswer, ThreadRequest } from './groups.ts';
import type { ThreadSetup } from './thread.ts';

/**
 * Limits for the size of a commit group, normally half of what waits, so that the serving thread prepares the next group while this one is
 * synced. On a slow disk more operations wait, and groups grow.
 */
const GROUP_MIN = 24;
const GROUP_MAX = 256;
/**
 * Once this many operations wait, they are sent while another group is in progress, so that the storage thread finds them when it has
 * finished.
 */
const NEXT_GROUP_MIN = 6;

type AnyOperation = Operation<unknown, unknown>;

interface Waiting {
  op: AnyOperation;
  args: unknown;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** One storage thread and its queue: at most two groups are in progress at a time, the others wait here. */
class ThreadQueue {
  readonly #worker: Worker;
  readonly #opened: Promise<void>;
  #isOpen = false;
  readonly #onBroken: (reason: string) => void;
  readonly #writes: boolean;
  #waiting: Waiting[] = [];
  readonly #inFlight: Waiting[][] = [];
  #scheduled = false;
  #ended: string | undefined;
  #closing = false;
  #drained: (() => void) | undefined;

  constructor(setup: ThreadSetup, onBroken: (reason: string) => void) {
    this.#onBroken = onBroken;
    this.#writes = setup.mode === 'write';
    this.#worker = new Worker(moduleUrl('storage/sqlite/thread'), {
      workerData: setup,
      // A thread's allocations are short-lived and small; half of Node's default limits resident memory.
      resourceLimits: { maxYoungGenerationSizeMb: setup.mode === 'write' ? 24 : 8 },
    });
    this.#opened = new Promise((resolve, reject) => {
      this.#worker.once('message', () => {
        this.#worker.on('message', (answer: ThreadAnswer) => this.#settle(answer));
        this.#isOpen = true;
        resolve();
      });
      this.#worker.once('error', reject);
    });
    this.#worker.on('error', (error) => this.#end(`storage thread failed: ${(error as Error).message}`));
    this.#worker.on('exit', () => this.#end('storage thread has ended'));
  }

  opened(): Promise<void> {
    return this.#opened;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  push(op: AnyOperation, args: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#ended) {
        reject(new Unavailable(this.#ended, 'OVERLOADED'));
        return;
      }
      this.#waiting.push({ op, args, resolve, reject });
      if (this.#inFlight.length > 0) this.#sendNext();
      else if (!this.#scheduled) {
        this.#scheduled = true;
        // Requests read in the same turn of the event loop join the same group.
        setImmediate(() => {
          this.#scheduled = false;
          if (!this.#ended) this.#sendNext();
        });
      }
    });
  }

  /** Makes the thread move the rest of the write-ahead log before its next batch. */
  checkpoint(): void {
    if (!this.#ended) this.#worker.postMessage('checkpoint');
  }

  #sendNext(): void {
    const underWay = this.#inFlight.length;
    if (underWay > 1 || this.#waiting.length < (underWay === 0 ? 1 : NEXT_GROUP_MIN)) return;
    const group = this.#waiting.splice(0, Math.min(GROUP_MAX, Math.max(GROUP_MIN, this.#waiting.length >> 1)));
    // Arguments that cannot be cloned fail alone; the other calls are sent separately.
    if (this.#send(group) !== undefined) for (const one of group) this.#sendAlone(one);
    if (this.#inFlight.length > 0) return;
    if (this.#waiting.length > 0) this.#sendNext();
    else this.#drained?.();
  }

  /** Returns the error if nothing was sent. */
  #send(group: Waiting[]): Error | undefined {
    try {
      const packed = new PackedBytes();
      const calls = group.map(({ op, args }): ThreadRequest['calls'][number] => [
        op.name,
        op.codec ? JSON.stringify(op.codec.pack(args, packed)) : args,
      ]);
      const bytes = packed.joined();
      this.#worker.postMessage({ calls, bytes } satisfies ThreadRequest, bytes === null ? [] : [bytes]);
      this.#inFlight.push(group);
      return undefined;
    } catch (error) {
      return error as Error;
    }
  }

  #sendAlone(one: Waiting): void {
    const error = this.#send([one]);
    if (error !== undefined) one.reject(error);
  }

  #settle(answer: ThreadAnswer): void {
    const done = this.#inFlight.shift() ?? [];
    const refused = 'answers' in answer ? answer.answers : [];
    const busy = refused.find((one) => 'error' in one && one.kind === 'busy');
    if (busy && 'error' in busy) this.#refuseWaiting(busy.error);
    this.#sendNext();
    if ('values' in answer) for (const [index, one] of done.entries()) one.resolve(answer.values[index]);
    else for (const [index, one] of done.entries()) this.#settleOne(one, answer.answers[index]!);
    if (this.#inFlight.length === 0 && this.#waiting.length === 0) this.#drained?.();
  }

  #settleOne(one: Waiting, answer: OperationAnswer): void {
    if ('value' in answer) one.resolve(answer.value);
    else if (answer.kind === 'bug') one.reject(new Error(`${one.op.name}: ${answer.error}`));
    else {
      const isLost = answer.kind === 'lost';
      if (isLost || answer.kind === 'io') this.#onBroken(answer.error);
      const reason = `${one.op.name}: ${answer.error}`;
      one.reject(isLost ? new OutcomeUnknown(reason, 'OVERLOADED') : new Unavailable(reason, 'OVERLOADED'));
    }
  }

  /**
   * Another process held the file for the complete busy timeout. Operations that came in the meantime have waited as long, so they are
   * refused too instead of waiting again.
   */
  #refuseWaiting(reason: string): void {
    for (const one of this.#waiting.splice(0)) one.reject(new Unavailable(`${one.op.name}: ${reason}`, 'OVERLOADED'));
  }

  /** If a thread ends unexpectedly, storage is lost: the process should exit and restart. */
  #end(reason: string): void {
    if (!this.#closing && !this.#ended) this.#onBroken(reason);
    this.#ended ??= reason;
    for (const one of this.#inFlight.splice(0).flat()) {
      one.reject(this.#writes ? new OutcomeUnknown(reason, 'OVERLOADED') : new Unavailable(reason, 'OVERLOADED'));
    }
    for (const one of this.#waiting.splice(0)) one.reject(new Unavailable(reason, 'OVERLOADED'));
    this.#drained?.();
  }

  async close(): Promise<void> {
    this.#closing = true;
    if (this.#inFlight.length > 0 || this.#waiting.length > 0) {
      await new Promise<void>((resolve) => {
        this.#drained = resolve;
      });
    }
    if (this.#ended) return;
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.postMessage('close');
    await exited;
  }
}

export interface SqliteOptions {
  /** Path of the migrated database file. */
  file: string;
  operationsModule: string;
  log: Log;
  /** Called once when storage can no longer be trusted (an I/O error); the process should exit. */
  onBroken(reason: string): void;
}

/** Opens the threads; throws if the file cannot be opened as required. */
export async function openSqliteDatabase(options: SqliteOptions): Promise<Database> {
  let state: DatabaseState = { ready: true };
  const broken = (reason: string): void => {
    if (!state.ready) return;
    state = { ready: false, reason: 'the storage failed and the service is stopping; see its log for the reason' };
    options.onBroken(reason);
  };
  const setup = { file: options.file, operationsModule: options.operationsModule };
  const writer = new ThreadQueue({ ...setup, mode: 'write' }, broken);
  await writer.opened();
  const reader = new ThreadQueue({ ...setup, mode: 'read' }, broken);
  await reader.opened();
  let searcher: ThreadQueue | undefined;
  const searching = (): ThreadQueue => {
    if (searcher) return searcher.isOpen ? searcher : reader;
    searcher = new ThreadQueue({ ...setup, mode: 'search' }, broken);
    // Nothing waits for its start; a failure reaches the operations that use it.
    searcher.opened().catch(() => undefined);
    return reader;
  };
  const queues = { write: () => writer, read: () => reader, search: searching };
  const checkpointer = startCheckpointer({
    file: options.file,
    log: options.log,
    onBroken: broken,
    finish: () => writer.checkpoint(),
  });
  return {
    dialect: 'sqlite',
    execute: <A, R>(op: Operation<A, R>, args: A) =>
      queues[op.mode]().push(op as unknown as AnyOperation, args) as Promise<R>,
    state: () => state,
    close: async () => {
      await checkpointer.stop();
      await searcher?.close();
      await reader.close();
      await writer.close();
    },
  };
}

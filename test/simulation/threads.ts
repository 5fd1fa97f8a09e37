/**
 * The storage threads of a simulated node: real SQLite, in this thread, on a separate file. A message to a thread takes a moment, and so
 * does its reply, and a process may die between them: what was committed by then exists at its next start, and nothing else does.
 *
 * If the machine loses power, data written without a sync is also lost: the write-ahead log is cut at its last sync. A connection that
 * syncs every commit, as the product must configure it, loses nothing.
 */
import type { EventEmitter } from 'node:events';
import { copyFileSync, rmSync, statSync, truncateSync } from 'node:fs';
import { openSqlite, type SqliteConnection } from '../../src/storage/sqlite/connection.ts';
import {
  createGroupRunner,
  type GroupRunner,
  type ThreadAnswer,
  type ThreadRequest,
} from '../../src/storage/sqlite/groups.ts';
import type { ThreadSetup } from '../../src/storage/sqlite/thread.ts';
import type { Random } from './random.ts';
import type { Process, Timeline } from './timeline.ts';

interface Thread {
  process: Process;
  groups: GroupRunner;
  mode: ThreadSetup['mode'];
  file: string;
  last: Promise<void>;
  /** When the last message arrives there, and when its last reply arrives: a port keeps their order. */
  comesAtMs: number;
  answersAtMs: number;
}

/** Slightly later than the previous message, however late timers are. */
const BEHIND_MS = 0.31;

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

/** The share of the ten checks per second of the write-ahead log that find it long enough to be checkpointed. */
const LONG_LOG_SHARE = 0.02;
const LONG_LOG_BYTES = 16 * 1024 * 1024;

/** A connection outlives the process that opened it, since committed data does; a power cut replaces it. */
interface OpenFile {
  connections: Map<string, SqliteConnection>;
}

/** Shares of a writer's groups. */
export interface StorageFaults {
  /** The file is locked, or the disk full: the group has no effect. */
  refused: number;
  /** The disk fails during the commit: the group has its effect, or not. */
  lost: number;
}

export class SimulatedThreads {
  readonly #timeline: Timeline;
  readonly #random: Random;
  readonly #threads = new WeakMap<EventEmitter, Thread>();
  readonly #files = new Map<string, OpenFile>();
  readonly #faults: StorageFaults;
  readonly #logs: Random;
  readonly #count: (what: string) => void;

  constructor(
    timeline: Timeline,
    { random, faults, count }: { random: Random; faults: StorageFaults; count(what: string): void },
  ) {
    this.#timeline = timeline;
    this.#random = random;
    this.#logs = random.stream('logs');
    this.#faults = faults;
    this.#count = count;
  }

  #openFile(file: string): OpenFile {
    const known = this.#files.get(file) ?? { connections: new Map() };
    this.#files.set(file, known);
    return known;
  }

  connection(file: string, mode: ThreadSetup['mode'] | 'checkpoint'): SqliteConnection {
    const { connections } = this.#openFile(file);
    const isWriter = mode === 'write' || mode === 'checkpoint';
    const role = isWriter ? mode : 'read';
    let connection = connections.get(role);
    if (!connection) {
      connection = openSqlite(file, { readOnly: !isWriter });
      connections.set(role, connection);
    }
    return connection;
  }

  start(worker: EventEmitter, { file, mode }: ThreadSetup): void {
    const { process } = this.#timeline;
    const groups = createGroupRunner({ connection: this.connection(file, mode), mode, file });
    this.#threads.set(worker, { process, groups, mode, file, last: Promise.resolve(), comesAtMs: 0, answersAtMs: 0 });
    this.#timeline.after(1, 'storage opens', () => worker.emit('message', 'open'), process);
  }

  post(worker: EventEmitter, message: unknown): void {
    const thread = this.#threads.get(worker)!;
    if (message === 'close') {
      this.#timeline.after(0.2, 'storage closes', () => worker.emit('exit', 0), thread.process);
      return;
    }
    const timeline = this.#timeline;
    if (message === 'checkpoint') {
      const move = (): void => {
        thread.last = thread.last.then(() => thread.groups.moveLog());
      };
      timeline.after(this.#random.between(0.02, 4), 'storage moves its log', move, thread.process);
      return;
    }
    const request = message as ThreadRequest;
    thread.comesAtMs = Math.max(thread.comesAtMs + BEHIND_MS, timeline.nowMs + this.#random.between(0.02, 0.4));
    timeline.after(
      thread.comesAtMs - timeline.nowMs,
      `storage ${thread.mode}`,
      () => {
        thread.last = thread.last.then(async () => {
          const answer = await this.#answerTo(thread, request);
          // A sync takes time; some disks stall.
          const ms = this.#random.chance(0.01) ? this.#random.between(20, 800) : this.#random.between(0.1, 4);
          thread.answersAtMs = Math.max(thread.answersAtMs + BEHIND_MS, timeline.nowMs + ms);
          timeline.after(
            thread.answersAtMs - timeline.nowMs,
            'storage answers',
            () => worker.emit('message', answer),
            thread.process,
          );
        });
      },
      thread.process,
    );
  }

  async #answerTo({ mode, groups }: Thread, request: ThreadRequest): Promise<ThreadAnswer> {
    const draw = mode === 'write' ? this.#random.next() : 1;
    const { refused, lost } = this.#faults;
    const all = (error: string, kind: 'busy' | 'full' | 'lost'): ThreadAnswer => ({
      answers: request.calls.map(() => ({ error, kind })),
    });
    if (draw < refused) {
      this.#count('rejected transaction');
      return draw < refused / 2 ? all('database is locked', 'busy') : all('database or disk is full', 'full');
    }
    if (draw >= refused + lost) return groups.answerTo(request);
    this.#count('commit with unknown outcome');
    if (draw < refused + lost / 2) await groups.answerTo(request);
    return all('the disk stopped responding', 'lost');
  }

  /** Returns the size of the write-ahead log for the checkpointer; its time always differs. */
  logOf(): { size: number; mtimeMs: number } {
    const isLong = this.#logs.chance(LONG_LOG_SHARE);
    return { size: isLong ? LONG_LOG_BYTES : 0, mtimeMs: this.#timeline.nowMs };
  }

  /** Runs a checkpoint on a separate connection. */
  checkpoint(worker: EventEmitter, file: string): void {
    const pass = (): void => {
      this.#count('checkpoint');
      this.connection(file, 'checkpoint').raw.exec('PRAGMA wal_checkpoint(PASSIVE)');
      this.#timeline.after(this.#random.between(0.1, 20), 'checkpoint ends', () => worker.emit('message', true));
    };
    this.#timeline.after(this.#random.between(0.1, 20), 'checkpoint', pass);
  }

  /** Rolls back what a process leaves that dies in a transaction. */
  rollBack(file: string): void {
    this.#files.get(file)?.connections.get('write')?.rollback();
  }

  /** Writes what a power cut leaves of a file to another file; the original is removed. */
  cut(file: string, into: string): void {
    const { synchronous } = this.connection(file, 'write').get<{ synchronous: number }>('PRAGMA synchronous')!;
    const writtenBytes = sizeOf(`${file}-wal`);
    // FULL, which the product must set, syncs each commit before its reply.
    const keptBytes = synchronous >= 2 ? writtenBytes : this.#random.below(writtenBytes + 1);
    copyFileSync(file, into);
    if (writtenBytes > 0) {
      copyFileSync(`${file}-wal`, `${into}-wal`);
      truncateSync(`${into}-wal`, keptBytes);
    }
    this.close(file);
  }

  close(file: string): void {
    for (const connection of this.#files.get(file)?.connections.values() ?? []) connection.close();
    this.#files.delete(file);
    for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true });
  }

  closeAll(): void {
    for (const file of [...this.#files.keys()]) this.close(file);
  }
}

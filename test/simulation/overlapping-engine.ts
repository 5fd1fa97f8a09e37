/**
 * A real PostgreSQL server for scenarios, with many sessions whose transactions overlap. Each call returns once the server has done
 * what it can: a statement has its reply, or waits for a lock of another session. The simulation decides which session runs next, so the
 * order of all statements depends on the seed alone. The server's time is that of the scenario.
 */
import { writeFileSync } from 'node:fs';
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import type { Operations, Progress } from './overlapping-thread.ts';
import { message, messagesOf, readRows, statement, type Value } from './postgres-protocol.ts';
import { RealWorker } from './simulated-io.ts';

type Answer<Name extends keyof Operations> = Awaited<ReturnType<Operations[Name]>>;

export class OverlappingEngine {
  readonly #port;
  readonly #signal = new Int32Array(new SharedArrayBuffer(4));
  readonly #clock: string;
  #nowMs: number | undefined;

  constructor() {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const thread = new RealWorker(new URL('overlapping-thread.ts', import.meta.url), {
      workerData: { port: port2, signal: this.#signal },
      transferList: [port2],
    });
    thread.unref();
    port1.unref();
    this.#clock = this.#call('create');
  }

  /** Blocks this thread until the other one has answered. */
  #call<Name extends keyof Operations>(name: Name, ...args: Parameters<Operations[Name]>): Answer<Name> {
    Atomics.store(this.#signal, 0, 0);
    this.#port.postMessage({ name, args });
    // The notification of the answer before may arrive only now.
    while (Atomics.load(this.#signal, 0) === 0) Atomics.wait(this.#signal, 0, 0);
    const { value, error } = receiveMessageOnPort(this.#port)!.message as { value: Answer<Name>; error?: string };
    if (error !== undefined) throw new Error(`the database server: ${error}`);
    return value;
  }

  /** Sets the server's time, Unix ms. */
  setTime(nowMs: number): void {
    if (nowMs === this.#nowMs) return;
    this.#nowMs = nowMs;
    writeFileSync(this.#clock, String(nowMs));
  }

  connect(id: number): void {
    this.#call('connect', id);
  }

  /** Runs messages up to a Sync or a Query. */
  exec(id: number, bytes: Uint8Array): Progress {
    return this.#call('exec', id, bytes);
  }

  /** Continues a session whose lock was granted. */
  resume(id: number): Progress {
    return this.#call('resume', id);
  }

  /** Cancels the statement of a session that waits. */
  cancel(id: number): Progress {
    return this.#call('cancel', id);
  }

  /** Ends a session that does not wait, and its transaction. */
  end(id: number): void {
    this.#call('end', id);
  }

  /** Returns the sessions that wait for a lock, each with the sessions that it waits for. */
  waiting(): { id: number; by: number[] }[] {
    return this.#call('waiting');
  }

  /** Returns how far the WAL is written to the disk. */
  writtenTo(): string {
    return this.rows<{ lsn: string }>('SELECT pg_current_wal_flush_lsn()::text AS lsn')[0]!.lsn;
  }

  /** Ends the server as by a power cut, and starts it again; all sessions end. */
  crash(): void {
    this.#call('crash');
  }

  /** Ends the server, and promotes a standby that received everything up to this place of the WAL. All sessions end. */
  promote(lsn: string): void {
    this.#call('promote', lsn);
  }

  /** Returns rows of a statement of the simulation itself, outside all sessions; throws the server's error. */
  rows<T>(sql: string, ...params: Value[]): T[] {
    return readRows<T>(Buffer.from(this.#call('monitor', statement(sql, params))));
  }

  /** Runs statements without parameters. */
  run(sql: string): void {
    const bytes = this.#call('monitor', message('Q', sql));
    const error = messagesOf(Buffer.from(bytes)).messages.find(({ type }) => type === 'E');
    if (error) throw new Error(`the database server: ${error.body.toString('utf8').replaceAll('\0', ' ')}`);
  }

  /** From now on `restore` returns to the current state. All sessions end. */
  keep(): void {
    this.#call('keep');
  }

  restore(): void {
    this.#nowMs = undefined;
    this.#call('restore');
  }
}

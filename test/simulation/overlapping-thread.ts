/**
 * The thread that owns a real PostgreSQL server for scenarios (overlapping-engine.ts): the server's programs, its data folder, and
 * one connection per session. The simulation waits for every answer, so exactly one backend runs at any moment:
 *
 *   idle ──exec──▶ running ──ReadyForQuery──▶ idle
 *                     └──waits for a lock (pg_locks)──▶ stopped (SIGSTOP) ──resume, after the lock was granted──▶ running
 *
 * A backend that waits for a lock is stopped, so that when the lock is granted the simulation decides who continues first. Requests for
 * locks are ungranted only while their backend sleeps, so neither result depends on how fast this machine is.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type MessagePort, workerData } from 'node:worker_threads';
import { initialize, installPrograms, keep, type Programs } from '../kit/temp-postgres.ts';
import { int32, message, messagesOf, readRows, statement } from './postgres-protocol.ts';

/** The result of a request at a backend. */
export interface Progress {
  bytes: Uint8Array;
  /** It waits for a lock, or it ended. */
  state: 'done' | 'waiting' | 'ended';
}

const DATABASE = 'postrider';
const MB = 1024 * 1024;
/** Bytes per file of pg_wal: few, so that copies are small. */
const SEGMENT_BYTES = MB;
const SEGMENTS_OF_FILE = 0x1_0000_0000 / SEGMENT_BYTES;
/** Attempts to connect to a server that starts, 5 ms apart: recovery takes long on a busy machine. */
const MOST_TRIES = 60_000;
/** Nothing happens in the server that the simulation did not start, and time plays no role in it. */
const SETTINGS = [
  'listen_addresses=',
  'max_connections=200',
  'shared_buffers=16MB',
  'autovacuum=off',
  'checkpoint_timeout=1d',
  'max_wal_size=4GB',
  'wal_keep_size=1GB',
  'bgwriter_lru_maxpages=0',
  'deadlock_timeout=2147483647',
  'max_wal_senders=0',
  'hot_standby=off',
];

const scratch = process.platform === 'linux' ? '/dev/shm' : os.tmpdir();
const home = mkdtempSync(path.join(scratch, 'postrider-overlapping-'));
const data = path.join(home, 'data');
const kept = path.join(home, 'kept');
const clock = path.join(home, 'clock');
const programs: Programs = installPrograms(home);
let server: ChildProcess | undefined;
let timeline = 1;
let monitor: Backend;
const backends = new Map<number, Backend>();

class Backend {
  readonly pid: number;
  readonly #socket: net.Socket;
  #received: Buffer[] = [];
  #isEnded = false;
  #heard: (() => void) | undefined;

  constructor(socket: net.Socket, pid: number) {
    this.#socket = socket;
    this.pid = pid;
    socket.on('data', (chunk: Buffer) => {
      this.#received.push(chunk);
      this.#heard?.();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#isEnded = true;
      this.#heard?.();
    });
  }

  /** Rejects while the server does not accept connections. */
  static async open(database: string): Promise<Backend> {
    const socket = net.connect(path.join(home, '.s.PGSQL.5432'));
    await once(socket, 'connect');
    const parameters = Buffer.from(`user\0postgres\0database\0${database}\0\0`);
    socket.write(Buffer.concat([int32(8 + parameters.length), int32(196_608), parameters]));
    let said = Buffer.alloc(0);
    while (!isComplete(said)) {
      const [chunk] = (await Promise.race([once(socket, 'data'), once(socket, 'close')])) as [Buffer | boolean];
      if (typeof chunk === 'boolean') throw new Error(said.toString('latin1'));
      said = Buffer.concat([said, chunk]);
    }
    socket.removeAllListeners();
    const key = messagesOf(said).messages.find(({ type }) => type === 'K')!;
    return new Backend(socket, key.body.readInt32BE(0));
  }

  async run(bytes: Uint8Array): Promise<Progress> {
    this.#socket.write(bytes);
    return this.#progress();
  }

  /** Waits for the reply, however long it takes. */
  async ask(bytes: Uint8Array): Promise<Buffer> {
    this.#socket.write(bytes);
    while (!this.#isOver()) await this.#change(1_000);
    return this.#take();
  }

  async rows<T>(sql: string, ...params: (string | number)[]): Promise<T[]> {
    return readRows<T>(await this.ask(statement(sql, params)));
  }

  /** Continues after the lock was granted, or after a cancellation. */
  async resume(): Promise<Progress> {
    process.kill(this.pid, 'SIGCONT');
    return this.#progress();
  }

  /** Cancels the statement that waits. */
  async cancel(): Promise<Progress> {
    process.kill(this.pid, 'SIGINT');
    process.kill(this.pid, 'SIGCONT');
    while (!this.#isOver()) await this.#change(1_000);
    return this.#progress();
  }

  async end(): Promise<void> {
    this.#socket.end(message('X'));
    await ended(this.pid);
    this.#socket.destroy();
  }

  abandon(): void {
    this.#socket.destroy();
  }

  async #progress(): Promise<Progress> {
    for (let waitMs = 1; !this.#isOver(); waitMs = Math.min(2 * waitMs, 20)) {
      if (await this.#change(waitMs)) continue;
      const [waiting] = await monitor.rows('SELECT 1 AS one FROM pg_locks WHERE NOT granted AND pid = ?', this.pid);
      if (waiting === undefined || this.#isOver()) continue;
      process.kill(this.pid, 'SIGSTOP');
      return { bytes: new Uint8Array(), state: 'waiting' };
    }
    return { state: this.#isEnded ? 'ended' : 'done', bytes: new Uint8Array(this.#take()) };
  }

  #isOver(): boolean {
    if (this.#isEnded) return true;
    if (this.#received.length > 1) this.#received = [Buffer.concat(this.#received)];
    return this.#received.length > 0 && isComplete(this.#received[0]!);
  }

  #take(): Buffer {
    return Buffer.concat(this.#received.splice(0));
  }

  /** Returns whether something arrived within the time. */
  #change(withinMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#heard = undefined;
        resolve(false);
      }, withinMs);
      this.#heard = () => {
        clearTimeout(timer);
        this.#heard = undefined;
        resolve(true);
      };
    });
  }
}

/** Whether the bytes end with a ReadyForQuery; texts contain no NUL. */
const isComplete = (bytes: Buffer): boolean =>
  bytes.length >= 6 && bytes[bytes.length - 6] === 0x5a && bytes.readInt32BE(bytes.length - 5) === 5;

/** Waits until the process has ended: it has released its locks then. */
async function ended(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await sleep(1);
  }
}

const give = (file: string): void => {
  if ('uid' in programs.identity) chownSync(file, programs.identity.uid, programs.identity.gid);
};

/** Returns once the server accepts connections. */
async function start(...more: string[]): Promise<void> {
  const settings = [...SETTINGS, `unix_socket_directories=${home}`, ...more].flatMap((one) => ['-c', one]);
  const child = spawn(path.join(programs.folder, 'bin', 'postgres'), ['-D', data, ...settings], {
    ...programs.identity,
    stdio: ['ignore', 'ignore', process.env.TEST_PG_LOG ? 'inherit' : 'ignore'],
  });
  server = child;
  let tries = 0;
  for (;;) {
    try {
      monitor = await Backend.open(DATABASE);
      return;
    } catch (error) {
      tries += 1;
      if (child.exitCode !== null || tries > MOST_TRIES) throw new Error('PostgreSQL did not start', { cause: error });
      await sleep(5);
    }
  }
}

async function stop(signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
  if (server === undefined) return;
  const over = once(server, 'exit');
  for (const { pid } of backends.values()) process.kill(pid, 'SIGCONT');
  server.kill(signal);
  await over;
  server = undefined;
  for (const one of [...backends.values(), monitor]) one.abandon();
  backends.clear();
}

const copy = (from: string, to: string): void => {
  rmSync(to, { recursive: true, force: true });
  execFileSync('cp', ['-a', from, to]);
};

/** Keeps the WAL of the old primary up to this place, and nothing after it: what had reached its standby. */
function cutWal(folder: string, lsn: string): void {
  const [high, low] = lsn.split('/').map((part) => Number.parseInt(part, 16)) as [number, number];
  const segment = high * SEGMENTS_OF_FILE + Math.floor(low / SEGMENT_BYTES);
  const hex = (value: number): string => value.toString(16).toUpperCase().padStart(8, '0');
  const last = hex(timeline) + hex(Math.floor(segment / SEGMENTS_OF_FILE)) + hex(segment % SEGMENTS_OF_FILE);
  for (const name of readdirSync(folder)) {
    if (name.length !== last.length || !name.startsWith(hex(timeline)) || name <= last) continue;
    rmSync(path.join(folder, name));
  }
  const file = path.join(folder, last);
  writeFileSync(file, readFileSync(file).fill(0, low % SEGMENT_BYTES));
}

/** Functions that the sessions use instead of the server's own: its time, and notifications. */
const functionsOf = (clock: string): string[] => [
  `CREATE FUNCTION simulated_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS
   'SELECT to_timestamp(pg_read_file(''${clock}'')::float8 / 1000)'`,
  `CREATE FUNCTION simulated_notify(channel TEXT, payload TEXT) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
     RAISE NOTICE USING ERRCODE = 'PN001', MESSAGE = payload, DETAIL = channel;
   END $$`,
];

const operations = {
  /** Creates the database, with a function for the time, and starts its server. */
  create: async () => {
    keep(home);
    initialize(programs, data, '--wal-segsize=1');
    chmodSync(home, 0o711);
    writeFileSync(clock, '0');
    const single = ['--single', '-D', data, 'postgres'];
    execFileSync(path.join(programs.folder, 'bin', 'postgres'), single, {
      ...programs.identity,
      input: `CREATE DATABASE ${DATABASE} TEMPLATE template0 ENCODING 'UTF8'\n`,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    await start();
    for (const sql of functionsOf(clock)) await monitor.rows(sql);
    return clock;
  },
  /** From now on `restore` returns to the current state. */
  keep: async () => {
    await stop('SIGINT');
    copy(data, kept);
  },
  restore: async () => {
    await stop('SIGQUIT');
    timeline = 1;
    copy(kept, data);
    await start();
  },
  /** Ends the server without a shutdown, and starts it again on its data. */
  crash: async () => {
    await stop('SIGQUIT');
    rmSync(path.join(data, 'postmaster.pid'), { force: true });
    await start();
  },
  /** Promotes a standby that received the WAL up to this place; the primary ends. */
  promote: async (lsn: string) => {
    await stop('SIGQUIT');
    const old = path.join(home, 'old');
    rmSync(old, { recursive: true, force: true });
    renameSync(data, old);
    copy(kept, data);
    copy(path.join(old, 'pg_wal'), path.join(data, 'pg_wal'));
    cutWal(path.join(data, 'pg_wal'), lsn);
    const signal = path.join(data, 'recovery.signal');
    writeFileSync(signal, '');
    give(signal);
    await start('restore_command=false');
    timeline += 1;
  },
  connect: async (id: number) => {
    backends.set(id, await Backend.open(DATABASE));
  },
  exec: (id: number, bytes: Uint8Array) => backends.get(id)!.run(bytes),
  resume: (id: number) => backends.get(id)!.resume(),
  cancel: (id: number) => backends.get(id)!.cancel(),
  end: async (id: number) => {
    const backend = backends.get(id)!;
    backends.delete(id);
    await backend.end();
  },
  monitor: async (bytes: Uint8Array) => new Uint8Array(await monitor.ask(bytes)),
  /** Returns the sessions that wait for a lock, each with those that it waits for. */
  waiting: async () => {
    const rows = await monitor.rows<{ pid: number; by: string }>(
      `SELECT pid, array_to_string(pg_blocking_pids(pid), ',') AS by FROM pg_locks WHERE NOT granted`,
    );
    const idOf = new Map([...backends].map(([id, { pid }]) => [pid, id]));
    return rows.map(({ pid, by }) => ({
      id: idOf.get(pid)!,
      by: by.split(',').flatMap((one) => idOf.get(Number(one)) ?? []),
    }));
  },
};

export type Operations = typeof operations;

const { port, signal } = workerData as { port: MessagePort; signal: Int32Array };
port.on('message', async ({ name, args }: { name: keyof Operations; args: never[] }) => {
  let answer: { value?: unknown; error?: string };
  try {
    answer = { value: await (operations[name] as (...args: never[]) => unknown)(...args) };
  } catch (error) {
    answer = { error: (error as Error).stack ?? String(error) };
  }
  port.postMessage(answer);
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
});

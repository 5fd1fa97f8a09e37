/**
 * State of an interrupted `postrider send`, so that the same command resumes where it stopped: one small file per send in progress, named
 * after all arguments of the command, with the Idempotency-Key. It is created before the first call and deleted once the service has given
 * a final response, by the run that owns it. A second run of the same command while the first is running is refused if it would share the
 * uploads of the first. Of several runs that start together, exactly one resumes an interrupted run.
 */
import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { randomText } from '../base/ids.ts';
import { CommandError, type Environment } from './command.ts';

/** The service stores keys for a day from the first call. This is shorter, so that the last call is still in time. */
const USEFUL_MS = 23 * 3_600_000;
/** A run holds the lock of a state file only while it reads and writes the file. An older lock belongs to a run that crashed. */
const LOCK_MS = 1_000;
const LOCK_PAUSE_MS = 20;

export interface SendState {
  idempotencyKey: string;
  /** Whether an earlier run is resumed. */
  isContinued: boolean;
  /** Whether the same command can resume this send. */
  isStored: boolean;
  /** The service has given a final response: nothing remains to be resumed. */
  finish(): void;
}

interface StoredState {
  idempotencyKey: string;
  startedAt: number;
  pid: number;
  /** Identifies the run that owns the file: process ids are reused. */
  runId: string;
}

function stateFolder(environment: Environment): string {
  const base = environment.XDG_STATE_HOME || path.join(environment.HOME || os.homedir(), '.local', 'state');
  return path.join(base, 'postrider', 'sends');
}

function readStored(file: string): StoredState | undefined {
  try {
    const parsed = JSON.parse(readFileSync(file, 'utf8')) as Partial<StoredState>;
    const { idempotencyKey, startedAt, pid, runId = '' } = parsed;
    if (typeof idempotencyKey !== 'string' || typeof startedAt !== 'number' || typeof pid !== 'number')
      return undefined;
    return { idempotencyKey, startedAt, pid, runId };
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Deletes the state of sends that were never resumed. */
function removeOld(folder: string, nowMs: number): void {
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name);
    const stored = name.endsWith('.json') ? readStored(file) : undefined;
    if (stored && nowMs - stored.startedAt >= USEFUL_MS && !isAlive(stored.pid)) rmSync(file, { force: true });
  }
}

function createLock(lock: string): boolean {
  try {
    closeSync(openSync(lock, 'wx', 0o600));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Calls `work` while no other run reads or changes the file. */
function locked<T>(file: string, work: () => T): T {
  const lock = `${file}.lock`;
  for (let waitedMs = 0; waitedMs < LOCK_MS && !createLock(lock); waitedMs += LOCK_PAUSE_MS) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_PAUSE_MS);
  }
  try {
    return work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function removeOwn(file: string, runId: string): void {
  try {
    locked(file, () => {
      if (readStored(file)?.runId === runId) rmSync(file, { force: true });
    });
  } catch {
    // A file that cannot be read could not be written either.
  }
}

interface SendStateOptions {
  environment: Environment;
  nowMs: number;
  /** Whether the same command that is running in another process is another send, without state. By default it is refused. */
  allowsConcurrent?: boolean;
  /** Time after its start in which a run can be resumed; 23 hours by default. */
  usefulMs?: number;
}

const newKey = (): string => `send-${randomText(26)}`;

/** Stores the state of this run, which resumes an interrupted one; returns the state of the run that is in progress instead, if any. */
function claim(
  file: string,
  { nowMs, usefulMs }: { nowMs: number; usefulMs: number },
): { own: StoredState; isContinued: boolean } | { running: StoredState } {
  const stored = readStored(file);
  const isUseful = stored !== undefined && nowMs - stored.startedAt < usefulMs && stored.startedAt <= nowMs;
  if (isUseful && stored.pid !== process.pid && isAlive(stored.pid)) return { running: stored };
  const own: StoredState = {
    idempotencyKey: isUseful ? stored.idempotencyKey : newKey(),
    startedAt: isUseful ? stored.startedAt : nowMs,
    pid: process.pid,
    runId: randomText(16),
  };
  writeFileSync(file, JSON.stringify(own), { mode: 0o600 });
  return { own, isContinued: isUseful };
}

const withoutState = (): SendState => ({
  idempotencyKey: newKey(),
  isContinued: false,
  isStored: false,
  finish: () => undefined,
});

/** `command` identifies the send. If no state can be stored, an interrupted send starts from the beginning. */
export function openSendState(
  command: unknown,
  { environment, nowMs, allowsConcurrent = false, usefulMs = USEFUL_MS }: SendStateOptions,
): SendState {
  const folder = stateFolder(environment);
  const name = createHash('sha256').update(JSON.stringify(command)).digest('hex').slice(0, 40);
  const file = path.join(folder, `${name}.json`);
  let claimed: ReturnType<typeof claim>;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    removeOld(folder, nowMs);
    claimed = locked(file, () => claim(file, { nowMs, usefulMs }));
  } catch {
    // If the folder cannot be written, an interrupted send cannot be resumed, but the email is still sent.
    return withoutState();
  }
  if ('running' in claimed) {
    if (allowsConcurrent) return withoutState();
    throw new CommandError(
      'IN_PROGRESS',
      `the same email is already being sent by process ${claimed.running.pid}: wait for it to finish, or delete ${file} to send the email again`,
    );
  }
  const { own, isContinued } = claimed;
  return { idempotencyKey: own.idempotencyKey, isContinued, isStored: true, finish: () => removeOwn(file, own.runId) };
}

/**
 * State of an interrupted `postrider send`, so that the same command resumes where it stopped: one small file per send in progress, named
 * after all arguments of the command, with the Idempotency-Key. It is created before the first call and deleted once the service has given
 * a final response. A second run of the same command while the first is running is refused if it would share the uploads of the first.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { randomText } from '../base/ids.ts';
import { CommandError, type Environment } from './command.ts';

/** The service stores keys for a day from the first call. This is shorter, so that the last call is still in time. */
const USEFUL_MS = 23 * 3_600_000;

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
}

function stateFolder(environment: Environment): string {
  const base = environment.XDG_STATE_HOME || path.join(environment.HOME || os.homedir(), '.local', 'state');
  return path.join(base, 'postrider', 'sends');
}

function readStored(file: string): StoredState | undefined {
  try {
    const parsed = JSON.parse(readFileSync(file, 'utf8')) as Partial<StoredState>;
    const { idempotencyKey, startedAt, pid } = parsed;
    if (typeof idempotencyKey !== 'string' || typeof startedAt !== 'number' || typeof pid !== 'number')
      return undefined;
    return { idempotencyKey, startedAt, pid };
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

function removeState(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // A file that cannot be read could not be written either.
  }
}

interface SendStateOptions {
  environment: Environment;
  nowMs: number;
  /** Whether the same command that is running in another process is another send, without state. By default it is refused. */
  allowsConcurrent?: boolean;
}

const newKey = (): string => `send-${randomText(26)}`;

/** `command` identifies the send. If no state can be stored, an interrupted send starts from the beginning. */
export function openSendState(
  command: unknown,
  { environment, nowMs, allowsConcurrent = false }: SendStateOptions,
): SendState {
  const folder = stateFolder(environment);
  const name = createHash('sha256').update(JSON.stringify(command)).digest('hex').slice(0, 40);
  const file = path.join(folder, `${name}.json`);
  const stored = readStored(file);
  const isUseful = stored !== undefined && nowMs - stored.startedAt < USEFUL_MS && stored.startedAt <= nowMs;
  if (isUseful && stored.pid !== process.pid && isAlive(stored.pid)) {
    if (allowsConcurrent) {
      return {
        idempotencyKey: newKey(),
        isContinued: false,
        isStored: false,
        finish: () => undefined,
      };
    }
    throw new CommandError(
      'IN_PROGRESS',
      `the same email is already being sent by process ${stored.pid}: wait for it to finish, or delete ${file} to send the email again`,
    );
  }
  const idempotencyKey = isUseful ? stored.idempotencyKey : newKey();
  const startedAt = isUseful ? stored.startedAt : nowMs;
  let isStored = false;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    removeOld(folder, nowMs);
    writeFileSync(file, JSON.stringify({ idempotencyKey, startedAt, pid: process.pid } satisfies StoredState), {
      mode: 0o600,
    });
    isStored = true;
  } catch {
    // If the folder cannot be written, an interrupted send cannot be resumed, but the email is still sent.
  }
  return { idempotencyKey, isContinued: isUseful, isStored, finish: () => removeState(file) };
}

/**
 * What an interrupted `postrider send` leaves behind so that the same command goes on where it stopped: one small file for
 * each send that is under way, named after all that the command says, with the Idempotency-Key in it. It is made before
 * the first call and removed once the service has answered for good. A second run of the same command while the first one
 * still works is refused, since the two would be taken for one.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { randomText } from '../base/ids.ts';
import { CommandError, type Environment } from './command.ts';

/** Keys are kept for a day from the first call; a little less, so that the last call still meets it. */
const USEFUL_MS = 23 * 3_600_000;

export interface SendState {
  idempotencyKey: string;
  /** Whether an earlier run is being continued. */
  isContinued: boolean;
  /** The service has answered for good: nothing remains to be continued. */
  finish(): void;
}

interface Kept {
  idempotencyKey: string;
  startedAt: number;
  pid: number;
}

function stateFolder(environment: Environment): string {
  const base = environment.XDG_STATE_HOME || path.join(environment.HOME || os.homedir(), '.local', 'state');
  return path.join(base, 'postrider', 'sends');
}

function readKept(file: string): Kept | undefined {
  try {
    const kept = JSON.parse(readFileSync(file, 'utf8')) as Partial<Kept>;
    const { idempotencyKey, startedAt, pid } = kept;
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

/** Removes the state of sends that were never continued. */
function removeOld(folder: string, nowMs: number): void {
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name);
    const kept = name.endsWith('.json') ? readKept(file) : undefined;
    if (kept && nowMs - kept.startedAt >= USEFUL_MS && !isAlive(kept.pid)) rmSync(file, { force: true });
  }
}

function removeState(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // It could not be written either.
  }
}

/** `command` is everything that makes this send this one. Where no state can be kept, the send can only begin again. */
export function openSendState(environment: Environment, command: unknown, nowMs: number): SendState {
  const folder = stateFolder(environment);
  const name = createHash('sha256').update(JSON.stringify(command)).digest('hex').slice(0, 40);
  const file = path.join(folder, `${name}.json`);
  const kept = readKept(file);
  const isUseful = kept !== undefined && nowMs - kept.startedAt < USEFUL_MS && kept.startedAt <= nowMs;
  if (isUseful && kept.pid !== process.pid && isAlive(kept.pid)) {
    throw new CommandError(
      'IN_PROGRESS',
      `the same email is being sent by process ${kept.pid}: wait for it, or delete ${file} to send it again`,
    );
  }
  const idempotencyKey = isUseful ? kept.idempotencyKey : `send-${randomText(26)}`;
  const startedAt = isUseful ? kept.startedAt : nowMs;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    removeOld(folder, nowMs);
    writeFileSync(file, JSON.stringify({ idempotencyKey, startedAt, pid: process.pid } satisfies Kept), {
      mode: 0o600,
    });
  } catch {
    // A folder that cannot be written costs the continuation, not the mail.
  }
  return { idempotencyKey, isContinued: isUseful, finish: () => removeState(file) };
}

/**
 * Moves the clock of an account's sandbox: what comes due on the way is run here, in the order in which it is due and each
 * thing at its own time, whichever process runs deliveries and webhooks otherwise. What is due already is left to them first.
 *
 *   wait until nothing is under way → begin (one move at a time) → step, step, … → the clock stands at its new time
 *
 * A step is what can happen together. A move that takes long ends after a step: the clock stands where it has come to, all
 * that was due until then has happened, and the answer says what is left. A process that dies in a move leaves what it has
 * run recorded and the clock behind it, by an hour of the sandbox at most; another move is free to begin within seconds.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { randomText } from '../base/ids.ts';
import type { Database } from '../storage/database.ts';
import { type ChosenKind, claimChosen, type Item, type Lease, runChosen } from '../work/work.ts';
import { createSandboxClock } from './clock.ts';
import { beginMoveOperation, endMoveOperation, nextStepOperation, outstandingWorkOperation } from './clock-store.ts';

/** One kind of work of the sandbox. */
export interface SandboxKind<I extends Item = Item, R extends Lease = Lease> extends ChosenKind<I, R> {
  /** By the number of attempts made: the least time until an attempt that fails is due again, in ms. */
  shortestWaitsMs: readonly number[];
  /** Rows of one step at most: it has to end well within a lease. */
  most: number;
}

export interface AdvanceDeps {
  database: Database;
  clock: Clock;
  kinds: readonly [delivery: SandboxKind, webhook: SandboxKind];
  /** Tells the workers that there may be work, so that what is due already is soon done. */
  nudge(): void;
  /** Of one call, in real time; for machines and tests that want another. */
  budgetMs?: number;
}

export interface Advanced {
  /** Unix ms by the account's clock. */
  nowMs: number;
  /** Attempts of messages and of webhooks. */
  ran: number;
  /** What is left of the move, when it took too long; 0 when it is done. */
  leftMs: number;
}

const BUDGET_MS = 25_000;
/** Longer than a step takes. */
export const MOVE_LEASE_MS = 25_000;
/** For another move of the same clock, before this one is refused. */
const BEGIN_WITHIN_MS = 28_000;
/** A webhook that is under way has this long. */
const QUIET_WITHIN_MS = 16_000;
/** What is due and not taken by any worker within this time is run by the move itself. */
const TAKEN_WITHIN_MS = 2_500;
const LOOK_EVERY_MS = 10;
/** Calls of one account that wait in this process for those before them. */
const MOST_IN_LINE = 20;
/** So far ahead of the real time at most: long before years have five digits and ids no room for their time. */
const MOST_AHEAD_MS = 20 * 365 * 86_400_000;

export interface Advance {
  accountId: string;
  byMs: number;
  /** Ends the move after the step under way. */
  signal: AbortSignal;
}

function tooFar(): Failure {
  const message = `must not lead more than ${MOST_AHEAD_MS / 86_400_000} days ahead of the real time; what the clock was moved by stays`;
  return invalid([{ field: 'seconds', message }]);
}

export function clockIsBusy(): Failure {
  return failure('CONFLICT', { message: 'Another call is advancing or resetting this clock. Retry when it is done.' });
}

/** Begins a move, once no other call moves the clock; false when that takes too long. */
export async function beginMove({ database, clock }: AdvanceDeps, accountId: string, by: string): Promise<boolean> {
  const latest = performance.now() + BEGIN_WITHIN_MS;
  const lease = () => ({ accountId, by, nowMs: clock.now(), leaseMs: MOVE_LEASE_MS });
  while (!(await database.execute(beginMoveOperation, lease()))) {
    if (performance.now() > latest) return false;
    await sleep(LOOK_EVERY_MS * 5);
  }
  return true;
}

/** Until what is due at this moment is done, so that the move begins behind it. */
export async function waitUntilQuiet(
  { database, clock, nudge, ...deps }: AdvanceDeps,
  { accountId, signal }: Pick<Advance, 'accountId' | 'signal'>,
): Promise<void> {
  const began = performance.now();
  const kinds = [deps.kinds[0].kind, deps.kinds[1].kind] as const;
  nudge();
  for (;;) {
    const { held, due } = await database.execute(outstandingWorkOperation, { accountId, kinds, untilMs: clock.now() });
    const waitedMs = performance.now() - began;
    const isCalm = held === 0 && (due === 0 || waitedMs > TAKEN_WITHIN_MS);
    if (isCalm || waitedMs > QUIET_WITHIN_MS || signal.aborted) return;
    await sleep(LOOK_EVERY_MS);
  }
}

/** A move that is under way. */
interface Move extends Advance {
  /** Names it. */
  by: string;
  /** Unix ms by the account's clock: what has happened so far. */
  momentMs: number;
  /** Attempts so far. */
  ran: number;
  /** Of a step that failed: what was claimed and not recorded. */
  unfinished: Set<Item>;
}

/** Runs what comes due in the account's sandbox until then, step by step; false when it ended before. */
async function runDue(
  { database, clock, kinds, budgetMs }: AdvanceDeps,
  move: Move,
  untilMs: number,
): Promise<boolean> {
  const { accountId, by, signal, unfinished } = move;
  const [deliveries, webhooks] = kinds;
  const latest = performance.now() + (budgetMs ?? BUDGET_MS);
  do {
    const lease = { nowMs: clock.now(), leaseMs: MOVE_LEASE_MS };
    const rows = await database.execute(nextStepOperation, {
      ...{ ...lease, accountId, by, targetMs: untilMs, momentMs: move.momentMs },
      kinds: [deliveries.kind, webhooks.kind],
      most: [deliveries.most, webhooks.most],
      shortestWaitsMs: [deliveries.shortestWaitsMs, webhooks.shortestWaitsMs],
    });
    // The lease was lost: this process stood still for long, and somebody else moves the clock.
    if (rows === undefined) return false;
    if (rows.length === 0) return true;
    for (const kind of kinds) {
      const own = rows.filter((row) => row.kind === kind.kind);
      if (own.length === 0) continue;
      const items = await claimChosen(kind, own, lease);
      for (const item of items) unfinished.add(item);
      move.ran += await runChosen(kind, items);
      unfinished.clear();
    }
    move.momentMs = rows.at(-1)!.atMs;
  } while (performance.now() < latest && !signal.aborted);
  return false;
}

async function move(deps: AdvanceDeps, advance: Advance): Promise<Result<Advanced>> {
  const { database, clock } = deps;
  const { accountId, byMs } = advance;
  const sandboxClock = createSandboxClock(deps);
  if ((await sandboxClock.clockOffsetMs(accountId)) + byMs > MOST_AHEAD_MS) return refuse(tooFar());
  await waitUntilQuiet(deps, advance);
  const by = randomText(16);
  if (!(await beginMove(deps, accountId, by))) return refuse(clockIsBusy());
  const moving: Move = { ...advance, by, momentMs: 0, ran: 0, unfinished: new Set() };
  const end = (toMs: number): Promise<number> => {
    const giveBack = [...moving.unfinished].map(({ job: { seq, fence }, atMs }) => ({ seq, fence, atMs: atMs! }));
    return database.execute(endMoveOperation, { accountId, by, nowMs: clock.now(), toMs, giveBack });
  };
  try {
    moving.momentMs = await sandboxClock.now(accountId);
    const targetMs = moving.momentMs + byMs;
    const isDone = await runDue(deps, moving, targetMs);
    const nowMs = await end(isDone ? targetMs : moving.momentMs);
    return ok({ nowMs, ran: moving.ran, leftMs: Math.max(0, targetMs - nowMs) });
  } catch (error) {
    await end(moving.momentMs).catch(() => undefined);
    throw error;
  }
}

/** CONFLICT while too many calls move the same clock; rejects with Unavailable when the storage refuses. */
export function createAdvance(deps: AdvanceDeps): (advance: Advance) => Promise<Result<Advanced>> {
  const lines = new Map<string, { count: number; last: Promise<unknown> }>();
  return async (advance) => {
    const line = lines.get(advance.accountId) ?? { count: 0, last: Promise.resolve() };
    if (line.count >= MOST_IN_LINE) return refuse(clockIsBusy());
    lines.set(advance.accountId, line);
    line.count += 1;
    const turn = line.last.then(() => move(deps, advance));
    line.last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      line.count -= 1;
      if (line.count === 0) lines.delete(advance.accountId);
    }
  };
}

/**
 * Moves the clock of an account's sandbox: work that becomes due runs here, in order and each at its own time, regardless of which process
 * usually runs deliveries and webhooks. Work that is already due is left to those first.
 *
 *   wait until nothing is in progress → begin (one move at a time) → step, step, … → the clock is at its new time
 *
 * A step is what can happen together. A move that takes too long ends after a step: the clock is where it got to, everything due until then
 * has happened, and the response states the rest. If a process dies during a move, what it ran is recorded and the clock lags, by at most
 * an hour of the sandbox; another move can start within seconds.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { randomText } from '../base/ids.ts';
import type { Database } from '../storage/database.ts';
import { type ChosenKind, claimChosen, type Item, type Lease, runChosen } from '../work/work.ts';
import { createSandboxClock } from './clock.ts';
import { beginMoveOperation, endMoveOperation, nextStepOperation, outstandingWorkOperation } from './clock-store.ts';

/** One kind of sandbox work. */
export interface SandboxKind<I extends Item = Item, R extends Lease = Lease> extends ChosenKind<I, R> {
  /** Minimum time, by number of attempts made, until a failed attempt is due again, in ms. */
  shortestWaitsMs: readonly number[];
  /** Maximum number of rows per step, which must end well within a lease. */
  most: number;
}

export interface AdvanceDeps {
  database: Database;
  clock: Clock;
  kinds: readonly [delivery: SandboxKind, webhook: SandboxKind];
  /** Wakes the workers, so that what is already due finishes soon. */
  nudge(): void;
  /** Time limit of one call, in real time; for tests. */
  budgetMs?: number;
}

export interface Advanced {
  /** Unix ms by the account's clock. */
  nowMs: number;
  /** Attempts of messages and of webhooks. */
  ran: number;
  /** The rest of the move if it took too long; 0 if it is complete. */
  leftMs: number;
}

const BUDGET_MS = 25_000;
/** Longer than a step takes. */
export const MOVE_LEASE_MS = 25_000;
/** How long to wait for another move of the same clock before refusing this one. */
const BEGIN_WITHIN_MS = 28_000;
/** How long to wait for a webhook call in progress. */
const QUIET_WITHIN_MS = 16_000;
/** Due work that no worker takes within this time is run by the move itself. */
const CLAIMED_WITHIN_MS = 2_500;
const LOOK_EVERY_MS = 10;
/** Maximum number of calls of one account that wait in this process. */
const MOST_IN_LINE = 20;
/** Limit ahead of real time: long before years have five digits and ids overflow. */
const MOST_AHEAD_MS = 20 * 365 * 86_400_000;

export interface Advance {
  accountId: string;
  byMs: number;
  /** Ends the move after the current step. */
  signal: AbortSignal;
}

function tooFar(): Failure {
  const message = `must not move the clock more than ${MOST_AHEAD_MS / 86_400_000} days ahead of real time, including earlier moves`;
  return invalid([{ field: 'seconds', message }]);
}

export function clockIsBusy(): Failure {
  return failure('CONFLICT', { message: 'Another call is advancing or resetting this clock. Retry when it is done.' });
}

/** Begins a move, once no other call moves the clock; returns false if that takes too long. */
export async function beginMove({ database, clock }: AdvanceDeps, accountId: string, by: string): Promise<boolean> {
  const latest = performance.now() + BEGIN_WITHIN_MS;
  const lease = () => ({ accountId, by, nowMs: clock.now(), leaseMs: MOVE_LEASE_MS });
  while (!(await database.execute(beginMoveOperation, lease()))) {
    if (performance.now() > latest) return false;
    await sleep(LOOK_EVERY_MS * 5);
  }
  return true;
}

/** Waits until all work due now is done, so that the move starts after it. */
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
    const isCalm = held === 0 && (due === 0 || waitedMs > CLAIMED_WITHIN_MS);
    if (isCalm || waitedMs > QUIET_WITHIN_MS || signal.aborted) return;
    await sleep(LOOK_EVERY_MS);
  }
}

/** A move in progress. */
interface Move extends Advance {
  /** Identifies the move. */
  by: string;
  /** Unix ms by the account's clock, up to which everything has happened. */
  momentMs: number;
  /** Attempts so far. */
  ran: number;
  /** Rows of a failed step that were claimed and not recorded. */
  unfinished: Set<Item>;
}

/** Runs what becomes due in the account's sandbox until the target, step by step; returns false if it ended earlier. */
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
      ...lease,
      accountId,
      by,
      targetMs: untilMs,
      momentMs: move.momentMs,
      kinds: [deliveries.kind, webhooks.kind],
      most: [deliveries.most, webhooks.most],
      shortestWaitsMs: [deliveries.shortestWaitsMs, webhooks.shortestWaitsMs],
    });
    // The lease was lost: this process was suspended, and another call moves the clock.
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
    const released = [...moving.unfinished].map(({ job: { seq, fence }, atMs }) => ({ seq, fence, atMs: atMs! }));
    return database.execute(endMoveOperation, { accountId, by, nowMs: clock.now(), toMs, released });
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

/** Fails with CONFLICT if too many calls move the same clock; rejects with Unavailable if storage fails. */
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

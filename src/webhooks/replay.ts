/**
 * Sends the events of a period again. Events that are already queued for the endpoint are not queued twice: those that wait for a retry are
 * brought forward, and others need no replay. An endpoint has one replay at a time, and a replay over the limit of queued events is refused
 * completely before anything is queued. The number of events can be queried first.
 */
import type { Clock } from '../base/clock.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import type { EventPlace, EventType, SeqRange } from '../events/events.ts';
import type { Database } from '../storage/database.ts';
import {
  bringForwardOperation,
  chooseForReplayOperation,
  queuedOperation,
  type ReplayChoice,
  replayOperation,
  replayRangesOperation,
  type WaitingRetry,
} from './replay-store.ts';

/** Events that may be queued for an endpoint when a replay starts, including those of the replay. Other retries are not included. */
const MOST_WAITING = 100_000;
/** Events of the log read per query. */
const SCAN = 2_000;
const WRITTEN_AT_ONCE = 500;

export interface Replay {
  accountId: string;
  mode: Mode;
  webhookId: string;
  /** Unix ms, both inclusive. */
  sinceMs: number;
  untilMs: number;
  eventTypes: EventType[];
}

export interface ReplayDeps {
  database: Database;
  clock: Clock;
  /** Lower limit for tests. */
  mostWaiting?: number;
}

/** Returns how many events are queued; CONFLICT if too many would wait, or while another replay is being queued. */
export function createReplay(deps: ReplayDeps): (replay: Replay) => Promise<Result<number>> {
  const running = new Set<string>();
  return async (replay) => {
    if (running.has(replay.webhookId)) {
      const message = 'Another replay of this webhook is being queued. Retry when it is done.';
      return refuse(failure('CONFLICT', { message }));
    }
    running.add(replay.webhookId);
    try {
      return await run(deps, replay);
    } finally {
      running.delete(replay.webhookId);
    }
  };
}

async function run(deps: ReplayDeps, replay: Replay): Promise<Result<number>> {
  const { database, clock } = deps;
  const chosen = await choose(deps, replay);
  if (!chosen.ok) return chosen;
  const { fresh, retries } = chosen.value;
  const { accountId, mode, webhookId } = replay;
  const own = { accountId, mode, webhookId };
  let queued = 0;
  for (const part of partsOf(retries))
    queued += await database.execute(bringForwardOperation, { ...own, retries: part, nowMs: clock.now() });
  for (const part of partsOf(fresh))
    queued += await database.execute(replayOperation, { ...own, seqs: part, nowMs: clock.now() });
  return ok(queued);
}

function partsOf<T>(all: readonly T[]): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < all.length; at += WRITTEN_AT_ONCE) parts.push(all.slice(at, at + WRITTEN_AT_ONCE));
  return parts;
}

/** Returns how many events a replay would send now, without writing. CONFLICT if too many would be queued. */
export async function countReplay(deps: ReplayDeps, replay: Replay): Promise<Result<number>> {
  const chosen = await choose(deps, replay);
  return chosen.ok ? ok(chosen.value.fresh.length + chosen.value.retries.length) : chosen;
}

interface Chosen {
  /** Numbers of events that are not queued. */
  fresh: number[];
  retries: WaitingRetry[];
}

const NONE: Chosen = { fresh: [], retries: [] };

async function choose(deps: ReplayDeps, replay: Replay): Promise<Result<Chosen>> {
  const { database, clock, mostWaiting = MOST_WAITING } = deps;
  // At most this many are queued already, unless new ones are refused anyway.
  const matching = await matchingEvents(database, replay, 2 * mostWaiting);
  if (!matching) return refuse(tooMany(mostWaiting));
  if (matching.length === 0) return ok(NONE);
  // Read after the log: an event that was logged in between would be missing among the queued ones, and be sent twice.
  const queued = await database.execute(queuedOperation, {
    webhookId: replay.webhookId,
    range: rangeOf(matching),
    limit: mostWaiting + 1,
    nowMs: clock.now(),
  });
  const active = new Set(queued.active);
  const retryOf = new Map(queued.retries.map((retry) => [retry.eventSeq, retry]));
  const chosen: Chosen = { fresh: [], retries: [] };
  for (const seq of matching) {
    const retry = retryOf.get(seq);
    if (active.has(seq)) continue;
    if (retry) chosen.retries.push(retry);
    else chosen.fresh.push(seq);
  }
  const count = chosen.fresh.length + chosen.retries.length;
  return count > 0 && active.size + count > mostWaiting ? refuse(tooMany(mostWaiting)) : ok(chosen);
}

/** Returns the numbers of the events of the log that match; undefined if there are more than `most`. */
async function matchingEvents(database: Database, replay: Replay, most: number): Promise<number[] | undefined> {
  const matching: number[] = [];
  for (const range of await database.execute(replayRangesOperation, replay)) {
    let after: EventPlace | null = null;
    do {
      const part: ReplayChoice = await database.execute(chooseForReplayOperation, {
        ...replay,
        range,
        after,
        scan: SCAN,
      });
      for (const { seq } of part.chosen) matching.push(seq);
      if (matching.length > most) return undefined;
      after = part.last;
    } while (after !== null);
  }
  return matching;
}

function rangeOf(seqs: readonly number[]): SeqRange {
  let from = Number.MAX_SAFE_INTEGER;
  let to = 0;
  for (const seq of seqs) {
    from = Math.min(from, seq);
    to = Math.max(to, seq);
  }
  return { from, to };
}

function tooMany(most: number): ReturnType<typeof failure> {
  return failure('CONFLICT', {
    message: `More than ${most} events would be queued for this webhook. Choose a shorter period, or retry when fewer are queued.`,
  });
}

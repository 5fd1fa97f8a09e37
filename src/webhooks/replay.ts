/**
 * Sends the events of a period again. Events that already wait for the endpoint are not queued twice, an endpoint has one replay at a time,
 * and a replay over the limit of waiting events is refused completely before anything is queued. The number of events can be queried first.
 */
import type { Clock } from '../base/clock.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import type { EventPlace, EventType } from '../events/events.ts';
import type { Database } from '../storage/database.ts';
import {
  chooseForReplayOperation,
  type ReplayChoice,
  replayOperation,
  replayRangesOperation,
  setAsideOperation,
} from './replay-store.ts';

/** Events that may wait for an endpoint when a replay starts, including those of the replay. */
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
  const { accountId, mode, webhookId } = replay;
  const chosen = await choose(deps, replay);
  if (!chosen.ok) return chosen;
  let queued = 0;
  for (let at = 0; at < chosen.value.length; at += WRITTEN_AT_ONCE) {
    const seqs = chosen.value.slice(at, at + WRITTEN_AT_ONCE);
    const set = { accountId, mode, webhookId, seqs, nowMs: deps.clock.now() };
    queued += await deps.database.execute(replayOperation, set);
  }
  return ok(queued);
}

/** Returns how many events a replay would queue now, without writing. CONFLICT if too many would wait. */
export async function countReplay(deps: ReplayDeps, replay: Replay): Promise<Result<number>> {
  const chosen = await choose(deps, replay);
  return chosen.ok ? ok(chosen.value.length) : chosen;
}

async function choose({ database, mostWaiting = MOST_WAITING }: ReplayDeps, replay: Replay): Promise<Result<number[]>> {
  const { webhookId } = replay;
  const waiting = new Set(await database.execute(setAsideOperation, { webhookId, limit: mostWaiting + 1 }));
  const chosen: number[] = [];
  for (const range of await database.execute(replayRangesOperation, replay)) {
    let after: EventPlace | null = null;
    do {
      const part: ReplayChoice = await database.execute(chooseForReplayOperation, {
        ...replay,
        range,
        after,
        scan: SCAN,
      });
      for (const { seq } of part.chosen) if (!waiting.has(seq)) chosen.push(seq);
      if (chosen.length > 0 && waiting.size + chosen.length > mostWaiting) return refuse(tooMany(mostWaiting));
      after = part.last;
    } while (after !== null);
  }
  return ok(chosen);
}

function tooMany(most: number): ReturnType<typeof failure> {
  return failure('CONFLICT', {
    message: `More than ${most} events would be queued for this webhook. Choose a shorter period, or retry when fewer are queued.`,
  });
}

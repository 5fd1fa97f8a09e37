/**
 * Sends the events of a time again. What waits for the endpoint already is not queued twice, one replay of an endpoint runs at a
 * time, and what would be more than may wait is refused as a whole, before anything is queued.
 */
import type { Clock } from '../base/clock.ts';
import { failure } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { EventPlace, EventType } from '../events/events.ts';
import type { Database } from '../storage/database.ts';
import {
  chooseForReplayOperation,
  type ReplayChoice,
  replayOperation,
  replayRangesOperation,
  setAsideOperation,
} from './replay-store.ts';

/** Events that may wait for an endpoint when a replay begins, those of the replay included. */
const MOST_WAITING = 100_000;
/** Events of the log that are looked at in one go. */
const SCAN = 2_000;
/** Rows of one transaction. */
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
  /** For tests that want fewer. */
  mostWaiting?: number;
}

/** Answers how many events are queued; CONFLICT when too many would wait, or while another replay is being queued. */
export function createReplay(deps: ReplayDeps): (replay: Replay) => Promise<Result<number>> {
  const running = new Set<string>();
  return async (replay) => {
    if (running.has(replay.webhookId)) {
      const message = 'Another replay of this webhook is being queued; repeat the call when it is done.';
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

async function run({ database, clock, mostWaiting = MOST_WAITING }: ReplayDeps, replay: Replay) {
  const { accountId, mode, webhookId } = replay;
  const waiting = new Set(await database.execute(setAsideOperation, { webhookId, limit: mostWaiting + 1 }));
  const chosen: number[] = [];
  for (const range of await database.execute(replayRangesOperation, replay)) {
    let after: EventPlace | null = null;
    do {
      const part: ReplayChoice = await database.execute(chooseForReplayOperation, {
        ...replay,
        ...{ range, after, scan: SCAN },
      });
      for (const { seq } of part.chosen) if (!waiting.has(seq)) chosen.push(seq);
      if (chosen.length > 0 && waiting.size + chosen.length > mostWaiting) return refuse(tooMany(mostWaiting));
      after = part.last;
    } while (after !== null);
  }
  let queued = 0;
  for (let at = 0; at < chosen.length; at += WRITTEN_AT_ONCE) {
    const seqs = chosen.slice(at, at + WRITTEN_AT_ONCE);
    queued += await database.execute(replayOperation, { accountId, mode, webhookId, seqs, nowMs: clock.now() });
  }
  return ok(queued);
}

function tooMany(most: number): ReturnType<typeof failure> {
  return failure('CONFLICT', {
    message: `More than ${most} events would wait for this webhook; choose a shorter time, or repeat the call when fewer wait.`,
  });
}

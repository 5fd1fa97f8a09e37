/**
 * Records results. What comes while a call is under way goes with the next one, so that the storage's commits carry many.
 *
 * A result that cannot be recorded is never thrown away: while the storage refuses (Unavailable) it stays here and is tried
 * again with a growing pause, and at once when a database that was away is back, before others take its work for that of a
 * dead node; meanwhile the worker makes no new attempts. A final result whose lease was lost is remembered; should the
 * same work come back to this process under a new fence, the result is recorded then and nothing is sent a second time.
 */

import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { BlobRemover } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import { putBackOperation } from '../work/work.ts';
import { type Settlement, type SettleResult, settleOperation } from './settle.ts';

const MAX_BATCH = 200;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** Between two looks, during a pause, at whether the database is back. */
const LOOK_MS = 100;
const MAX_REMEMBERED = 10_000;
/** A result that our own code cannot record: seconds until the queue offers the message again, which counts as a crash. */
const CRASH_PAUSE_MS = 30_000;

export interface SettlerDeps {
  database: Database;
  /** For content that is named no longer; recording never waits for it. */
  remover: Pick<BlobRemover, 'add'>;
  log: Log;
  /** Told once for every result that stands in the database. */
  onRecorded(settlement: Settlement): void;
  /** The results of these rows need no more care. */
  onDone(seqs: number[]): void;
  onPaused(paused: boolean): void;
}

export interface Settler {
  add(settlement: Settlement): void;
  /** The row is held by this process under a newer fence. */
  adopt(seq: number, fence: number): void;
  /** A result of an earlier lease of this process that was never recorded. */
  recall(seq: number): Settlement | undefined;
  readonly pending: number;
  /** Whether the storage refuses at the moment. */
  readonly paused: boolean;
  /** Resolves when nothing is pending. */
  drained(): Promise<void>;
  /** Gives up what is pending: the process ends. */
  abandon(): void;
}

export function startSettler(deps: SettlerDeps): Settler {
  let waiting: Settlement[] = [];
  let flying: Settlement[] = [];
  let pauseMs = 0;
  let abandoned = false;
  let scheduled = false;
  const newFences = new Map<number, number>();
  const remembered = new Map<number, Settlement>();
  const listeners: (() => void)[] = [];

  const remember = (settlement: Settlement): void => {
    // That it has to be tried again is true anyhow, and says nothing of what was tried since.
    if (settlement.to === 'delayed') return;
    if (remembered.size >= MAX_REMEMBERED) remembered.delete(remembered.keys().next().value!);
    remembered.set(settlement.seq, settlement);
  };

  const handleLost = (batch: Settlement[], lost: number[]): void => {
    for (const seq of lost) {
      const settlement = batch.find((one) => one.seq === seq)!;
      const fence = newFences.get(seq);
      if (fence !== undefined && fence > settlement.fence) {
        waiting.push({ ...settlement, fence });
        continue;
      }
      deps.log.warn(
        { messageId: settlement.messageId, to: settlement.to },
        'lease lost before the result was recorded',
      );
      remember(settlement);
    }
  };

  const record = async (batch: Settlement[]): Promise<void> => {
    const result: SettleResult = await deps.database.execute(settleOperation, batch);
    if (result.lost.length > 0) handleLost(batch, result.lost);
    const lost = new Set(result.lost);
    for (const one of batch) if (!lost.has(one.seq)) deps.onRecorded(one);
    const requeued = new Set(waiting.map((one) => one.seq));
    deps.onDone(batch.map((one) => one.seq).filter((seq) => !requeued.has(seq)));
    for (const one of batch) newFences.delete(one.seq);
    deps.remover.add(result.blobKeys);
  };

  /** One result that our own code refuses to record: it must not stand in the way of the others. */
  const giveUp = async (settlement: Settlement, error: Error): Promise<void> => {
    deps.log.error({ messageId: settlement.messageId, error: error.message }, 'a result cannot be recorded');
    remember(settlement);
    const { seq, fence, atMs } = settlement;
    await deps.database.execute(putBackOperation, {
      nowMs: atMs,
      crashed: [{ seq, fence, dueMs: atMs + CRASH_PAUSE_MS }],
    });
    deps.onDone([seq]);
  };

  /** Answers what could not be recorded because the storage refuses. */
  const tryBatch = async (batch: Settlement[]): Promise<Settlement[]> => {
    try {
      await record(batch);
      return [];
    } catch (error) {
      if (error instanceof Unavailable) return batch;
      try {
        if (batch.length === 1) {
          await giveUp(batch[0]!, error as Error);
          return [];
        }
      } catch {
        return batch;
      }
      const unrecorded: Settlement[] = [];
      for (const one of batch) unrecorded.push(...(await tryBatch([one])));
      return unrecorded;
    }
  };

  const setPaused = (paused: boolean): void => {
    if (paused === pauseMs > 0) {
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      return;
    }
    pauseMs = paused ? FIRST_PAUSE_MS : 0;
    if (paused) deps.log.error({}, 'results cannot be recorded; deliveries are held');
    else deps.log.info({}, 'results are recorded again; deliveries go on');
    deps.onPaused(paused);
  };

  const pump = async (): Promise<void> => {
    scheduled = false;
    if (flying.length > 0 || waiting.length === 0 || abandoned) return;
    flying = waiting.slice(0, MAX_BATCH).map((one) => {
      const fence = newFences.get(one.seq);
      return fence === undefined ? one : { ...one, fence };
    });
    waiting = waiting.slice(flying.length);
    const unrecorded = await tryBatch(flying);
    flying = [];
    waiting = [...unrecorded, ...waiting];
    setPaused(unrecorded.length > 0);
    if (waiting.length > 0) schedule();
    else for (const listener of listeners.splice(0)) listener();
  };

  /** Goes on when the pause is over, or when the database comes back during it. */
  const pauseThen = (next: () => void): void => {
    const until = performance.now() + pauseMs;
    let wasAway = false;
    const look = (): void => {
      const { ready } = deps.database.state();
      const leftMs = until - performance.now();
      if (abandoned || leftMs <= 0 || (wasAway && ready)) {
        next();
        return;
      }
      wasAway = !ready;
      setTimeout(look, Math.min(LOOK_MS, leftMs));
    };
    look();
  };

  const schedule = (): void => {
    if (scheduled || abandoned) return;
    scheduled = true;
    if (pauseMs > 0) pauseThen(() => void pump());
    // Results that are read from the sockets in the same turn of the event loop go together.
    else setImmediate(() => void pump());
  };

  return {
    add: (settlement) => {
      remembered.delete(settlement.seq);
      waiting.push(settlement);
      if (flying.length === 0) schedule();
    },
    adopt: (seq, fence) => {
      newFences.set(seq, fence);
    },
    recall: (seq) => remembered.get(seq),
    get pending() {
      return waiting.length + flying.length;
    },
    get paused() {
      return pauseMs > 0;
    },
    drained: () =>
      waiting.length + flying.length === 0
        ? Promise.resolve()
        : new Promise((resolve) => {
            listeners.push(resolve);
          }),
    abandon: () => {
      abandoned = true;
      for (const listener of listeners.splice(0)) listener();
    },
  };
}

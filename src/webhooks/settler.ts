/**
 * Writes down what attempts came to, many per transaction: one settle is under way at a time, and what ends meanwhile
 * joins the next. While the storage does not take a result it is kept and offered again, and `blocked` tells the
 * worker to start nothing new: a result is never lost to a full disk, and no event is sent twice because of one.
 */

import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Lease } from '../queue/queue.ts';
import type { Database } from '../storage/database.ts';
import { type SettleAnswer, type Settled, type SettleRequest, settleOperation } from './work-store.ts';

const MOST_PER_SETTLE = 512;
const RETRY_MS = 1_000;

export interface Settler {
  settle(settled: Settled): void;
  hold(lease: Lease): void;
  release(lease: Lease): void;
  crashed(lease: Lease, dueMs: number): void;
  unhold(lane: string, limit: number): void;
  /** The storage did not take the last settle. */
  blocked(): boolean;
  /** Resolves when everything is written down, or when the storage has refused it since `patienceMs`. */
  drained(patienceMs: number): Promise<void>;
}

export interface SettlerOptions {
  database: Database;
  clock: Clock;
  log: Log;
  onSettled(request: SettleRequest, answer: SettleAnswer): void;
}

type Lists = Omit<SettleRequest, 'nowMs'>;

const EMPTY: Lists = { settled: [], hold: [], release: [], crashed: [], unhold: [] };

export function createSettler(options: SettlerOptions): Settler {
  const waiting: Lists = { settled: [], hold: [], release: [], crashed: [], unhold: [] };
  let running: Promise<void> | undefined;
  let isBlocked = false;
  let hurry: (() => void) | undefined;
  let givingUp = false;

  const isEmpty = (): boolean => Object.values(waiting).every((list) => list.length === 0);

  const takeRequest = (): SettleRequest => ({
    nowMs: options.clock.now(),
    settled: waiting.settled.splice(0, MOST_PER_SETTLE),
    hold: waiting.hold.splice(0, MOST_PER_SETTLE),
    release: waiting.release.splice(0, MOST_PER_SETTLE),
    crashed: waiting.crashed.splice(0, MOST_PER_SETTLE),
    unhold: waiting.unhold.splice(0, MOST_PER_SETTLE),
  });

  const putBack = (request: SettleRequest): void => {
    waiting.settled.unshift(...request.settled);
    waiting.hold.unshift(...request.hold);
    waiting.release.unshift(...request.release);
    waiting.crashed.unshift(...request.crashed);
    waiting.unhold.unshift(...request.unhold);
  };

  /**
   * Rejects only while the storage does no work. When our own code fails over a batch, its results are written one by one, and
   * one that fails again is left to the end of its lease.
   */
  const write = async (request: SettleRequest): Promise<void> => {
    try {
      options.onSettled(request, await options.database.execute(settleOperation, request));
    } catch (error) {
      if (error instanceof Unavailable) throw error;
      const { settled, ...others } = request;
      if (settled.length <= 1) {
        options.log.error({ cause: (error as Error).message }, 'a webhook result cannot be written');
        return;
      }
      for (const one of settled) await write({ ...EMPTY, nowMs: request.nowMs, settled: [one] });
      await write({ ...others, settled: [] });
    }
  };

  const pause = async (): Promise<void> => {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, RETRY_MS);
      hurry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    hurry = undefined;
  };

  const run = async (): Promise<void> => {
    while (!isEmpty() && !givingUp) {
      const request = takeRequest();
      try {
        await write(request);
        isBlocked = false;
      } catch (error) {
        putBack(request);
        isBlocked = true;
        options.log.warn({ cause: (error as Error).message }, 'webhook results wait for the storage');
        await pause();
      }
    }
    running = undefined;
  };

  const start = (): void => {
    running ??= Promise.resolve().then(run);
  };

  const add = <K extends keyof Lists>(list: K, item: Lists[K][number]): void => {
    (waiting[list] as unknown[]).push(item);
    start();
  };

  return {
    settle: (settled) => add('settled', settled),
    hold: ({ seq, fence }) => add('hold', { seq, fence }),
    release: ({ seq, fence }) => add('release', { seq, fence }),
    crashed: ({ seq, fence }, dueMs) => add('crashed', { seq, fence, dueMs }),
    unhold: (lane, limit) => add('unhold', { lane, limit }),
    blocked: () => isBlocked,
    drained: async (patienceMs) => {
      const timer = setTimeout(() => {
        givingUp = true;
        hurry?.();
      }, patienceMs);
      while (running && !givingUp) await running;
      clearTimeout(timer);
    },
  };
}

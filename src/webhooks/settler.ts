/**
 * Writes down what attempts came to, many per transaction: one settle is under way at a time, and what ends meanwhile
 * joins the next. While the storage does not take a result it is kept and offered again, and `blocked` tells the
 * worker to start nothing new: a result is never lost to a full disk, and no event is sent twice because of one.
 */

import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import type { Lease } from '../work/work.ts';
import { type SettleAnswer, type Settled, type SettleRequest, settleOperation } from './work-store.ts';

const MOST_PER_SETTLE = 512;
const RETRY_MS = 1_000;

export interface Settler {
  settle(settled: Settled): void;
  park(lease: Lease): void;
  release(lease: Lease): void;
  crashed(lease: Lease, dueMs: number): void;
  resume(lane: string, limit: number): void;
  /** Rows whose results or changes are not written down yet. */
  pending(): Lease[];
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

const EMPTY: Lists = { settled: [], park: [], release: [], crashed: [], resume: [] };

/** One request for each entry of a request. */
function split(request: SettleRequest): SettleRequest[] {
  const { nowMs, ...lists } = request;
  return (Object.keys(lists) as (keyof Lists)[]).flatMap((name) =>
    lists[name].map((entry) => ({ ...EMPTY, nowMs, [name]: [entry] })),
  );
}

export function createSettler(options: SettlerOptions): Settler {
  const waiting: Lists = { settled: [], park: [], release: [], crashed: [], resume: [] };
  let running: Promise<void> | undefined;
  let isBlocked = false;
  let hurry: (() => void) | undefined;
  let givingUp = false;
  /** What goes next as it is: what the storage refused, and the parts of what failed together. */
  let alone: SettleRequest[] = [];
  let writing: Lists = EMPTY;

  const isEmpty = (): boolean => alone.length === 0 && Object.values(waiting).every((list) => list.length === 0);

  const takeRequest = (): SettleRequest =>
    alone.shift() ?? {
      nowMs: options.clock.now(),
      settled: waiting.settled.splice(0, MOST_PER_SETTLE),
      park: waiting.park.splice(0, MOST_PER_SETTLE),
      release: waiting.release.splice(0, MOST_PER_SETTLE),
      crashed: waiting.crashed.splice(0, MOST_PER_SETTLE),
      resume: waiting.resume.splice(0, MOST_PER_SETTLE),
    };

  /**
   * Rejects only while the storage does no work. When our own code fails over a batch, each of its parts is written by
   * itself, and one that fails again is left to the end of its lease.
   */
  const write = async (request: SettleRequest): Promise<void> => {
    try {
      options.onSettled(request, await options.database.execute(settleOperation, request));
    } catch (error) {
      if (error instanceof Unavailable) throw error;
      const parts = split(request);
      if (parts.length > 1) alone.push(...parts);
      else options.log.error({ cause: (error as Error).message }, 'a webhook result cannot be written');
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
        writing = request;
        await write(request);
        isBlocked = false;
      } catch (error) {
        alone = [request, ...alone];
        isBlocked = true;
        options.log.warn({ cause: (error as Error).message }, 'webhook results wait for the storage');
        await pause();
      }
    }
    writing = EMPTY;
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
    park: ({ seq, fence }) => add('park', { seq, fence }),
    release: ({ seq, fence }) => add('release', { seq, fence }),
    crashed: ({ seq, fence }, dueMs) => add('crashed', { seq, fence, dueMs }),
    resume: (lane, limit) => add('resume', { lane, limit }),
    pending: () =>
      [writing, ...alone, waiting].flatMap((lists) => [
        ...lists.settled,
        ...lists.park,
        ...lists.release,
        ...lists.crashed,
      ]),
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

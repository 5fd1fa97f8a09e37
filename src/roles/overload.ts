/**
 * Watches what intake depends on and says, without waiting, why nothing may be accepted right now: storage broken, a disk
 * nearly full, queue at its cap, or the service draining. The same reasons make /ready answer not ready.
 */
import type { Running } from '../base/lifecycle.ts';
import type { LabelledValue } from '../base/metrics.ts';
import { DELIVERY_WORK } from '../messages/messages.ts';
import type { Database } from '../storage/database.ts';
import { type FreeSpace, freeSpace } from '../storage/free-space.ts';
import { backlogOperation } from '../work/work.ts';

/** Messages waiting for delivery at which intake stops: some 20 GB of small mail in the embedded database. */
export const QUEUE_CAP = 5_000_000;
const INTERVAL_MS = 1_000;

export interface Reason {
  /** What is not ready: storage, disk, queue or service. */
  part: string;
  message: string;
}

export interface QueueFigures {
  depth: number;
  /** Age in seconds of the oldest message that is due, 0 without one. */
  oldestAgeSeconds: number;
}

export interface Overload extends Running {
  /** Empty when the service may accept. */
  reasons(): Reason[];
  queue(): QueueFigures;
  /** Of each watched disk that can be asked, by the name of its folder. */
  freeBytes(): LabelledValue[];
  startDraining(): void;
}

/** A folder whose disk is watched, and how it is called to those who may not know where it is. */
export interface Watched {
  name: string;
  folder: string;
}

export interface OverloadOptions {
  database: Database;
  folders: readonly Watched[];
  minFreeBytes: number;
  nowMs(): number;
}

/** Makes its first observation before it resolves. */
export async function watchOverload(options: OverloadOptions): Promise<Overload> {
  let draining = false;
  let disks: (FreeSpace & Watched)[] = [];
  let queue: QueueFigures = { depth: 0, oldestAgeSeconds: 0 };
  let nextCountMs = 0;
  let looking: Promise<void> | undefined;

  const countQueue = async (): Promise<void> => {
    const began = performance.now();
    if (began < nextCountMs) return;
    const { depth, oldestDueMs } = await options.database.execute(backlogOperation, DELIVERY_WORK);
    const ageMs = oldestDueMs === undefined ? 0 : Math.max(0, options.nowMs() - oldestDueMs);
    queue = { depth, oldestAgeSeconds: ageMs / 1000 };
    // Counting a long queue takes long: it may have one fiftieth of the reader's time.
    nextCountMs = performance.now() + Math.max(1_000, 50 * (performance.now() - began));
  };

  const look = async (): Promise<void> => {
    disks = await Promise.all(
      options.folders.map(async (watched) => ({
        ...watched,
        ...(await freeSpace(watched.folder, options.minFreeBytes)),
      })),
    );
    await countQueue().catch(() => undefined);
  };
  await look();
  const timer = setInterval(() => {
    looking ??= look().finally(() => {
      looking = undefined;
    });
  }, INTERVAL_MS);
  timer.unref();

  return {
    reasons: () => {
      const reasons: Reason[] = [];
      const storage = options.database.state();
      if (draining) reasons.push({ part: 'service', message: 'the service is stopping' });
      if (!storage.ready) reasons.push({ part: 'storage', message: storage.reason ?? 'storage is not ready' });
      for (const { name, shortage } of disks) {
        if (shortage !== undefined) reasons.push({ part: 'disk', message: `${name}: ${shortage}` });
      }
      if (queue.depth >= QUEUE_CAP) reasons.push({ part: 'queue', message: `the queue is at its cap of ${QUEUE_CAP}` });
      return reasons;
    },
    queue: () => queue,
    freeBytes: () =>
      disks.flatMap(({ name, freeBytes }) =>
        freeBytes === undefined ? [] : [{ labels: { disk: name }, value: freeBytes }],
      ),
    startDraining: () => {
      draining = true;
    },
    stop: async () => {
      clearInterval(timer);
      await looking;
    },
  };
}

/**
 * Moves the write-ahead log into the database file from a separate thread and connection, so that commits do not wait for it.
 *
 * The log restarts only when a writer finds all of it moved. Under steady load the checkpointer never achieves that alone, since the writer
 * keeps adding; so it makes passes, each over what was added during the previous one, and then asks the writer to move the small rest
 * between two of its commits.
 */
import { stat } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import type { Running } from '../../base/lifecycle.ts';
import type { Log } from '../../base/log.ts';
import { moduleUrl } from '../../base/program-files.ts';

const INTERVAL_MS = 100;
const START_BYTES = 16 * 1024 * 1024;
const PASSES = 3;
const IDLE_ROUNDS = 300;

/** The thread's response instead of `true`. */
export interface Failed {
  error: string;
  /** An I/O error: a failed sync is not retried. */
  isBroken: boolean;
}

interface CheckpointerOptions {
  file: string;
  log: Log;
  /** The disk failed; the process should exit. */
  onBroken(reason: string): void;
  /** Asks the writer to move the rest between two commits. */
  finish(): void;
}

export function startCheckpointer(options: CheckpointerOptions): Running {
  let worker: Worker | undefined;
  let idleRounds = 0;
  let lastMtimeMs = 0;
  let stopping = false;
  let running: Promise<void> | undefined;

  const pass = (): Promise<boolean> => {
    worker ??= new Worker(moduleUrl('storage/sqlite/checkpoint-thread'), { workerData: { file: options.file } });
    const current = worker;
    return new Promise((resolve) => {
      const done = (answer: unknown): void => {
        current.off('error', failed);
        if (answer !== true) {
          const { error, isBroken } = answer as Failed;
          if (isBroken) options.onBroken(error);
          else options.log.warn({ err: error }, 'checkpoint failed');
        }
        resolve(answer === true);
      };
      const failed = (error: unknown): void => {
        current.off('message', done);
        options.log.warn({ error: String(error) }, 'checkpoint thread failed');
        worker = undefined;
        resolve(false);
      };
      current.once('message', done);
      current.once('error', failed);
      current.postMessage('pass');
    });
  };

  const round = async (): Promise<void> => {
    const { size, mtimeMs } = await stat(`${options.file}-wal`).catch(() => ({ size: 0, mtimeMs: 0 }));
    // The log keeps its size after a checkpoint, so only a log that was written to since needs another.
    if (size >= START_BYTES && mtimeMs !== lastMtimeMs) {
      idleRounds = 0;
      lastMtimeMs = mtimeMs;
      let moved = true;
      for (let i = 0; i < PASSES && moved && !stopping; i += 1) moved = await pass();
      if (moved && !stopping) options.finish();
    } else if (worker && ++idleRounds > IDLE_ROUNDS) {
      await worker.terminate();
      worker = undefined;
    }
  };

  const timer = setInterval(() => {
    if (stopping || running) return;
    running = round().finally(() => {
      running = undefined;
    });
  }, INTERVAL_MS);
  timer.unref();
  return {
    stop: async () => {
      stopping = true;
      clearInterval(timer);
      await running;
      await worker?.terminate();
      worker = undefined;
    },
  };
}

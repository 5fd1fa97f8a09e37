/**
 * Scheduled backups of the embedded database (POSTRIDER_BACKUP_URL). Each is made by `postrider backup --scheduled` in a separate
 * process with low priority, so that the service does not wait for it. A failed backup is retried after an hour. A time that is ahead of the
 * clock is ignored: the clock was wrong when it was recorded.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import os from 'node:os';
import { isSea } from 'node:sea';
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { ageOfRecord } from '../doctor/doctor.ts';
import type { Database } from '../storage/database.ts';
import { readKeptElsewhere } from '../storage/kept-elsewhere.ts';

const HOUR_MS = 3_600_000;
const CHECK_MS = 60_000;
const RETRY_HOURS = 1;
const LOW_PRIORITY = 10;
/** The end of the output of a failed backup is logged, up to this many characters. */
const LOGGED_CHARACTERS = 500;

export interface ScheduledBackups extends Running {
  /** Makes a backup now if one is due. */
  backUpIfDue(): Promise<void>;
}

interface ScheduledBackupOptions {
  everyHours: number;
  database: Database;
  clock: Clock;
  log: Log;
  metrics: Pick<Metrics, 'readGaugeFrom' | 'backups'>;
  /** Makes a backup and records it; rejects with the reason if the backup fails. */
  run?(started: (child: ChildProcess) => void): Promise<void>;
}

/** Arguments of Node before the command. The single executable has none. */
const programArguments = (): string[] => (isSea() ? [] : [...process.execArgv, process.argv[1]!]);

/** Runs this program again with another command. */
async function runBackup(started: (child: ChildProcess) => void): Promise<void> {
  const child = spawn(process.execPath, [...programArguments(), 'backup', '--scheduled'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  started(child);
  let output = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-LOGGED_CHARACTERS);
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.once('error', reject);
  child.once('close', (code, signal) => {
    if (code === 0) resolve();
    else reject(new Error(output.trim() || `postrider backup ended with ${signal ?? `code ${code}`}`));
  });
  try {
    os.setPriority(child.pid!, LOW_PRIORITY);
  } catch {
    // This user cannot change the priority, or the process has already ended.
  }
  await promise;
}

export function startScheduledBackups(options: ScheduledBackupOptions): ScheduledBackups {
  const { everyHours, database, clock, log, metrics, run = runBackup } = options;
  let lastMs: number | undefined;
  let failedMs: number | undefined;
  let child: ChildProcess | undefined;
  let isStopping = false;
  metrics.readGaugeFrom(
    {
      name: 'postrider_backup_age_seconds',
      help: 'Time since the last scheduled backup; missing before the first, and if its recorded time is in the future.',
    },
    () => {
      const ageMs = ageOfRecord(lastMs, clock.now());
      return ageMs === undefined ? [] : [{ labels: {}, value: Math.round(ageMs / 1_000) }];
    },
  );

  const isYounger = (recordedMs: number | undefined, hours: number): boolean => {
    const ageMs = ageOfRecord(recordedMs, clock.now());
    return ageMs !== undefined && ageMs < hours * HOUR_MS;
  };

  const backUp = async (): Promise<void> => {
    if (isStopping || !database.state().ready || isYounger(failedMs, RETRY_HOURS)) return;
    lastMs = (await readKeptElsewhere(database)).scheduledBackupMs;
    if (isYounger(lastMs, everyHours)) return;
    const startedMs = performance.now();
    try {
      await run((started) => {
        child = started;
      });
      lastMs = (await readKeptElsewhere(database)).scheduledBackupMs;
      metrics.backups.succeeded.inc();
      log.info({ ms: Math.round(performance.now() - startedMs) }, 'backup completed');
    } catch (error) {
      if (isStopping) return;
      failedMs = clock.now();
      metrics.backups.failed.inc();
      log.error({ error: (error as Error).message }, 'backup failed');
    } finally {
      child = undefined;
    }
  };

  let running: Promise<void> | undefined;
  const backUpIfDue = (): Promise<void> => {
    running ??= backUp()
      .catch(() => undefined)
      .finally(() => {
        running = undefined;
      });
    return running;
  };
  const timer = setInterval(() => void backUpIfDue(), CHECK_MS);
  timer.unref();
  void backUpIfDue();
  return {
    backUpIfDue,
    stop: async () => {
      isStopping = true;
      clearInterval(timer);
      child?.kill();
      await running;
    },
  };
}

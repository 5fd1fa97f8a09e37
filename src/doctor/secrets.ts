/** Checks the data that must survive the loss of this machine: a copy of the secret key, and a recent backup. */
import { existsSync } from 'node:fs';
import { CLOCK_TOLERANCE_MS } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import type { KeptElsewhere } from '../storage/kept-elsewhere.ts';
import { type SecretKeyProblem, secretKeyFile } from '../storage/secret-key.ts';
import { type Check, day, days, fail, ok, skip, warn } from './check.ts';

const DAY_MS = 86_400_000;
const OLDEST_BACKUP_MS = 7 * DAY_MS;

/** Checks whether `serve` can start with the current key. */
export function checkSecretKey(problem: SecretKeyProblem | undefined): Check {
  const name = 'secret key';
  return problem === undefined
    ? ok(name, 'the secret key matches the database')
    : fail(name, problem.message, problem.remedy);
}

/** Without the key, DKIM keys and webhook secrets in a backup cannot be decrypted. Returns no check if no key was created yet. */
export function checkSecretKeyCopy(config: Config, { secretKeyComparedMs }: KeptElsewhere): Check[] {
  const name = 'secret key copy';
  const file = secretKeyFile(dataDirectory(config.dataDir));
  if (secretKeyComparedMs !== undefined) {
    return [ok(name, `a copy was compared with the key in use on ${day(secretKeyComparedMs)}`)];
  }
  if (config.secretKey !== undefined) return [ok(name, 'the key comes from POSTRIDER_SECRET_KEY')];
  if (!existsSync(file)) return [];
  return [
    warn(
      name,
      'The secret key is only in the data directory, and no copy has been confirmed. Without the key, DKIM keys and webhook secrets in a backup cannot be decrypted.',
      `Copy ${file} to your password store, then verify the copy: postrider secret-key compare FILE`,
    ),
  ];
}

/** Checks the last `postrider backup`; backups made with other tools are unknown. */
export function checkBackup(config: Config, { backedUpMs, scheduledBackupMs }: KeptElsewhere, nowMs: number): Check[] {
  const name = 'backup';
  if (config.databaseUrl !== undefined) {
    return [skip(name, 'skipped: Postrider does not back up PostgreSQL; use its own tools, see docs/guides/backup.md')];
  }
  if (config.backupUrl !== undefined) return [checkScheduledBackup(config, scheduledBackupMs, nowMs)];
  if (backedUpMs === undefined) {
    const remedy =
      'Set POSTRIDER_BACKUP_URL, or run postrider backup every day and copy the file to another machine; see docs/guides/backup.md.';
    return [warn(name, 'no backup has been made with postrider backup', remedy)];
  }
  const ageMs = ageOfRecord(backedUpMs, nowMs);
  if (ageMs === undefined) return [unknownAge('backup', 'postrider backup')];
  const message = `the last backup is ${shownAge(ageMs)} old`;
  if (ageMs <= OLDEST_BACKUP_MS) return [ok(name, message)];
  return [warn(name, message, 'Check why postrider backup no longer runs.')];
}

/**
 * Returns the time since a recorded moment. It is unknown if the moment is in the future: the clock was ahead when it was recorded, and has
 * been corrected since.
 */
export function ageOfRecord(recordedMs: number | undefined, nowMs: number): number | undefined {
  if (recordedMs === undefined || recordedMs > nowMs + CLOCK_TOLERANCE_MS) return undefined;
  return Math.max(0, nowMs - recordedMs);
}

function shownAge(ageMs: number): string {
  return ageMs < DAY_MS ? 'less than a day' : days(ageMs);
}

/** The check for a backup that was recorded with a time in the future. */
function unknownAge(which: string, command: string): Check {
  return warn(
    'backup',
    `the age of the last ${which} is unknown, because its recorded time is in the future`,
    `Check the clock of this machine, then run ${command}.`,
  );
}

/** Checks the last backup to POSTRIDER_BACKUP_URL: two intervals must not pass without one. */
function checkScheduledBackup({ backupHours }: Config, madeMs: number | undefined, nowMs: number): Check {
  const name = 'backup';
  const remedy = 'Look for "backup failed" in the log; see docs/guides/backup.md.';
  if (madeMs === undefined) return warn(name, 'no scheduled backup has been made yet', remedy);
  const ageMs = ageOfRecord(madeMs, nowMs);
  if (ageMs === undefined) return unknownAge('scheduled backup', 'postrider backup --scheduled');
  const message = `the last scheduled backup is ${shownAge(ageMs)} old`;
  return ageMs <= 2 * backupHours * 3_600_000 ? ok(name, message) : warn(name, message, remedy);
}

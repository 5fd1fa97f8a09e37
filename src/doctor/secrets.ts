/** Checks the data that must survive the loss of this machine: a copy of the secret key, and a recent backup. */
import { existsSync } from 'node:fs';
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
  const age = ageOf(backedUpMs, nowMs);
  if (nowMs - backedUpMs <= OLDEST_BACKUP_MS) return [ok(name, `the last backup is ${age} old`)];
  return [warn(name, `the last backup is ${age} old`, 'Check why postrider backup no longer runs.')];
}

function ageOf(madeMs: number, nowMs: number): string {
  const ageMs = Math.max(0, nowMs - madeMs);
  return ageMs < DAY_MS ? 'less than a day' : days(ageMs);
}

/** Checks the last backup to POSTRIDER_BACKUP_URL: two intervals must not pass without one. */
function checkScheduledBackup({ backupHours }: Config, madeMs: number | undefined, nowMs: number): Check {
  const name = 'backup';
  const remedy = 'Look for "backup failed" in the log; see docs/guides/backup.md.';
  if (madeMs === undefined) return warn(name, 'no scheduled backup has been made yet', remedy);
  const message = `the last scheduled backup is ${ageOf(madeMs, nowMs)} old`;
  return nowMs - madeMs <= 2 * backupHours * 3_600_000 ? ok(name, message) : warn(name, message, remedy);
}

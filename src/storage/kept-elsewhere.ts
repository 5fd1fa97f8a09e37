/**
 * Records of copies in other places: when the last backup was made, and when a copy of the secret key was last compared with the one in
 * use. Stored in the database that the copies belong to.
 */

import type { Database } from './database.ts';
import { metaOperation, SECRET_KEY_COMPARED, setMetaOperation } from './meta-store.ts';

const BACKUP = 'last-backup';
const SCHEDULED = 'last-scheduled-backup';

/** Unix ms; undefined if unknown. */
export interface KeptElsewhere {
  backedUpMs: number | undefined;
  /** The time of the last backup to POSTRIDER_BACKUP_URL. */
  scheduledBackupMs?: number | undefined;
  secretKeyComparedMs: number | undefined;
}

async function moment(database: Database, key: string): Promise<number | undefined> {
  const text = await database.execute(metaOperation, key);
  return text === null ? undefined : Number(text);
}

export async function readKeptElsewhere(database: Database): Promise<KeptElsewhere> {
  return {
    backedUpMs: await moment(database, BACKUP),
    scheduledBackupMs: await moment(database, SCHEDULED),
    secretKeyComparedMs: await moment(database, SECRET_KEY_COMPARED),
  };
}

export async function recordBackup(database: Database, nowMs: number): Promise<void> {
  await database.execute(setMetaOperation, { key: BACKUP, value: String(nowMs) });
}

export async function recordScheduledBackup(database: Database, nowMs: number): Promise<void> {
  await database.execute(setMetaOperation, { key: SCHEDULED, value: String(nowMs) });
}

export async function recordSecretKeyCompared(database: Database, nowMs: number): Promise<void> {
  await database.execute(setMetaOperation, { key: SECRET_KEY_COMPARED, value: String(nowMs) });
}

/** The backup before an upgrade (POSTRIDER_BACKUP_BEFORE_UPGRADE), which `serve` and `migrate` make before they migrate. */
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import type { DataDirectory } from '../storage/data-directory.ts';
import { backUpBeforeMigration } from '../storage/sqlite/backup.ts';
import type { SqliteConnection } from '../storage/sqlite/connection.ts';
import { openBlobStore } from './blob-store.ts';

/** Returns the file; undefined if the setting is off or nothing will be migrated. Throws an error for the operator if the backup fails. */
export async function backUpBeforeUpgrade(
  config: Config,
  { connection, directory, clock }: { connection: SqliteConnection; directory: DataDirectory; clock: Clock },
): Promise<string | undefined> {
  if (config.backupBeforeUpgrade === 'off') return undefined;
  const store = await openBlobStore(config, { directory, clock });
  try {
    return await backUpBeforeMigration({ connection, blobs: store.blobs }, directory);
  } finally {
    await store.stop();
  }
}

/** `postrider migrate`: makes the database if there is none and brings it up to date. */
import { dataDirectory } from '../storage/data-directory.ts';
import { shownAddress } from '../storage/postgres/url.ts';
import type { CommandCall, CommandOutcome } from './command.ts';
import { migrate } from './store.ts';

export async function migrateDatabase({ config, clock }: CommandCall): Promise<CommandOutcome> {
  const applied = await migrate(config, clock.now());
  const database = config.databaseUrl ? shownAddress(config.databaseUrl) : dataDirectory(config.dataDir).databaseFile;
  const text = applied.length > 0 ? `applied ${applied.join(', ')}` : 'the database is up to date';
  return { data: { database, applied }, text };
}

/** `postrider migrate`: makes the database if there is none and brings it up to date. */
import { dataDirectory } from '../storage/data-directory.ts';
import { shownAddress } from '../storage/postgres/url.ts';
import type { Command } from './command.ts';
import { migrate } from './store.ts';

export const migrateCommand: Command = {
  words: 'migrate',
  usage: '',
  summary: 'make the database or bring it up to date',
  options: {},
  positionals: [],
  run: async ({ config, clock }) => {
    const applied = await migrate(config, clock.now());
    return {
      data: {
        database: config.databaseUrl ? shownAddress(config.databaseUrl) : dataDirectory(config.dataDir).databaseFile,
        applied,
      },
      text: applied.length > 0 ? `applied ${applied.join(', ')}` : 'the database is up to date',
    };
  },
};

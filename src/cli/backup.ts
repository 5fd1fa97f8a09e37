/** `postrider backup` and `postrider restore`. The secret key is in neither: keep it apart from backups. */
import path from 'node:path';
import { dataDirectory } from '../storage/data-directory.ts';
import { backUp, restore } from '../storage/sqlite/backup.ts';
import { type Command, CommandError, targetFile } from './command.ts';
import { withLost } from './lost-blobs.ts';
import { withStore } from './store.ts';

export const backupCommand: Command = {
  words: 'backup',
  usage: '[FILE]',
  summary: 'copy database and content into one file, beside a running service',
  options: {},
  positionals: [],
  morePositionals: true,
  run: async (call) => {
    const { config, clock } = call;
    const target = targetFile(call, 'backup');
    const made = await withStore({ config, clock }, ({ embedded, blobs }) => {
      if (embedded === undefined) {
        throw new CommandError(
          'NOT_EMBEDDED',
          'the database is on a server: back it up with its own tools, pg_dump or base backups, and the blob store with its own; see docs/upgrade.md',
        );
      }
      return backUp({ connection: embedded, blobs }, target);
    });
    const { sizeBytes, blobs, lost } = made;
    const outcome = {
      data: { file: target, sizeBytes, blobs },
      text: `${target}: ${sizeBytes} bytes, ${blobs} blobs\nThe secret key is not in it; keep secret.key or POSTRIDER_SECRET_KEY in another place.`,
    };
    return withLost(call, outcome, lost);
  },
};

export const restoreCommand: Command = {
  words: 'restore',
  usage: 'FILE',
  summary: 'restore a backup into an empty data directory',
  options: {},
  positionals: ['FILE'],
  run: async ({ config, clock, positionals: [file = ''] }) => {
    if (config.databaseUrl !== undefined) {
      throw new CommandError(
        'NOT_EMBEDDED',
        'restore fills a data directory, and POSTRIDER_DATABASE_URL names a server; use postrider import there, or unset it',
      );
    }
    if (config.blobs.kind !== 'disk') {
      throw new CommandError(
        'NOT_EMBEDDED',
        'the embedded database is restored together with its files; unset POSTRIDER_BLOB_URL for the restore, and serve from files, or use postrider import into PostgreSQL',
      );
    }
    const directory = dataDirectory(config.dataDir, config.blobs.folder);
    const { blobs } = restore(path.resolve(file), { directory, nowMs: clock.now() });
    return {
      data: { dataDir: directory.path, blobs },
      text: `restored into ${directory.path}, ${blobs} blobs\nPut the secret key beside it (secret.key) or into POSTRIDER_SECRET_KEY before the start.`,
    };
  },
};

/** `postrider backup` and `postrider restore`. The secret key is in neither: keep it apart from backups. */
import path from 'node:path';
import { dataDirectory } from '../storage/data-directory.ts';
import { backUp, restore } from '../storage/sqlite/backup.ts';
import { type CommandCall, CommandError, type CommandOutcome, targetFile } from './command.ts';
import { withStore } from './store.ts';

const SHOWN_AT_MOST = 100;

export async function backUpStore(call: CommandCall): Promise<CommandOutcome> {
  const target = targetFile(call, 'backup');
  const { sizeBytes, blobs, lost } = await withStore(call, (store) => {
    if (store.embedded) return backUp({ connection: store.embedded, blobs: store.blobs }, target);
    throw notEmbedded(
      'the database is on a server: back it up with its own tools, pg_dump or base backups, and the blob store with its own; see docs/upgrade.md',
    );
  });
  const outcome = {
    data: { file: target, sizeBytes, blobs },
    text: `${target}: ${sizeBytes} bytes, ${blobs} blobs\nThe secret key is not in it; keep secret.key or POSTRIDER_SECRET_KEY in another place.`,
  };
  return withLost(call, outcome, lost);
}

export async function restoreStore({ config, clock, args: [file = ''] }: CommandCall): Promise<CommandOutcome> {
  if (config.databaseUrl !== undefined) {
    throw notEmbedded(
      'restore fills a data directory, and POSTRIDER_DATABASE_URL names a server; use postrider import there, or unset it',
    );
  }
  if (config.blobs.kind !== 'disk') {
    throw notEmbedded(
      'the embedded database is restored together with its files; unset POSTRIDER_BLOB_URL for the restore, and serve from files, or use postrider import into PostgreSQL',
    );
  }
  const directory = dataDirectory(config.dataDir, config.blobs.folder);
  const { blobs } = restore(path.resolve(file), { directory, nowMs: clock.now() });
  return {
    data: { dataDir: directory.path, blobs },
    text: `restored into ${directory.path}, ${blobs} blobs\nPut the secret key beside it (secret.key) or into POSTRIDER_SECRET_KEY before the start.`,
  };
}

function notEmbedded(message: string): CommandError {
  return new CommandError('NOT_EMBEDDED', message);
}

/**
 * The outcome as it is when nothing was lost. Else the file stays, and nobody can take it for a whole one: stderr, the answer
 * under --json and the exit code say so.
 */
export function withLost({ streams }: CommandCall, outcome: CommandOutcome, lost: readonly string[]): CommandOutcome {
  const keys = lost.slice(0, SHOWN_AT_MOST);
  const data = { ...outcome.data, complete: lost.length === 0, lost: { count: lost.length, keys } };
  if (lost.length === 0) return { ...outcome, data };
  const count = lost.length === 1 ? 'one blob' : `${lost.length} blobs`;
  const more = lost.length > keys.length ? `  and ${lost.length - keys.length} more\n` : '';
  streams.err(
    `postrider: ${count} named by the database, missing or damaged in the blob store, and not in the file:\n${keys.map((key) => `  ${key}\n`).join('')}${more}`,
  );
  return { data, text: `${outcome.text}\nThe file is INCOMPLETE: it lacks ${count}, named on stderr.`, exitCode: 1 };
}

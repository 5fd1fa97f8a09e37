/**
 * Implements `postrider secret-key compare`: verifies a copy of the secret key before it is needed, and records that it exists. The copy is
 * read from a file or stdin, and not stored.
 */
import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { recordSecretKeyCompared } from '../storage/kept-elsewhere.ts';
import { isSecretKeyOf } from '../storage/secret-key.ts';
import { type CommandCall, CommandError, type CommandOutcome } from './command.ts';
import { withStore } from './store.ts';

/** Reads the copy. Throws NOT_A_COPY for a file inside the data directory, which would be lost with it. */
function readCopy(file: string, folder: string): string {
  if (file === '-') return readFileSync(0, 'utf8');
  let found: string;
  try {
    found = realpathSync(file);
  } catch {
    throw new CommandError('NO_FILE', `${file} cannot be read; check its path and permissions`);
  }
  if (!path.relative(folder, found).startsWith('..')) {
    throw new CommandError(
      'NOT_A_COPY',
      `${file} is in the data directory and would be lost with it; store the copy elsewhere`,
    );
  }
  return readFileSync(found, 'utf8');
}

export async function compareSecretKey(call: CommandCall): Promise<CommandOutcome> {
  const [file = ''] = call.args;
  return withStore(call, async ({ database, directory, clock }) => {
    const copy = Buffer.from(readCopy(file, realpathSync(directory.path)).trim(), 'base64');
    if (!(await isSecretKeyOf(database, copy))) {
      throw new CommandError(
        'ANOTHER_KEY',
        'the copy is not the secret key of this database; compare a copy of secret.key or POSTRIDER_SECRET_KEY',
      );
    }
    const nowMs = clock.now();
    await recordSecretKeyCompared(database, nowMs);
    return {
      data: { fits: true, comparedAt: new Date(nowMs).toISOString() },
      text: 'The copy matches the secret key in use. Store it away from this machine and its backups.',
    };
  });
}

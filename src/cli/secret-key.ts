/**
 * Implements `postrider secret-key compare`, which verifies a copy of the secret key before it is needed and records that it exists, and
 * `postrider secret-key rotate`, which replaces the key. A copy is read from a file or stdin, and not stored.
 */
import { realpathSync } from 'node:fs';
import path from 'node:path';
import { parseSecretKey } from '../config.ts';
import { recordSecretKeyCompared } from '../storage/kept-elsewhere.ts';
import { isSecretKeyOf, rotateSecretKey } from '../storage/secret-key.ts';
import { type CommandCall, CommandError, type CommandOutcome, inputName, readInput, UsageError } from './command.ts';
import { withStore } from './store.ts';

/** Reads the copy. Throws NOT_A_COPY for a file inside the data directory, which would be lost with it. */
function readCopy(file: string, folder: string): string {
  if (file === '-') return readInput(file, 'NO_FILE');
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
  return readInput(found, 'NO_FILE');
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

interface RotateOptions {
  newKey?: string;
}

export async function rotateKey(call: CommandCall<RotateOptions>): Promise<CommandOutcome> {
  const { config, options } = call;
  const isConfigured = config.secretKey !== undefined;
  if (isConfigured !== (options.newKey !== undefined))
    throw new UsageError(
      isConfigured
        ? 'the secret key is configured with POSTRIDER_SECRET_KEY: pass the new one with --new-key FILE (openssl rand -base64 32 creates one)'
        : '--new-key requires POSTRIDER_SECRET_KEY; without it, the new key is generated in the data directory',
    );
  const configuredNext = options.newKey === undefined ? undefined : readNewKey(options.newKey);
  return withStore(call, async ({ database, directory, clock }) => {
    const source = { database, directory, configured: config.secretKey };
    const { previousFile } = await rotateSecretKey(source, { configuredNext, nowMs: clock.now() });
    const next =
      previousFile === undefined
        ? 'Set POSTRIDER_SECRET_KEY to the new key on every node before its next start.'
        : `The previous key is in ${previousFile}. Move it to a safe place: backups made before now need it.`;
    return {
      data: { rotated: true, ...(previousFile !== undefined && { previousKeyFile: previousFile }) },
      text: `The secret key was replaced. Running processes continue. ${next} Store a copy of the new key, and verify it with: postrider secret-key compare FILE`,
    };
  });
}

function readNewKey(file: string): Buffer {
  const text = readInput(file, 'NO_FILE');
  try {
    // The setting accepts exactly the same texts.
    return parseSecretKey(text.trim());
  } catch {
    throw new CommandError(
      'NO_KEY',
      `${inputName(file)} must contain 32 bytes in Base64; openssl rand -base64 32 creates them`,
    );
  }
}

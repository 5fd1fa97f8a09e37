/**
 * The key that encrypts secrets at rest: from the configuration, or generated once into the data directory (`secret.key`, mode 0600, never
 * in a backup). The database keeps a check value (an HMAC that reveals nothing about the key), so that a wrong or lost key prevents the
 * start with a clear error instead of failing at the first signature.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { SECRET_KEY_BYTES } from '../base/seal.ts';
import type { DataDirectory } from './data-directory.ts';
import type { Database } from './database.ts';
import { createDurableFile } from './durable-file.ts';
import { metaOnceOperation, metaOperation } from './meta-store.ts';

const CHECK_KEY = 'secret-key-check';

export interface SecretKeySource {
  directory: DataDirectory;
  database: Database;
  /** From POSTRIDER_SECRET_KEY. */
  configured: Buffer | undefined;
}

export function secretKeyFile(directory: DataDirectory): string {
  return path.join(directory.path, 'secret.key');
}

const checkOf = (key: Buffer): string =>
  createHmac('sha256', key).update('postrider secret key check').digest('base64');

/** Throws an error for the operator unless the key matches the check value of a database. */
export function assertSecretKeyFits(source: Omit<SecretKeySource, 'database'>, check: string | null): void {
  if (check === null) return;
  const file = secretKeyFile(source.directory);
  const key = source.configured ?? (existsSync(file) ? readKey(file) : undefined);
  if (key !== undefined && checkOf(key) === check) return;
  throw new Error(
    `the secrets in the file were encrypted with a different key than ${source.configured ? 'POSTRIDER_SECRET_KEY' : file}; set POSTRIDER_SECRET_KEY to the key of the data directory it was exported from`,
  );
}

/** Returns whether this database's secrets were encrypted with this key; false if there are none yet. */
export async function isSecretKeyOf(database: Database, key: Buffer): Promise<boolean> {
  const check = await database.execute(metaOperation, CHECK_KEY);
  return check !== null && key.length === SECRET_KEY_BYTES && checkOf(key) === check;
}

/** Returns the key of this database; generates it at the first call. Throws an error for the operator if it is the wrong one. */
export async function loadSecretKey(source: SecretKeySource): Promise<Buffer> {
  const file = secretKeyFile(source.directory);
  const key = source.configured ?? (await fileKey(file, source.database));
  const check = checkOf(key);
  const known = await source.database.execute(metaOperation, CHECK_KEY);
  const kept = known ?? (await source.database.execute(metaOnceOperation, { key: CHECK_KEY, value: check }));
  if (kept !== check) {
    const named = source.configured ? 'POSTRIDER_SECRET_KEY' : file;
    throw new Error(
      `${named} is not the secret key of this database; restore the right key from your copy, because backups do not include it`,
    );
  }
  return key;
}

/** Why `serve` would not start with the available key, and what to do. */
export interface SecretKeyProblem {
  message: string;
  remedy: string;
}

/** Returns undefined if `serve` finds the right key, or would generate the first one. Changes nothing. */
export async function secretKeyProblem(source: SecretKeySource): Promise<SecretKeyProblem | undefined> {
  const file = secretKeyFile(source.directory);
  const check = await source.database.execute(metaOperation, CHECK_KEY);
  const remedy = `Restore ${file} from your copy of the secret key (mode 0600), or set POSTRIDER_SECRET_KEY to that key.`;
  if (source.configured === undefined && !existsSync(file)) {
    if (check === null) return undefined;
    const message = `${file} is missing and POSTRIDER_SECRET_KEY is not set; the service does not start, because DKIM keys and webhook secrets in this database are encrypted with that key`;
    return { message, remedy };
  }
  try {
    const key = source.configured ?? readKey(file);
    if (check === null || checkOf(key) === check) return undefined;
    const named = source.configured ? 'POSTRIDER_SECRET_KEY' : file;
    return { message: `${named} is not the secret key of this database`, remedy };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) return { message, remedy };
    return {
      message: `${file} cannot be read (${code})`,
      remedy: `Make ${file} readable by the user of the service.`,
    };
  }
}

async function fileKey(file: string, database: Database): Promise<Buffer> {
  if (!existsSync(file)) {
    if ((await database.execute(metaOperation, CHECK_KEY)) !== null) {
      throw new Error(
        `the secrets of this database are encrypted, but the secret key is missing; restore ${file} from your copy, or set POSTRIDER_SECRET_KEY`,
      );
    }
    createDurableFile(file, `${randomBytes(SECRET_KEY_BYTES).toString('base64')}\n`);
  }
  return readKey(file);
}

function readKey(file: string): Buffer {
  const key = Buffer.from(readFileSync(file, 'utf8').trim(), 'base64');
  if (key.length !== SECRET_KEY_BYTES)
    throw new Error(`${file} must contain 32 bytes in Base64; restore it from your copy of the secret key`);
  return key;
}

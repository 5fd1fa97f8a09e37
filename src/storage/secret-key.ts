/**
 * The key that encrypts secrets at rest: from the configuration, or generated once into the data directory (`secret.key`, mode 0600, never
 * in a backup). The database keeps a check value (an HMAC that reveals nothing about the key), so that a wrong or lost key prevents the
 * start with a clear error instead of failing at the first signature.
 *
 * Until its first rotation, the secret key encrypts all stored secrets itself. A rotation keeps that key as the data key, encrypted with the
 * new secret key in the database, so no stored secret, link, or token changes.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { open, SECRET_KEY_BYTES, seal } from '../base/seal.ts';
import type { DataDirectory } from './data-directory.ts';
import type { Database } from './database.ts';
import { createDurableFile, syncDirectory, writeDurableFile } from './durable-file.ts';
import { firstSecretKeyOperation, rotateSecretKeyOperation, secretKeyOperation } from './meta-store.ts';

const DATA_KEY_CONTEXT = 'data key';

export interface SecretKeySource {
  directory: DataDirectory;
  database: Database;
  /** From POSTRIDER_SECRET_KEY. */
  configured: Buffer | undefined;
}

export function secretKeyFile(directory: DataDirectory): string {
  return path.join(directory.path, 'secret.key');
}

/** The new key of a rotation, until the database has recorded it. Each rotation has its own file. */
function nextKeyFile(directory: DataDirectory, check: string): string {
  return `${secretKeyFile(directory)}.next-${Buffer.from(check, 'base64').toString('hex').slice(0, 16)}`;
}

const checkOf = (key: Buffer): string =>
  createHmac('sha256', key).update('postrider secret key check').digest('base64');

const asText = (key: Buffer): string => `${key.toString('base64')}\n`;

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
  const { check } = await database.execute(secretKeyOperation, null);
  return check !== null && key.length === SECRET_KEY_BYTES && checkOf(key) === check;
}

/**
 * Returns the key that encrypts the secrets of this database; generates it at the first call. Throws an error for the operator if the secret
 * key is the wrong one.
 */
export async function loadSecretKey(source: SecretKeySource): Promise<Buffer> {
  const { database, directory, configured } = source;
  const { check, dataKey } = await database.execute(secretKeyOperation, null);
  const key = configured ?? fileKey(directory, check);
  const recorded = check ?? (await database.execute(firstSecretKeyOperation, checkOf(key)));
  if (recorded !== checkOf(key)) {
    const named = configured ? 'POSTRIDER_SECRET_KEY' : secretKeyFile(directory);
    throw new Error(
      `${named} is not the secret key of this database; restore the right key from your copy, because backups do not include it`,
    );
  }
  return dataKey === null ? key : open(key, Buffer.from(dataKey, 'base64'), DATA_KEY_CONTEXT);
}

/** The file with the previous key: backups and exports made before the rotation need it. Undefined if the key is configured. */
export interface Rotated {
  previousFile: string | undefined;
}

/**
 * Replaces the secret key. Without a configured key, a new one is generated into the data directory; otherwise `configuredNext` is recorded,
 * and the operator must configure it before the next start. Running processes are not affected. A crash at any point leaves a key that
 * the next start finds.
 */
export async function rotateSecretKey(
  source: SecretKeySource,
  { configuredNext, nowMs }: { configuredNext: Buffer | undefined; nowMs: number },
): Promise<Rotated> {
  const { database, directory, configured } = source;
  const dataKey = await loadSecretKey(source);
  const current = configured ?? readKey(secretKeyFile(directory));
  const next = configuredNext ?? randomBytes(SECRET_KEY_BYTES);
  if (next.equals(current)) throw new Error('the new key is the present secret key');
  const nextFile = nextKeyFile(directory, checkOf(next));
  const previousFile = `${secretKeyFile(directory)}.until-${new Date(nowMs).toISOString().replaceAll(/[-:]/g, '')}`;
  if (configured === undefined) {
    // Both before the database changes: after a crash, no key is lost.
    keepPreviousKey(previousFile, current);
    writeDurableFile(nextFile, asText(next));
  }
  const isRotated = await database.execute(rotateSecretKeyOperation, {
    from: checkOf(current),
    to: checkOf(next),
    dataKey: seal(next, dataKey, DATA_KEY_CONTEXT).toString('base64'),
  });
  if (!isRotated) {
    // The previous file remains: the other command may have found it and rely on it.
    rmSync(nextFile, { force: true });
    throw new Error('the secret key was rotated by another command at the same time');
  }
  if (configured !== undefined) return { previousFile: undefined };
  useNextKey(directory, nextFile);
  return { previousFile };
}

/** Throws if the file holds another key, because the rotation would then destroy this one. */
function keepPreviousKey(file: string, key: Buffer): void {
  if (createDurableFile(file, asText(key)) || readKey(file).equals(key)) return;
  throw new Error(`${file} already holds another key; nothing was rotated, so run the command again`);
}

function useNextKey(directory: DataDirectory, nextFile: string): void {
  try {
    renameSync(nextFile, secretKeyFile(directory));
  } catch (error) {
    // A process that started in the meantime has completed the rotation.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  syncDirectory(directory.path);
}

/** Why `serve` would not start with the available key, and what to do. */
export interface SecretKeyProblem {
  message: string;
  remedy: string;
}

/** Returns undefined if `serve` finds the right key, or would generate the first one. Changes nothing. */
export async function secretKeyProblem(source: SecretKeySource): Promise<SecretKeyProblem | undefined> {
  const { directory } = source;
  const file = secretKeyFile(directory);
  const { check } = await source.database.execute(secretKeyOperation, null);
  const remedy = source.configured
    ? 'Set POSTRIDER_SECRET_KEY to the key of this database, from your copy of the secret key.'
    : `Restore ${file} from your copy of the secret key (mode 0600), or set POSTRIDER_SECRET_KEY to that key.`;
  if (source.configured === undefined && !existsSync(file)) {
    if (check === null) return undefined;
    const message = `${file} is missing and POSTRIDER_SECRET_KEY is not set; the service does not start, because DKIM keys and webhook secrets in this database are encrypted with that key`;
    return { message, remedy };
  }
  try {
    const key = source.configured ?? readKey(file);
    if (check === null || checkOf(key) === check) return undefined;
    if (source.configured === undefined && isNextKey(directory, check)) return undefined;
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

/** Returns whether a rotation ended after the database recorded its key, and before the key had its final name. */
function isNextKey(directory: DataDirectory, check: string): boolean {
  const file = nextKeyFile(directory, check);
  return existsSync(file) && checkOf(readKey(file)) === check;
}

/** Returns the key in the data directory; generates it if the database has none. Completes an interrupted rotation. */
function fileKey(directory: DataDirectory, check: string | null): Buffer {
  const file = secretKeyFile(directory);
  if (check !== null && isNextKey(directory, check)) useNextKey(directory, nextKeyFile(directory, check));
  if (!existsSync(file)) {
    if (check !== null) {
      throw new Error(
        `the secrets of this database are encrypted, but the secret key is missing; restore ${file} from your copy, or set POSTRIDER_SECRET_KEY`,
      );
    }
    createDurableFile(file, asText(randomBytes(SECRET_KEY_BYTES)));
  }
  return readKey(file);
}

/** Reads a key from a file. Throws an error for the operator if it is not one. */
export function readKey(file: string): Buffer {
  const key = Buffer.from(readFileSync(file, 'utf8').trim(), 'base64');
  if (key.length !== SECRET_KEY_BYTES)
    throw new Error(`${file} must contain 32 bytes in Base64; restore it from your copy of the secret key`);
  return key;
}

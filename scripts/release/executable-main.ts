/**
 * The main script of the single executable. The first start unpacks the application into the user's cache folder. Each start compares all
 * files with their digests, restores damaged ones, and runs the application from there, because worker threads and imports need files. It
 * imports only Node's own modules.
 */
import { hash, randomUUID } from 'node:crypto';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { getAsset, getRawAsset } from 'node:sea';
import { zstdDecompressSync } from 'node:zlib';
import type { ApplicationIndex } from './executable.ts';

/** Block size of usual file systems. */
const BLOCK_BYTES = 4096;
const DAY_MS = 86_400_000;
/** An unpacked version is removed when no start and no running process has used it for this long. */
const UNUSED_MS = 30 * DAY_MS;
/** Prefix of folders that are being written or removed. */
const TEMPORARY = 'temporary-';
const UNPACKED = /^\d+\.\d+\.\d+.*-[0-9a-f]{16}$/;

const indexText = getAsset('index', 'utf8');
const { version, files } = JSON.parse(indexText) as ApplicationIndex;

/** Follows the XDG Base Directory Specification, which ignores relative paths. */
function cacheFolder(): string {
  const { XDG_CACHE_HOME: configured = '' } = process.env;
  return path.join(path.isAbsolute(configured) ? configured : path.join(os.homedir(), '.cache'), 'postrider');
}

/** Creates a folder and its parents. Node's recursive mkdir never ends if the system keeps reporting a missing folder, as /proc does. */
function makeFolder(name: string): void {
  try {
    mkdirSync(name);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    const above = path.dirname(name);
    if (code !== 'ENOENT' || above === name || existsSync(above)) throw error;
    makeFolder(above);
    makeFolder(name);
  }
}

/** Writes all files of the application, or the given ones, each with one rename. */
function writeFiles(folder: string, wanted?: ReadonlySet<string>): void {
  const content = zstdDecompressSync(new Uint8Array(getRawAsset('files')));
  let offset = 0;
  for (const { name, sizeBytes } of files) {
    const bytes = content.subarray(offset, offset + sizeBytes);
    offset += sizeBytes;
    if (wanted?.has(name) === false) continue;
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    // Containers that share the folder can have the same process id.
    const part = `${file}.${randomUUID()}`;
    writeFileSync(part, bytes);
    renameSync(part, file);
  }
}

function isIntact(file: string, sha256: string): boolean {
  try {
    return hash('sha256', readFileSync(file)) === sha256;
  } catch {
    return false;
  }
}

/** Unpacks into a temporary folder and renames it, so that no start finds half an application. */
function unpack(cache: string, folder: string): void {
  const temporary = mkdtempSync(path.join(cache, TEMPORARY));
  try {
    writeFiles(temporary);
    renameSync(temporary, folder);
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true });
    // Another start was faster.
    if (!existsSync(folder)) throw error;
  }
}

/** Marks the folder as used. A folder that only another user can change is used without the mark. */
function touch(folder: string): void {
  try {
    utimesSync(folder, new Date(), new Date());
  } catch {}
}

/** Removes versions that have not been used for 30 days, and what interrupted starts have left. A failure does not prevent the start. */
function removeUnused(cache: string): void {
  for (const name of readdirSync(cache)) {
    const folder = path.join(cache, name);
    const isTemporary = name.startsWith(TEMPORARY);
    if (!isTemporary && !UNPACKED.test(name)) continue;
    try {
      const ageMs = Date.now() - statSync(folder).mtimeMs;
      if (ageMs < (isTemporary ? DAY_MS : UNUSED_MS)) continue;
      const removed = path.join(cache, `${TEMPORARY}${name}-${process.pid}`);
      renameSync(folder, removed);
      rmSync(removed, { recursive: true });
    } catch {}
  }
}

/** Returns the folder with the complete application. Throws if it cannot be written. */
function prepare(): string {
  const cache = cacheFolder();
  makeFolder(cache);
  const found = lstatSync(cache);
  if (found.uid !== process.geteuid?.()) throw new Error(`${cache} belongs to another user`);
  // A link, or a folder that others can write to, could be changed after the files were checked.
  if (!found.isDirectory() || (found.mode & 0o022) !== 0)
    throw new Error(`${cache} is a link, or others can write to it`);
  const folder = path.join(cache, `${version}-${hash('sha256', indexText).slice(0, 16)}`);
  if (existsSync(folder)) touch(folder);
  else unpack(cache, folder);
  const damaged = files.filter(({ name, sha256 }) => !isIntact(path.join(folder, name), sha256));
  if (damaged.length > 0) writeFiles(folder, new Set(damaged.map(({ name }) => name)));
  removeUnused(cache);
  return folder;
}

// Only the owner may read or change the files.
process.umask(0o077);
let folder: string;
try {
  folder = prepare();
} catch (error) {
  const blocks = files.reduce((sum, { sizeBytes }) => sum + Math.ceil(sizeBytes / BLOCK_BYTES), 0);
  const megabytes = Math.ceil((blocks * BLOCK_BYTES) / 1e6);
  console.error(
    `postrider: the application cannot be unpacked: ${(error as Error).message}. Set XDG_CACHE_HOME to a folder that this user can write to and that has ${megabytes} MB of free space.`,
  );
  process.exit(1);
}
setInterval(() => touch(folder), DAY_MS).unref();
// The script of a single executable cannot import files; a file that it requires can.
const start = createRequire(path.join(folder, 'package.json'))('./start.cjs') as () => Promise<void>;
await start();

/**
 * Stores blobs as files. Each blob is written to a temporary file, which is synced and renamed; then its directory is synced. After a power
 * failure, every blob that has its final name is therefore complete. Keys are random and contain no user input, and no file outside the
 * folder is accessed. Several nodes may share the folder, because every write has its own temporary file.
 *
 * A failed sync is never retried: data may be lost, and a second sync would report success. After a failed sync nothing more is written,
 * and the process is expected to exit. This does not apply if a sync fails because the disk is full.
 */
import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, readFile, rename, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { sha256 } from '../../base/digest.ts';
import { Unavailable } from '../../base/failure.ts';
import { randomText } from '../../base/ids.ts';
import {
  assertBlobKey,
  asWritten,
  type BlobReader,
  type Blobs,
  exactly,
  isBlobKey,
  newBlobKey,
  streamAsWritten,
  UNFINISHED_MS,
  withDigest,
} from './blobs.ts';
import { MARK_NAME } from './mark.ts';

/** Pieces of at least this size are not copied into the buffer. */
const LARGE_PIECE_BYTES = 4 * 1024;
const BUFFER_BYTES = 64 * 1024;

/** Yields the same bytes in larger pieces. A piece is overwritten as soon as the next is requested. */
export async function* gatheredPieces(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let buffer: Buffer | undefined;
  let filled = 0;
  for await (const piece of source) {
    const isLarge = piece.length >= LARGE_PIECE_BYTES;
    if (buffer !== undefined && filled > 0 && (isLarge || filled + piece.length > BUFFER_BYTES)) {
      yield buffer.subarray(0, filled);
      filled = 0;
    }
    if (isLarge) {
      yield piece;
      continue;
    }
    buffer ??= Buffer.allocUnsafeSlow(BUFFER_BYTES);
    buffer.set(piece, filled);
    filled += piece.length;
  }
  if (buffer !== undefined && filled > 0) yield buffer.subarray(0, filled);
}

const SHARD = /^[0-9A-Za-z]{2}$/;
const PART = /^[0-9A-Za-z]{26}\.part$/;
const PROBE = /^(?:clock|mark)-[0-9A-Za-z]{8}\.part$/;

/** Error codes that say that the disk is full or too many files are open. */
const EXHAUSTED: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE']);

function unavailable(error: unknown): Unavailable {
  if (error instanceof Unavailable) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  return new Unavailable(
    `blob storage: ${message}`,
    code !== undefined && EXHAUSTED.has(code) ? 'OVERLOADED' : undefined,
  );
}

/** Returns undefined if the file does not exist; throws Unavailable for all other errors. */
function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw unavailable(error);
}

/** Error codes of a sync that failed because the disk is full. */
const DISK_FULL = new Set(['ENOSPC', 'EDQUOT']);

interface DiskBlobsOptions {
  /** Called once when a sync fails; the process should exit. */
  onBroken?: (reason: string) => void;
}

interface SyncGuard {
  /** Throws if a sync has failed. */
  assertTrusted(): void;
  /** Waits for a sync; throws if it fails, or if another one has failed in the meantime. */
  run(sync: () => Promise<void>): Promise<void>;
}

function createSyncGuard(onBroken: (reason: string) => void): SyncGuard {
  let broken: Unavailable | undefined;
  const assertTrusted = (): void => {
    if (broken) throw broken;
  };
  return {
    assertTrusted,
    run: async (sync) => {
      try {
        await sync();
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        if (!DISK_FULL.has(code ?? '') && !broken) {
          broken = unavailable(error);
          onBroken(`the disk stopped responding: a sync of content failed: ${message}`);
        }
        throw unavailable(error);
      }
      assertTrusted();
    },
  };
}

export function openDiskBlobs(folder: string, { onBroken = () => undefined }: DiskBlobsOptions = {}): Blobs {
  const syncs = createSyncGuard(onBroken);
  const pathOf = (key: string): string => {
    assertBlobKey(key);
    return path.join(folder, key);
  };
  const syncedShards = new Set<string>();

  /** Creates a shard folder, once per process. `parentSynced` resolves when the parent folder has been synced. */
  const ensureShard = async (shard: string): Promise<{ parentSynced: Promise<void> }> => {
    if (syncedShards.has(shard)) return { parentSynced: Promise.resolve() };
    await mkdir(path.join(folder, shard), { recursive: true, mode: 0o700 }).catch(throwUnavailable);
    const parentSynced = syncFolder(syncs, folder).catch(throwUnavailable);
    // `parentSynced` is awaited after the content has been written. Until then, a rejection must not be unhandled.
    parentSynced.catch(() => undefined);
    return { parentSynced };
  };

  /** Runs `fill` on a new file and renames it to the key that `fill` returns; removes the file if anything throws. */
  const write = async (shard: string, fill: (file: FileHandle) => Promise<string>): Promise<string> => {
    const temporary = path.join(folder, shard, `${randomText(26)}.part`);
    let key: string;
    syncs.assertTrusted();
    try {
      const { parentSynced } = await ensureShard(shard);
      const file = await open(temporary, 'wx', 0o600).catch(throwUnavailable);
      try {
        key = await fill(file);
        await syncs.run(() => file.datasync());
      } finally {
        await file.close();
      }
      await parentSynced;
      syncedShards.add(shard);
      await rename(temporary, pathOf(key)).catch(throwUnavailable);
      await syncFolder(syncs, path.join(folder, shard)).catch(throwUnavailable);
      return key;
    } catch (error) {
      syncedShards.delete(shard);
      await unlink(temporary).catch(() => undefined);
      throw error;
    }
  };

  return {
    newKey: newBlobKey,
    put: async (content) => {
      const key = newBlobKey(await sha256(content));
      return write(key.slice(0, 2), async (file) => {
        await file.writeFile(content).catch(throwUnavailable);
        return key;
      });
    },
    putStream: async (source, { key, sizeBytes, sha256: digest } = {}) => {
      if (key !== undefined) assertBlobKey(key);
      const name = key ?? newBlobKey();
      const hash = key === undefined && digest === undefined ? createHash('sha256') : undefined;
      return write(name.slice(0, 2), async (file) => {
        for await (const chunk of gatheredPieces(exactly(source, sizeBytes))) {
          hash?.update(chunk);
          await file.writeFile(chunk).catch(throwUnavailable);
        }
        return key ?? withDigest(name, digest ?? hash!.digest());
      });
    },
    get: async (key) => {
      const content = await readFile(pathOf(key)).catch(ignoreMissing);
      return content && asWritten(key, content);
    },
    read: async (key) => {
      const file = await open(pathOf(key), 'r').catch(ignoreMissing);
      if (!file) return undefined;
      const source = file.createReadStream();
      const content = Readable.from(streamAsWritten(key, source), { objectMode: false });
      // If the stream is destroyed before its first chunk, it does not close the file automatically.
      return content.once('close', () => source.destroy());
    },
    open: async (key) => {
      const file = await open(pathOf(key), 'r').catch(ignoreMissing);
      return file && fileReader(file);
    },
    sizeOf: async (key) => (await stat(pathOf(key)).catch(ignoreMissing))?.size,
    stampOf: async (key) => {
      const found = await stat(pathOf(key), { bigint: true }).catch(ignoreMissing);
      // The system sets ctime, which, unlike mtime, cannot be set back.
      return found && [found.ino, found.size, found.mtimeNs, found.ctimeNs].join(' ');
    },
    remove: async (key) => {
      await unlink(pathOf(key)).catch(ignoreMissing);
    },
    list: async function* () {
      for await (const { shard, name } of files(folder)) {
        const key = `${shard}/${name}`;
        if (!isBlobKey(key)) continue;
        const found = await stat(path.join(folder, key)).catch(ignoreMissing);
        if (found) yield { key, writtenAtMs: found.mtimeMs };
      }
    },
    storeNowMs: () => fileSystemNowMs(folder),
    mark: {
      read: async () => (await readFile(path.join(folder, MARK_NAME), 'utf8').catch(ignoreMissing))?.trim(),
      write: (id) => writeMark(syncs, { folder, id }),
    },
    removeUnfinished: async () => {
      const beforeMs = (await fileSystemNowMs(folder)) - UNFINISHED_MS;
      let removed = 0;
      for await (const { shard, name } of files(folder)) {
        if (PART.test(name)) removed += await removeIfOld(path.join(folder, shard, name), beforeMs);
      }
      for (const name of await readdir(folder).catch(throwUnavailable)) {
        if (PROBE.test(name)) removed += await removeIfOld(path.join(folder, name), beforeMs);
      }
      return removed;
    },
  };
}

/** Removes the file if it was last written before `beforeMs`. Returns the number of removed files. */
async function removeIfOld(file: string, beforeMs: number): Promise<number> {
  const found = await stat(file).catch(ignoreMissing);
  if (!found || found.mtimeMs > beforeMs) return 0;
  await unlink(file).catch(ignoreMissing);
  return 1;
}

function fileReader(file: FileHandle): BlobReader {
  let reading: Promise<number> | undefined;
  const fill = async (into: Buffer): Promise<number> => {
    let filled = 0;
    while (filled < into.length) {
      const { bytesRead } = await file.read(into, filled, into.length - filled, null).catch(throwUnavailable);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return filled;
  };
  return {
    fill: (into) => {
      reading = fill(into);
      return reading;
    },
    close: async () => {
      await reading?.catch(() => undefined);
      await file.close();
    },
  };
}

function throwUnavailable(error: unknown): never {
  throw unavailable(error);
}

/** Writes the mark atomically, like a blob. After a crash, removeUnfinished() removes the temporary file. */
async function writeMark(syncs: SyncGuard, { folder, id }: { folder: string; id: string }): Promise<void> {
  const temporary = path.join(folder, `mark-${randomText(8)}.part`);
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(`${id}\n`);
      await syncs.run(() => file.datasync());
    } finally {
      await file.close();
    }
    await rename(temporary, path.join(folder, MARK_NAME));
    await syncFolder(syncs, folder);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw unavailable(error);
  }
}

async function* files(folder: string): AsyncGenerator<{ shard: string; name: string }> {
  for (const shard of (await readdir(folder).catch(ignoreMissing)) ?? []) {
    if (!SHARD.test(shard)) continue;
    for (const name of (await readdir(path.join(folder, shard)).catch(ignoreMissing)) ?? []) yield { shard, name };
  }
}

/** Returns the time of the clock that sets file times. For a mounted folder, this is the clock of the file server. */
async function fileSystemNowMs(folder: string): Promise<number> {
  const probe = path.join(folder, `clock-${randomText(8)}.part`);
  try {
    const file = await open(probe, 'wx', 0o600);
    try {
      await file.writeFile('.');
      return (await file.stat()).mtimeMs;
    } finally {
      await file.close();
    }
  } catch (error) {
    throw unavailable(error);
  } finally {
    await unlink(probe).catch(() => undefined);
  }
}

async function syncFolder(syncs: SyncGuard, folder: string): Promise<void> {
  let handle: FileHandle | undefined;
  try {
    const opened = await open(folder, 'r');
    handle = opened;
    await syncs.run(() => opened.sync());
  } finally {
    await handle?.close();
  }
}

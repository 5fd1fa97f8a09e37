/**
 * Blobs as files: written beside their place, synced, renamed, and the directory synced, so that after a power cut a
 * named blob is whole. Keys are random and hold no name of a user's; nothing outside the folder is ever touched.
 */
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readFile, rename, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { Unavailable } from '../base/failure.ts';
import { randomText } from '../base/ids.ts';
import type { Blobs } from './blobs.ts';

const KEY = /^[0-9A-Za-z]{2}\/[0-9A-Za-z]{26}$/;

export function openDiskBlobs(folder: string): Blobs {
  const place = (key: string): string => {
    if (!KEY.test(key)) throw new Error('not a blob key');
    return path.join(folder, key);
  };
  const syncedFolders = new Set<string>();

  /** Makes a shard folder and makes its name durable in the parent, once per process. */
  const ensureShard = async (shard: string): Promise<void> => {
    if (syncedFolders.has(shard)) return;
    await mkdir(path.join(folder, shard), { recursive: true, mode: 0o700 });
    await syncFolder(folder);
    syncedFolders.add(shard);
  };

  return {
    put: async (content) => {
      const shard = randomText(2);
      const key = `${shard}/${randomText(26)}`;
      const target = path.join(folder, key);
      const temporary = `${target}.part`;
      try {
        await ensureShard(shard);
        const file = await open(temporary, 'wx', 0o600);
        try {
          await file.writeFile(content);
          await file.datasync();
        } finally {
          await file.close();
        }
        await rename(temporary, target);
        await syncFolder(path.dirname(target));
        return key;
      } catch (error) {
        await unlink(temporary).catch(() => undefined);
        throw new Unavailable(`blob storage: ${(error as Error).message}`);
      }
    },
    get: async (key) => {
      try {
        return await readFile(place(key));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
        throw new Unavailable(`blob storage: ${(error as Error).message}`);
      }
    },
    read: async (key): Promise<Readable | undefined> => {
      const file = place(key);
      const there = await stat(file).then(
        () => true,
        () => false,
      );
      return there ? createReadStream(file) : undefined;
    },
    remove: async (key) => {
      await unlink(place(key)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw new Unavailable(`blob storage: ${error.message}`);
      });
    },
    list: async function* () {
      for (const shard of await readdir(folder).catch(() => [])) {
        if (!/^[0-9A-Za-z]{2}$/.test(shard)) continue;
        for (const name of await readdir(path.join(folder, shard)).catch(() => [])) {
          const found = await stat(path.join(folder, shard, name)).catch(() => undefined);
          if (found && KEY.test(`${shard}/${name}`)) yield { key: `${shard}/${name}`, writtenAtMs: found.mtimeMs };
        }
      }
    },
  };
}

async function syncFolder(folder: string): Promise<void> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(folder, 'r');
    await handle.sync();
  } finally {
    await handle?.close();
  }
}

/** Stores scheduled backups in a folder, or in a bucket of an S3-compatible store. */
import { createReadStream, existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { type AwsConfig, credentialsOf } from '../roles/blob-store.ts';
import { describeS3Location } from '../storage/blobs/s3-location.ts';

/** Every name starts with this, so that other files in the same place, such as manual backups, are never deleted. */
const NAME_START = 'postrider-scheduled-';
/** Names sort by time. */
const NAME = /^postrider-scheduled-\d{4}-\d{2}-\d{2}T\d{6}\.backup$/;
/** Matches the temporary files of interrupted backups. */
const UNFINISHED = /^postrider-scheduled-.*\.backup\.\w+\.part(?:-\w+)?$/;

export const backupName = (nowMs: number): string =>
  `${NAME_START}${new Date(nowMs).toISOString().slice(0, 19).replaceAll(':', '')}.backup`;

/** The scheduled backups that exist, the one that was just made, and the number to keep. */
interface KeptBackups {
  names: readonly string[];
  made: string;
  keep: number;
  nowMs: number;
}

/**
 * Returns the backups to delete: the oldest of all, never the one that was just made. A name with a time in the future comes from a clock
 * that was ahead, so it sorts before all others.
 */
export function surplusBackups({ names, made, keep, nowMs }: KeptBackups): string[] {
  const latest = backupName(nowMs);
  const others = names.filter((name) => name !== made).sort();
  const ahead = others.filter((name) => name > latest);
  const past = others.filter((name) => name <= latest);
  return [...ahead, ...past].slice(0, Math.max(0, others.length + 1 - keep));
}

export interface BackupTarget {
  /** Describes the place without secrets, for the output. */
  description: string;
  /** Path to which a backup of this name is written. */
  pathOf(name: string): string;
  /** Whether the file at this path is temporary: `store` moves it elsewhere. */
  isStaged: boolean;
  /** Moves the complete file to its final place if it is not there yet. */
  store(name: string): Promise<void>;
  /** Lists scheduled backups, oldest first. */
  names(): Promise<string[]>;
  remove(name: string): Promise<void>;
  /** Removes the temporary files of interrupted backups. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

type TargetConfig = Pick<Config, 'backupUrl' | 'dataDir'> & AwsConfig;

const scheduled = (names: readonly string[]): string[] => names.filter((one) => NAME.test(one)).sort();

async function removeMatching(folder: string, isMatch: (name: string) => boolean): Promise<void> {
  for (const name of (await readdir(folder)).filter(isMatch)) await rm(path.join(folder, name), { force: true });
}

function folderTarget(folder: string): BackupTarget {
  return {
    description: folder,
    pathOf: (name) => path.join(folder, name),
    isStaged: false,
    store: () => Promise.resolve(),
    names: async () => scheduled(await readdir(folder)),
    remove: (name) => rm(path.join(folder, name), { force: true }),
    clear: async () => {
      if (!existsSync(folder)) {
        throw new Error(`the folder ${folder} of POSTRIDER_BACKUP_URL does not exist; create it, or mount its disk`);
      }
      await removeMatching(folder, (name) => UNFINISHED.test(name));
    },
    close: () => Promise.resolve(),
  };
}

/** Opens the target in POSTRIDER_BACKUP_URL without connecting; returns undefined if it is not set. */
export async function openBackupTarget(config: TargetConfig, clock: Clock): Promise<BackupTarget | undefined> {
  const { backupUrl, dataDir } = config;
  if (backupUrl === undefined) return undefined;
  if (backupUrl.kind === 'disk') return folderTarget(backupUrl.folder ?? dataDir);
  const { openS3Files } = await import('../storage/blobs/s3.ts');
  const credentials = await credentialsOf(config, backupUrl.location);
  const files = openS3Files({
    location: backupUrl.location,
    credentials,
    clock,
    isOwnName: (name) => NAME.test(name),
  });
  const pathOf = (name: string): string => path.join(dataDir, name);
  return {
    description: describeS3Location(backupUrl.location),
    pathOf,
    isStaged: true,
    store: async (name) => {
      try {
        await files.put(name, createReadStream(pathOf(name)));
      } finally {
        await rm(pathOf(name));
      }
    },
    names: async () => scheduled(await files.names(NAME_START)),
    remove: (name) => files.remove(name),
    clear: async () => {
      await removeMatching(dataDir, (name) => UNFINISHED.test(name) || NAME.test(name));
      await files.removeUnfinished();
    },
    close: () => files.close(),
  };
}

/** Stores scheduled backups in a folder, or in a bucket of an S3-compatible store. */
import { createReadStream } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { describeS3Location } from '../storage/blobs/s3-location.ts';

/** Every name begins with this, so that other files in the same place, such as backups made by hand, are left alone. */
const NAME_START = 'postrider-scheduled-';
/** Names sort by time. */
const NAME = /^postrider-scheduled-\d{4}-\d{2}-\d{2}T\d{6}\.backup$/;
/** Matches the files that an interrupted backup leaves. */
const LEFTOVER = /^postrider-scheduled-.*\.backup\.\w+\.part(?:-\w+)?$/;

export const backupName = (nowMs: number): string =>
  `${NAME_START}${new Date(nowMs).toISOString().slice(0, 19).replaceAll(':', '')}.backup`;

export interface BackupTarget {
  /** Describes the place without secrets, for the output. */
  description: string;
  /** Path to which a backup of this name is written. */
  pathOf(name: string): string;
  /** Called when the file is complete: moves it to its place if it is not there yet. */
  store(name: string): Promise<void>;
  /** Lists scheduled backups, oldest first. */
  names(): Promise<string[]>;
  remove(name: string): Promise<void>;
  /** Removes what an interrupted backup left. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

type TargetConfig = Pick<Config, 'backupUrl' | 'dataDir' | 'awsAccessKeyId' | 'awsSecretAccessKey' | 'awsSessionToken'>;

const scheduled = (names: readonly string[]): string[] => names.filter((one) => NAME.test(one)).sort();

async function removeMatching(folder: string, isLeft: (name: string) => boolean): Promise<void> {
  for (const name of (await readdir(folder)).filter(isLeft)) await rm(path.join(folder, name), { force: true });
}

function folderTarget(folder: string): BackupTarget {
  return {
    description: folder,
    pathOf: (name) => path.join(folder, name),
    store: () => Promise.resolve(),
    names: async () => scheduled(await readdir(folder)),
    remove: (name) => rm(path.join(folder, name), { force: true }),
    clear: () => removeMatching(folder, (name) => LEFTOVER.test(name)),
    close: () => Promise.resolve(),
  };
}

/** Opens the place that POSTRIDER_BACKUP_URL names; undefined if it is not set. Makes no call yet. */
export async function openBackupTarget(config: TargetConfig, clock: Clock): Promise<BackupTarget | undefined> {
  const { backupUrl, dataDir } = config;
  if (backupUrl === undefined) return undefined;
  if (backupUrl.kind === 'disk') return folderTarget(backupUrl.folder ?? dataDir);
  const { openS3Files } = await import('../storage/blobs/s3.ts');
  const { awsAccessKeyId: accessKeyId = '', awsSecretAccessKey: secretAccessKey = '' } = config;
  const { awsSessionToken: sessionToken } = config;
  const credentials = { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) };
  const files = openS3Files({ location: backupUrl.location, credentials, clock });
  const pathOf = (name: string): string => path.join(dataDir, name);
  return {
    description: describeS3Location(backupUrl.location),
    pathOf,
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
      await removeMatching(dataDir, (name) => LEFTOVER.test(name) || NAME.test(name));
      await files.removeUnfinished();
    },
    close: () => files.close(),
  };
}

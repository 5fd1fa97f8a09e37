/** Checks the data directory and its files, and the free disk space. */
import { access, constants, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Config } from '../config.ts';
import { dataDirectory, marksOf } from '../storage/data-directory.ts';
import type { Check } from './check.ts';

export async function checkDataDirectory(config: Config): Promise<Check[]> {
  const name = 'data directory';
  const { path: folder } = dataDirectory(config.dataDir);
  const found = await statOf(folder);
  if (!found) {
    const remedy = 'Start the service once, run postrider migrate, or set POSTRIDER_DATA_DIR.';
    return [{ name, status: 'fail', message: `${folder} does not exist`, remedy }];
  }
  try {
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return [
      {
        name,
        status: 'fail',
        message: `${folder} is not writable by this user`,
        remedy: 'Run the command as the user of the service.',
      },
    ];
  }
  const checks: Check[] = [];
  const { mode, uid } = found;
  if ((mode & 0o077) !== 0) {
    const message = `${folder} is readable by other users (mode ${(mode & 0o777).toString(8)})`;
    checks.push({ name, status: 'warn', message, remedy: `Run: chmod 700 ${folder}` });
  }
  for (const one of ['postrider.db', 'postrider.db-wal', 'blobs', 'secret.key']) {
    const file = path.join(folder, one);
    if (((await statOf(file))?.uid ?? uid) !== uid) {
      const message = `${file} and the data directory have different owners`;
      checks.push({ name, status: 'warn', message, remedy: `Run as root: chown -R ${uid} ${file}` });
    }
  }
  return checks.length > 0 ? checks : [{ name, status: 'ok', message: folder }];
}

/** Returns the properties of a file; undefined if it does not exist. */
async function statOf(file: string): Promise<{ mode: number; uid: number } | undefined> {
  return stat(file).catch(() => undefined);
}

/** Checks the disks of the data directory and of a separate blob folder against the limits at which Postrider stops accepting mail. */
export async function checkDisk(config: Config): Promise<Check[]> {
  const blobs = config.blobs.kind === 'disk' ? config.blobs.folder : undefined;
  const { path: folder, blobsFolder } = dataDirectory(config.dataDir, blobs);
  const checks: Check[] = [];
  for (const one of blobs === undefined ? [folder] : [folder, blobsFolder]) {
    if (!(await statOf(one))) continue;
    const { freeBytes, neededBytes, freeInodes, neededInodes } = await marksOf(one, config.minFreeBytes);
    const where = one === folder ? '' : ` (${one})`;
    const [free, needed] = [freeBytes, neededBytes].map((bytes) => `${Math.round(bytes / 1e6)} MB`);
    checks.push({
      name: 'disk space',
      message: `${free} are free; Postrider accepts no mail below ${needed}${where}`,
      ...levelOf({ free: freeBytes, needed: neededBytes }, 'Free disk space'),
    });
    if (neededInodes === 0) continue;
    checks.push({
      name: 'inodes',
      message: `${freeInodes} inodes are free; Postrider accepts no mail below ${Math.ceil(neededInodes)}${where}`,
      ...levelOf({ free: freeInodes, needed: neededInodes }, 'Remove small files'),
    });
  }
  return checks;
}

function levelOf(space: { free: number; needed: number }, remedy: string): Pick<Check, 'status' | 'remedy'> {
  if (space.free < space.needed) return { status: 'fail', remedy: `${remedy}, or use a larger disk.` };
  if (space.free < 2 * space.needed) return { status: 'warn', remedy: `${remedy} before it runs out.` };
  return { status: 'ok' };
}

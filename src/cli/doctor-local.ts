/** What the doctor can tell without the network: settings, data directory, disk, database and secret key. */
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Clock } from '../base/clock.ts';
import { type Config, unknownSettings } from '../config.ts';
import { domainsToCheckOperation, type SenderDomain } from '../domains/domains.ts';
import { isHttps } from '../engagement/engagement.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import { marksOf } from '../storage/free-space.ts';
import { secretKeyFile } from '../storage/secret-key.ts';
import type { Environment } from './command.ts';
import { pendingMigrations, withStore } from './store.ts';

export interface Check {
  name: string;
  status: 'ok' | 'warn' | 'fail';
  message: string;
  remedy?: string;
}

const DOMAINS_CHECKED = 20;
const OLDEST_NODE = 26;

export function checkConfiguration(environment: Environment): Check[] {
  const checks: Check[] = [{ name: 'configuration', status: 'ok', message: 'every setting is valid' }];
  for (const name of unknownSettings(environment)) {
    checks.push({
      name: 'configuration',
      status: 'warn',
      message: `${name} is not a setting of this version`,
      remedy: 'Look for a misspelling; docs/config.md lists all settings.',
    });
  }
  const major = Number(process.versions.node.split('.')[0]);
  checks.push(
    major >= OLDEST_NODE
      ? { name: 'runtime', status: 'ok', message: `Node ${process.version}` }
      : {
          name: 'runtime',
          status: 'fail',
          message: `Node ${process.version}`,
          remedy: `Install Node ${OLDEST_NODE} or newer.`,
        },
  );
  return checks;
}

/** What links in mail begin with. */
export function checkBaseUrl({ roles, baseUrl }: Config): Check[] {
  const name = 'public address';
  if (!roles.includes('api')) return [];
  if (baseUrl !== undefined && isHttps(baseUrl)) return [{ name, status: 'ok', message: baseUrl }];
  const what = baseUrl === undefined ? 'POSTRIDER_BASE_URL is not set' : `${baseUrl} is no https address`;
  return [
    {
      name,
      status: 'warn',
      message: `${what}: mail goes out without List-Unsubscribe headers, which mail programs follow over https only`,
      remedy: 'Set POSTRIDER_BASE_URL to the https address under which recipients reach this service.',
    },
  ];
}

export function checkDataDirectory(config: Config): Check[] {
  const name = 'data directory';
  const { path: folder } = dataDirectory(config.dataDir);
  if (!existsSync(folder)) {
    const remedy = 'Start the service once, run postrider migrate, or set POSTRIDER_DATA_DIR.';
    return [{ name, status: 'fail', message: `${folder} does not exist`, remedy }];
  }
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return [
      {
        name,
        status: 'fail',
        message: `${folder} is not writable for this user`,
        remedy: 'Run as the user of the service.',
      },
    ];
  }
  const checks: Check[] = [];
  const { mode, uid } = statSync(folder);
  if ((mode & 0o077) !== 0) {
    const message = `${folder} can be read by others (mode ${(mode & 0o777).toString(8)})`;
    checks.push({ name, status: 'warn', message, remedy: `chmod 700 ${folder}` });
  }
  for (const one of ['postrider.db', 'postrider.db-wal', 'blobs', 'secret.key']) {
    const file = path.join(folder, one);
    if (existsSync(file) && statSync(file).uid !== uid) {
      const message = `${file} belongs to another user than the directory`;
      checks.push({ name, status: 'warn', message, remedy: `chown it to the user of the service (uid ${uid}).` });
    }
  }
  return checks.length > 0 ? checks : [{ name, status: 'ok', message: folder }];
}

/** The disks under the data directory and under a folder of blobs elsewhere, against the marks at which intake stops. */
export async function checkDisk(config: Config): Promise<Check[]> {
  const blobs = config.blobs.kind === 'disk' ? config.blobs.folder : undefined;
  const { path: folder, blobsFolder } = dataDirectory(config.dataDir, blobs);
  const checks: Check[] = [];
  for (const one of blobs === undefined ? [folder] : [folder, blobsFolder]) {
    if (!existsSync(one)) continue;
    const { freeBytes, neededBytes, freeInodes, neededInodes } = await marksOf(one, config.minFreeBytes);
    const where = one === folder ? '' : ` (${one})`;
    const [free, needed] = [freeBytes, neededBytes].map((bytes) => `${Math.round(bytes / 1e6)} MB`);
    checks.push({
      ...{ name: 'disk space', message: `${free} free, intake stops below ${needed}${where}` },
      ...levelOf({ free: freeBytes, needed: neededBytes }, 'Free space'),
    });
    if (neededInodes === 0) continue;
    checks.push({
      name: 'inodes',
      message: `${freeInodes} free, intake stops below ${Math.ceil(neededInodes)}${where}`,
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

function checkServing(folder: string): Check {
  const name = 'service';
  try {
    const { pid } = JSON.parse(readFileSync(path.join(folder, 'serving.json'), 'utf8')) as { pid: number };
    process.kill(pid, 0);
    return { name, status: 'ok', message: `serving as process ${pid}` };
  } catch (error) {
    // Somebody else's process answers EPERM: it is there.
    if ((error as NodeJS.ErrnoException).code === 'EPERM') return { name, status: 'ok', message: 'serving' };
    return { name, status: 'warn', message: 'no service runs on this data directory', remedy: 'postrider serve' };
  }
}

/** Database, secret key and service; also the domains to look at, none when the database cannot be read. */
export async function checkDatabase(
  config: Config,
  clock: Clock,
): Promise<{ checks: Check[]; domains: SenderDomain[] }> {
  const directory = dataDirectory(config.dataDir);
  const name = 'database';
  if (config.databaseUrl === undefined && !existsSync(directory.databaseFile)) {
    const remedy = 'postrider migrate, or start the service once.';
    return { checks: [{ name, status: 'fail', message: 'there is none', remedy }], domains: [] };
  }
  try {
    const pending = await pendingMigrations(config, directory);
    if (pending !== 0) {
      const message = pending > 0 ? `${pending} migrations wait` : 'migrated by a newer version';
      const remedy = pending > 0 ? 'postrider migrate' : 'Use the newer version.';
      return { checks: [{ name, status: 'fail', message, remedy }], domains: [] };
    }
    return await withStore({ config, clock }, async (store) => {
      const checks: Check[] = [{ name, status: 'ok', message: 'up to date' }, checkServing(directory.path)];
      if (config.secretKey || existsSync(secretKeyFile(directory))) {
        const problem = await store.secretKey().then(
          () => undefined,
          (error: Error) => error.message,
        );
        checks.push(
          problem === undefined
            ? { name: 'secret key', status: 'ok', message: 'fits the database' }
            : { name: 'secret key', status: 'fail', message: problem },
        );
      }
      return { checks, domains: await store.database.execute(domainsToCheckOperation, DOMAINS_CHECKED) };
    });
  } catch (error) {
    return { checks: [{ name, status: 'fail', message: (error as Error).message }], domains: [] };
  }
}

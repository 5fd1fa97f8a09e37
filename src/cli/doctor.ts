/**
 * `postrider doctor`: opens what the service would open, and says line by line what src/roles/doctor.ts finds. Changes nothing. Ends
 * with 1 when something is broken.
 */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { domainsToCheckOperation, type SenderDomain } from '../domains/domains.ts';
import { openBlobStore, probeBlobStore } from '../roles/blob-store.ts';
import { type Check, DOMAINS_CHECKED, examine } from '../roles/doctor.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import { secretKeyFile } from '../storage/secret-key.ts';
import type { CommandCall, CommandOutcome } from './command.ts';
import { pendingMigrations, withStore } from './store.ts';

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
async function checkDatabase(config: Config, clock: Clock): Promise<{ checks: Check[]; domains: SenderDomain[] }> {
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

async function probeBlobs(config: Config, clock: Clock): Promise<void> {
  const { blobs } = config;
  const directory = dataDirectory(config.dataDir, blobs.kind === 'disk' ? blobs.folder : undefined);
  const store = await openBlobStore(config, { directory, clock });
  try {
    await probeBlobStore(store.blobs);
  } finally {
    await store.stop();
  }
}

function line(check: Check): string {
  const remedy = check.remedy === undefined ? '' : `\n      ${check.remedy}`;
  return `${check.status.padEnd(4)}  ${check.name}: ${check.message}${remedy}`;
}

export async function doctor({ config, clock }: CommandCall): Promise<CommandOutcome> {
  const { healthy, checks } = await examine({
    config,
    database: () => checkDatabase(config, clock),
    probeBlobs: () => probeBlobs(config, clock),
  });
  return { data: { healthy, checks }, text: checks.map(line).join('\n'), exitCode: healthy ? 0 : 1 };
}

/**
 * Implements `postrider doctor`: opens the database and files as the service would, and prints the checks of src/doctor/ line by line.
 * Changes nothing. Exits with 1 if a check fails. With --send-test it sends an email through the running service instead (send-test.ts).
 */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { type Check, checkSecretKey, examine, type Facts, readFacts } from '../doctor/doctor.ts';
import { openBlobStore, probeBlobStore } from '../roles/blob-store.ts';
import { checkCertificates } from '../roles/certificates.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import { secretKeyProblem } from '../storage/secret-key.ts';
import type { CommandCall, CommandOutcome } from './command.ts';
import { type SendTestOptions, sendTest } from './send-test.ts';
import { pendingMigrations, withStore } from './store.ts';

function checkServing(folder: string): Check {
  const name = 'service';
  try {
    const { pid } = JSON.parse(readFileSync(path.join(folder, 'serving.json'), 'utf8')) as { pid: number };
    process.kill(pid, 0);
    return { name, status: 'ok', message: `the service is running as process ${pid}` };
  } catch (error) {
    // EPERM means that the process exists but belongs to another user.
    if ((error as NodeJS.ErrnoException).code === 'EPERM')
      return { name, status: 'ok', message: 'the service is running' };
    return {
      name,
      status: 'warn',
      message: 'no service is running on this data directory',
      remedy: 'Start it with postrider serve.',
    };
  }
}

/** Checks the database, the secret key, and the service; returns no facts if the database cannot be read. */
async function checkDatabase(config: Config, clock: Clock): Promise<{ checks: Check[]; facts: Facts | undefined }> {
  const directory = dataDirectory(config.dataDir);
  const name = 'database';
  const failed = (message: string, remedy?: string) => {
    const check: Check = { name, status: 'fail', message, ...(remedy === undefined ? {} : { remedy }) };
    return { checks: [check], facts: undefined };
  };
  if (config.databaseUrl === undefined && !existsSync(directory.databaseFile)) {
    return failed('the database does not exist', 'Run postrider migrate, or start the service once.');
  }
  try {
    const pending = await pendingMigrations(config, directory);
    if (pending > 0)
      return failed(
        `the database needs ${pending} ${pending === 1 ? 'migration' : 'migrations'}`,
        'Run postrider migrate.',
      );
    if (pending < 0) return failed('the database was migrated by a newer version', 'Run the newer version.');
    return await withStore({ config, clock }, async ({ database }) => {
      const checks: Check[] = [
        { name, status: 'ok', message: 'the database is up to date' },
        checkServing(directory.path),
      ];
      checks.push(checkSecretKey(await secretKeyProblem({ directory, database, configured: config.secretKey })));
      checks.push(...(await checkCertificates(config, database, clock.now())));
      return { checks, facts: await readFacts(database, config) };
    });
  } catch (error) {
    return failed((error as Error).message);
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

interface DoctorOptions extends SendTestOptions {
  offline?: boolean;
}

export async function doctor(call: CommandCall<DoctorOptions>): Promise<CommandOutcome> {
  const { config, clock, options } = call;
  if (options.sendTest !== undefined) return sendTest(call, options.sendTest);
  const { healthy, checks } = await examine({
    config,
    clock,
    database: () => checkDatabase(config, clock),
    probeBlobs: () => probeBlobs(config, clock),
    network: config.doctorNetwork === 'on' && options.offline !== true,
  });
  return { data: { healthy, checks }, text: checks.map(line).join('\n'), exitCode: healthy ? 0 : 1 };
}

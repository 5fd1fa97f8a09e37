/**
 * `postrider doctor`: looks at everything that mail depends on and says, line by line, what is well, what to watch and what is
 * broken, with a remedy. Changes nothing itself. Ends with 1 when something is broken.
 */

import type { CommandCall, CommandOutcome } from './command.ts';
import { checkBlobs } from './doctor-blobs.ts';
import {
  type Check,
  checkBaseUrl,
  checkConfiguration,
  checkDatabase,
  checkDataDirectory,
  checkDisk,
} from './doctor-local.ts';
import { checkDns, checkDomains, checkRoute } from './doctor-network.ts';

async function allChecks(call: CommandCall): Promise<Check[]> {
  const { config } = call;
  const local = [
    ...checkConfiguration(call.environment),
    ...checkBaseUrl(config),
    ...checkDataDirectory(config),
    ...(await checkDisk(config)),
  ];
  const database = await checkDatabase(config, call.clock);
  const network = await Promise.all([
    checkBlobs(config, call.clock),
    checkDns(config),
    checkRoute(config),
    checkDomains(config, database.domains),
  ]);
  return [...local, ...database.checks, ...network.flat()];
}

function line(check: Check): string {
  const remedy = check.remedy === undefined ? '' : `\n      ${check.remedy}`;
  return `${check.status.padEnd(4)}  ${check.name}: ${check.message}${remedy}`;
}

export async function doctor(call: CommandCall): Promise<CommandOutcome> {
  const checks = await allChecks(call);
  const failed = checks.some((check) => check.status === 'fail');
  return { data: { healthy: !failed, checks }, text: checks.map(line).join('\n'), exitCode: failed ? 1 : 0 };
}

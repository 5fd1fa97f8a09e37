/**
 * Implements `postrider config check`: validates all settings of the environment, and the files that they name, as the start of the service
 * does. Prints all problems instead of only the first. Opens neither the data directory nor the database, and connects to nothing.
 */
import { type Config, ConfigError } from '../config.ts';
import { assertPublicNames } from '../roles/certificate-names.ts';
import { assertSourceAddresses, checkTlsFiles, hasTlsPort } from '../roles/ports.ts';
import { openProviderFile } from '../roles/provider-file.ts';
import { type CommandCall, type CommandOutcome, EX_CONFIG } from './command.ts';

interface MachineCheck {
  reads: readonly (keyof Config)[];
  /** Returns whether a process with these roles uses the settings. */
  applies(config: Config): boolean;
  /** Throws or rejects with ConfigError. */
  run(config: Config): unknown;
}

/** Checks that depend on this machine: its files and addresses. */
const MACHINE_CHECKS: readonly MachineCheck[] = [
  {
    reads: ['roles', 'httpsPort', 'smtpTlsCert', 'smtpTlsKey'],
    applies: hasTlsPort,
    run: checkTlsFiles,
  },
  {
    reads: ['roles', 'httpsPort', 'smtpTlsCert', 'acmeEmail', 'smtpHostname', 'baseUrl'],
    applies: () => true,
    run: assertPublicNames,
  },
  { reads: ['providers'], applies: () => true, run: openProviderFile },
  {
    reads: ['roles', 'sourceAddresses'],
    applies: ({ roles }) => roles.includes('delivery'),
    run: assertSourceAddresses,
  },
];

async function problemOf({ run }: MachineCheck, config: Config): Promise<ConfigError[]> {
  try {
    await run(config);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return [error];
    throw error;
  }
}

export async function checkConfig({ config, examined }: CommandCall): Promise<CommandOutcome> {
  const { problems, wrong } = examined;
  const runnable = MACHINE_CHECKS.filter(
    ({ reads, applies }) => !reads.some((key) => wrong.has(key)) && applies(config),
  );
  const found = await Promise.all(runnable.map((check) => problemOf(check, config)));
  const all = [...problems, ...found.flat()];
  const ignored = config.unknownSettings.map((name) => `${name} is not a setting of this version; it is ignored`);
  const lines = [...all.map(({ message }) => message), ...ignored];
  if (all.length === 0) lines.push('the settings are valid');
  return {
    data: {
      valid: all.length === 0,
      problems: all.map(({ setting, message }) => ({ setting, message })),
      ignored: config.unknownSettings,
    },
    text: lines.join('\n'),
    exitCode: all.length === 0 ? 0 : EX_CONFIG,
  };
}

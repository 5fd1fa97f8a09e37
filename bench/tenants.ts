/** Additional accounts of a benchmarked service, each with its own verified domain. */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './lib.ts';
import type { BenchService } from './service.ts';

const MAIN = path.join(fileURLToPath(new URL('..', import.meta.url)), 'bin/postrider.js');

export interface Tenant {
  domain: string;
  headers: Record<string, string>;
}

/** Creates an account that sends from `domain`. */
export async function addTenant(
  service: BenchService,
  domain: string,
  settings: Record<string, string> = {},
): Promise<Tenant> {
  const env = { PATH: process.env.PATH, POSTRIDER_DATA_DIR: service.folder, ...settings };
  const command = async (...args: string[]): Promise<Record<string, string>> => {
    const done = await run(process.execPath, [MAIN, ...args, '--json'], { env });
    if (done.process.exitCode !== 0) throw new Error(`postrider ${args.join(' ')}: ${done.err}`);
    return JSON.parse(done.out) as Record<string, string>;
  };
  const account = await command('account', 'create', '--name', domain, '--plan', 'enterprise');
  await command('domain', 'add', account.accountId!, domain, '--verified');
  return { domain, headers: { 'x-api-key': account.apiKey!, 'x-id': account.accountId! } };
}

/**
 * Mail servers that cannot be installed next to Postfix: `.ci/run` unpacks their packages below `.ci/peers`, and TEST_PEERS names another
 * directory with them. They have their own users, which `.ci/run` creates, and must be started by root.
 */
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { missing, notAllowed } from '../kit/requirements.ts';

const folder = process.env.TEST_PEERS ?? path.resolve(import.meta.dirname, '../../.ci/peers');

/** Where the program is, as in `usr/sbin/exim4`. */
export function unpacked(program: string): string {
  return path.join(folder, program);
}

/** False if the programs and these users exist, else the reason for `{ skip }`; throws in CI if they are missing. */
export function missingUnpacked(needs: { programs: string[]; users: string[] }): string | false {
  const absent = missing(...needs.programs.map(unpacked));
  if (absent) return absent;
  if (process.getuid?.() !== 0) return 'a mail server needs root';
  const reason = notAllowed('use the users of a mail server', () => {
    for (const user of needs.users) execFileSync('id', ['-u', user], { stdio: 'pipe' });
  });
  if (reason && process.env.CI) throw new Error(`${reason}, and CI skips nothing`);
  return reason;
}

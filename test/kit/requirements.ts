/**
 * Optional requirements of tests on the machine: other mail servers, tracers, permissions. On a user's machine a test without its
 * requirements is skipped with a message; in CI a missing program is an error, since it can be installed.
 */
import { execFileSync } from 'node:child_process';

function isThere(program: string): boolean {
  try {
    execFileSync('/bin/sh', ['-c', `command -v ${program}`], {
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
      stdio: 'ignore',
    });
    return true;
  } catch {
    return false;
  }
}

/** False if all programs are installed, otherwise the reason for `{ skip }`; throws in CI. */
export function missing(...programs: string[]): string | false {
  const absent = programs.filter((program) => !isThere(program));
  if (absent.length === 0) return false;
  const reason = `${absent.join(', ')} ${absent.length === 1 ? 'is' : 'are'} not installed`;
  if (process.env.CI) throw new Error(`${reason}, and CI skips nothing`);
  return reason;
}

/**
 * The same for operations that need privileges on a real machine (trace a process, mount a file system): the probe throws if it is not
 * permitted. Since this cannot be installed, tests are skipped in CI too.
 */
export function notAllowed(what: string, probe: () => void): string | false {
  try {
    probe();
    return false;
  } catch (error) {
    return `this user may not ${what}: ${(error as Error).message.split('\n')[0]}`;
  }
}

/** Whether system calls can be traced here. */
export function cannotTrace(): string | false {
  return (
    missing('strace') ||
    notAllowed(
      'trace processes',
      () => void execFileSync('strace', ['-qq', '-o', '/dev/null', 'true'], { stdio: 'pipe' }),
    )
  );
}

/**
 * What else has to be on the machine for some tests: other mail servers, tracers, rights. On a user's machine a test
 * whose peer is missing is skipped and says so; where CI is set, a missing program is an error, since it can be installed.
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

/** False when all programs are there, else the reason for `{ skip }`; throws in CI. */
export function missing(...programs: string[]): string | false {
  const absent = programs.filter((program) => !isThere(program));
  if (absent.length === 0) return false;
  const reason = `${absent.join(', ')} ${absent.length === 1 ? 'is' : 'are'} not installed`;
  if (process.env.CI) throw new Error(`${reason}, and CI skips nothing`);
  return reason;
}

/**
 * The same for what only a privileged user of a real machine may do (trace a process, mount a file system): the probe
 * throws when it may not. Nothing can be installed against that, so that it is skipped in CI too.
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

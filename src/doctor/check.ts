/** The result of a check: one line about the state and, if there is a problem, how to fix it. */

export interface Check {
  name: string;
  /** `skip`: not checked, or it cannot be determined from here. */
  status: 'ok' | 'warn' | 'fail' | 'skip';
  message: string;
  /** A sentence, or a command. */
  remedy?: string;
}

export function ok(name: string, message: string): Check {
  return { name, status: 'ok', message };
}

export function skip(name: string, message: string): Check {
  return { name, status: 'skip', message };
}

export function warn(name: string, message: string, remedy: string): Check {
  return { name, status: 'warn', message, remedy };
}

export function fail(name: string, message: string, remedy: string): Check {
  return { name, status: 'fail', message, remedy };
}

const DAY_MS = 86_400_000;

/** Formats the whole days between two times. */
export function days(ms: number): string {
  const count = Math.floor(ms / DAY_MS);
  return count === 1 ? 'one day' : `${count} days`;
}

/** Formats the day of a time in UTC: `2026-11-23`. */
export function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

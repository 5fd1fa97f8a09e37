/**
 * JSON lines on stderr, one per record (stdout belongs to the command line's answers). Secrets, bodies and AUTH
 * exchanges are never given to it: callers log ids, codes and sizes. Control characters in values are escaped by JSON.
 */
import { type Logger, pino } from 'pino';

export type Log = Logger;

export function createLog(level: string, write?: (line: string) => void): Log {
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return write ? pino(options, { write }) : pino(options, process.stderr);
}

/** For places (tests, tools) that want no log at all. */
export const silentLog: Log = pino({ level: 'silent' });

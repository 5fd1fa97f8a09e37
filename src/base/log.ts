/**
 * JSON lines on stderr, one per record (stdout belongs to the command line's answers); readable text if stderr is a terminal. Secrets, bodies and AUTH
 * exchanges are never given to it: callers log ids, codes and sizes. Control characters in values are escaped by JSON.
 */
import { type Logger, pino } from 'pino';
import { logText } from './log-text.ts';

export type Log = Logger;

/**
 * Writes the lines of one round of the event loop together: at some thousand mails a second, a system call for each line
 * would cost more than the line. What a kill takes along is the last round's.
 */
function gathered(stream: NodeJS.WriteStream): (line: string) => void {
  let lines = '';
  const flush = (): void => {
    const text = lines;
    lines = '';
    if (text !== '') stream.write(text);
  };
  process.on('exit', flush);
  return (line) => {
    if (lines === '') setImmediate(flush);
    lines += line;
  };
}

/** Of the process: text on a terminal, JSON lines elsewhere. */
function standardOutput(): (line: string) => void {
  const write = gathered(process.stderr);
  if (process.stderr.isTTY !== true) return write;
  const isColored = process.stderr.hasColors();
  return (line) => write(logText(line, isColored));
}

export function createLog(level: string, write: (line: string) => void = standardOutput()): Log {
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  return pino(options, { write });
}

/** For places (tests, tools) that want no log at all. */
export const silentLog: Log = pino({ level: 'silent' });

/**
 * Logs JSON lines on stderr, one per record (stdout is for the output of commands); readable text if stderr is a terminal. Callers log ids,
 * codes, and sizes, and never secrets, bodies, or AUTH exchanges. JSON escapes control characters in values.
 */
import { type Logger, pino } from 'pino';
import { logText } from './log-text.ts';

export type Log = Logger;

/**
 * Writes all lines of one turn of the event loop together, because at thousands of messages per second a system call per line costs more
 * than the line. A killed process loses only the last turn's lines.
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

/** Returns the writer of this process: text on a terminal, otherwise JSON lines. */
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

/** A log that discards everything, for tests and tools. */
export const silentLog: Log = pino({ level: 'silent' });

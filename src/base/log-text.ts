/**
 * Formats a log record as one line of text: `12:34:56.789 INFO  message accepted  accountId=acc_1`. Used if stderr is a terminal; otherwise
 * the log is JSON lines. Control characters never reach the terminal.
 */

interface LogRecord extends Record<string, unknown> {
  level?: string;
  time?: string;
  msg?: string;
  err?: { type?: string; message?: string; stack?: string };
}

const COLORS: Record<string, number> = { fatal: 31, error: 31, warn: 33, info: 32, debug: 36, trace: 90 };
/** Longer lists are cut to their first elements and a count. */
const LONGEST_LIST = 5;
const PLAIN = /^[\w.:/@+,#%~-]+$/;

const paint = (text: string, color: number, isColored: boolean): string =>
  isColored ? `\u001b[${color}m${text}\u001b[39m` : text;

function shown(value: unknown): string {
  if (typeof value === 'string') return PLAIN.test(value) ? value : JSON.stringify(value);
  if (Array.isArray(value) && value.every((one) => typeof one === 'string' && PLAIN.test(one))) {
    return value.length > LONGEST_LIST ? `${value.slice(0, 3).join(',')},… (${value.length})` : value.join(',');
  }
  return JSON.stringify(value) ?? '';
}

/** JSON escapes C0 alone. */
function safe(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Formats one JSON line of the log, including its line end. A line that is not JSON is unchanged. */
export function logText(line: string, isColored: boolean): string {
  let record: LogRecord;
  try {
    record = JSON.parse(line) as LogRecord;
  } catch {
    return line;
  }
  const { level = 'info', time = '', msg = '', err, ...fields } = record;
  const clock = paint(new Date(time).toTimeString().slice(0, 8), 90, isColored);
  const name = paint(level.toUpperCase().padEnd(5), COLORS[level] ?? 39, isColored);
  const pairs = Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([key, value]) => `${paint(`${safe(key)}=`, 90, isColored)}${safe(shown(value))}`);
  if (err?.message !== undefined)
    pairs.unshift(`${paint('error=', 90, isColored)}${safe(JSON.stringify(err.message))}`);
  const stack = (err?.stack ?? '')
    .split('\n')
    .slice(1)
    .map((frame) => `\n  ${safe(frame)}`);
  return `${[`${clock} ${name} ${safe(msg)}`, ...pairs].join('  ')}${stack.join('')}\n`;
}

/**
 * One line on stderr that shows how far something is, drawn over itself while a person watches; nothing at all where stderr
 * is not a terminal.
 */
import type { Streams } from './command.ts';

const REDRAW_MS = 100;
const BAR_CHARACTERS = 24;
export const ERASE_LINE = '\r\u001b[K';

export interface Progress {
  /** Shows this many bytes in all. */
  show(doneBytes: number): void;
  /** Removes the line. */
  end(): void;
}

function megabytes(bytes: number): string {
  return (bytes / 1_000_000).toFixed(1);
}

/** The line for `doneBytes` of `totalBytes`, `seconds` after `fromBytes` were done. */
export function progressLine(
  label: string,
  at: { doneBytes: number; totalBytes: number; fromBytes: number; seconds: number },
): string {
  const share = at.totalBytes === 0 ? 1 : at.doneBytes / at.totalBytes;
  const filled = Math.floor(share * BAR_CHARACTERS);
  const bar = '#'.repeat(filled) + '.'.repeat(BAR_CHARACTERS - filled);
  const percent = `${Math.floor(share * 100)}%`.padStart(4);
  const rate = at.seconds > 0 ? `  ${megabytes((at.doneBytes - at.fromBytes) / at.seconds)} MB/s` : '';
  return `${label} [${bar}] ${percent}  ${megabytes(at.doneBytes)} of ${megabytes(at.totalBytes)} MB${rate}`;
}

/** `fromBytes` were done before, by an earlier run. */
export function startProgress(
  streams: Streams,
  label: string,
  { totalBytes, fromBytes = 0 }: { totalBytes: number; fromBytes?: number },
): Progress {
  if (streams.errIsTerminal !== true) return { show: () => undefined, end: () => undefined };
  const began = performance.now();
  let drawn = Number.NEGATIVE_INFINITY;
  return {
    show: (doneBytes) => {
      const now = performance.now();
      if (now - drawn < REDRAW_MS && doneBytes < totalBytes) return;
      drawn = now;
      const seconds = (now - began) / 1000;
      streams.err(`${ERASE_LINE}${progressLine(label, { doneBytes, totalBytes, fromBytes, seconds })}`);
    },
    end: () => streams.err(ERASE_LINE),
  };
}

/**
 * What one rendering may cost: characters written in all of its parts together, and work in each of them. A source within all
 * of its limits prints a long value ten thousand times, or loops nine thousand times around one; the mail could not be sent,
 * and making it would hold up everybody else and fill the memory. Asked before text is made, as far as its length is known.
 */
import { createTimeLimit, type TimeLimit } from './time-limit.ts';

/** Characters of all parts of one rendering. A mail has at most 2,000,000 bytes. */
export const MAX_OUTPUT_LENGTH = 10_000_000;

/** Ends a rendering that writes more; parse.ts makes a sentence of it. */
export class TooMuchText extends Error {}

export interface Budget {
  /** Of the part that is being filled in; Liquid asks it before each tag. */
  readonly timeLimit: TimeLimit;
  /** A new part begins: its work is counted from now on. */
  begin(): void;
  /** Throws when the part has taken its time, or when so many more characters are too many. */
  check(length: number): void;
  /** Counts characters that are written; throws as `check` does. */
  write(length: number): void;
}

export function createBudget(): Budget {
  let timeLimit = createTimeLimit(performance.now());
  let written = 0;
  const check = (length: number): void => {
    if (written + length > MAX_OUTPUT_LENGTH) throw new TooMuchText();
    timeLimit.check(performance.now());
  };
  return {
    get timeLimit() {
      return timeLimit;
    },
    begin: () => {
      timeLimit = createTimeLimit(performance.now());
    },
    check,
    write: (length) => {
      check(length);
      written += length;
    },
  };
}

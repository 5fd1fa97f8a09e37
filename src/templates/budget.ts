/**
 * What one rendering may cost, all of its parts together: work, characters written, and lists and texts made on the way. A source
 * within all of its limits prints a long value ten thousand times, or filters a list ten thousand times; the mail could not be
 * sent, and making it would hold up everybody else and fill the memory. Everything that works is charged here: steps of Liquid
 * (drive.ts), filters by what they are given (filter-table.ts), text before it is made. After so much of it the clock is asked.
 */
import { createTimeLimit, type TimeLimit } from './time-limit.ts';

/** Characters of all parts of one rendering. A mail has at most 2,000,000 bytes. */
export const MAX_OUTPUT_LENGTH = 10_000_000;
/** Characters and items that filters and ranges may make in one rendering. */
const MAX_MADE = 10_000_000;
/** Items of a range, and of a list that a filter takes or makes. */
export const MAX_ITEMS = 10_000;

/** Ends a rendering that writes more; issue.ts makes a sentence of it. */
export class TooMuchText extends Error {}

/** Ends a rendering with a sentence of its own, the end of one that starts with the name of the part. */
export class OverLimit extends Error {}

/** The clock is asked after so many units of work. A unit is a character that is looked at; see `STEP` for the rest. */
export const ASK_EVERY = 4_096;
/** A step of Liquid, or a piece of text, whatever its length: about a tenth of a microsecond. */
const STEP = 64;

/**
 * A class, and not a literal with a getter: each such literal gets a hidden class of its own in the old space, which keeps all
 * that the getter closes over until the next full collection.
 */
export class Budget {
  #startedMs = performance.now();
  #timeLimit: TimeLimit | undefined = undefined;
  #written = 0;
  #made = 0;
  #unasked = 0;

  /** Liquid asks it before each tag. */
  get timeLimit(): TimeLimit {
    this.#timeLimit ??= createTimeLimit(this.#startedMs);
    return this.#timeLimit;
  }

  /** Throws when the rendering has taken its time; to be asked before anything that takes long by itself. */
  checkTime(): void {
    this.#unasked = 0;
    this.timeLimit.check(performance.now());
  }

  /** Charges work; throws when the rendering has taken its time. */
  work(units: number): void {
    this.#unasked += units;
    if (this.#unasked > ASK_EVERY) this.checkTime();
  }

  step(): void {
    this.work(STEP);
  }

  /** Throws when so many more characters are too many, or when the rendering has taken its time. */
  check(length: number): void {
    if (this.#written + length > MAX_OUTPUT_LENGTH) throw new TooMuchText();
    this.work(STEP + length);
  }

  /** Counts characters that are written; throws as `check` does. */
  write(length: number): void {
    this.check(length);
    this.#written += length;
  }

  /** Counts characters or items that are made on the way; throws when they are too many. */
  make(count: number): void {
    if (!(count > 0)) return;
    this.#made += count;
    if (this.#made > MAX_MADE) throw new OverLimit('makes too much text or too long lists; make less of them');
    this.work(count);
  }
}

/** Throws when a list would be too long; `what` begins the reason. */
export function checkItems(count: number, what: string): void {
  if (count > MAX_ITEMS) {
    throw new OverLimit(`${what} more than ${MAX_ITEMS} items; use a shorter list`);
  }
}

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

/** The clock is asked after so much work: characters, and as many again for each piece of text. */
const ASK_EVERY = 4_096;
const PIECE_WORK = 64;

/**
 * A class, and not a literal with a getter: each such literal gets a hidden class of its own in the old space, which keeps all
 * that the getter closes over until the next full collection.
 */
export class Budget {
  #startedMs = performance.now();
  #timeLimit: TimeLimit | undefined = undefined;
  #written = 0;
  #unasked = 0;

  /** Of the part that is being filled in; Liquid asks it before each tag. */
  get timeLimit(): TimeLimit {
    this.#timeLimit ??= createTimeLimit(this.#startedMs);
    return this.#timeLimit;
  }

  /** A new part begins: its work is counted from now on. */
  begin(): void {
    this.#startedMs = performance.now();
    this.#timeLimit = undefined;
    this.#unasked = 0;
  }

  /** Throws when the part has taken its time; to be asked before anything that takes long by itself. */
  checkTime(): void {
    this.#unasked = 0;
    this.timeLimit.check(performance.now());
  }

  /** Throws when so many more characters are too many, or when the part has taken its time. */
  check(length: number): void {
    if (this.#written + length > MAX_OUTPUT_LENGTH) throw new TooMuchText();
    this.#unasked += PIECE_WORK + length;
    if (this.#unasked > ASK_EVERY) this.checkTime();
  }

  /** Counts characters that are written; throws as `check` does. */
  write(length: number): void {
    this.check(length);
    this.#written += length;
  }
}

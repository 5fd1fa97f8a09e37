/**
 * What one rendering may cost, all of its parts together: work, characters written, and lists and texts made on the way. A source
 * within all of its limits prints a long value ten thousand times, or filters a list ten thousand times; the mail could not be
 * sent, and making it would hold up everybody else and fill the memory. Everything that works is charged here: steps of Liquid
 * (render.ts), filters by what they are given (filters.ts), text before it is made. After so much of it the clock is asked.
 */

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

/**
 * Work of one rendering, all of its parts together; an ordinary one takes a tenth of a millisecond. The event loop waits for it, and
 * nobody may hold that for more than 100 ms: what may follow the last question (html of 256 KB made into text) takes up to 45 ms.
 */
export const RENDER_LIMIT_MS = 50;

/** What Liquid ends a rendering with; issue.ts makes a sentence of it. */
export const RENDER_LIMIT_EXCEEDED = 'template render limit exceeded';

/** Processor time of this thread in milliseconds. */
export function threadTimeMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/**
 * In the place of Liquid's own limiter, which is asked before each tag with performance.now(). Ends a rendering by the time it
 * works, not by the time that passes: on a busy machine a thread may stand still for longer than any rendering takes, and good
 * mail must not be refused for that. The wall clock is looked at first, since it costs nothing; only when it says that half
 * of the limit has passed, the thread's own processor time decides about the other half.
 */
export interface TimeLimit {
  use(count: number): void;
  check(nowMs: number): void;
}

export function createTimeLimit(startedMs: number, workedMs: () => number = threadTimeMs): TimeLimit {
  const half = RENDER_LIMIT_MS / 2;
  let workedAtHalf: number | undefined;
  return {
    use: () => undefined,
    check: (nowMs) => {
      if (nowMs - startedMs <= half) return;
      workedAtHalf ??= workedMs();
      if (workedMs() - workedAtHalf > half) throw new Error(RENDER_LIMIT_EXCEEDED);
    },
  };
}

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

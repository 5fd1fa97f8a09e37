/**
 * Limits how far back searches for due work look. PostgreSQL keeps the index entries of finished rows as long as any transaction may still
 * see these rows, for example that of a backup. A search from the beginning of the index would read all of them, so it would take longer
 * with every message. Most searches therefore begin shortly before the row that was overdue for the longest time in the last search. A
 * complete search at intervals finds the rest, for example rows of a transaction that took longer than the margin.
 *
 * All values are durations, because due times follow the clock of the database, from which that of this process may differ.
 */

/** Covers transactions that add due rows and take some time, and clocks of nodes that differ. */
const MARGIN_MS = 5_000;
const COMPLETE_EVERY_MS = { least: 5_000, most: 30_000 };
/** With many dead index entries, complete searches take at most this share of the time, unless that would delay them by too much. */
const COMPLETE_SHARE = 1 / 50;

export class SearchWindow {
  readonly #now: () => number;
  #startedAt = 0;
  #isComplete = true;
  #nextCompleteAt = Number.NEGATIVE_INFINITY;
  /** When the last search began, and for how long the first row that it found had been due. */
  #lastAt = 0;
  #overdueMs = 0;

  /** `now` is a monotonic clock in ms. */
  constructor(now = (): number => performance.now()) {
    this.#now = now;
  }

  /** Returns the limit of a search that starts now: rows that are overdue for longer are skipped. Undefined for a complete search. */
  next(): number | undefined {
    this.#startedAt = this.#now();
    this.#isComplete = this.#startedAt >= this.#nextCompleteAt;
    return this.#isComplete ? undefined : this.lookBackMs();
  }

  /** The search has ended; `overdueMs` belongs to the first row that it found, and is 0 if it found none. */
  found(overdueMs: number): void {
    this.#lastAt = this.#startedAt;
    this.#overdueMs = overdueMs;
    if (!this.#isComplete) return;
    const now = this.#now();
    const { least, most } = COMPLETE_EVERY_MS;
    this.#nextCompleteAt = now + Math.min(Math.max((now - this.#startedAt) / COMPLETE_SHARE, least), most);
  }

  /** Returns for how long a row can be overdue now that the next search has to find, in ms. */
  lookBackMs(): number {
    return Math.ceil(this.#overdueMs + this.#now() - this.#lastAt + MARGIN_MS);
  }
}

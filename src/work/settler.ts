/**
 * Records results. Results that arrive during a call are recorded by the next one, so that each commit carries many.
 *
 * A result that cannot be recorded is never dropped: while the storage fails (Unavailable) it stays here and is retried with growing
 * pauses, and immediately when an unreachable database is back, before other nodes take over its work; no attempt starts in the meantime. A
 * final result whose lease was lost is remembered: if the same row returns to this process under a new fence, the result is recorded then
 * and nothing is sent twice. Rows that are put back without a result (parked, released, crashed) use the same path.
 */
import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { type Lease, putBackOperation, type RowsToPutBack } from './store.ts';

const MAX_BATCH = 256;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** During a pause, the time between two checks whether the database is back. */
const CHECK_MS = 100;
const MAX_REMEMBERED = 10_000;
/** Pause of a result that a bug prevents from being recorded, until the row is claimed again, which counts as a crash. */
const CRASH_PAUSE_MS = 30_000;

export interface SettlerDeps<R extends Lease> {
  database: Database;
  log: Log;
  now(): number;
  /** Records results; returns the rows whose lease was lost. */
  record(results: R[]): Promise<readonly number[]>;
  isFinal(result: R): boolean;
  /** The results of these rows are done. */
  onDone(seqs: number[]): void;
  onPaused(paused: boolean): void;
}

type Lists = Required<Omit<RowsToPutBack, 'nowMs'>>;
type ListName = keyof Lists;

const EMPTY = (): Lists => ({ park: [], release: [], crashed: [] });

export class Settler<R extends Lease> {
  readonly #deps: SettlerDeps<R>;
  #waiting: R[] = [];
  #inFlight: R[] = [];
  #putBack = EMPTY();
  #isWriting = false;
  #isScheduled = false;
  #isAbandoned = false;
  #pauseMs = 0;
  /** New fences of rows that were claimed again while their result waits. */
  readonly #newFences = new Map<number, number>();
  readonly #remembered = new Map<number, R>();
  readonly #whenDrained: (() => void)[] = [];

  constructor(deps: SettlerDeps<R>) {
    this.#deps = deps;
  }

  add(result: R): void {
    this.#remembered.delete(result.seq);
    this.#waiting.push(result);
    this.#schedule();
  }

  putBack<K extends ListName>(list: K, row: Lists[K][number]): void {
    (this.#putBack[list] as unknown[]).push(row);
    if (this.#isAbandoned) void this.#putBackOnce();
    else this.#schedule();
  }

  /** Records that this process holds the row under a newer fence. */
  adopt(seq: number, fence: number): void {
    this.#newFences.set(seq, fence);
  }

  /** Returns the unrecorded result of an earlier lease of this process. */
  recall(seq: number): R | undefined {
    return this.#remembered.get(seq);
  }

  /** Results that are not recorded yet. */
  get pending(): number {
    return this.#waiting.length + this.#inFlight.length;
  }

  /** Whether the storage currently fails. */
  get paused(): boolean {
    return this.#pauseMs > 0;
  }

  get #isDrained(): boolean {
    return !this.#isWriting && this.#waiting.length === 0 && Object.values(this.#putBack).every((list) => !list.length);
  }

  /** Resolves when all results are recorded or abandoned. */
  async drained(): Promise<void> {
    if (!this.#isDrained && !this.#isAbandoned) await new Promise<void>((resolve) => this.#whenDrained.push(resolve));
  }

  /** Abandons pending results because the process ends. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const resolve of this.#whenDrained.splice(0)) resolve();
  }

  /**
   * Puts back a row that arrived after the stop, such as a message accepted during it: otherwise its lease would expire as if its holder
   * had died.
   */
  async #putBackOnce(): Promise<void> {
    const lists = this.#putBack;
    this.#putBack = EMPTY();
    await this.#tryPutBack(lists);
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isWriting || this.#isAbandoned) return;
    this.#isScheduled = true;
    if (this.#pauseMs > 0) this.#afterPause(() => void this.#write());
    // Results read from sockets in the same turn of the event loop are recorded together.
    else setImmediate(() => void this.#write());
  }

  /** Continues after the pause, or when the database comes back during it. */
  #afterPause(next: () => void): void {
    const until = performance.now() + this.#pauseMs;
    let wasAway = false;
    const look = (): void => {
      const { ready } = this.#deps.database.state();
      const leftMs = until - performance.now();
      if (this.#isAbandoned || leftMs <= 0 || (wasAway && ready)) {
        next();
        return;
      }
      wasAway = !ready;
      setTimeout(look, Math.min(CHECK_MS, leftMs));
    };
    look();
  }

  async #write(): Promise<void> {
    this.#isScheduled = false;
    if (this.#isAbandoned) return;
    this.#isWriting = true;
    this.#inFlight = this.#waiting.splice(0, MAX_BATCH).map((one) => {
      const fence = this.#newFences.get(one.seq);
      return fence === undefined ? one : { ...one, fence };
    });
    const lists = this.#putBack;
    this.#putBack = EMPTY();
    const [unrecorded, isPutBack] = await Promise.all([this.#tryResults(this.#inFlight), this.#tryPutBack(lists)]);
    this.#inFlight = [];
    this.#waiting = [...unrecorded, ...this.#waiting];
    if (!isPutBack)
      for (const name of Object.keys(lists) as ListName[]) this.#putBack[name].unshift(...(lists[name] as []));
    this.#isWriting = false;
    this.#setPaused(unrecorded.length > 0 || !isPutBack);
    if (!this.#isDrained) this.#schedule();
    else for (const resolve of this.#whenDrained.splice(0)) resolve();
  }

  /** Returns the results that could not be recorded because the storage fails. */
  async #tryResults(batch: R[]): Promise<R[]> {
    if (batch.length === 0) return [];
    try {
      await this.#record(batch);
      return [];
    } catch (error) {
      if (error instanceof Unavailable) return batch;
      if (batch.length === 1) return this.#giveUp(batch[0]!, error as Error);
    }
    // A result that a bug prevents from being recorded must not block the others.
    const unrecorded: R[] = [];
    for (const one of batch) unrecorded.push(...(await this.#tryResults([one])));
    return unrecorded;
  }

  async #record(batch: R[]): Promise<void> {
    const lost = new Set(await this.#deps.record(batch));
    const again = new Set<number>();
    for (const result of batch) {
      const fence = this.#newFences.get(result.seq);
      this.#newFences.delete(result.seq);
      const isClaimedAgain = fence !== undefined && fence > result.fence;
      if (!lost.has(result.seq)) {
        // Recorded, due and claimed again before the reply arrived: the held item is outdated.
        if (isClaimedAgain) this.putBack('release', { seq: result.seq, fence });
        continue;
      }
      if (isClaimedAgain) {
        this.#waiting.push({ ...result, fence });
        again.add(result.seq);
        continue;
      }
      this.#deps.log.warn({ work: result.seq }, 'lease lost before the result was recorded');
      this.#remember(result);
    }
    this.#deps.onDone(batch.map((one) => one.seq).filter((seq) => !again.has(seq)));
  }

  async #giveUp(result: R, error: Error): Promise<R[]> {
    const { seq, fence } = result;
    this.#deps.log.error({ work: seq, error: error.message }, 'result could not be recorded');
    this.#remember(result);
    const nowMs = this.#deps.now();
    const isWritten = await this.#tryPutBack({ ...EMPTY(), crashed: [{ seq, fence, dueMs: nowMs + CRASH_PAUSE_MS }] });
    if (!isWritten) return [result];
    this.#deps.onDone([seq]);
    return [];
  }

  #remember(result: R): void {
    // That a row is to be retried holds anyway, and says nothing about later attempts.
    if (!this.#deps.isFinal(result)) return;
    if (this.#remembered.size >= MAX_REMEMBERED) this.#remembered.delete(this.#remembered.keys().next().value!);
    this.#remembered.set(result.seq, result);
  }

  /** Returns false if the storage fails. Rows that a bug prevents from being written are left until their lease ends. */
  async #tryPutBack(lists: Lists): Promise<boolean> {
    const rows = Object.values(lists).flat();
    if (rows.length === 0) return true;
    try {
      await this.#deps.database.execute(putBackOperation, { nowMs: this.#deps.now(), ...lists });
    } catch (error) {
      if (error instanceof Unavailable) return false;
      this.#deps.log.error({ rows: rows.length, error: (error as Error).message }, 'work rows could not be released');
    }
    return true;
  }

  #setPaused(paused: boolean): void {
    if (paused === this.#pauseMs > 0) {
      this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
      return;
    }
    this.#pauseMs = paused ? FIRST_PAUSE_MS : 0;
    if (paused) this.#deps.log.error({}, 'results cannot be recorded; attempts wait for the storage');
    else this.#deps.log.info({}, 'results are recorded again; attempts continue');
    this.#deps.onPaused(paused);
  }
}

/**
 * Runs the work of deliveries and webhooks: claims due rows, admits them, runs their attempts, and records the results. One engine runs
 * one kind of work (kind.ts). It holds a limited part of the backlog in memory, however large the backlog is. Polling alone finds all work;
 * a nudge or a directly dispatched job only reduces the delay.
 *
 *              ┌──────────── over quota: parked, resumed when its lane has drained (back-pressure.ts)
 *              │ ┌────────── released without an attempt: at a stop, or when the storage failed
 *   due ──▶ claimed ──▶ waiting ⇄ running ──▶ settling ──▶ gone
 *              │           └── lease lost ────────────────▲
 *              └── needs no attempt ─▶ settling           │
 *                                 └── the attempt threw: counts a crash; after three, a dead letter, settled without an attempt
 *
 *   claimed    leased to this process; not in the fair queue
 *   waiting    in the fair queue. If its lease is lost, another process runs it
 *   running    an attempt is in progress. An attempt starts only if results can be recorded, the engine is not stopping, and
 *              holds() returns true. A row that was in a crash is marked first (poison.ts)
 *   settling   has a result, which is kept until it is recorded (settler.ts); not retried in the meantime
 *   gone       no longer held: recorded, put back, or lost
 */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { within } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { BackPressure } from './back-pressure.ts';
import { watchClock } from './clock.ts';
import { type Item, NEXT_STATES, type State, untriedResult, type WorkKind } from './kind.ts';
import { isFreeOnly, LEASE_MS, Leases } from './leases.ts';
import { openPoisonGuard, type PoisonGuard } from './poison.ts';
import { SearchWindow } from './search-window.ts';
import { Settler } from './settler.ts';
import type { Lease } from './store.ts';
import { createWakeUp } from './wake-up.ts';

const POLL_MS = 1_000;
/** If the queue has enough items or no capacity, the engine still reads the database this often, to find work behind one lane's backlog. */
const LOOK_PAST_MS = 100;
/** Pause after a claim that found fewer rows than its limit, so rows that are due together come in one batch. Kinds may override it. */
const CLAIM_GAP_MS = 4;
/** Work that was running when a process died is retried only after other work has had this much time to run. */
const QUARANTINE_AFTER_MS = 15_000;

export interface EngineOptions {
  pollMs?: number | undefined;
  /** Age of the process, in ms, at which it starts to claim rows in quarantine. */
  quarantineAfterMs?: number | undefined;
  /** How long an attempt is watched if its row was in a crash. */
  crashWatchMs?: number | undefined;
}

export interface EngineDeps extends EngineOptions {
  database: Database;
  clock: Clock;
  log: Log;
}

export class Engine<I extends Item, R extends Lease> {
  readonly #deps: EngineDeps;
  readonly #kind: WorkKind<I, R>;
  readonly #leases: Leases<I>;
  readonly #settler: Settler<R>;
  readonly #poison: PoisonGuard<I>;
  readonly #backPressure: BackPressure<I>;
  /** The embedded database removes index entries with their rows. */
  readonly #searchWindow: SearchWindow | undefined;
  readonly #wakeUp = createWakeUp();
  readonly #startedAt = performance.now();
  #loops: Promise<unknown> = Promise.resolve();
  #isStopping = false;
  #stopped: Promise<number> | undefined;
  #running = 0;
  #quarantined = 0;
  #overQuota: string[] = [];
  #whenIdle: (() => void)[] = [];

  constructor(deps: EngineDeps, kind: WorkKind<I, R>) {
    const { database, clock, log } = deps;
    this.#deps = deps;
    this.#kind = kind;
    this.#leases = new Leases(database, clock);
    this.#searchWindow = database.dialect === 'postgres' ? new SearchWindow() : undefined;
    const now = (): number => clock.now();
    this.#settler = new Settler<R>({
      database,
      log,
      now,
      record: (results) => kind.record(results),
      isFinal: (result) => kind.isFinal(result),
      onDone: (seqs) => this.#recorded(seqs),
      onPaused: (isPaused) => !isPaused && kind.start(),
    });
    this.#poison = openPoisonGuard<I>({
      database,
      log,
      watchMs: deps.crashWatchMs,
      isOpen: () => this.isOpen,
      onCleared: (items) => {
        for (const item of items) this.#leaveQuarantine(item);
      },
    });
    this.#backPressure = new BackPressure<I>({
      kind: kind.kind,
      queue: kind.queue,
      database,
      log,
      now,
      lookBackMs: () => this.#searchWindow?.lookBackMs(),
      size: () => this.size,
      onResumed: () => this.#wakeUp.nudge(),
    });
  }

  begin(): void {
    this.#loops = Promise.all([this.#claimLoop(), this.#tickLoop()]);
  }

  /** Wakes the engine because work may be due. */
  nudge(): void {
    this.#wakeUp.nudge();
  }

  get isOpen(): boolean {
    return !this.#isStopping && !this.#settler.paused;
  }

  /** Returns whether results currently cannot be recorded. */
  get isPaused(): boolean {
    return this.#settler.paused;
  }

  /** Returns the number of items held. */
  get size(): number {
    return this.#leases.size;
  }

  /** Returns the number of items with a running attempt. */
  get running(): number {
    return this.#running;
  }

  /** Returns the number of results that are not recorded yet. */
  get unrecorded(): number {
    return this.#settler.pending;
  }

  /** Returns whether the lease of an item is long enough for an attempt. */
  holds(item: I): boolean {
    return this.#leases.holds(item);
  }

  /** Extends leases that will end soon. Returns false if the storage fails; the next tick then retries. */
  extendLeases(): Promise<boolean> {
    return this.#tolerate('lease renewal failed', async () => {
      for (const item of await this.#leases.extend()) this.#drop(item);
    });
  }

  /** Admits items that were claimed, or leased to this process at their creation. */
  receive(items: readonly I[]): void {
    for (const item of items) this.#admit(item);
    this.#kind.start();
  }

  /**
   * Runs an attempt of items that were taken from the queue. The attempt settles each item or puts it back. Items that it leaves running
   * are put back without a counted attempt or, if it throws, count a crash. Never rejects.
   */
  async run(group: readonly I[], attempt: () => Promise<void>): Promise<void> {
    this.#running += group.length;
    for (const item of group) this.#change(item, 'running');
    const end = await this.#poison.watch(group);
    try {
      if (end) await attempt();
    } catch (error) {
      this.#failed(group, error as Error);
    }
    for (const item of group.toReversed()) if (item.state === 'running') this.putBack(item);
    end?.();
    this.#running -= group.length;
    if (this.#running === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  /** Sets the result of the item, which stays held until the result is recorded. */
  settle(item: I, result: R): void {
    const isQueued = item.state !== 'claimed';
    this.#change(item, 'settling');
    this.#settler.add(result);
    // If a lane's rows are settled as they arrive (its destination is paused), only the sweeps resume its parked rows.
    if (isQueued) this.#backPressure.left(item.job.lane);
  }

  /** Puts the item back at the front of its lane, without a counted attempt, or settles it if it needs no attempt. */
  putBack(item: I): void {
    this.#poison.unmark([item]);
    this.#next(item, { result: untriedResult(this.#kind, item), first: true });
  }

  /** Returns the item to the database, due immediately and without a counted attempt. */
  release(item: I): void {
    this.#settler.putBack('release', leaseOf(item));
    this.#drop(item);
  }

  /** Parks an item whose lane has no capacity. */
  park(item: I): void {
    this.#settler.putBack('park', leaseOf(item));
    this.#backPressure.parked(item.job.lane);
    this.#drop(item);
  }

  /**
   * Starts no more attempts, waits for running ones, records their results, and releases waiting items, all within the given time. Returns
   * how many results could not be recorded. Later calls wait for the same stop.
   */
  stop(withinMs: number): Promise<number> {
    this.#stopped ??= this.#stop(withinMs);
    return this.#stopped;
  }

  async #stop(withinMs: number): Promise<number> {
    const deadline = performance.now() + withinMs;
    this.#isStopping = true;
    this.#wakeUp.stop();
    const extending = setInterval(() => void this.extendLeases(), POLL_MS);
    for (const item of [...this.#leases.values()]) if (item.state === 'waiting') this.release(item);
    const idle = new Promise<void>((resolve) => this.#whenIdle.push(resolve));
    if (this.#running > 0) await within(idle, deadline);
    // A claim in progress releases its items.
    await within(this.#loops, deadline);
    await within(this.#settler.drained(), deadline);
    clearInterval(extending);
    this.#settler.abandon();
    return this.unrecorded;
  }

  async #claimLoop(): Promise<void> {
    while (!this.#isStopping) {
      const limit = this.isOpen ? this.#kind.queue.capacity(this.size) : 0;
      let claimed = 0;
      if (limit === 0) {
        await this.#wakeUp.sleep(LOOK_PAST_MS, 'capacity');
      } else if (
        !(await this.#tolerate('claim of due work failed', async () => {
          claimed = await this.#claim(limit);
        }))
      ) {
        await this.#wakeUp.sleep(this.#pollMs, 'stop');
      } else if (claimed < limit) {
        await this.#wakeUp.sleep(this.#kind.claimGapMs ?? CLAIM_GAP_MS, 'stop');
        await this.#wakeUp.sleep(this.#pollMs, 'nudge');
      } else if (this.#kind.queue.isFed(this.size) && this.#overQuota.length === 0) {
        await this.#wakeUp.sleep(LOOK_PAST_MS, 'capacity');
      }
    }
  }

  async #claim(limit: number): Promise<number> {
    if (this.#leases.mayHaveEnded()) for (const item of await this.#leases.extend()) this.#drop(item);
    const { database, clock, quarantineAfterMs = QUARANTINE_AFTER_MS } = this.#deps;
    const stillOver = this.#overQuota.filter((lane) => this.#kind.queue.resumable([lane], this.size).length === 0);
    const freeOnly = isFreeOnly(database.state());
    // A search for free rows skips others, which the next search must find.
    const searchWindow = freeOnly ? undefined : this.#searchWindow;
    const claimed = await this.#kind.claim({
      nowMs: clock.now(),
      leaseMs: LEASE_MS,
      limit,
      quarantined: this.#quarantined === 0 && performance.now() - this.#startedAt >= quarantineAfterMs,
      freeOnly,
      lookBackMs: searchWindow?.next(),
      overQuota: stillOver,
    });
    searchWindow?.found(claimed.taken.overdueMs);
    for (const lane of stillOver) this.#backPressure.parked(lane);
    this.#backPressure.takeOverQuota();
    this.receive(claimed.items);
    this.#overQuota = [...claimed.overQuota, ...this.#backPressure.takeOverQuota()];
    return claimed.taken.rows;
  }

  async #tickLoop(): Promise<void> {
    const repairClock = watchClock({
      clock: this.#deps.clock,
      log: this.#deps.log,
      kind: this.#kind.kind,
      repair: (options) => this.#kind.repairSchedule(options),
    });
    while (!this.#isStopping) {
      await this.extendLeases();
      await this.#tolerate('schedule repair failed', repairClock);
      await this.#tolerate('periodic work failed', async () => this.#kind.tick());
      if (this.isOpen)
        await this.#tolerate('parked work not resumed; the next sweep retries', () => this.#backPressure.sweep());
      this.#kind.start();
      await this.#wakeUp.sleep(this.#pollMs, 'stop');
    }
  }

  get #pollMs(): number {
    return this.#deps.pollMs ?? POLL_MS;
  }

  #admit(item: I): void {
    const { seq, fence } = item.job;
    const known = this.#leases.get(seq);
    if (known) {
      this.#adopt(known, item);
      return;
    }
    this.#leases.take(item);
    if (item.quarantined) this.#quarantined += 1;
    const recalled = this.#settler.recall(seq);
    const result = recalled ? { ...recalled, fence } : untriedResult(this.#kind, item);
    this.#next(item, { result, first: item.quarantined });
  }

  /** Settles an item that has its result, queues it, or parks it. */
  #next(item: I, { result, first }: { result: R | undefined; first: boolean }): void {
    const laneHasParked = this.#backPressure.hasParked(item.job.lane);
    if (result) this.settle(item, result);
    else if (this.#isStopping) this.release(item);
    else if (this.#kind.queue.admit(item, { first, laneHasParked })) this.#change(item, 'waiting');
    else this.park(item);
  }

  /** Updates a held item whose row was claimed again under a new fence, because its lease seemed to have expired. */
  #adopt(known: I, { job: { fence }, leaseUntilMs }: I): void {
    if (fence <= known.job.fence) return;
    known.job.fence = fence;
    known.leaseUntilMs = leaseUntilMs;
    if (known.state === 'settling') this.#settler.adopt(known.job.seq, fence);
  }

  /** Handles an attempt that threw: items that are still running count a crash or, if the storage failed, are released. */
  #failed(group: readonly I[], error: Error): void {
    const failed = group.filter((item) => item.state === 'running');
    const isStorageFailure = error instanceof Unavailable;
    const rows = failed.map((item) => item.job.seq);
    if (!isStorageFailure)
      this.#deps.log.error({ kind: this.#kind.kind, rows, error: error.stack }, 'work failed: internal error');
    for (const item of failed) {
      if (isStorageFailure) {
        this.release(item);
        continue;
      }
      this.#settler.putBack('crashed', { ...leaseOf(item), dueMs: this.#deps.clock.now() + this.#kind.crashDelayMs });
      this.#drop(item);
    }
  }

  #recorded(seqs: number[]): void {
    for (const seq of seqs) {
      const item = this.#leases.get(seq);
      if (item) this.#drop(item);
    }
    this.#kind.start();
  }

  #drop(item: I): void {
    if (item.state === 'gone') return;
    const from = item.state;
    this.#change(item, 'gone');
    this.#leases.drop(item);
    this.#leaveQuarantine(item);
    if (from === 'waiting' || from === 'running') this.#backPressure.left(item.job.lane);
    if (!this.#kind.queue.isFed(this.size)) this.#wakeUp.capacity();
  }

  /** Ends the quarantine of the item, so the next row in quarantine can be claimed. */
  #leaveQuarantine(item: I): void {
    if (!item.quarantined) return;
    item.quarantined = false;
    this.#quarantined -= 1;
    this.#wakeUp.nudge();
  }

  #change(item: I, state: State): void {
    const from = item.state;
    if (from === state) return;
    if (!NEXT_STATES[from].includes(state))
      throw new Error(`an item of ${this.#kind.kind} cannot change from ${from} to ${state}`);
    item.state = state;
    this.#kind.queue.changed(item, from);
  }

  /** Runs work that the next tick repeats if it fails; returns whether it succeeded. */
  async #tolerate(what: string, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      const level = error instanceof Unavailable ? 'warn' : 'error';
      this.#deps.log[level]({ kind: this.#kind.kind, error: (error as Error).message }, what);
      return false;
    }
  }
}

function leaseOf({ job: { seq, fence } }: Item): Lease {
  return { seq, fence };
}

/**
 * The lives of a node, from its starts to its ends: work that a dead process had in progress is taken over soon after the next start, a
 * planned stop ends in time, and a message is dead-lettered only after three deaths during its attempts.
 */
import type { SimulatedNode } from './node.ts';
import type { Timeline } from './timeline.ts';

/** The documented time, plus the duration of a start. */
const TAKEN_OVER_MS = 75_000;
/** The documented time, plus the delay of a stalling disk. */
const STOPPED_MS = 33_000;
/** Rows with this many deaths wait for a quiet moment. */
const QUARANTINED = 2;

interface Held {
  seq: number;
  kind: string;
  subject: string;
  fence: number;
  crashes: number;
}

interface Start {
  atMs: number;
  process: SimulatedNode['process'];
  held: readonly Held[];
  clocks: number;
}

/** From the end of a process to the time at which the next one has taken over its work, virtual ms. */
export interface Down {
  fromMs: number;
  untilMs: number;
}

export class ProcessLifetimes {
  readonly faults: string[] = [];
  readonly downs: Down[] = [];
  starts = 0;
  /** By subject: how many starts found it in progress. */
  readonly #deaths = new Map<string, number>();
  readonly #timeline: Timeline;
  /** How often the wall clock was set so far. */
  readonly #clocks: () => number;
  #watched: SimulatedNode | undefined;
  #latest: Start | undefined;
  #process: SimulatedNode['process'];
  #kills = 0;
  /** Whether the storage has failed so far. */
  readonly #isRefused: () => boolean;

  constructor(timeline: Timeline, { clocks, isRefused }: { clocks: () => number; isRefused: () => boolean }) {
    this.#timeline = timeline;
    this.#clocks = clocks;
    this.#isRefused = isRefused;
  }

  /** Watches a node with its own store; nodes with a shared store take over from each other. */
  watch(node: SimulatedNode): void {
    const { start, stop, kill, cutPower } = node;
    this.#watched = node;
    node.start = () => {
      this.starts += 1;
      const held = node.rows?.all<Held>('SELECT seq, kind, subject, fence, crashes FROM work WHERE leased > 0') ?? [];
      for (const { subject } of held) this.#deaths.set(subject, (this.#deaths.get(subject) ?? 0) + 1);
      start();
      const { process } = node;
      const { nowMs } = this.#timeline;
      // A planned stop starts nothing after its own start.
      const fromMs = (this.#process?.endedMs ?? nowMs) - STOPPED_MS;
      this.downs.push({ fromMs, untilMs: nowMs + TAKEN_OVER_MS });
      this.#process = process;
      this.#latest = { atMs: this.#timeline.nowMs, process, held, clocks: this.#clocks() };
    };
    node.stop = async () => {
      const fromMs = this.#timeline.nowMs;
      const isStopped = await stop();
      const tookMs = this.#timeline.nowMs - fromMs;
      if (tookMs > STOPPED_MS) this.faults.push(`a planned stop took ${(tookMs / 1000).toFixed(0)} s`);
      if (isStopped) this.#checkStopped(node);
      return isStopped;
    };
    node.kill = () => {
      this.#kills += 1;
      kill();
    };
    node.cutPower = () => {
      this.#kills += 1;
      cutPower();
    };
  }

  /** A planned stop leaves nothing in progress, and does not count as a crash. */
  #checkStopped({ rows }: SimulatedNode): void {
    const [row] = rows?.all<{ held: number; crashed: number }>(
      `SELECT count(*) FILTER (WHERE leased > 0) AS held, count(*) FILTER (WHERE crashes > 0) AS crashed FROM work`,
    ) ?? [{ held: 0, crashed: 0 }];
    if (row!.held > 0 && !this.#isRefused()) this.faults.push(`a planned stop left ${row!.held} rows in progress`);
    if (row!.crashed > 0 && this.#kills === 0 && !this.#isRefused())
      this.faults.push(`${row!.crashed} rows count a crash, and no process died`);
  }

  /** Returns at how many starts it was in progress. */
  deathsOf(subject: string): number {
    return this.#deaths.get(subject) ?? 0;
  }

  /** Called between any two steps. */
  look(): void {
    const latest = this.#latest;
    if (latest === undefined || this.#timeline.nowMs < latest.atMs + TAKEN_OVER_MS) return;
    this.#latest = undefined;
    const node = this.#watched!;
    if (!node.isUp || node.process !== latest.process || this.#clocks() !== latest.clocks) return;
    const still = node.rows!.all<Held>('SELECT seq, kind, subject, fence, crashes FROM work WHERE held = 0');
    for (const { seq, kind, subject, fence } of latest.held) {
      const row = still.find((one) => one.seq === seq && one.fence === fence);
      if (row && row.crashes < QUARANTINED)
        this.faults.push(`${kind} of ${subject} was in hand at a death, and is not taken over`);
    }
  }
}

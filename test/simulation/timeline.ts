/**
 * Virtual time, and everything that waits in it. One thing happens at a time; before the next one, all promises that it settled have run.
 * Every step belongs to a process of the scenario: steps of a dead process no longer happen.
 *
 * Time advances with steps: each costs 0.01 ms, and nothing waits for the real clock. While the scenario is quiet it may leap ahead, as for
 * a machine that slept: what was due in the meantime happens immediately, and once.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { crc32 } from 'node:zlib';
import type { Absence } from './absences.ts';
import type { Random } from './random.ts';

/** A process of the scenario: a node from its start to its death, or the rest of the scenario. */
export interface Process {
  readonly name: string;
  isDead: boolean;
  /** Virtual ms of its end, for any reason. */
  endedMs?: number;
  /** The process is paused until then, like a suspended machine; arrivals in the meantime wait. */
  frozenUntilMs?: number;
  /** By how much the wall clock of its machine is wrong. */
  skewMs?: number;
  /** See absences.ts. */
  absences?: Absence[];
}

export interface Waiting {
  atMs: number;
  order: number;
  process: Process;
  label: string;
  run: (() => void) | undefined;
}

const STEP_MS = 0.01;
/** Random delay of timers and replies, as on a busy machine. */
const LATE_MS = 0.3;

/** Node's own functions, before they were replaced. */
const turn = setImmediate;
const current = new AsyncLocalStorage<Process>();

/** Node runs callbacks of one turn of its event loop one after another, with all promises that each settles. */
const TURNS_AT_ONCE = 32;
const askers: (() => void)[] = [];
let turnsLeft = 0;

function nextTurn(): void {
  turnsLeft -= 1;
  askers.shift()?.();
}

/** Runs all settled promises, and occasionally real I/O. */
export const settled = (): Promise<void> =>
  new Promise((resolve) => {
    askers.push(resolve);
    if (turnsLeft > 0) return;
    turnsLeft = TURNS_AT_ONCE;
    for (let one = 0; one < TURNS_AT_ONCE; one += 1) turn(nextTurn);
  });

export class Timeline {
  nowMs = 0;
  steps = 0;
  /** A hash of all steps and sent bytes: equal for equal runs. */
  trace = 0x811c9dc5;
  readonly #random: Random;
  readonly #heap: Waiting[] = [];
  readonly #immediate: Waiting[] = [];
  #order = 0;
  /** Called between any two steps. */
  beforeStep: (() => void) | undefined;
  /** Called with each step; for tracing. */
  onStep: ((waiting: Waiting, nowMs: number) => void) | undefined;
  readonly world: Process = { name: 'world', isDead: false };

  constructor(random: Random) {
    this.#random = random;
  }

  /** The process that currently runs. */
  get process(): Process {
    return current.getStore() ?? this.world;
  }

  /** Runs something as a process. */
  as<T>(process: Process, run: () => T): T {
    return current.run(process, run);
  }

  after(ms: number, label: string, run: () => void, process: Process = this.process): Waiting {
    const atMs = this.nowMs + ms + this.#random.next() * LATE_MS;
    const waiting = { atMs, order: this.#order++, process, label, run };
    push(this.#heap, waiting);
    return waiting;
  }

  /** Runs before everything that waits for a time, in the order of the calls. */
  soon(label: string, run: () => void, process: Process = this.process): Waiting {
    const waiting = { atMs: this.nowMs, order: this.#order++, process, label, run };
    this.#immediate.push(waiting);
    return waiting;
  }

  cancel(waiting: Waiting): void {
    waiting.run = undefined;
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, 'wait', resolve));
  }

  note(text: string): void {
    let hash = this.trace;
    for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
    this.trace = hash >>> 0;
  }

  /** Adds sent bytes to the hash. */
  noteBytes(bytes: Uint8Array): void {
    this.trace = crc32(bytes, this.trace);
  }

  /** Whether the next step is a timer of a process, and nothing happens before it. */
  get isQuiet(): boolean {
    const next = this.#heap[0];
    return this.#immediate.length === 0 && next !== undefined && next.atMs > this.nowMs && this.#isTick(next);
  }

  #isTick({ run, label, process }: Waiting): boolean {
    return run === undefined || (label === 'timer' && process !== this.world);
  }

  /** Skips a period in which only timers would fire. */
  leap(toMs: number): void {
    if (toMs > this.nowMs) this.nowMs = toMs;
  }

  /** Returns when the next step other than a timer of a process happens; undefined if there is none. */
  nextOther(): number | undefined {
    let next: number | undefined;
    for (const waiting of this.#heap) {
      if (next !== undefined && waiting.atMs >= next) continue;
      if (!this.#isTick(waiting)) next = waiting.atMs;
    }
    return next;
  }

  /** As in Node's event loop, all due timers run before the immediates that they add. */
  #takeNext(): Waiting | undefined {
    const first = this.#heap[0];
    const isDueTimer = first?.label === 'timer' && first.atMs <= this.nowMs;
    return isDueTimer ? pop(this.#heap) : (this.#immediate.shift() ?? pop(this.#heap));
  }

  /** Runs one step; returns false when nothing waits. */
  async step(): Promise<boolean> {
    this.beforeStep?.();
    const waiting = this.#takeNext();
    if (waiting === undefined) return false;
    const { run, process } = waiting;
    if (run === undefined || (process.isDead && !outlives(waiting.label))) return true;
    if (process.frozenUntilMs !== undefined && process.frozenUntilMs > Math.max(this.nowMs, waiting.atMs)) {
      waiting.atMs = process.frozenUntilMs;
      push(this.#heap, waiting);
      return true;
    }
    waiting.run = undefined;
    this.nowMs = Math.max(this.nowMs, waiting.atMs) + STEP_MS;
    this.steps += 1;
    this.note(`${waiting.label}@${this.nowMs.toFixed(2)}`);
    this.onStep?.(waiting, this.nowMs);
    current.run(process, run);
    // All promises that this settled run before the next step.
    await settled();
    return true;
  }
}

/**
 * Modules keep some state per process, for example the number of running computations. Simulated processes share it, so such callbacks
 * continue after a death; they cannot reach the scenario.
 */
const outlives = (label: string): boolean => label === 'immediate' || label.startsWith('pool');

const isBefore = (a: Waiting, b: Waiting): boolean => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);

function push(heap: Waiting[], one: Waiting): void {
  let at = heap.push(one) - 1;
  while (at > 0) {
    const above = (at - 1) >> 1;
    if (!isBefore(one, heap[above]!)) break;
    heap[at] = heap[above]!;
    at = above;
  }
  heap[at] = one;
}

function pop(heap: Waiting[]): Waiting | undefined {
  const first = heap[0];
  const last = heap.pop();
  if (first === undefined || last === undefined || heap.length === 0) return first;
  let at = 0;
  for (;;) {
    let below = 2 * at + 1;
    if (below >= heap.length) break;
    if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below += 1;
    if (!isBefore(heap[below]!, last)) break;
    heap[at] = heap[below]!;
    at = below;
  }
  heap[at] = last;
  return first;
}

/**
 * The slots in which attempts run: each sends group after group to one destination over one session, and ends with the session, or when
 * nothing is left. A new session needs a new slot, so the current limits of the destination apply (destinations/registry.ts).
 */

import type { Clock } from '../../base/clock.ts';
import { type DeliveryJob, encodedFilesBytes } from '../../messages/messages.ts';
import type { Engine } from '../../work/work.ts';
import type { Apply } from '../apply.ts';
import type { Attempts } from '../attempt/attempt.ts';
import type { Connections } from '../attempt/connections.ts';
import { hasShareLeft, type PooledSession, type SessionNeed } from '../attempt/pooled-session.ts';
import type { Progress } from '../attempt/transmit.ts';
import type { Settlement } from '../record/settle.ts';
import { SANDBOX } from '../routing/route.ts';
import type { DeliveryItem } from './delivery-item.ts';
import type { Schedule, Slot } from './schedule.ts';

export interface SlotDeps {
  clock: Clock;
  engine: Engine<DeliveryItem, Settlement>;
  schedule: Schedule;
  connections: Connections;
  attempts: Attempts;
  apply: Apply;
}

function needOf([first]: readonly DeliveryItem[]): SessionNeed {
  const { domain, job } = first!;
  const { attempts, emailSeq } = job;
  return { domain, tls: job.options.requireTls ?? false, avoid: new Set(), attempts, emailSeq };
}

export class Slots {
  readonly #deps: SlotDeps;
  readonly #budget = openMemoryBudget();
  #isFilling = false;

  constructor(deps: SlotDeps) {
    this.#deps = deps;
  }

  fill(): void {
    const { engine, schedule } = this.#deps;
    if (this.#isFilling || !engine.isOpen) return;
    this.#isFilling = true;
    for (let slot = schedule.open(); slot; slot = schedule.open()) void this.#run(slot);
    this.#isFilling = false;
  }

  /** Fills free slots, also for destinations that rest because nothing could start. */
  wake(): void {
    this.#deps.schedule.wake();
    this.fill();
  }

  async #run(slot: Slot): Promise<void> {
    const { schedule, connections } = this.#deps;
    const isSandbox = slot.destination.key === SANDBOX;
    let group = this.#next(slot);
    let session = group && !isSandbox ? connections.take(slot.destination.key, needOf(group)) : undefined;
    if (session || isSandbox) schedule.opened(slot);
    while (group) {
      session = await this.#runGroup(slot, group, session);
      if (!isSandbox && !(session && hasShareLeft(session))) break;
      if (schedule.shouldYield(slot)) break;
      group = this.#next(slot, session);
    }
    if (session) await connections.release(session);
    // Messages that may not start now are woken by a lease, or by free memory for their content.
    schedule.close(slot, { onHold: group === undefined });
    this.fill();
  }

  /** Returns the next group for this slot; nothing while attempts are not allowed. */
  #next(slot: Slot, session?: PooledSession): DeliveryItem[] | undefined {
    const { engine, schedule, connections } = this.#deps;
    if (!engine.isOpen) return undefined;
    const isFor = session && ((domain: string): boolean => connections.isFor(session, domain));
    return schedule.next(slot, { mayStart: (item) => this.#mayStart(item), isFor });
  }

  /** Whether an attempt may start: its lease holds, and its content fits into memory. */
  #mayStart(item: DeliveryItem): boolean {
    const { engine } = this.#deps;
    if (engine.holds(item)) return this.#budget.fits(item.job);
    void engine.extendLeases().then((extended) => extended && this.wake());
    return false;
  }

  /** Returns the session to continue with. */
  async #runGroup(
    slot: Slot,
    group: DeliveryItem[],
    session: PooledSession | undefined,
  ): Promise<PooledSession | undefined> {
    const { engine, attempts, apply, schedule } = this.#deps;
    const { destination } = slot;
    const release = this.#budget.acquire(group[0]!.job);
    let next = session;
    await engine.run(group, async () => {
      const report = await attempts.run(destination, group, { session, progress: this.#progressOf(slot) });
      next = report.pooled;
      apply.report(destination, report);
    });
    release?.();
    if (release) schedule.wake();
    return next;
  }

  /** Reports the progress of an attempt, so that more slots may open for the destination while it runs. */
  #progressOf(slot: Slot): Progress {
    const { schedule, apply, clock } = this.#deps;
    const startedMs = clock.now();
    return {
      usesSession: () => {
        if (!slot.opening) return;
        schedule.opened(slot);
        this.fill();
      },
      envelopeAccepted: () => {
        if (apply.envelopeAccepted(slot.destination, startedMs)) this.fill();
      },
      ended: (results) => apply.ended(slot.destination, results),
    };
  }
}

const MAX_BYTES = 96_000_000;
const MAX_STREAMS = 64;
/** Two chunks of a file, their Base64 lines, and the bytes that the socket has not accepted yet. */
const BYTES_OF_A_STREAM = 600_000;

export interface MemoryBudget {
  /** Whether an attempt may start; a single one always may. */
  fits(job: DeliveryJob): boolean;
  /** Acquires memory for the attempt; returns the function that releases it, or undefined if none is needed. */
  acquire(job: DeliveryJob): (() => void) | undefined;
}

function bytesOf({ blobKey, sizeBytes, options: { files } }: DeliveryJob): number {
  const stored = blobKey === null ? 0 : sizeBytes - (files ? encodedFilesBytes(files) : 0);
  return stored + (files ? BYTES_OF_A_STREAM : 0);
}

export function openMemoryBudget(): MemoryBudget {
  let bytes = 0;
  let streams = 0;
  return {
    fits: (job) => {
      if (job.options.files && streams >= MAX_STREAMS) return false;
      const more = bytesOf(job);
      return more === 0 || bytes === 0 || bytes + more <= MAX_BYTES;
    },
    acquire: (job) => {
      const more = bytesOf(job);
      if (more === 0) return undefined;
      const stream = job.options.files ? 1 : 0;
      bytes += more;
      streams += stream;
      return () => {
        bytes -= more;
        streams -= stream;
      };
    },
  };
}

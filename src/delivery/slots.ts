/**
 * The slots in which attempts run: each takes group after group for one destination over one session, and ends with it, or
 * when nothing of it is left. A new session needs a new slot, so that whatever the destination has said by then is obeyed
 * (destinations.ts). An exception in our own code over a group counts as a crash of its messages; an attempt that outlives its
 * deadline is cut and is a temporary failure. Whatever happens, a message leaves here settled, crashed, or back in its lane.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import { putBackOperation } from '../work/work.ts';
import { isStillVerified, type KeysFor, prepare } from './attempt.ts';
import { nothingSent, type Transmission, type Transmitting, transmit } from './by-smtp.ts';
import { type Connections, hasShareLeft, type Line, type Wanted } from './connections.ts';
import { type Destination, type Destinations, SANDBOX } from './destinations.ts';
import type { HostMemory } from './host-memory.ts';
import type { BodyHashes } from './large.ts';
import type { Marks } from './marks.ts';
import { judge } from './outcome.ts';
import type { Resting } from './resting.ts';
import type { Results } from './results.ts';
import { openRoom } from './room.ts';
import { RELAY } from './route.ts';
import type { Schedule, Slot } from './schedule.ts';
import type { AttemptFacts } from './settlement.ts';
import type { Settler } from './settler.ts';
import { playSandbox } from './to-sandbox.ts';
import type { Held, Window } from './window.ts';

/** When a message that made our own code throw is tried again. */
const CRASH_PAUSE_MS = 10_000;

export interface SlotDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  hostname: string;
  keysFor: KeysFor;
  window: Window;
  destinations: Destinations;
  schedule: Schedule;
  results: Results;
  resting: Resting;
  connections: Connections;
  hosts: HostMemory;
  settler: Settler;
  marks: Marks;
  random(): number;
  /** For one whole attempt. */
  deadlineMs: number;
  /** Whether attempts may begin at all. */
  open(): boolean;
  /** Whether the lease of a job is good for an attempt. */
  holds(held: Held): boolean;
  /** Renews all leases; false when the storage refuses, and then the next tick tries again. */
  renew(): Promise<boolean>;
}

export interface Slots {
  /** Messages that are being tried. */
  readonly trying: number;
  /** Fills free slots. */
  pump(): void;
  /** The same, also for destinations that rest because nothing of theirs could start. */
  wake(): void;
  /** Resolves when no slot runs. */
  idle(): Promise<void>;
}

function wantedBy([first]: readonly Held[]): Wanted {
  return { tls: first!.job.options.requireTls ?? false, avoid: new Set() };
}

export function openSlots(deps: SlotDeps): Slots {
  const { window, destinations, schedule, results, resting, connections, settler, marks, clock, log } = deps;
  const whenIdle: (() => void)[] = [];
  const bodyHashes: BodyHashes = new Map();
  const room = openRoom();
  let trying = 0;
  let pumping = false;

  /** By the clock of the job's mode. */
  const nowOf = (held: Held): number => clock.now() + (held.job.clockOffsetMs ?? 0);

  const playAll = (group: Held[]): void => {
    for (const held of group) {
      const played = playSandbox(held.job, { nowMs: nowOf(held), random: deps.random() });
      window.move(held, 'settling');
      settler.add(played);
    }
  };

  const crash = async (group: Held[], error: Error): Promise<void> => {
    const guilty = group.filter((held) => held.state === 'trying');
    const messageIds = guilty.map((held) => held.job.messageId);
    log.error({ messageIds, error: error.stack }, 'an attempt failed in our own code');
    for (const held of guilty) {
      const { seq, fence } = held.job;
      window.remove(held);
      const dueMs = clock.now() + CRASH_PAUSE_MS;
      await deps.database
        .execute(putBackOperation, { nowMs: clock.now(), crashed: [{ seq, fence, dueMs }] })
        .catch((failure: Error) => {
          // The lease runs out and is taken over, which counts as a crash as well.
          log.warn({ error: failure.message }, 'a crash could not be recorded');
        });
    }
  };

  const playOrCrash = async (group: Held[]): Promise<void> => {
    try {
      playAll(group);
    } catch (error) {
      await crash(group, error as Error);
    }
  };

  const send = async (
    destination: Destination,
    group: Held[],
    lines: Pick<Transmitting, 'line' | 'onLine'>,
  ): Promise<Transmission> => {
    const { email, job } = group[0]!;
    if (email.prepared && !(await isStillVerified(job, deps.keysFor).catch(() => false))) email.prepared = undefined;
    email.prepared ??= prepare(job, email.inline, { blobs: deps.blobs, keysFor: deps.keysFor, log, bodyHashes });
    const prepared = await email.prepared;
    if (!prepared.ok) email.prepared = undefined;
    const { key } = destination;
    // A pause, a stop, or a storage that refuses may have come meanwhile: nothing is begun then.
    if (!deps.open() || destinations.pauseOf(key)) return nothingSent({ group }, lines.line);
    const startedMs = clock.now();
    const holds = (): boolean => group.every((held) => held.state !== 'trying' || deps.holds(held));
    return transmit({
      group,
      destination: key,
      prepared,
      connections,
      hosts: deps.hosts,
      hostname: deps.hostname,
      now: () => clock.now(),
      holds,
      onDone: (done) => {
        for (const one of done) if (one.kind === 'judged') results.settle(one.held, one);
      },
      mayBegin: () => holds() && !destinations.pauseOf(key),
      onEnvelope: () => {
        // After a pause only a whole transaction shows that it is over.
        if (destination.pause || destinations.isProven(key)) return;
        destinations.hear(destination, { kind: 'answered', took: false }, startedMs);
        schedule.changed(destination);
        pump();
      },
      ...lines,
    });
  };

  const cutOff = (
    destination: Destination,
    group: Held[],
    attempt: { line: Line | undefined; startedAtMs: number },
  ) => {
    const { deadlineMs } = deps;
    log.error({ messageId: group[0]!.job.messageId, deadlineMs }, 'an attempt hung and was cut off');
    const message = `the attempt did not end within ${Math.round(deadlineMs / 1000)} s and was cut off`;
    const outcome = judge({ stage: 'connect', cause: 'EDEADLINE', message, relay: destination.key === RELAY });
    const session = attempt.line?.session;
    const facts: AttemptFacts = {
      startedAtMs: attempt.startedAtMs,
      durationMs: deadlineMs,
      host: session?.remoteHost ?? null,
      address: session?.remoteAddress ?? null,
      tls: session?.tls ?? null,
      tlsFallback: session?.tlsFallback ?? null,
      dialogue: [],
    };
    for (const held of group) if (held.state === 'trying') results.settle(held, { outcome, facts });
  };

  /** One email over one session, within the deadline for all of it; answers the session to go on with. */
  const tryGroup = async (slot: Slot, group: Held[], line: Line | undefined): Promise<Line | undefined> => {
    const { destination } = slot;
    const attempt = { line, startedAtMs: clock.now(), cut: false };
    let timer: NodeJS.Timeout | undefined;
    const overdue = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), deps.deadlineMs);
    });
    const onLine = (used: Line): void => {
      attempt.line = used;
      if (!attempt.cut) {
        if (!slot.opening) return;
        schedule.opened(slot);
        pump();
        return;
      }
      // What hung has come back to life: it was settled as a failure and must not send any more.
      used.session.destroy();
      throw new Error('the attempt was cut off before it sent anything');
    };
    try {
      const work = send(destination, group, { line, onLine });
      const transmission = await Promise.race([work, overdue]);
      if (transmission) {
        results.apply(destination, transmission, attempt.startedAtMs);
        return transmission.line;
      }
      attempt.cut = true;
      work.catch(() => undefined);
      cutOff(destination, group, attempt);
    } catch (error) {
      await crash(group, error as Error);
    } finally {
      clearTimeout(timer);
    }
    group[0]!.email.prepared = undefined;
    attempt.line?.session.destroy();
    return undefined;
  };

  /** Whether an attempt may begin: its lease holds, and its content has room in memory. */
  const mayStart = (held: Held): boolean => {
    if (!deps.holds(held)) {
      void deps.renew().then((renewed) => renewed && wake());
      return false;
    }
    return room.fits(held.job);
  };

  /** What is next over this slot; nothing while nothing may be attempted. */
  const begin = (slot: Slot): Held[] | undefined => {
    if (!deps.open()) return undefined;
    const group = schedule.next(slot, mayStart);
    for (const held of group ?? []) window.move(held, 'trying');
    return group;
  };

  /** Answers the session to go on with. */
  const runGroup = async (slot: Slot, group: Held[], line: Line | undefined): Promise<Line | undefined> => {
    const giveRoomBack = room.take(group[0]!.job);
    let next = line;
    trying += group.length;
    const mark = await marks.set(group);
    if (!mark) for (const held of group.reverse()) results.putBack(held);
    else if (slot.destination.key === SANDBOX) await playOrCrash(group);
    else if (await resting.isHeldBack(group)) await resting.giveBack(group);
    else next = await tryGroup(slot, group, line);
    mark?.end();
    trying -= group.length;
    giveRoomBack?.();
    if (giveRoomBack) schedule.wake();
    return next;
  };

  const runSlot = async (slot: Slot): Promise<void> => {
    const isSandbox = slot.destination.key === SANDBOX;
    let group = begin(slot);
    let line = group && !isSandbox ? connections.take(slot.destination.key, wantedBy(group)) : undefined;
    if (line || isSandbox) schedule.opened(slot);
    while (group) {
      line = await runGroup(slot, group, line);
      if (!isSandbox && !(line && hasShareLeft(line))) break;
      if (schedule.isCrowded(slot)) break;
      group = begin(slot);
    }
    if (line) await connections.release(line);
    // What waits and may not start now is woken by what it waits for: a lease, or room for its content.
    schedule.close(slot, { rests: group === undefined });
    if (schedule.active === 0) for (const resolve of whenIdle.splice(0)) resolve();
    pump();
  };

  const pump = (): void => {
    if (pumping || !deps.open()) return;
    pumping = true;
    for (let slot = schedule.open(); slot; slot = schedule.open()) void runSlot(slot);
    pumping = false;
  };

  const wake = (): void => {
    schedule.wake();
    pump();
  };

  return {
    get trying() {
      return trying;
    },
    pump,
    wake,
    idle: () =>
      schedule.active === 0
        ? Promise.resolve()
        : new Promise((resolve) => {
            whenIdle.push(resolve);
          }),
  };
}

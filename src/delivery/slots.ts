/**
 * The slots in which attempts run: each takes group after group for one destination over one session, until nothing of it is
 * left. An exception in our own code over a group counts as a crash of its messages; an attempt that outlives its deadline
 * is cut and is a temporary failure. Whatever happens, a message leaves here settled, crashed, or back in its lane.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { crashOperation, releaseOperation } from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs.ts';
import type { Database } from '../storage/database.ts';
import { isStillVerified, type KeysFor, prepare } from './attempt.ts';
import { nothingSent, type Transmission, transmit } from './by-smtp.ts';
import type { Connections, Line } from './connections.ts';
import type { HostMemory } from './host-memory.ts';
import type { BodyHashes } from './large.ts';
import type { Marks } from './marks.ts';
import { expiredWhileSuspended, judge, type Outcome } from './outcome.ts';
import { openRoom } from './room.ts';
import { RELAY } from './route.ts';
import type { Destination, Schedule, Slot } from './schedule.ts';
import { type AttemptFacts, settlementOf } from './settlement.ts';
import type { Settler } from './settler.ts';
import { playSandbox } from './to-sandbox.ts';
import type { Held, Window } from './window.ts';

/** The destination of all sandbox mail. */
export const SANDBOX = 'sandbox';
/** How many waiting messages one failed dial speaks for. */
const MAX_SPOKEN_FOR = 2_000;
/** When a message that made our own code throw is tried again. */
const CRASH_PAUSE_MS = 10_000;

export interface SlotDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  hostname: string;
  keysFor: KeysFor;
  /** Whether the account is suspended right now: nothing of it leaves then. */
  isSuspended(accountId: string): boolean | Promise<boolean>;
  window: Window;
  schedule: Schedule;
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
  settle(held: Held, result: { outcome: Outcome; facts: AttemptFacts | null }): void;
  /** Resolves when no slot runs. */
  idle(): Promise<void>;
}

export function openSlots(deps: SlotDeps): Slots {
  const { window, schedule, connections, settler, marks, clock, log } = deps;
  const whenIdle: (() => void)[] = [];
  const bodyHashes: BodyHashes = new Map();
  const room = openRoom();
  let trying = 0;
  let pumping = false;

  /** By the clock of the job's mode. */
  const nowOf = (held: Held): number => clock.now() + (held.job.aheadMs ?? 0);

  const settle: Slots['settle'] = (held, result) => {
    window.move(held, 'settling');
    settler.add(settlementOf({ job: held.job, ...result, nowMs: nowOf(held), random: deps.random() }));
  };

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
      await deps.database.execute(crashOperation, { seq, fence, dueMs }).catch((failure: Error) => {
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

  /** One dial speaks for everybody who was waiting for it: they would have gone over the same connection. */
  const speakForOthers = (destination: Destination, transmission: Transmission): void => {
    if (!transmission.unreachable || connections.count(destination.key) > 0) return;
    const first = transmission.results.find((one) => one.kind === 'judged');
    if (first?.kind !== 'judged') return;
    for (const held of schedule.waitingAt(destination, MAX_SPOKEN_FOR)) {
      if (held.suspect || !deps.holds(held)) continue;
      schedule.forget(held);
      settle(held, { outcome: first.outcome, facts: first.facts });
    }
  };

  const putBack = (held: Held): void => {
    window.move(held, 'waiting');
    schedule.add(held, { first: true });
  };

  const apply = (destination: Destination, transmission: Transmission): void => {
    if (transmission.progressed) schedule.succeeded(destination);
    if (transmission.unreachable || transmission.slowed) schedule.failed(destination, 0);
    else if (transmission.crowded) schedule.failed(destination, connections.count(destination.key));
    for (const result of transmission.results) {
      const { held } = result;
      if (held.state !== 'trying') continue;
      if (result.kind === 'judged') {
        settle(held, { outcome: result.outcome, facts: result.facts });
        continue;
      }
      held.returns += 1;
      marks.lift([held]);
      putBack(held);
    }
    speakForOthers(destination, transmission);
  };

  const send = async (
    destination: Destination,
    group: Held[],
    lines: { line: Line | undefined; onLine: (line: Line) => void },
  ): Promise<Transmission> => {
    const { email, job } = group[0]!;
    if (email.prepared && !(await isStillVerified(job, deps.keysFor).catch(() => false))) email.prepared = undefined;
    email.prepared ??= prepare(job, email.inline, { blobs: deps.blobs, keysFor: deps.keysFor, log, bodyHashes });
    const prepared = await email.prepared;
    if (!prepared.ok) email.prepared = undefined;
    // A stop, or a storage that refuses, may have come meanwhile: nothing is begun then.
    if (!deps.open()) return nothingSent({ group }, lines.line);
    return transmit({
      group,
      destination: destination.key,
      prepared,
      connections,
      hosts: deps.hosts,
      hostname: deps.hostname,
      now: () => clock.now(),
      holds: () => group.every((held) => held.state !== 'trying' || deps.holds(held)),
      onDone: (results) => {
        for (const one of results) if (one.kind === 'judged') settle(one.held, one);
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
    for (const held of group) if (held.state === 'trying') settle(held, { outcome, facts });
  };

  /** One email over one session, within the deadline for all of it; answers the session to go on with. */
  const tryGroup = async (
    destination: Destination,
    group: Held[],
    line: Line | undefined,
  ): Promise<Line | undefined> => {
    const attempt = { line, startedAtMs: clock.now(), cut: false };
    let timer: NodeJS.Timeout | undefined;
    const overdue = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), deps.deadlineMs);
    });
    const onLine = (used: Line): void => {
      attempt.line = used;
      if (!attempt.cut) return;
      // What hung has come back to life: it was settled as a failure and must not send any more.
      used.session.destroy();
      throw new Error('the attempt was cut off before it sent anything');
    };
    try {
      const work = send(destination, group, { line, onLine });
      const transmission = await Promise.race([work, overdue]);
      if (transmission) {
        apply(destination, transmission);
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

  const isHeldBack = async (group: Held[]): Promise<boolean> => {
    try {
      const suspended = deps.isSuspended(group[0]!.job.accountId);
      return typeof suspended === 'boolean' ? suspended : await suspended;
    } catch (error) {
      log.warn({ error: (error as Error).message }, 'whether an account is suspended could not be read');
      return true;
    }
  };

  /** To the queue, untried: the claim that comes upon them next lets them rest. What has expired meanwhile bounces. */
  const giveBack = async (group: Held[]): Promise<void> => {
    const resting = group.filter((held) => nowOf(held) < held.job.expiresAt);
    for (const held of group) {
      if (resting.includes(held)) window.remove(held);
      else settle(held, { outcome: expiredWhileSuspended(), facts: null });
    }
    if (resting.length === 0) return;
    const leases = resting.map(({ job }) => ({ seq: job.seq, fence: job.fence }));
    await deps.database.execute(releaseOperation, { leases, untilMs: clock.now() }).catch((error: Error) => {
      log.warn(
        { error: error.message },
        'messages of a suspended account could not be given back; their leases run out',
      );
    });
  };

  /** Whether an attempt may begin: its lease holds, and its content has room in memory. */
  const mayStart = (held: Held): boolean => {
    if (!deps.holds(held)) {
      void deps.renew().then((renewed) => renewed && wake());
      return false;
    }
    return room.fits(held.job);
  };

  /** What is next for this destination; nothing while nothing may be attempted. */
  const begin = (destination: Destination): Held[] | undefined => {
    if (!deps.open()) return undefined;
    const group = schedule.next(destination, mayStart);
    for (const held of group ?? []) window.move(held, 'trying');
    return group;
  };

  const runSlot = async (slot: Slot): Promise<void> => {
    const { destination } = slot;
    let line: Line | undefined;
    let group = begin(destination);
    for (; group; group = begin(destination)) {
      const giveRoomBack = room.take(group[0]!.job);
      trying += group.length;
      const mark = await marks.set(group);
      if (!mark) for (const held of group.reverse()) putBack(held);
      else if (destination.key === SANDBOX) await playOrCrash(group);
      else if (await isHeldBack(group)) await giveBack(group);
      else line = await tryGroup(destination, group, line);
      mark?.end();
      trying -= group.length;
      giveRoomBack?.();
      if (giveRoomBack) schedule.wake();
      if (schedule.isCrowded(slot)) break;
    }
    if (line) connections.release(line);
    // Whoever waits and may not start now is woken by what it waits for: a lease, or room for its content.
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
    settle,
    idle: () =>
      schedule.active === 0
        ? Promise.resolve()
        : new Promise((resolve) => {
            whenIdle.push(resolve);
          }),
  };
}

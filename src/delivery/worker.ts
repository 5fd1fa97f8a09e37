/**
 * The delivery: takes due messages from the queue or from the intake's hand, sends them, records what came of it.
 *
 *   claim | offer → window → schedule → slot (one session, message after message) → settler → gone
 *
 * It makes no attempt while the storage refuses to record results, with a lease that has run out, or once it is stopping.
 * Polling alone is correct; nudges and handovers only make it quicker. An exception in our own code over a message counts as
 * a crash of that message; an attempt that hangs is cut by a deadline and is a temporary failure.
 *
 * A planned stop begins no transaction, cuts those that do not reach their final dot soon, before it, waits for the answers
 * to the dots that were sent, records every result, and gives the rest back untried: nothing is lost, and nothing is sent
 * twice unless a peer takes longer to answer a dot than a stop may take.
 */
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Handover } from '../messages/messages.ts';
import type { OpenSmtpOptions } from '../net/smtp-client.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { type BlobRemover, createBlobRemover } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import type { KeysFor } from './attempt.ts';
import { startClockWatch } from './clock-watch.ts';
import { type Connections, openConnections } from './connections.ts';
import {
  type Destinations,
  MX_CONNECTIONS,
  openDestinations,
  RELAY_CONNECTIONS,
  SANDBOX,
  SHARED_DESTINATIONS,
  sharedLimits,
} from './destinations.ts';
import { openHostMemory } from './host-memory.ts';
import { type Intake, startIntake } from './intake.ts';
import { openMarks, WATCH_MS } from './marks.ts';
import { deadLettered } from './outcome.ts';
import { noteRecorded, type ResultMetrics } from './recorded.ts';
import { openResting } from './resting.ts';
import { openResults } from './results.ts';
import { destinationOf, RELAY, type Routing } from './route.ts';
import { type DestinationLoad, openSchedule } from './schedule.ts';
import { suppressedSettlementOf } from './settlement.ts';
import { type Settler, startSettler } from './settler.ts';
import { openSlots, type Slots } from './slots.ts';
import { type Held, openWindow, WINDOW_LIMITS, type Window, type WindowLimits } from './window.ts';

const SLOTS = 500;
const POLL_MS = 1_000;
/** A metric with a label for each of a hundred thousand domains would help nobody. */
const SHOWN_DESTINATIONS = 20;
/** Beyond every deadline of a session: connecting to five exchangers, the envelope, 40 MB at 32 kB/s, and the final dot. */
const ATTEMPT_DEADLINE_MS = 2_700_000;
/**
 * SIGTERM must end in 30 s. Transactions under way have 2 of them to reach their final dot, and are cut before it, so that
 * nobody has the mail. Peers have the rest to answer the dots; then what is known is recorded.
 */
const STOP_DOTS_MS = 2_000;
const STOP_GRACE_MS = 26_000;
const STOP_RECORDING_MS = 2_500;
const STOP_RELEASING_MS = 500;
/** For content that settled mail left; what is not removed then is swept a day later. */
const STOP_REMOVING_MS = 2_000;
/** What brought the process down before is tried again when everything else has had this time to flow. */
const QUARANTINE_AFTER_MS = 15_000;

export interface DeliveryDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  routing: Routing;
  /** Our name in EHLO and Received. */
  hostname: string;
  keysFor: KeysFor;
  /** Whether an account is suspended: none is unless this says so. */
  isSuspended?: (accountId: string) => boolean | Promise<boolean>;
  metrics?: ResultMetrics;
  /** Results were recorded, and with them events. */
  onSettled?: () => void;
  /** The part of a limit on connections that is this process's, above 0 and at most 1. */
  connectionShare?: () => number;
  /** Narrower bounds, for machines and tests that want them. */
  limits?: Partial<WindowLimits>;
  timeouts?: OpenSmtpOptions['timeouts'];
  attemptDeadlineMs?: number;
  stopGraceMs?: number;
  quarantineAfterMs?: number;
  crashWatchMs?: number;
  pollMs?: number;
  /** Uniform in [0, 1); the jitter of retries. */
  random?: () => number;
}

export interface DeliveryState {
  /** Jobs in memory. */
  window: number;
  /** Attempts that run. */
  trying: number;
  /** Results not yet recorded. */
  unrecorded: number;
  connections: number;
  /** Deliveries are held because results cannot be recorded. */
  paused: boolean;
  /** The busiest ones. */
  destinations: DestinationLoad[];
  /** Destinations that asked for time. */
  pausedDestinations: { key: string; untilMs: number }[];
}

export interface Delivery extends Running, Handover {
  /** Something may be due: a hint. */
  nudge(): void;
  state(): DeliveryState;
}

export function startDelivery(deps: DeliveryDeps): Delivery {
  const { database, blobs, clock, log, routing } = deps;
  const limits = { ...WINDOW_LIMITS, ...deps.limits };
  const destinations = openDestinations({
    ...{ clock, log },
    limitsOf: (key) => sharedLimits(key === RELAY ? RELAY_CONNECTIONS : MX_CONNECTIONS, deps.connectionShare?.() ?? 1),
  });
  // Mail of a paused destination only passes through the window.
  const isProven = (key: string): boolean => destinations.isProven(key) || destinations.pauseOf(key) !== undefined;
  const window = openWindow(limits, { shared: SHARED_DESTINATIONS, isProven });
  const schedule = openSchedule({ destinations, slots: SLOTS });
  const hosts = openHostMemory(() => clock.now());
  const timeouts = deps.timeouts ? { timeouts: deps.timeouts } : {};
  const { isStalled } = destinations;
  const connections = openConnections({ routing, hosts, helo: deps.hostname, isStalled, ...timeouts });
  let stopping: Promise<void> | undefined;
  const open = (): boolean => !stopping && !settler.paused;

  const remover = createBlobRemover({ blobs, log });
  const settler = startSettler({
    ...{ database, remover, log },
    onRecorded: (settlement) => noteRecorded(deps, settlement),
    onDone: (seqs) => {
      forget(seqs, { window, intake, destinations });
      deps.onSettled?.();
    },
    onPaused: (paused) => {
      if (!paused) slots.wake();
    },
  });
  const marks = openMarks({
    database,
    log,
    watchMs: deps.crashWatchMs ?? WATCH_MS,
    open,
    onCleared: (held) => {
      for (const one of held) window.clear(one);
      void intake.claim();
    },
  });
  const random = deps.random ?? Math.random;
  const holds = (held: Held): boolean => intake.holds(held);
  const results = openResults({
    ...{ clock, window, destinations, schedule, connections, settler, marks, random, holds },
  });
  const isSuspended = deps.isSuspended ?? (() => false);
  const resting = openResting({ ...{ database, clock, log, window, results, isSuspended } });
  const slots: Slots = openSlots({
    ...{ database, blobs, clock, log, window, destinations, schedule, results, resting, connections, hosts },
    ...{ settler, marks, open, random, holds },
    hostname: deps.hostname,
    keysFor: deps.keysFor,
    deadlineMs: deps.attemptDeadlineMs ?? ATTEMPT_DEADLINE_MS,
    renew: () => intake.extend({ all: true }),
  });
  const intake: Intake = startIntake({
    ...{ database, clock, log, window, limits, settler, open },
    quarantineAfterMs: deps.quarantineAfterMs ?? QUARANTINE_AFTER_MS,
    destinationOf: (job) => (job.mode === 'sandbox' ? SANDBOX : destinationOf(routing, job.recipient)),
    destinationOfLane: (lane) => destinationOf(routing, `@${lane.slice(lane.indexOf('/') + 1)}`),
    onWaiting: (held) => {
      // The one that is tried alone waits for no other, since the next of its kind waits for it.
      schedule.add(held, { first: held.quarantined });
      if (held.quarantined) schedule.wake();
    },
    isPaused: (destination) => destinations.pauseOf(destination) !== undefined,
    onPaused: (held) => results.putOff(held),
    onDeadLetter: (held) => {
      const { messageId, crashes } = held.job;
      log.error({ messageId, crashes }, 'message dead-lettered: it crashed its workers');
      results.settle(held, { outcome: deadLettered(), facts: null });
    },
    onSuppressed: (held) => {
      window.move(held, 'settling');
      settler.add(suppressedSettlementOf(held.job, clock.now() + (held.job.clockOffsetMs ?? 0)));
    },
    onLost: (held) => {
      schedule.forget(held);
      window.remove(held);
    },
    onReady: () => slots.pump(),
  });

  const watch = startClockWatch({ clock, database, log });
  const tick = async (): Promise<void> => {
    connections.sweep();
    await intake.extend({ all: await watch.look() });
    if (!open()) return;
    await intake.callBack();
    await intake.claim();
    slots.wake();
  };
  const timer = setInterval(() => void tick(), deps.pollMs ?? POLL_MS);
  void tick();

  return {
    hasRoom: (jobs, bytes) => open() && window.room(bytes) >= jobs,
    offer: (jobs, leaseUntilMs) => {
      if (!stopping) intake.receive(jobs, leaseUntilMs);
      else void intake.release(jobs);
    },
    nudge: () => {
      if (open()) void intake.claim();
    },
    state: () => ({
      window: window.size,
      trying: slots.trying,
      unrecorded: settler.pending,
      connections: connections.total,
      paused: settler.paused,
      destinations: schedule.busiest(SHOWN_DESTINATIONS),
      pausedDestinations: destinations.paused().map(({ key, pause }) => ({ key, untilMs: pause!.untilMs })),
    }),
    stop: () => {
      clearInterval(timer);
      const graceMs = deps.stopGraceMs ?? STOP_GRACE_MS;
      stopping ??= Promise.resolve().then(() =>
        wind({ window, connections, intake, settler, remover, slots, log, graceMs }),
      );
      return stopping;
    },
  };
}

/** Drops what is recorded from the window, and makes use of the room. */
function forget(
  seqs: number[],
  { window, intake, destinations }: { window: Window; intake: Intake; destinations: Destinations },
): void {
  let quarantined = false;
  let drained = false;
  for (const seq of seqs) {
    const held = window.get(seq);
    if (!held) continue;
    quarantined ||= held.quarantined;
    // What waits for the end of a pause is called back by the ticks, a part at each.
    const calls = intake.isCrowded(held.job.lane) && !destinations.pauseOf(held.destination);
    drained ||= calls && window.callable(held.job.lane, held.destination) > 0;
    window.remove(held);
  }
  if (drained) void intake.callBack();
  // The next one in quarantine may come.
  if (quarantined) void intake.claim();
}

interface Winding {
  window: Window;
  connections: Connections;
  intake: Intake;
  settler: Settler;
  remover: BlobRemover;
  slots: Slots;
  log: Log;
  graceMs: number;
}

/** Winds up: no attempt begins any more; those that run end, results are recorded, the rest is given back. */
async function wind(parts: Winding): Promise<void> {
  const { window, connections, intake, settler, remover, slots, log, graceMs } = parts;
  const deadline = performance.now() + graceMs + STOP_RECORDING_MS;
  connections.cancelOpening();
  const extending = setInterval(() => void intake.extend(), POLL_MS);
  const early = setTimeout(() => connections.cutBeforeDots(), Math.min(STOP_DOTS_MS, graceMs));
  const cutter = setTimeout(() => {
    log.warn({ trying: slots.trying }, 'peers are too slow for the stop: sessions are cut');
    connections.destroyAll();
  }, graceMs);
  await within(slots.idle(), deadline);
  clearTimeout(early);
  clearTimeout(cutter);
  await within(settler.drained(), deadline);
  clearInterval(extending);
  // What a claim under way brings is given back with the rest.
  await within(intake.settled(), deadline);
  const untried = [...window.values()].filter((held) => held.state === 'waiting').map((held) => held.job);
  await within(
    Promise.all([connections.quitAll(), intake.release(untried)]).then(() => undefined),
    deadline + STOP_RELEASING_MS,
  );
  if (settler.pending > 0) log.error({ unrecorded: settler.pending }, 'stopped with results that are not recorded');
  settler.abandon();
  await within(remover.idle(), Math.min(performance.now() + STOP_REMOVING_MS, deadline + STOP_RELEASING_MS));
  remover.abandon();
  log.info({ released: untried.length }, 'delivery stopped');
}

/** Waits for the work, but not beyond a moment of performance.now(). */
async function within(work: Promise<void>, deadline: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const end = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, deadline - performance.now()));
  });
  await Promise.race([work, end]);
  clearTimeout(timer);
}

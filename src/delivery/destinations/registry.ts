/**
 * How much each destination lets us do: a limit on connections, or nothing for a while. Everything that a peer says about
 * itself rather than about a message changes one of these states, and nothing else decides whether a connection may be opened:
 *
 *              an envelope was answered            a connection more was refused, others are observed
 *   probing ───────────────────────────▶ open ───────────────────────────────────────▶ limited
 *   (one slot)                            ▲ │ ◀─────── one connection more was taken ────── │
 *     ▲  │                                │ │                                               │
 *     │  └─── refused: longer ──▶ paused ◀──┴──── asked for time, or stalled ───────────────┘
 *     │                              │
 *     └──────── time is up ──────────┘
 *
 * - Probing: not heard of in the last 10 minutes: one slot, until the peer answers an envelope; after a pause a transaction. One
 *   recipient may stall at a cold start while the peer would serve others: without a pause, one more slot each `patienceMs`.
 * - Open: as many slots as the limit, which begins at `initial` (after a pause at half of what it was), grows by one when as many
 *   messages as it allows connections have gone through, and shrinks by a quarter when no connection can be made. As many
 *   connections may be in the making as there are open ones: a peer that allows N never sees more than 2N at once.
 * - Limited: the peer keeps N sessions of ours and refuses one more. N is the limit for 1, 2, 5, 10, 20 minutes, and N + 1 then.
 * - Paused: nothing is begun for as long as the peer asked for, else for 1, 2, 5, 10, 20 minutes; what is under way goes on.
 * - Blocked: paused because the peer refuses our host, for 15 minutes, then for an hour each time, until a probe is answered. Where there
 *   is a fallback route, mail goes there from the sixteenth minute on, but for the one that probes.
 *
 * Pauses are shared by all nodes and outlive a restart (shared-pauses.ts): one session of all nodes together probes. All else is in
 * memory, each process has its own, and a restart begins with probing.
 */
import type { Clock } from '../../base/clock.ts';
import { iso } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { LastReply } from '../../nodes/nodes.ts';
import type { PauseRequest } from '../outcome/pause.ts';
import { FALLBACK, isRelay, RELAY } from '../routing/route.ts';
import { noteReply, type Refusal } from './last-replies.ts';
import { type Allowance, allowanceAt, type ConnectionLimits } from './limits.ts';
import { FALLBACK_AFTER_MS, mailDueOf, nextPause, type Pause, pauseStepMs, type SharedPause } from './pause-steps.ts';

/** The destination of all sandbox mail; it needs no connections. */
export const SANDBOX = 'sandbox';

/** What a transmission says of its destination. */
export type Signal =
  | { kind: 'nothing' }
  /** It answered an envelope; `took` when it accepted somebody in it. */
  | { kind: 'answered'; took: boolean }
  /** It refused one more connection while it observed `observed` of ours. */
  | { kind: 'connection-limit'; observed: number }
  /** No session could be opened. */
  | { kind: 'unreachable' }
  /** It fell silent in the middle of an envelope. */
  | { kind: 'stalled'; refusal: Refusal }
  | { kind: 'wait'; request: PauseRequest; refusal: Refusal };

export interface Destination {
  readonly key: string;
  /** Slots that run. */
  active: number;
  /** Those of them that have no session yet. */
  opening: number;
  limit: number;
  /** Unix ms at which its latest slot began. */
  beganMs: number;
  /** Unix ms at which it last answered an envelope. */
  answeredMs: number;
  /** Unix ms at which it last took a message. */
  tookMs: number;
  /** Unix ms at which a message was chosen to probe, while the others go by the fallback route. */
  probeChosenMs: number;
  /** The connections that the peer allows; kept until more are taken. */
  learned: { limit: number; untilMs: number; level: number } | undefined;
  /** Kept, when its time is up, until the probe was answered. */
  pause: Pause | undefined;
  /** Messages that the rate allows now; below 0 after several in one transaction. */
  allowance: Allowance | undefined;
  /** How long a message keeps a session, ms: a moving average; undefined before the first. */
  messageMs: number | undefined;
  /** It fell silent the last time: its next envelope gets a shorter deadline. */
  stalled: boolean;
  /** What it said last, newest first. */
  replies: readonly LastReply[];
}

/** What a pause that all nodes know changed here. */
export type TakenOver = { kind: 'same' | 'began' | 'changed' } | { kind: 'resumed'; pause: Pause };

export interface Destinations {
  /** Made at its first use. */
  of(key: string): Destination;
  /** Whether one more slot may run now. */
  mayOpen(destination: Destination): boolean;
  /** Whether the rate allows a message now. */
  maySend(destination: Destination): boolean;
  /** So many messages are sent. */
  sending(destination: Destination, messages: number): void;
  /** A slot begins, without a session yet. */
  began(destination: Destination): void;
  /** The pause it is in now. */
  pauseOf(key: string): Pause | undefined;
  /** Whether it answered in the last 10 minutes. */
  isProven(key: string): boolean;
  isStalled(key: string): boolean;
  /** Where a message for this destination goes now: there, or by the fallback route. */
  divert(key: string): string;
  /** Whether its mail goes by the fallback route, but for what probes. */
  isDiverted(key: string): boolean;
  /** Those that block our host, until a probe is answered. */
  blocked(): Destination[];
  /** Takes in what a transmission that began at `startedMs` says; answers whether a pause began. */
  hear(destination: Destination, signal: Signal, startedMs: number): boolean;
  /** Connections that it may have now. */
  limitOf(destination: Destination): number;
  /** Makes the pause, or undefined, that all nodes know of its own. */
  takeOver(destination: Destination, pause: SharedPause | undefined): TakenOver;
  /** Those in a pause now. */
  paused(): Destination[];
}

const MINUTE_MS = 60_000;
const PROVEN_MS = 10 * MINUTE_MS;
/** A message that was chosen to probe may not come to it: then another one is. */
const PROBE_CHOSEN_MS = MINUTE_MS;
const MAX_IDLE = 5_000;

export interface DestinationDeps {
  clock: Clock;
  log: Log;
  limitsOf(key: string): ConnectionLimits;
  /** Whether there is a fallback route. */
  hasFallback?: boolean;
  /** A pause began, or was ended by a probe. */
  onPauseChanged?(destination: Destination): void;
  /** Whether this node may probe a destination whose pause is over: always, unless this says otherwise. */
  mayProbe?(key: string): boolean;
}

/** A clock that was put back must not make a pause longer. */
function isPausedAt({ pause }: Destination, now: number): boolean {
  return pause !== undefined && now < pause.untilMs && now >= pause.beganMs;
}

/** The ceiling may have come down since the limit grew: other processes take their share. */
function limitAt({ limit, learned }: Destination, ceiling: number, now: number): number {
  if (!learned) return Math.min(limit, ceiling);
  return Math.min(limit, ceiling, now < learned.untilMs ? learned.limit : learned.limit + 1);
}

/** The peer serves so many of our connections and no more. */
function lower(destination: Destination, observed: number, now: number): void {
  const { learned } = destination;
  const isNew = !learned || now >= learned.untilMs;
  const level = learned ? learned.level + (isNew ? 1 : 0) : 0;
  const limit = Math.max(1, observed);
  destination.learned = { limit, level, untilMs: isNew ? now + pauseStepMs(level) : learned.untilMs };
  // A connection in the making may be refused when a pause has halved the limit already.
  destination.limit = destination.pause ? Math.min(destination.limit, limit) : limit;
}

function takeOver(
  destination: Destination,
  shared: SharedPause | undefined,
  { nowMs, canDivert }: { nowMs: number; canDivert: boolean },
): TakenOver {
  const { pause, limit } = destination;
  if (!shared) {
    destination.pause = undefined;
    return { kind: pause ? 'changed' : 'same' };
  }
  if (pause?.beganMs === shared.beganMs && pause.untilMs === shared.untilMs) return { kind: 'same' };
  const wasPaused = isPausedAt(destination, nowMs);
  destination.pause = { ...shared, mailDueMs: mailDueOf(shared, canDivert) };
  destination.answeredMs = Number.NEGATIVE_INFINITY;
  if (!pause) destination.limit = Math.max(1, limit / 2);
  if (isPausedAt(destination, nowMs)) return { kind: 'began' };
  return pause && wasPaused ? { kind: 'resumed', pause } : { kind: 'changed' };
}

/** It answered what began at `startedMs`; it may have `ceiling` connections at most. */
function answered(
  destination: Destination,
  { took, startedMs, nowMs, ceiling }: { took: boolean; startedMs: number; nowMs: number; ceiling: number },
  log: Log,
): void {
  const { key, pause, learned } = destination;
  if (took) destination.tookMs = nowMs;
  // Only the probe ends a pause, not an answer to what began before.
  if (pause && startedMs < pause.untilMs) return;
  destination.answeredMs = nowMs;
  destination.stalled = false;
  if (pause) log.info({ destination: key, host: pause.host }, 'destination goes on after its pause');
  destination.pause = undefined;
  if (learned && destination.active - destination.opening > learned.limit) destination.learned = undefined;
  if (!took) return;
  const most = Math.min(ceiling, destination.learned ? destination.learned.limit + 1 : Infinity);
  if (destination.limit < most) destination.limit = Math.min(most, destination.limit + 1 / destination.limit);
}

function pauseFor(
  destination: Destination,
  {
    refusal,
    request,
    beganMs,
    canDivert,
  }: { refusal: Refusal; request: PauseRequest; beganMs: number; canDivert: boolean },
  log: Log,
): void {
  const { key, pause, limit } = destination;
  const next = { ...refusal, ...nextPause(pause, request, beganMs) };
  destination.pause = { ...next, mailDueMs: mailDueOf(next, canDivert) };
  noteReply(destination, refusal, beganMs);
  destination.answeredMs = Number.NEGATIVE_INFINITY;
  if (!pause) destination.limit = Math.max(1, limit / 2);
  const { host, outcome } = refusal;
  log.info({ destination: key, host, reply: outcome.reply, until: iso(next.untilMs) }, 'destination paused');
}

/** Whether the message at hand is the one that probes, while the others go by the fallback route. */
function chosenToProbe(destination: Destination, now: number): boolean {
  const { active, probeChosenMs } = destination;
  if (isPausedAt(destination, now) || active > 0 || now - probeChosenMs < PROBE_CHOSEN_MS) return false;
  destination.probeChosenMs = now;
  return true;
}

/** Drops what is idle and has nothing worth remembering; of those that answered, the oldest entries. */
function evictIdle(all: Map<string, Destination>, now: number): void {
  const isIdle = (one: Destination): boolean => one.active === 0 && !one.pause && !one.stalled;
  for (const one of all.values()) if (isIdle(one) && now - one.answeredMs >= PROVEN_MS) all.delete(one.key);
  for (const one of all.values()) {
    if (all.size <= MAX_IDLE * 4) break;
    if (one.active === 0 && !isPausedAt(one, now)) all.delete(one.key);
  }
}

/** Nothing was heard of its latest slot for so long; there is one probe after a pause, however long. */
function isOverdue({ pause, beganMs }: Destination, patienceMs: number, now: number): boolean {
  return !pause && now - beganMs >= patienceMs;
}

function fresh(key: string, limit: number): Destination {
  return {
    ...{ key, limit, active: 0, opening: 0, beganMs: 0, answeredMs: Number.NEGATIVE_INFINITY },
    ...{ tookMs: Number.NEGATIVE_INFINITY, probeChosenMs: Number.NEGATIVE_INFINITY },
    ...{
      learned: undefined,
      pause: undefined,
      allowance: undefined,
      messageMs: undefined,
      stalled: false,
      replies: [],
    },
  };
}

export function openDestinations(deps: DestinationDeps): Destinations {
  const { clock, log, limitsOf, hasFallback = false, mayProbe = () => true } = deps;
  const all = new Map<string, Destination>();
  let sweepAt = MAX_IDLE;

  const isProvenNow = ({ key, answeredMs }: Destination): boolean =>
    key === SANDBOX || clock.now() - answeredMs < PROVEN_MS;

  const isPaused = (destination: Destination): boolean => isPausedAt(destination, clock.now());

  const of = (key: string): Destination => {
    let found = all.get(key);
    if (found) return found;
    if (all.size >= sweepAt) {
      evictIdle(all, clock.now());
      sweepAt = Math.max(MAX_IDLE, all.size * 2);
    }
    found = fresh(key, limitsOf(key).initial);
    all.set(key, found);
    return found;
  };

  const canDivert = (key: string): boolean => hasFallback && key !== FALLBACK && key !== SANDBOX;

  const isDiverted = (key: string): boolean => {
    const blockedMs = all.get(key)?.pause?.blockedMs;
    return blockedMs !== undefined && canDivert(key) && clock.now() >= blockedMs + FALLBACK_AFTER_MS;
  };

  const limitOf = (destination: Destination): number =>
    Math.floor(limitAt(destination, limitsOf(destination.key).ceiling, clock.now()));

  const maySend = (destination: Destination): boolean => {
    const { messagesPerMinute } = limitsOf(destination.key);
    if (messagesPerMinute === null) return true;
    destination.allowance = allowanceAt(destination.allowance, messagesPerMinute, clock.now());
    return destination.allowance.messages >= 1;
  };

  const hear = (destination: Destination, signal: Signal, startedMs: number): boolean => {
    const { key, pause } = destination;
    switch (signal.kind) {
      case 'answered': {
        const { took } = signal;
        answered(destination, { took, startedMs, nowMs: clock.now(), ceiling: limitsOf(key).ceiling }, log);
        if (pause && !destination.pause) deps.onPauseChanged?.(destination);
        return false;
      }
      case 'connection-limit':
        lower(destination, signal.observed, clock.now());
        return false;
      case 'unreachable':
        // One domain's hosts may be away while others of the same provider answer.
        if (destination.answeredMs > startedMs) return false;
        destination.answeredMs = Number.NEGATIVE_INFINITY;
        destination.limit = Math.max(limitsOf(key).floor, destination.limit * 0.75);
        return false;
      case 'stalled':
        // One recipient may stall while the peer serves others, and a relay over a recipient of somebody else's.
        if (destination.answeredMs >= startedMs || isRelay(key)) return false;
        destination.stalled = true;
        break;
      case 'wait':
        // A list may count for one recipient alone.
        if (signal.request.unlessTaking && destination.tookMs >= startedMs) return false;
        break;
      default:
        return false;
    }
    // Several sessions may meet the same refusal: that is one pause, and one step of its length.
    if (isPaused(destination) || (pause && startedMs < pause.beganMs)) return false;
    const request = signal.kind === 'wait' ? signal.request : { ms: undefined };
    const { refusal } = signal;
    pauseFor(destination, { refusal, request, beganMs: clock.now(), canDivert: canDivert(key) }, log);
    deps.onPauseChanged?.(destination);
    return true;
  };

  return {
    of,
    mayOpen: (destination) => {
      if (isPaused(destination) || !maySend(destination)) return false;
      const { active, opening, key } = destination;
      const most = limitOf(destination);
      if (isProvenNow(destination)) return active < most && opening < Math.max(1, active - opening);
      if (destination.pause) return active < 1 && mayProbe(key);
      return active < 1 || (active < most && isOverdue(destination, limitsOf(key).patienceMs, clock.now()));
    },
    maySend,
    sending: (destination, messages) => {
      if (destination.allowance) destination.allowance.messages -= messages;
    },
    began: (destination) => {
      destination.active += 1;
      destination.opening += 1;
      destination.beganMs = clock.now();
    },
    pauseOf: (key) => {
      const found = all.get(key);
      return found && isPaused(found) ? found.pause : undefined;
    },
    isProven: (key) => {
      const found = all.get(key);
      return key === SANDBOX || (found !== undefined && isProvenNow(found));
    },
    isStalled: (key) => all.get(key)?.stalled === true,
    isDiverted,
    blocked: () => [...all.values()].filter(({ pause }) => pause?.blockedMs !== undefined),
    divert: (key) => (isDiverted(key) && !chosenToProbe(all.get(key)!, clock.now()) ? FALLBACK : key),
    hear,
    limitOf,
    takeOver: (destination, pause) =>
      takeOver(destination, pause, { nowMs: clock.now(), canDivert: canDivert(destination.key) }),
    paused: () => [...all.values()].filter(isPaused),
  };
}

/** What everybody shares, and what therefore no bound of a destination holds for. */
export const SHARED_DESTINATIONS: ReadonlySet<string> = new Set([RELAY, FALLBACK, SANDBOX]);

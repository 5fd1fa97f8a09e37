/**
 * Keeps the state of each destination: its connection limit and its pause. Every reply of a peer about itself, rather than about a message,
 * changes this state, and only this state decides whether a connection may be opened. Only the registry changes a destination:
 *
 *              an envelope was answered            another connection was refused, others are open
 *   probing ───────────────────────────▶ open ───────────────────────────────────────▶ limited
 *   (one slot)                            ▲ │ ◀────── another connection was accepted ─────── │
 *     ▲  │                                │ │                                               │
 *     │  └─── refused: longer ──▶ paused ◀──┴──── asked for time, or stalled ───────────────┘
 *     │                              │
 *     └──────── time is up ──────────┘
 *
 * - Probing: the peer has not answered in the last 10 minutes. The destination has one slot until the peer answers an envelope or, after
 *   a pause, a transaction. At a cold start one recipient may stall while the peer would serve others, so one more slot may start each
 *   `patienceMs`; after a pause it may not.
 * - Open: the destination has as many slots as its limit. The limit starts at `initial` (after a pause at half of its last value). It grows
 *   by one each time the peer has accepted as many messages as the limit allows connections, and shrinks by a quarter when no connection
 *   can be opened. At any time at most as many connections are being opened as are open, so a peer that allows N never sees more than 2N at
 *   the same time.
 * - Limited: the peer serves N sessions and refuses another one. The limit is N for 1, 2, 5, 10, 20 minutes, and N + 1 after that.
 * - Paused: no attempt starts for as long as the peer asked, or for 1, 2, 5, 10, 20 minutes if it named no time. Attempts in progress
 *   continue.
 * - Blocked: the destination is paused because the peer refuses this host, for 15 minutes, then for an hour each time, until a probe
 *   succeeds. If there is a fallback route, mail uses it from the 16th minute on, except for the message that probes.
 *
 * All nodes share pauses, and pauses survive a restart (shared-pauses.ts). Only one session of all nodes probes. The remaining state is in
 * the memory of each process, so a restarted process starts with probing.
 */
import { CLOCK_TOLERANCE_MS, type Clock, iso } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { LastReply } from '../../nodes/nodes.ts';
import type { PauseRequest } from '../outcome/pause.ts';
import type { Refusal, Signal } from '../outcome/signal.ts';
import { FALLBACK, isRelay, SANDBOX } from '../routing/route.ts';
import { withReply } from './last-replies.ts';
import { type Allowance, allowanceAt, type Limits } from './limits.ts';
import { FALLBACK_AFTER_MS, mailDueOf, nextPause, type Pause, pauseStepMs, type SharedPause } from './pause-steps.ts';

interface DestinationRecord {
  readonly key: string;
  /** Running slots. */
  active: number;
  /** Running slots without a session yet. */
  opening: number;
  limit: number;
  /** Unix ms at which the latest slot started. */
  beganMs: number;
  /** Unix ms at which it last answered an envelope. */
  answeredMs: number;
  /** Unix ms at which it last accepted a message. */
  acceptedMs: number;
  /** Unix ms at which a message was chosen to probe, while the others use the fallback route. */
  probeChosenMs: number;
  /** The connections that the peer allows; kept until more are accepted. */
  learned: { limit: number; untilMs: number; level: number } | undefined;
  /** Kept after it expires, until the probe succeeds. */
  pause: Pause | undefined;
  /** Messages that the rate allows now; negative after several in one transaction. */
  allowance: Allowance | undefined;
  /** Moving average of the time a message occupies a session, ms; undefined before the first. */
  messageMs: number | undefined;
  /** Whether the destination stalled last time. Its next envelope then has a shorter deadline. */
  stalled: boolean;
  /** Its last replies, newest first. */
  replies: readonly LastReply[];
}

/** A destination as other modules see it. Only the registry changes it. */
export type Destination = Readonly<DestinationRecord>;

/** The effect of a signal on the pause of its destination. */
export type PauseChange = 'none' | 'began' | 'ended';

/** The effect of a shared pause on this process. */
export type AdoptResult = { kind: 'same' | 'began' | 'changed' } | { kind: 'resumed'; pause: Pause };

const MINUTE_MS = 60_000;
const PROVEN_MS = 10 * MINUTE_MS;
/** If the chosen message does not start within this time, another one is chosen. */
const PROBE_CHOSEN_MS = MINUTE_MS;
const MAX_IDLE = 5_000;
/** The newest message has a weight of 1/16 in the moving average. */
const AVERAGED_MESSAGES = 16;

export interface RegistryDeps {
  clock: Clock;
  log: Log;
  limits: Pick<Limits, 'of'>;
  hasFallback?: boolean;
  /** Decides whether this node may probe a destination whose pause has expired; every node may by default. */
  probes?: { isPermitted(key: string): boolean };
}

/** Returns whether the destination is paused. A clock that was set back must not lengthen a pause. */
function isPausedAt({ pause }: Destination, nowMs: number): boolean {
  return pause !== undefined && nowMs < pause.untilMs && nowMs >= pause.beganMs;
}

/**
 * Returns whether an attempt started before this time of a pause. If the clock was set back after the start of the pause, only an attempt
 * whose start is after now did. A pause of a node whose clock is ahead can start a little after now.
 */
function startedBefore(
  startedMs: number,
  { beganMs }: Pause,
  { atMs, nowMs }: { atMs: number; nowMs: number },
): boolean {
  return nowMs + CLOCK_TOLERANCE_MS < beganMs ? startedMs > nowMs : startedMs < atMs;
}

/** Returns the connections allowed now. The ceiling may have dropped since the limit grew, because other processes use their share. */
function limitAt({ limit, learned }: Destination, ceiling: number, nowMs: number): number {
  if (!learned) return Math.min(limit, ceiling);
  return Math.min(limit, ceiling, nowMs < learned.untilMs ? learned.limit : learned.limit + 1);
}

/** Returns whether the latest slot has run for `patienceMs`. After a pause there is only one probe, however long it takes. */
function isOverdue({ pause, beganMs }: Destination, patienceMs: number, nowMs: number): boolean {
  return !pause && nowMs - beganMs >= patienceMs;
}

/** Returns the writable record of a destination. Running slots keep updating it even after the registry has forgotten it. */
function writable(destination: Destination): DestinationRecord {
  return destination as DestinationRecord;
}

function newDestination(key: string, limit: number): DestinationRecord {
  return {
    key,
    limit,
    active: 0,
    opening: 0,
    beganMs: 0,
    answeredMs: Number.NEGATIVE_INFINITY,
    acceptedMs: Number.NEGATIVE_INFINITY,
    probeChosenMs: Number.NEGATIVE_INFINITY,
    learned: undefined,
    pause: undefined,
    allowance: undefined,
    messageMs: undefined,
    stalled: false,
    replies: [],
  };
}

export class Registry {
  readonly #deps: RegistryDeps;
  readonly #all = new Map<string, DestinationRecord>();
  #sweepAt = MAX_IDLE;

  constructor(deps: RegistryDeps) {
    this.#deps = deps;
  }

  get #nowMs(): number {
    return this.#deps.clock.now();
  }

  /** Creates the destination at its first use. */
  of(key: string): Destination {
    return this.#recordOf(key);
  }

  // Queries: these methods return what is currently allowed.

  mayOpen(destination: Destination): boolean {
    if (this.#isPaused(destination) || !this.maySend(destination)) return false;
    const { active, opening, key } = destination;
    const limit = this.limitOf(destination);
    if (this.#isProven(destination)) return active < limit && opening < Math.max(1, active - opening);
    if (destination.pause) return active < 1 && (this.#deps.probes?.isPermitted(key) ?? true);
    const { patienceMs } = this.#deps.limits.of(key);
    return active < 1 || (active < limit && isOverdue(destination, patienceMs, this.#nowMs));
  }

  maySend(destination: Destination): boolean {
    const { messagesPerMinute } = this.#deps.limits.of(destination.key);
    if (messagesPerMinute === null) return true;
    const record = writable(destination);
    record.allowance = allowanceAt(record.allowance, messagesPerMinute, this.#nowMs);
    return record.allowance.messages >= 1;
  }

  /** Returns the number of connections allowed now. */
  limitOf(destination: Destination): number {
    return Math.floor(limitAt(destination, this.#deps.limits.of(destination.key).ceiling, this.#nowMs));
  }

  /** Returns how many more connections are allowed now in addition to those in use. */
  spareConnections(key: string): number {
    const destination = this.#recordOf(key);
    return this.limitOf(destination) - destination.active;
  }

  /** Returns the current pause of the destination. */
  pauseOf(key: string): Pause | undefined {
    const found = this.#all.get(key);
    return found && this.#isPaused(found) ? found.pause : undefined;
  }

  /** Returns whether the destination answered in the last 10 minutes. */
  isProven(key: string): boolean {
    const found = this.#all.get(key);
    return key === SANDBOX || (found !== undefined && this.#isProven(found));
  }

  isStalled(key: string): boolean {
    return this.#all.get(key)?.stalled === true;
  }

  /** Returns whether mail for this destination uses the fallback route, except for messages that probe. */
  usesFallback(key: string): boolean {
    const blockedMs = this.#all.get(key)?.pause?.blockedMs;
    return blockedMs !== undefined && this.#canDivert(key) && this.#nowMs >= blockedMs + FALLBACK_AFTER_MS;
  }

  /**
   * Returns the destination to use for the next message: this one, or the fallback route. Chooses the message as the probe if one is due.
   */
  chooseDestination(key: string): string {
    return this.usesFallback(key) && !this.#chooseProbe(this.#recordOf(key)) ? FALLBACK : key;
  }

  paused(): Destination[] {
    return [...this.#all.values()].filter((one) => this.#isPaused(one));
  }

  /** Returns the destinations that block this host; each is included until a probe succeeds. */
  blocked(): Destination[] {
    return [...this.#all.values()].filter(({ pause }) => pause?.blockedMs !== undefined);
  }

  // Reports: these methods change the state of the destination.

  /** Records that a slot started, without a session yet. */
  slotBegan(destination: Destination): void {
    const record = writable(destination);
    record.active += 1;
    record.opening += 1;
    record.beganMs = this.#nowMs;
  }

  /** Records that a started slot has its session. */
  sessionOpened(destination: Destination): void {
    writable(destination).opening -= 1;
  }

  slotEnded(destination: Destination): void {
    writable(destination).active -= 1;
  }

  /** Subtracts messages that are being sent from the rate allowance. */
  sending(destination: Destination, messages: number): void {
    const { allowance } = writable(destination);
    if (allowance) allowance.messages -= messages;
  }

  /** Records how long a message occupied its session. */
  measured(destination: Destination, messageMs: number): void {
    const record = writable(destination);
    const before = record.messageMs ?? messageMs;
    record.messageMs = before + (messageMs - before) / AVERAGED_MESSAGES;
  }

  /** Records the reply that decided the outcome of a message. */
  replied(destination: Destination, refusal: Refusal): void {
    const record = writable(destination);
    record.replies = withReply(record.replies, refusal, this.#nowMs);
  }

  /** Applies the signal of an attempt that started at `startedMs`. */
  report(destination: Destination, signal: Signal, startedMs: number): PauseChange {
    const record = writable(destination);
    const { key } = record;
    switch (signal.kind) {
      case 'nothing':
        return 'none';
      case 'answered':
        return this.#answered(record, signal.accepted, startedMs);
      case 'connection-limit':
        this.#lower(record, signal.open);
        return 'none';
      case 'unreachable':
        // The hosts of one domain may be unreachable while others of the same provider answer.
        if (record.answeredMs > startedMs) return 'none';
        record.answeredMs = Number.NEGATIVE_INFINITY;
        record.limit = Math.max(this.#deps.limits.of(key).floor, record.limit * 0.75);
        return 'none';
      case 'stalled':
        // One recipient may stall while the peer serves others; a relay may stall because of the recipient's own server.
        if (record.answeredMs >= startedMs || isRelay(key)) return 'none';
        record.stalled = true;
        return this.#pauseFor(record, signal.refusal, { ms: undefined }, startedMs);
      case 'wait':
        // A blocklist may apply to one recipient only.
        if (signal.request.unlessAccepting && record.acceptedMs >= startedMs) return 'none';
        return this.#pauseFor(record, signal.refusal, signal.request, startedMs);
    }
  }

  /** Replaces the pause of this destination with the one that all nodes share, or removes it if `shared` is undefined. */
  adopt(destination: Destination, shared: SharedPause | undefined): AdoptResult {
    const record = writable(destination);
    const { key, pause } = record;
    if (!shared) {
      record.pause = undefined;
      return { kind: pause ? 'changed' : 'same' };
    }
    if (pause?.beganMs === shared.beganMs && pause.untilMs === shared.untilMs) return { kind: 'same' };
    const wasPaused = this.#isPaused(record);
    this.#begin(record, { ...shared, mailDueMs: mailDueOf(shared, this.#canDivert(key)) });
    if (this.#isPaused(record)) return { kind: 'began' };
    return pause && wasPaused ? { kind: 'resumed', pause } : { kind: 'changed' };
  }

  #isPaused(destination: Destination): boolean {
    return isPausedAt(destination, this.#nowMs);
  }

  #isProven({ key, answeredMs }: Destination): boolean {
    return key === SANDBOX || this.#nowMs - answeredMs < PROVEN_MS;
  }

  #canDivert(key: string): boolean {
    return this.#deps.hasFallback === true && key !== FALLBACK && key !== SANDBOX;
  }

  /** Chooses the current message as the probe, if one is due; the others use the fallback route. Returns whether it was chosen. */
  #chooseProbe(record: DestinationRecord): boolean {
    const nowMs = this.#nowMs;
    if (isPausedAt(record, nowMs) || record.active > 0 || nowMs - record.probeChosenMs < PROBE_CHOSEN_MS) return false;
    record.probeChosenMs = nowMs;
    return true;
  }

  #answered(record: DestinationRecord, accepted: boolean, startedMs: number): PauseChange {
    const { key, pause, learned } = record;
    const nowMs = this.#nowMs;
    if (accepted) record.acceptedMs = nowMs;
    // Only the probe ends a pause, not an answer to an attempt that started earlier.
    if (pause && startedBefore(startedMs, pause, { atMs: pause.untilMs, nowMs })) return 'none';
    record.answeredMs = nowMs;
    record.stalled = false;
    record.pause = undefined;
    if (learned && record.active - record.opening > learned.limit) record.learned = undefined;
    if (accepted) {
      const { ceiling } = this.#deps.limits.of(key);
      const maximum = Math.min(ceiling, record.learned ? record.learned.limit + 1 : Number.POSITIVE_INFINITY);
      if (record.limit < maximum) record.limit = Math.min(maximum, record.limit + 1 / record.limit);
    }
    if (!pause) return 'none';
    this.#deps.log.info({ destination: key, host: pause.host }, 'destination resumed');
    return 'ended';
  }

  /** Lowers the limit to the connections that the peer serves. */
  #lower(record: DestinationRecord, open: number): void {
    const { learned } = record;
    const nowMs = this.#nowMs;
    const isNew = !learned || nowMs >= learned.untilMs;
    const level = learned ? learned.level + (isNew ? 1 : 0) : 0;
    const limit = Math.max(1, open);
    record.learned = { limit, level, untilMs: isNew ? nowMs + pauseStepMs(level) : learned.untilMs };
    // After a pause the limit is already halved, and a refused connection must not raise it again.
    record.limit = record.pause ? Math.min(record.limit, limit) : limit;
  }

  #pauseFor(record: DestinationRecord, refusal: Refusal, request: PauseRequest, startedMs: number): PauseChange {
    const { key, pause } = record;
    const nowMs = this.#nowMs;
    // If several sessions get the same refusal, it causes one pause and increases its length by one step.
    if (isPausedAt(record, nowMs)) return 'none';
    if (pause && startedBefore(startedMs, pause, { atMs: pause.beganMs, nowMs })) return 'none';
    const next = { ...refusal, ...nextPause(pause, request, nowMs) };
    this.#begin(record, { ...next, mailDueMs: mailDueOf(next, this.#canDivert(key)) });
    record.replies = withReply(record.replies, refusal, nowMs);
    const { host, outcome } = refusal;
    this.#deps.log.info(
      { destination: key, host, reply: outcome.reply, until: iso(next.untilMs) },
      'destination paused',
    );
    return 'began';
  }

  #begin(record: DestinationRecord, pause: Pause): void {
    if (!record.pause) record.limit = Math.max(1, record.limit / 2);
    record.pause = pause;
    record.answeredMs = Number.NEGATIVE_INFINITY;
  }

  #recordOf(key: string): DestinationRecord {
    let found = this.#all.get(key);
    if (found) return found;
    if (this.#all.size >= this.#sweepAt) {
      this.#forgetIdle();
      this.#sweepAt = Math.max(MAX_IDLE, this.#all.size * 2);
    }
    found = newDestination(key, this.#deps.limits.of(key).initial);
    this.#all.set(key, found);
    return found;
  }

  /** Forgets idle destinations without a pause or a recent answer. If too many are left, also forgets the oldest idle ones. */
  #forgetIdle(): void {
    const nowMs = this.#nowMs;
    for (const one of this.#all.values()) {
      const isIdle = one.active === 0 && !one.pause && !one.stalled;
      if (isIdle && nowMs - one.answeredMs >= PROVEN_MS) this.#all.delete(one.key);
    }
    for (const one of this.#all.values()) {
      if (this.#all.size <= MAX_IDLE * 4) break;
      if (one.active === 0 && !isPausedAt(one, nowMs)) this.#all.delete(one.key);
    }
  }
}

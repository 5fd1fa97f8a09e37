/**
 * Compares the attempts of every message with the documented retry schedule in both directions: none is early, none is late unless
 * something delays it, their numbers have no gaps, and every recipient at a mail server belongs to a recorded attempt. The schedule is
 * repeated here as the contract documents it.
 */
import { mayBeLostBetween } from './absences.ts';
import type { EventRow, MessageRow } from './oracle.ts';
import { type Manners, PERFECT, type Peer } from './peers.ts';
import type { Policies } from './policies.ts';
import type { Down } from './process-lifetimes.ts';
import { refusalBehind, refusalOf } from './refusals.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DELAYS_MS = [1, 5, 15, 30, 60, 120, 240].map((minutes) => minutes * MINUTE_MS);
/** The schedule if the server blocks the host. */
const BLOCKED_MS = [15, 60, 120, 240].map((minutes) => minutes * MINUTE_MS);
const LAST_MS = 6 * HOUR_MS;
const JITTER = 1 / 10;
/** The longest pause of a server that asks for time, plus a tenth over which its messages return. */
const LONGEST_PAUSE_MS = 1.1 * HOUR_MS;
/** Maximum time from when a message is due to its attempt, and to its end if nothing fails. */
const PROMPT_MS = 1.25 * MINUTE_MS;
/** Maximum duration of an attempt at a server that answers: a death may have interrupted one that started this long before. */
const ATTEMPT_MS = 2 * MINUTE_MS;
/** Rounding, and the time that a request takes. */
export const ROUNDING_MS = 2;
/** The longest time of bytes from one end of a connection to the other. */
const LATENCY_MS = 5_000;
/** An attempt that loses a reused session is recorded with the start of the next one. */
const RECONNECTED_MS = 30_000;
/** The longest attempt: one that tries every server of a domain, all of which stall. */
export const LONGEST_ATTEMPT_MS = 20 * MINUTE_MS;

export interface Conditions {
  /** No connection hangs and nothing is refused, whatever happens to the process. */
  isSteady: boolean;
  /** The storage failed to record something. */
  isRefused: boolean;
  /** No connection hangs, and nothing has happened to the node since its start. */
  isPrompt: boolean;
  /** Nothing else fails between the node and the mail servers. */
  isPerfect: boolean;
}

export interface Attempt {
  message_id: string;
  number: number;
  /** When it ended, and when it started, Unix ms. */
  at: number;
  startedMs: number;
  /** The deciding reply, if any, and the server. */
  reply: string | null;
  host: string | null;
  outcome: string;
  /** The TLS policy of the connection. */
  tlsPolicy: string | undefined;
  dialogue: readonly { direction: 'C' | 'S'; text: string }[];
}

export interface ScheduleEvidence {
  peers: readonly Peer[];
  policies: Policies;
  clockSetAtMs: readonly number[];
  conditions: Conditions;
  messages: readonly MessageRow[];
  events: readonly EventRow[];
  attempts: readonly Attempt[];
  /** The wall clock at the start, Unix ms. */
  startMs: number;
  /** Several nodes share the database; their clocks differ. */
  isShared: boolean;
  /** When the only node was down, virtual ms. */
  downs: readonly Down[];
  /** Maximum time from a reply to its record. */
  recordMs: number;
  /** At how many starts a message was in progress. */
  deathsOf(messageId: string): number;
}

export function scheduleFaults(evidence: ScheduleEvidence): string[] {
  const { messages, conditions } = evidence;
  const live = messages.filter(({ mode }) => mode === 'live');
  return [
    ...ofDelays(evidence),
    ...live.flatMap((one) => ofNumbers(evidence, one)),
    ...live.flatMap((one) => ofEarly(evidence, one)),
    ...ofAsked(evidence),
    ...(conditions.isSteady ? live.flatMap((one) => ofLate(evidence, one)) : []),
    ...(conditions.isPerfect ? live.flatMap((one) => ofUnhindered(evidence, one)) : []),
  ];
}

const domainOf = (address: string): string => address.split('@')[1]!;
const delayMs = (attempts: number, category?: string): number =>
  (category === 'blocked' ? BLOCKED_MS : DELAYS_MS)[attempts - 1] ?? LAST_MS;

function mannersOf({ peers }: ScheduleEvidence, recipient: string): Manners[] {
  return peers.filter(({ name }) => name.endsWith(`.${domainOf(recipient)}`)).map(({ manners }) => manners);
}

/** Whether a server of the domain asks, or stalls as if it asked, for a pause of all of its mail. */
const mayPause = ({ busy, closing, stalls, connections, permanent, refusals }: Manners): boolean =>
  busy !== undefined ||
  closing > 0 ||
  stalls > 0 ||
  connections < PERFECT.connections ||
  (permanent > 0 && refusals.some((one) => refusalOf(one).isBlock === true));

/** Checks the next attempts in the log. */
function ofDelays(evidence: ScheduleEvidence): string[] {
  const { messages, events, attempts, conditions, clockSetAtMs } = evidence;
  return events.flatMap(({ type, late, message_id: id, at, detail }) => {
    if (type !== 'DeliveryDelay' || late === 1) return [];
    const { recipient, expires_at: expiresAtMs } = messages.find((one) => one.id === id)!;
    const { category, nextAttemptAt } = JSON.parse(detail).deliveryDelay;
    const nextMs = Date.parse(nextAttemptAt);
    const attempt = attempts.find((one) => one.message_id === id && one.at === at);
    // The events of a message keep their order, whatever the clock does.
    if (attempt === undefined && clockSetAtMs.length > 0) return [];
    const scheduledMs = attempt === undefined ? 0 : delayMs(attempt.number, category);
    const earliestMs = Math.min(expiresAtMs, at + (1 - JITTER) * scheduledMs - 1);
    const isPausing = !conditions.isPrompt || attempt === undefined || mannersOf(evidence, recipient).some(mayPause);
    const latestMs = at + Math.max((1 + JITTER) * scheduledMs, isPausing ? LONGEST_PAUSE_MS : 0) + 1;
    const isInTime = nextMs >= earliestMs && nextMs <= Math.min(expiresAtMs, latestMs);
    return isInTime ? [] : [`${id} was put off for ${nextMs - at} ms, of ${scheduledMs}`];
  });
}

const ownOf = ({ attempts }: ScheduleEvidence, id: string): Attempt[] =>
  attempts.filter((one) => one.message_id === id).sort((a, b) => a.number - b.number);

const isBlocked = ({ reply }: Attempt, recipient: string): boolean => refusalBehind(reply, recipient)?.isBlock === true;

/** Attempts are numbered from 1 without a gap, and the message counts as many: none advances the schedule without a record. */
function ofNumbers(evidence: ScheduleEvidence, { id, attempts }: MessageRow): string[] {
  const numbers = ownOf(evidence, id).map(({ number }) => number);
  const isWhole = numbers.every((number, at) => number === at + 1) && attempts === numbers.length;
  return isWhole ? [] : [`the attempts of ${id} are numbered ${numbers.join()}, and it counts ${attempts}`];
}

/** No attempt is made before its message was accepted or its delay is over, except the last one at the end of the lifetime. */
function ofEarly(evidence: ScheduleEvidence, message: MessageRow): string[] {
  const { id, recipient, created_at: createdAtMs, expires_at: expiresAtMs } = message;
  if (evidence.clockSetAtMs.length > 0 || evidence.isShared) return [];
  const own = ownOf(evidence, id);
  const [first] = own;
  if (first !== undefined && first.startedMs < createdAtMs)
    return [`attempt 1 of ${id} started ${createdAtMs - first.startedMs} ms before the message was accepted`];
  return own.flatMap((one, at) => {
    const next = own[at + 1];
    if (next === undefined) return [];
    const nextMs = next.startedMs;
    const delay = delayMs(one.number, isBlocked(one, recipient) ? 'blocked' : undefined);
    const earliestMs = Math.min(expiresAtMs, one.at + (1 - JITTER) * delay) - ROUNDING_MS;
    if (nextMs >= earliestMs) return [];
    return [`attempt ${next.number} of ${id} came ${Math.round(earliestMs - nextMs)} ms before its time`];
  });
}

/** Every recipient at a mail server belongs to a recorded attempt, unless its sender ended before. */
function ofAsked(evidence: ScheduleEvidence): string[] {
  const { peers, messages, attempts, clockSetAtMs, isShared, conditions, startMs, recordMs } = evidence;
  if (clockSetAtMs.length > 0 || isShared || conditions.isRefused) return [];
  const recipients = new Map(messages.map(({ id, recipient }) => [id, recipient]));
  const byRecipient = Map.groupBy(attempts, (one) => recipients.get(one.message_id));
  return peers.flatMap(({ name, asked }) =>
    asked.flatMap(({ recipient, atMs, sender }) => {
      const ms = startMs + atMs;
      const own = byRecipient.get(recipient) ?? [];
      if (own.some(({ startedMs, at }) => startedMs <= ms + RECONNECTED_MS && at >= ms - LATENCY_MS)) return [];
      const during = { fromMs: atMs - LATENCY_MS, untilMs: atMs + LONGEST_ATTEMPT_MS };
      // A planned stop interrupts an attempt that lasts too long.
      const isCutOff = sender?.endedMs !== undefined && sender.endedMs < during.untilMs;
      if (isCutOff || mayBeLostBetween(sender, during, recordMs)) return [];
      return [`${name} was asked about ${recipient} in no attempt that is recorded, at ${Math.round(atMs)}`];
    }),
  );
}

/** Checks when each attempt was due at the latest, and when it was made. */
function ofLate(evidence: ScheduleEvidence, message: MessageRow): string[] {
  const { id, recipient, status, created_at: createdMs, send_at: sendAtMs, expires_at: expiresAtMs } = message;
  // A message that was in progress at two deaths waits for a quiet moment.
  if (!isUnhurried(evidence, recipient) || evidence.deathsOf(id) > 1) return [];
  const restraints = restraintsOf(evidence, recipient);
  const own = ownOf(evidence, id);
  let dueMs = Math.max(createdMs, sendAtMs ?? 0);
  const faults: string[] = [];
  for (const one of own) {
    const { number, at, startedMs } = one;
    const pausedMs = restraints.findLast((ms) => ms <= startedMs);
    const fromMs = pausedMs === undefined ? dueMs : Math.max(dueMs, pausedMs + LONGEST_PAUSE_MS);
    const lateMs = startedMs - upFrom(evidence, fromMs) - PROMPT_MS;
    if (lateMs > 0) faults.push(`attempt ${number} of ${id} was ${Math.round(lateMs)} ms late`);
    dueMs = Math.min(
      expiresAtMs,
      at + (1 + JITTER) * delayMs(number, isBlocked(one, recipient) ? 'blocked' : undefined),
    );
  }
  // The documented exception: the server had asked to wait until after the lifetime, or blocks the host.
  const isPaused = restraints.some((ms) => ms <= expiresAtMs && expiresAtMs <= ms + LONGEST_PAUSE_MS);
  if (status === 'bounced' && own.length === 0 && !isPaused) faults.push(`${id} bounced untried`);
  return faults;
}

/** Returns the latest time of an attempt that is due while the node was down, or died soon after. */
function upFrom({ downs, startMs }: ScheduleEvidence, dueMs: number): number {
  let ms = dueMs;
  for (const { fromMs, untilMs } of downs) {
    if (startMs + fromMs <= ms + PROMPT_MS + ATTEMPT_MS && startMs + untilMs > ms) ms = startMs + untilMs;
  }
  return ms;
}

/** Returns when servers of the domain asked for time, or seemed to, Unix ms. */
function restraintsOf({ peers, startMs }: ScheduleEvidence, recipient: string): number[] {
  const own = peers.filter(({ name }) => name.endsWith(`.${domainOf(recipient)}`));
  return own.flatMap(({ restraints }) => restraints.map((ms) => startMs + ms)).sort((a, b) => a - b);
}

/** Whether its messages never wait for other messages, or for the response of a policy host. */
function isUnhurried(evidence: ScheduleEvidence, recipient: string): boolean {
  const { policies } = evidence;
  return mannersOf(evidence, recipient).length > 0 && !policies.publishing.has(domainOf(recipient));
}

const isPerfect = (manners: Manners): boolean =>
  (Object.keys(PERFECT) as (keyof Manners)[]).every((name) => name === 'dotMs' || manners[name] === PERFECT[name]);

/** Checks messages to servers without a fault, in a scenario without one. */
function ofUnhindered(evidence: ScheduleEvidence, message: MessageRow): string[] {
  const { policies, events } = evidence;
  const { id, recipient, status, created_at: createdMs, send_at: sendAtMs } = message;
  const domain = domainOf(recipient);
  const manners = mannersOf(evidence, recipient);
  const isHindered = policies.enforced.has(domain) || policies.signed.has(domain) || !manners.every(isPerfect);
  if (isHindered || manners.length === 0 || status === 'cancelled' || status === 'suppressed') return [];
  const dueMs = Math.max(createdMs, sendAtMs ?? 0);
  const delivery = events.find((one) => one.message_id === id && one.type === 'Delivery');
  return delivery && delivery.at <= dueMs + PROMPT_MS ? [] : [`${id} is ${status}, though nothing stood in its way`];
}

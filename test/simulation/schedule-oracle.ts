/**
 * Mail that was put off is tried again when the published schedule says so, and mail that nothing stands in the way of is there at once: a
 * message that ends in time may have waited for nothing until then. The schedule stands here once more, as it is published.
 */
import type { EventRow, MessageRow } from './oracle.ts';
import { type Manners, PERFECT, type Peer } from './peers.ts';
import type { Policies } from './policies.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DELAYS_MS = [1, 5, 15, 30, 60, 120, 240].map((minutes) => minutes * MINUTE_MS);
/** Where our host is blocked. */
const BLOCKED_MS = [15, 60, 120, 240].map((minutes) => minutes * MINUTE_MS);
const LAST_MS = 6 * HOUR_MS;
const JITTER = 1 / 10;
/** Of a server that asks for time, with a tenth over which those that wait come back. */
const LONGEST_PAUSE_MS = 1.1 * HOUR_MS;
/** From the time at which mail is due to its attempt, and to its end where nothing fails. */
const PROMPT_MS = MINUTE_MS;

export interface Conditions {
  /** That no connection hangs, and nothing befell our node since its start. */
  isPrompt: boolean;
  /** That nothing fails between our node and the mail servers besides. */
  isPerfect: boolean;
}

export interface Attempt {
  message_id: string;
  number: number;
  /** When it was over, and when it began, Unix ms. */
  at: number;
  startedMs: number;
}

export interface ScheduleEvidence {
  peers: readonly Peer[];
  policies: Policies;
  clockSetAtMs: readonly number[];
  conditions: Conditions;
  messages: readonly MessageRow[];
  events: readonly EventRow[];
  attempts: readonly Attempt[];
}

export function scheduleFaults(evidence: ScheduleEvidence): string[] {
  const { messages, conditions } = evidence;
  const live = messages.filter(({ mode }) => mode === 'live');
  return [
    ...ofDelays(evidence),
    ...(conditions.isPrompt ? live.flatMap((one) => ofWaits(evidence, one)) : []),
    ...(conditions.isPerfect ? live.flatMap((one) => ofUnhindered(evidence, one)) : []),
  ];
}

const domainOf = (address: string): string => address.split('@')[1]!;
const delayMs = (attempts: number, category?: string): number =>
  (category === 'blocked' ? BLOCKED_MS : DELAYS_MS)[attempts - 1] ?? LAST_MS;

function mannersOf({ peers }: ScheduleEvidence, recipient: string): Manners[] {
  return peers.filter(({ name }) => name.endsWith(`.${domainOf(recipient)}`)).map(({ manners }) => manners);
}

/** Whether a server of the domain says, or falls silent as if it said, that all of its mail is to wait. */
const mayPause = ({ busy, closing, stalls, connections, permanent, refusal }: Manners): boolean =>
  busy !== undefined ||
  closing > 0 ||
  stalls > 0 ||
  connections < PERFECT.connections ||
  (permanent > 0 && refusal === 'listed');

/** What the log says of the next attempt. */
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

/** When each attempt was due at the latest, and when it was made. */
function ofWaits(evidence: ScheduleEvidence, message: MessageRow): string[] {
  const { id, recipient, status, created_at: createdMs, send_at: sendAtMs, expires_at: expiresAtMs } = message;
  if (!isUnhurried(evidence, recipient)) return [];
  const own = evidence.attempts.filter((one) => one.message_id === id).sort((a, b) => a.number - b.number);
  let dueMs = Math.max(createdMs, sendAtMs ?? 0);
  const faults: string[] = [];
  for (const { number, at, startedMs } of own) {
    if (startedMs > dueMs + PROMPT_MS) faults.push(`attempt ${number} of ${id} was ${startedMs - dueMs} ms late`);
    dueMs = Math.min(expiresAtMs, at + (1 + JITTER) * delayMs(number));
  }
  if (status === 'bounced' && own.length === 0) faults.push(`${id} bounced untried`);
  return faults;
}

/** Whether mail to it never waits for other mail, or for what its servers say of all of it. */
function isUnhurried(evidence: ScheduleEvidence, recipient: string): boolean {
  const { policies } = evidence;
  const manners = mannersOf(evidence, recipient);
  return manners.length > 0 && !manners.some(mayPause) && !policies.publishing.has(domainOf(recipient));
}

const isPerfect = (manners: Manners): boolean =>
  (Object.keys(PERFECT) as (keyof Manners)[]).every((name) => name === 'dotMs' || manners[name] === PERFECT[name]);

/** Mail to servers without a fault, in a world without one. */
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

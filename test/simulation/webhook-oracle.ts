/**
 * Compares what webhook endpoints received with the event log and with the documented schedule in both directions: every event reaches each
 * endpoint that subscribes to its type and no other, no attempt is early, none is late without a reason, none follows the tenth or a
 * recorded success, and an endpoint that returned 410 receives nothing more. Redirects are never followed.
 */
import { mayBeLost, mayBeLostBetween } from './absences.ts';
import { type MovedWebhook, PROPAGATION_MS } from './customer-actions.ts';
import type { Rows } from './node.ts';
import type { EventRow } from './oracle.ts';
import { type Endpoint, MOVED, type Received, type Receiver } from './receivers.ts';
import type { Conditions } from './schedule-oracle.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** The delay after attempt n, as documented in the contract. */
const DELAYS_MS = [
  5_000,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];
const JITTER = 1 / 10;
const SCHEDULED_ATTEMPTS = 10;
const TIMEOUT_MS = 15_000;
/** Maximum time from when an attempt is due to its request, if nothing fails. */
const PROMPT_MS = MINUTE_MS;
/** The longest time of bytes from one end of a connection to the other. */
const LATENCY_MS = 5_000;
/** How long a machine may sleep while only its own timers are due (world.ts). */
const ASLEEP_MS = 20_000;
/** The error of a delivery that is dead-lettered because it crashed its process, or seems to have. */
const DEAD_LETTER = /internal error occurred three times/;

/** The errors of deliveries that an endpoint ended with its 410: the one it answered, and those queued after it. */
const NO_MORE = /returned HTTP status 410|the webhook is disabled/;

export interface WebhookEvidence {
  receiver: Receiver;
  movedWebhooks: readonly MovedWebhook[];
  /** The account whose live events go to the endpoints. */
  subscriber: string;
  database: Rows;
  events: readonly EventRow[];
  /** Processes died often enough to dead-letter what was in progress each time. */
  isDeadly: boolean;
  /** The endpoints accept everything after some minutes. */
  isShort: boolean;
  /** Several nodes share the database; their clocks differ. */
  isShared: boolean;
  /** The storage failed to record something. */
  isRefused: boolean;
  conditions: Conditions;
  /** The wall clock at the start, and after it was set, in Unix ms. */
  startMs: number;
  clockSetAtMs: readonly number[];
  /** Maximum time from a response to its record. */
  recordMs: number;
}

interface WebhookRow {
  id: string;
  url: string;
  enabled: number;
  failing_since: number | null;
}

interface DeliveryRow {
  webhook_id: string;
  event_id: string;
  status: string;
  attempts: number;
  error: string;
}

export function webhookFaults(evidence: WebhookEvidence): string[] {
  const { receiver, database, events } = evidence;
  const webhooks = database.all<WebhookRow>('SELECT id, url, enabled, failing_since FROM webhook');
  const deliveries = database.all<DeliveryRow>(
    'SELECT webhook_id, event_id, status, attempts, error FROM webhook_delivery',
  );
  const faults = receiver.endpoints.flatMap((endpoint) => {
    // Two webhooks have one URL if the response to the creation of the first one was lost.
    const own = webhooks.filter(({ url }) => url.replace(`?${MOVED}`, '') === endpoint.url);
    const ids = new Set(own.map(({ id }) => id));
    const rows = deliveries.filter(({ webhook_id: id }) => ids.has(id));
    const goneMs = goneSince(evidence, endpoint);
    return [
      ...ofGivenUp(evidence, rows),
      ...ofReceived(evidence, endpoint, rows),
      ...(goneMs === undefined || own.length > 1
        ? []
        : ofGone(evidence, { endpoint, goneMs, enabled: own.filter((one) => one.enabled) })),
      ...(own.length === 1 ? ofSchedule(evidence, endpoint) : []),
      ...(own.length === 1 ? ofMoved(evidence, endpoint) : []),
      ...(own.length === 1 ? ofHealth(evidence, endpoint, own[0]!) : []),
    ];
  });
  if (receiver.followed > 0) faults.push(`${receiver.followed} redirects of webhook endpoints were followed`);
  const known = new Map(events.map((one) => [one.id, one]));
  for (const { eventId } of receiver.endpoints.flatMap(({ received }) => received)) {
    const event = known.get(eventId);
    if (event === undefined) faults.push(`an endpoint got ${eventId}, which is in no log`);
    else if (event.account_id !== evidence.subscriber || event.mode !== 'live')
      faults.push(`a live endpoint got ${eventId}, of ${event.account_id} in mode ${event.mode}`);
  }
  return faults;
}

/** Returns when Postrider learned for certain that an endpoint returned 410; undefined if it did not. */
function goneSince({ recordMs }: WebhookEvidence, { received }: Endpoint): number | undefined {
  const said = received.find(
    ({ treatment, heardAtMs, sender }) =>
      treatment === 410 && heardAtMs !== undefined && !mayBeLost(sender, heardAtMs, recordMs),
  );
  return said?.heardAtMs;
}

function ofGivenUp({ isShort, isDeadly }: WebhookEvidence, rows: readonly DeliveryRow[]): string[] {
  return rows.flatMap(({ event_id: id, status, attempts, error }) => {
    if (status !== 'failed' || NO_MORE.test(error) || (DEAD_LETTER.test(error) && isDeadly)) return [];
    const least = isShort ? Number.POSITIVE_INFINITY : SCHEDULED_ATTEMPTS;
    return attempts < least ? [`the event ${id} was given up after ${attempts} attempts: ${error}`] : [];
  });
}

/** Every event of the endpoint's types was received with one id, and no event of another type. */
function ofReceived(
  { events, subscriber }: WebhookEvidence,
  { url, types, received, manners, maxBatch }: Endpoint,
  rows: readonly DeliveryRow[],
): string[] {
  const faults: string[] = [];
  const accepted = new Set(received.filter((one) => one.isAccepted).map((one) => one.eventId));
  const failed = new Set(rows.filter(({ status }) => status === 'failed').map((one) => one.event_id));
  const isGone = manners.goneAfter > 0 && received.some(({ treatment }) => treatment === 410);
  for (const { id, type, account_id: accountId, mode } of events) {
    const isWanted = accountId === subscriber && mode === 'live' && types.includes(type);
    if (isWanted && !isGone && !accepted.has(id) && !failed.has(id))
      faults.push(`the event ${type} ${id} never came to its endpoint ${url}`);
  }
  for (const type of new Set(received.map((one) => one.type))) {
    if (!types.includes(type)) faults.push(`${url} got events of type ${type}, which it does not ask for`);
  }
  for (const [id, own] of Map.groupBy(received, (one) => `${one.webhookId} ${one.atMs}`)) {
    if (own.length > maxBatch) faults.push(`${url} got ${own.length} events in the request ${id}`);
  }
  for (const [id, own] of Map.groupBy(received, (one) => one.eventId)) {
    const names = new Set(own.map(({ webhookId }) => webhookId));
    // A retry can combine events differently, so that their request has another id.
    if (names.size > 1 && maxBatch === 1) faults.push(`the event ${id} came under ${names.size} ids`);
  }
  return faults;
}

/** After a 410 was recorded, the endpoint is disabled and no attempt starts. */
function ofGone(
  { recordMs, isShared, isRefused }: WebhookEvidence,
  { endpoint, goneMs, enabled }: { endpoint: Endpoint; goneMs: number; enabled: readonly unknown[] },
): string[] {
  const { url, received } = endpoint;
  const faults = enabled.length > 0 ? [`${url} answered 410, and is not disabled`] : [];
  if (isShared || isRefused) return faults;
  const untilMs = goneMs + recordMs + TIMEOUT_MS + LATENCY_MS;
  const after = received.filter(({ atMs }) => atMs > untilMs).length;
  if (after > 0) faults.push(`${url} got ${after} events after its 410`);
  return faults;
}

/** Attempts that begin after the customer changed the URL go to the new one. */
function ofMoved({ movedWebhooks, recordMs }: WebhookEvidence, { url, received }: Endpoint): string[] {
  const moved = movedWebhooks.find((one) => one.url === url);
  if (moved === undefined) return [];
  const untilMs = moved.atMs + PROPAGATION_MS + recordMs + TIMEOUT_MS + LATENCY_MS;
  const after = received.filter(({ atMs, isMoved }) => !isMoved && atMs > untilMs);
  return after.map(
    ({ eventId, atMs }) => `${eventId} came to ${url} ${Math.round(atMs - moved.atMs)} ms after its change`,
  );
}

/** An endpoint that accepted an event is not failing since an earlier time. */
function ofHealth(
  { clockSetAtMs, isShared, isRefused, startMs, recordMs }: WebhookEvidence,
  { url, received, maxBatch }: Endpoint,
  { enabled, failing_since: failingSince }: WebhookRow,
): string[] {
  if (failingSince === null || !enabled || clockSetAtMs.length > 0 || isShared || isRefused) return [];
  const accepted = received.findLast(
    (one) => isHeard(one, maxBatch) && !mayBeLost(one.sender, one.heardAtMs!, recordMs),
  );
  // A failure that began before the success may be recorded after it.
  const latestMs = startMs + (accepted?.atMs ?? Number.NEGATIVE_INFINITY) - TIMEOUT_MS - LATENCY_MS;
  return failingSince < latestMs ? [`${url} counts as failing since before its success at ${accepted!.atMs}`] : [];
}

/** Compares the attempts of each event with the schedule. Attempts that did not reach the endpoint completely are not visible here. */
function ofSchedule(evidence: WebhookEvidence, { url, received, maxBatch }: Endpoint): string[] {
  const { clockSetAtMs, isShared, isRefused, conditions, recordMs, events, startMs } = evidence;
  if (clockSetAtMs.length > 0 || isShared || isRefused) return [];
  const faults: string[] = [];
  const loggedMs = new Map(events.map(({ id, at }) => [id, at - startMs]));
  // Bytes that arrive after the death of their sender may be overtaken by those of the next process.
  const inOrder = received.filter(({ sender, atMs }) => (sender?.endedMs ?? atMs) >= atMs);
  for (const [id, own] of Map.groupBy(inOrder, (one) => one.eventId)) {
    const first = own[0]!.atMs - (loggedMs.get(id) ?? 0);
    if (conditions.isPerfect && first > PROMPT_MS) faults.push(`the event ${id} came to ${url} after ${first} ms`);
    /** Attempts that were certainly recorded; those that did not reach the endpoint add to them. */
    let recorded = 0;
    for (const [at, one] of own.entries()) {
      const next = own[at + 1];
      const endedMs = endOf(one);
      if (mayBeLostBetween(one.sender, { fromMs: one.atMs - LATENCY_MS, untilMs: endedMs.most }, recordMs)) continue;
      recorded += 1;
      if (next === undefined) continue;
      const delayMs = DELAYS_MS[recorded - 1];
      if (delayMs === undefined) {
        faults.push(`the event ${id} was tried more than ${SCHEDULED_ATTEMPTS} times at ${url}`);
        break;
      }
      if (isHeard(one, maxBatch)) {
        faults.push(`the event ${id} came again to ${url} after its success`);
        break;
      }
      const askedMs = one.heardAtMs === undefined ? 0 : one.retryAfterMs;
      const earlyMs = endedMs.least + Math.max((1 - JITTER) * delayMs, askedMs) - 2 - next.atMs;
      if (earlyMs > 0)
        faults.push(`attempt ${recorded + 1} of ${id} came to ${url} ${Math.round(earlyMs)} ms before its time`);
      const lateMs = next.atMs - endedMs.most - Math.max((1 + JITTER) * delayMs, one.retryAfterMs) - PROMPT_MS;
      if (conditions.isPerfect && lateMs > 0)
        faults.push(`attempt ${recorded + 1} of ${id} came to ${url} ${Math.round(lateMs)} ms after its time`);
    }
  }
  return faults;
}

/**
 * Whether the sender certainly knows that the event was accepted. For a batch, it needs the complete body within the deadline of the
 * request, because the body can list failed events.
 */
function isHeard({ isAccepted, heardAtMs, atMs }: Received, maxBatch: number): boolean {
  if (!isAccepted || heardAtMs === undefined) return false;
  return maxBatch === 1 || heardAtMs - atMs < TIMEOUT_MS - LATENCY_MS;
}

/** Returns when an attempt ended for its sender: at the earliest, and at the latest if the connection worked. */
function endOf({ treatment, atMs, endedMs, heardAtMs }: Received): { least: number; most: number } {
  if (treatment === 'hang') return { least: atMs + TIMEOUT_MS - LATENCY_MS, most: atMs + TIMEOUT_MS + ASLEEP_MS };
  if (treatment === 'cut' || heardAtMs !== undefined)
    return { least: endedMs, most: Math.max(endedMs + LATENCY_MS, heardAtMs ?? 0) };
  return { least: atMs - LATENCY_MS, most: atMs + TIMEOUT_MS + ASLEEP_MS };
}

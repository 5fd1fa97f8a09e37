/**
 * Endpoints as the API accepts and returns them, and the ids of their deliveries. An endpoint's secret is encrypted with the endpoint's id
 * as context and returned only at creation and rotation.
 */
import { createHash } from 'node:crypto';
import { iso, isoOrNull } from '../base/clock.ts';
import type { Mode } from '../base/mode.ts';

/** How long the previous secret also signs after a rotation. */
export const ROTATION_MS = 24 * 3_600_000;

/** Returns the context that a secret is encrypted with (base/seal.ts). */
export function sealContext(webhookId: string): string {
  return `webhook:${webhookId}`;
}

/** A row of `webhook` without its secrets. */
export interface EndpointRow {
  id: string;
  mode: Mode;
  url: string;
  /** JSON array of event types. */
  events: string;
  description: string | null;
  enabled: number;
  /** Unix ms of the first failure since the last success; null if the last attempt succeeded. */
  failing_since: number | null;
  disabled_reason: string | null;
  inbound_route_id: string | null;
  created_at: number;
  updated_at: number;
  /** The service whose payload it receives; null for Postrider's own. */
  format: 'resend' | null;
  /** JSON array of that service's event names. */
  format_events: string | null;
  /** JSON array of the names of the customer's headers; null without any. */
  header_names: string | null;
  /** 1: the events of a recipient are sent one after the other. */
  ordered: number;
  /** The most events of a request; with more than 1, a request carries an array of events. */
  max_batch: number;
}

/** An endpoint as the API returns it. */
export interface ShownEndpoint extends EndpointRow {
  /** Time of the soonest retry of its deliveries, by the clock of its mode; null if it is disabled, does not fail, or has none. */
  nextAttemptAtMs: number | null;
}

/** Limit of `maxBatch`. */
export const MOST_BATCHED = 100;

/** The API returns this for the value of each header. */
export const HEADER_MASK = '********';

export const headerNamesOf = ({ header_names }: Pick<EndpointRow, 'header_names'>): string[] =>
  JSON.parse(header_names ?? '[]') as string[];

export function endpointBody(row: ShownEndpoint): Record<string, unknown> {
  const body: Record<string, unknown> = {
    webhookId: row.id,
    url: row.url,
    events: JSON.parse(row.events),
    description: row.description,
    headers: Object.fromEntries(headerNamesOf(row).map((name) => [name, HEADER_MASK])),
    enabled: row.enabled === 1,
    ordered: row.ordered === 1,
    maxBatch: row.max_batch,
    createdAt: iso(row.created_at),
    updatedAt: iso(row.updated_at),
  };
  if (row.failing_since !== null) body.failingSince = iso(row.failing_since);
  if (row.nextAttemptAtMs !== null) body.nextAttemptAt = iso(row.nextAttemptAtMs);
  if (row.enabled === 0 && row.disabled_reason !== null) body.disabledReason = row.disabled_reason;
  if (row.inbound_route_id !== null) body.inboundRouteId = row.inbound_route_id;
  if (row.format !== null) {
    body.format = row.format;
    body.formatEvents = JSON.parse(row.format_events ?? '[]');
  }
  return body;
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * Returns the id of the delivery of an event to an endpoint. It is derived from both ids (each has 77 random bits), so that every attempt,
 * retry and replay finds the same record by its key, and records sort by the time of their event.
 */
export function deliveryIdOf(webhookId: string, eventId: string): string {
  const digest = createHash('sha256').update(`${webhookId}.${eventId}`).digest();
  let text = `del_${eventId.slice(4, 12)}`;
  for (let i = 0; i < 13; i += 1) text += ALPHABET[((digest[2 * i]! << 8) | digest[2 * i + 1]!) % 62];
  return text;
}

/** A row of `webhook_delivery`, as the API returns it. */
export interface DeliveryRow {
  id: string;
  event_seq: number;
  event_id: string;
  event_type: string;
  status: 'pending' | 'succeeded' | 'failed';
  attempts: number;
  response_status: number | null;
  response_start: string | null;
  error: string | null;
  latency_ms: number | null;
  next_attempt_at: number | null;
  created_at: number;
  /** The URL of the last request; null if none was made. */
  url: string | null;
  /** The event as sent; null if it is no longer stored. */
  body: string | null;
  /** Lines of JSON, oldest first; null for a single attempt, which is in the fields above. */
  attempt_log: string | null;
  /** Whether the endpoint gets several events per request. */
  isBatched: boolean;
}

/** An attempt in the log of a delivery. */
interface LoggedAttempt {
  atMs: number;
  responseStatus: number | null;
  responseStart: string | null;
  error: string | null;
  latencyMs: number | null;
}

function loggedAttempts(row: DeliveryRow): LoggedAttempt[] {
  if (row.attempt_log !== null) {
    const lines = row.attempt_log.trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line) as LoggedAttempt);
  }
  // Deliveries of versions without a log can have more.
  if (row.attempts !== 1) return [];
  const { response_status: responseStatus, response_start: responseStart, error, latency_ms: latencyMs } = row;
  return [{ atMs: row.created_at, responseStatus, responseStart, error, latencyMs }];
}

function attemptLogOf(row: DeliveryRow): Record<string, unknown>[] {
  return loggedAttempts(row).map(({ atMs, ...answer }) => ({ time: iso(atMs), ...answer }));
}

export function deliveryBody(row: DeliveryRow): Record<string, unknown> {
  return {
    deliveryId: row.id,
    eventId: row.event_id,
    eventType: row.event_type,
    status: row.status,
    attempts: row.attempts,
    request: row.url === null ? null : requestOf(row.url, row),
    responseStatus: row.response_status,
    responseStart: row.response_start,
    error: row.error,
    latencyMs: row.latency_ms,
    nextAttemptAt: isoOrNull(row.next_attempt_at),
    attemptLog: attemptLogOf(row),
    createdAt: iso(row.created_at),
  };
}

/**
 * Returns the request; its time and signature differ for each attempt and are not stored. Of a request with several events, it has only
 * this one: the others, and with them the id, can differ for each attempt.
 */
function requestOf(url: string, { event_id, body, isBatched }: DeliveryRow): Record<string, unknown> {
  const id = isBatched ? {} : { 'webhook-id': event_id };
  return { method: 'POST', url, headers: { 'content-type': 'application/json', ...id }, body };
}

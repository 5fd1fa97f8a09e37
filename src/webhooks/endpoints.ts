/**
 * Endpoints as the API takes and shows them, and the ids of their deliveries. An endpoint's secret is sealed with the
 * endpoint's id as context and is shown only at creation and rotation.
 */
import { createHash } from 'node:crypto';
import { iso } from '../base/clock.ts';
import type { Mode } from '../base/mode.ts';

/** How long the previous secret signs too after a rotation. */
export const ROTATION_MS = 24 * 3_600_000;

/** What a sealed secret is bound to (base/seal.ts). */
export function sealContext(webhookId: string): string {
  return `webhook:${webhookId}`;
}

/** One row of `webhook` without its secrets. */
export interface EndpointRow {
  id: string;
  mode: Mode;
  url: string;
  /** JSON array of event types. */
  events: string;
  description: string | null;
  enabled: number;
  disabled_reason: string | null;
  inbound_route_id: string | null;
  created_at: number;
  updated_at: number;
  /** The service whose payload it receives; null for ours. */
  format: 'resend' | null;
  /** JSON array of that service's event names. */
  format_events: string | null;
}

export function endpointBody(row: EndpointRow): Record<string, unknown> {
  const body: Record<string, unknown> = {
    webhookId: row.id,
    url: row.url,
    events: JSON.parse(row.events),
    description: row.description,
    enabled: row.enabled === 1,
    createdAt: iso(row.created_at),
    updatedAt: iso(row.updated_at),
  };
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
 * The id of "this event to this endpoint". It follows from both ids (each holds 77 random bits), so that every attempt,
 * retry and replay finds the same record by its key, and records sort by the time of their event.
 */
export function deliveryIdOf(webhookId: string, eventId: string): string {
  const digest = createHash('sha256').update(`${webhookId}.${eventId}`).digest();
  let text = `del_${eventId.slice(4, 12)}`;
  for (let i = 0; i < 13; i += 1) text += ALPHABET[((digest[2 * i]! << 8) | digest[2 * i + 1]!) % 62];
  return text;
}

/** One row of `webhook_delivery`, as the API shows it. */
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
  /** Where the last request went; null when none was made. */
  url: string | null;
  /** The event as it is sent; null when it is not kept any more. */
  body: string | null;
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
    nextAttemptAt: row.next_attempt_at === null ? null : iso(row.next_attempt_at),
    createdAt: iso(row.created_at),
  };
}

/** What was asked of the endpoint; time and signature are different at each attempt and are not kept. */
function requestOf(url: string, { event_id, body }: DeliveryRow): Record<string, unknown> {
  return { method: 'POST', url, headers: { 'content-type': 'application/json', 'webhook-id': event_id }, body };
}

/**
 * Requests with several events, for endpoints with `maxBatch` above 1. The body is a JSON array of events, even if it has one. The signature
 * covers the id of the request and the array, as for a single event.
 *
 * A 2xx response accepts all events, except those whose ids its body lists: `{"failed": ["evt_…"]}`. After any other response all events
 * are retried. Each event has its own schedule, and each retry of an event halves the size of its batch, so that an event that makes its
 * batches fail is soon sent without others.
 */
import { createHash } from 'node:crypto';
import type { HttpOutcome } from '../net/http-client.ts';

/** Limit of the events of a request together, in UTF-16 units of their JSON. One event can be larger. */
export const BATCH_UNITS = 1_000_000;

/** Returns how many events a request may have that includes an event with this many failed attempts. */
export function batchLimit(maxBatch: number, attempts: number): number {
  return Math.max(1, Math.floor(maxBatch / 2 ** attempts));
}

/** Returns the request for events in order. Its id depends only on their ids: a retry of the same events has the same id. */
export function batchOf(events: readonly { id: string; body: string }[]): { id: string; body: string } {
  const digest = createHash('sha256').update(events.map(({ id }) => id).join());
  return { id: `batch_${digest.digest('hex').slice(0, 32)}`, body: `[${events.map(({ body }) => body).join(',')}]` };
}

/** Returns the ids of the events that a 2xx response reports as failed; none if its body does not have the documented form. */
export function failedEventIds(outcome: HttpOutcome): ReadonlySet<string> {
  if (!outcome.ok || outcome.status >= 300 || outcome.body === undefined) return new Set();
  try {
    const answer = JSON.parse(outcome.body.toString('utf8')) as { failed?: unknown } | null;
    return new Set(Array.isArray(answer?.failed) ? answer.failed.filter((id) => typeof id === 'string') : []);
  } catch {
    return new Set();
  }
}

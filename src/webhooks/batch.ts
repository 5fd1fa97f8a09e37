/**
 * Requests with several events, for endpoints with `maxBatch` above 1. The body is a JSON array of events, even if it has one. The signature
 * covers the id of the request and the array, as for a single event.
 *
 * A 2xx response accepts all events, except those whose ids its body lists: `{"failed": ["evt_…"]}`. After any other response all events
 * are retried. Each event has its own schedule. A batch with an event that failed once has at most a tenth of the limit, and an event that
 * failed twice is sent alone, so that an event that makes its batches fail does not hold up others.
 */
import { createHash } from 'node:crypto';
import type { HttpOutcome } from '../net/http-client.ts';

/** Limit of the events of a request together, in UTF-16 units of their JSON. One event can be larger. */
export const BATCH_UNITS = 1_000_000;

/** Returns how many events a request may have that includes an event with this many failed attempts. */
export function batchLimit(maxBatch: number, attempts: number): number {
  return attempts < 2 ? Math.max(1, Math.floor(maxBatch / 10 ** attempts)) : 1;
}

/** Returns the request for events in order. Its id depends only on their ids: a retry of the same events has the same id. */
export function batchOf(events: readonly { id: string; body: string }[]): { id: string; body: string } {
  const digest = createHash('sha256').update(events.map(({ id }) => id).join());
  return { id: `batch_${digest.digest('hex').slice(0, 32)}`, body: `[${events.map(({ body }) => body).join(',')}]` };
}

/**
 * Returns the ids of the events that a 2xx response reports as failed; none if its body does not have the documented form, or `unknown` if
 * its body did not arrive completely.
 */
export function failedEventIds(outcome: HttpOutcome): ReadonlySet<string> | 'unknown' {
  if (!outcome.ok || outcome.status >= 300) return new Set();
  if (outcome.body === undefined) return 'unknown';
  try {
    const answer = JSON.parse(outcome.body.toString('utf8')) as { failed?: unknown } | null;
    return new Set(Array.isArray(answer?.failed) ? answer.failed.filter((id) => typeof id === 'string') : []);
  } catch {
    return new Set();
  }
}

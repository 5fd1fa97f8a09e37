/**
 * Counts the event log as docs/reference/statistics.md defines it, from the bodies that `GET /events` returns and without code of the
 * service, and compares the result with `GET /statistics`.
 */
import assert from 'node:assert/strict';
import type { JsonObject } from './api.ts';

const LENGTHS = { hour: 3_600_000, day: 86_400_000 };
/** The documented precision of percentiles, plus one rounded digit. */
const PERCENTILE_ERROR = 0.0251;

export interface Recount {
  interval: keyof typeof LENGTHS;
  groupBy: 'none' | 'tag' | 'template' | 'recipientDomain' | 'mailboxProvider';
  /** Returns the bucket's group for an event's message. */
  templateOf?: (messageId: string) => string;
}

interface Expected {
  bucket: JsonObject;
  latencies: number[];
}

function add(bucket: JsonObject, event: JsonObject): void {
  if (event.eventType === 'Send') bucket.accepted += 1;
  if (event.eventType === 'Delivery') bucket.delivered += 1;
  if (event.eventType === 'DeliveryDelay') bucket.delayed += 1;
  if (event.eventType === 'Bounce') bucket.bounced[event.bounce.kind] += 1;
  if (event.eventType === 'Complaint') bucket.complained += 1;
  if (event.eventType === 'Reject' && event.reject.reason === 'suppressed') bucket.suppressed += 1;
  if (event.eventType === 'Open') bucket.opened += 1;
  if (event.eventType === 'Click') bucket.clicked += 1;
  if (event.eventType === 'Unsubscribe') bucket.unsubscribed += 1;
}

/** The domains of mailbox providers that the tests send to. */
const PROVIDER_OF: Record<string, string> = { 'gmail.com': 'google', 'gmx.at': 'gmx', 'web.de': 'gmx' };

function groupsOf(event: JsonObject, { groupBy, templateOf }: Recount): (string | null | undefined)[] {
  if (groupBy === 'none') return [undefined];
  if (groupBy === 'tag') return event.tags.length === 0 ? [''] : [...new Set<string>(event.tags)];
  if (groupBy === 'template') return [templateOf!(event.messageId)];
  const domain: string = event.recipient.split('@').at(-1).toLowerCase();
  return [groupBy === 'mailboxProvider' ? (PROVIDER_OF[domain] ?? null) : domain];
}

/** By start and group. */
function recount(events: JsonObject[], how: Recount): Map<string, Expected> {
  const all = new Map<string, Expected>();
  for (const event of events) {
    if (event.eventType === 'Reject' && event.reject.reason === 'cancelled') continue;
    const length = LENGTHS[how.interval];
    const start = new Date(Math.floor(Date.parse(event.timestamp) / length) * length).toISOString();
    for (const group of groupsOf(event, how)) {
      const key = `${start} ${group}`;
      const fresh = {
        start,
        ...(group !== undefined && { group }),
        accepted: 0,
        delivered: 0,
        bounced: { hard: 0, soft: 0, block: 0 },
        delayed: 0,
        suppressed: 0,
        complained: 0,
        opened: 0,
        clicked: 0,
        unsubscribed: 0,
      };
      const one: Expected = all.get(key) ?? { bucket: fresh, latencies: [] };
      all.set(key, one);
      add(one.bucket, event);
      if (event.delivery?.latencyMs !== undefined) one.latencies.push(event.delivery.latencyMs);
    }
  }
  return all;
}

function assertPercentile(seconds: number | null, share: number, latencies: number[]): void {
  if (latencies.length === 0) {
    assert.equal(seconds, null);
    return;
  }
  const exact = latencies.sort((a, b) => a - b)[Math.ceil(share * latencies.length) - 1]! / 1_000;
  assert.ok(Math.abs(seconds! - exact) <= exact * PERCENTILE_ERROR, `p${share * 100}: ${seconds} instead of ${exact}`);
}

/** Asserts that the buckets of a response match the events; without groups, empty buckets are allowed. */
export function assertCounted(buckets: JsonObject[], events: JsonObject[], how: Recount): void {
  const expected = recount(events, how);
  const isEmpty = (bucket: JsonObject): boolean =>
    Object.values({ ...bucket, ...bucket.bounced }).every((value) => typeof value !== 'number' || value === 0);
  for (const bucket of buckets) {
    const key = `${bucket.start} ${bucket.group}`;
    const one = expected.get(key);
    const { deliverySeconds, ...counters } = bucket;
    if (one === undefined) {
      assert.ok(how.groupBy === 'none' && isEmpty(bucket), `${key}: ${JSON.stringify(bucket)} of nothing`);
      continue;
    }
    expected.delete(key);
    assert.deepEqual(counters, one.bucket);
    // Other groups have no percentiles.
    const latencies = bucket.group === null ? [] : one.latencies;
    assertPercentile(deliverySeconds.p50, 0.5, latencies);
    assertPercentile(deliverySeconds.p95, 0.95, latencies);
  }
  assert.deepEqual([...expected.keys()], [], 'in the log, but not in the response');
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { iso } from '../base/clock.ts';
import type { Period } from './counts.ts';
import { readSpan } from './span.ts';

const DAY = 86_400_000;
const HOUR = 3_600_000;
const NOW = Date.UTC(2026, 10, 20, 9, 44, 0, 123);

function spanOf(since?: number, until?: number, interval?: Period): string {
  const span = readSpan({ sinceMs: since, untilMs: until, interval }, NOW);
  if (!span.ok) return span.failure.details.map(({ field, message }) => `${field} ${message}`).join('; ');
  const { period, fromMs, untilMs } = span.value;
  return `${period} ${iso(fromMs).slice(0, 13)} ${iso(untilMs).slice(0, 13)}`;
}

test('the default range is seven days by day, and up to three days by hour', () => {
  assert.equal(spanOf(), 'day 2026-11-13T00 2026-11-21T00');
  assert.equal(spanOf(NOW - 3 * DAY), 'hour 2026-11-17T09 2026-11-20T10');
  assert.equal(spanOf(NOW - 3 * DAY - 1), 'day 2026-11-17T00 2026-11-21T00');
  assert.equal(spanOf(undefined, NOW - 100 * DAY, 'hour'), 'hour 2026-08-05T09 2026-08-12T10');
});

test('buckets are complete, and until is exclusive', () => {
  const noon = Date.UTC(2026, 10, 19, 12);
  assert.equal(spanOf(noon, noon + 1), 'hour 2026-11-19T12 2026-11-19T13');
  assert.equal(spanOf(noon, noon), 'hour 2026-11-19T12 2026-11-19T12');
  assert.equal(spanOf(noon + 1, noon + DAY, 'day'), 'day 2026-11-19T00 2026-11-21T00');
});

test('rejects a range over the limits with the name of the field', () => {
  assert.match(spanOf(NOW + 1), /^since must not be after until/);
  assert.match(spanOf(NOW - 401 * DAY, NOW - 300 * DAY), /^since must be at most 400 days ago/);
  assert.match(spanOf(NOW - 31 * DAY - HOUR, undefined, 'hour'), /^since must be at most 31 days before until/);
  assert.match(spanOf(NOW - 200 * DAY, NOW + 201 * DAY), /^since must be at most 400 days before until/);
  assert.equal(spanOf(NOW - 31 * DAY, NOW, 'hour'), 'hour 2026-10-20T09 2026-11-20T10');
  // A client that computes days from its own clock may ask a moment before the server responds.
  assert.equal(spanOf(NOW - 31 * DAY - 50, undefined, 'hour'), 'hour 2026-10-20T09 2026-11-20T10');
  assert.equal(spanOf(NOW - 400 * DAY - 50), 'day 2025-10-16T00 2026-11-21T00');
});

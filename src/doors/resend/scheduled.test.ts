/** Times and durations in the formats of the Resend API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationSeconds, timeMs } from './scheduled.ts';

const NOW = Date.UTC(2026, 10, 27, 12);
const MINUTE = 60_000;

test('times are ISO 8601 or relative', () => {
  const cases: [text: string, ms: number | undefined][] = [
    ['in 1 min', NOW + MINUTE],
    ['in 1 minute', NOW + MINUTE],
    ['in 10 mins', NOW + 10 * MINUTE],
    ['In 90 Minutes', NOW + 90 * MINUTE],
    ['in 1 hour', NOW + 60 * MINUTE],
    ['in an hour', NOW + 60 * MINUTE],
    ['in 2 hours', NOW + 120 * MINUTE],
    ['in 2 hrs', NOW + 120 * MINUTE],
    ['in 2h', NOW + 120 * MINUTE],
    ['in 5m', NOW + 5 * MINUTE],
    ['in 1 day', NOW + 1_440 * MINUTE],
    ['in 3 days', NOW + 4_320 * MINUTE],
    ['2026-12-01T09:00:00Z', Date.UTC(2026, 11, 1, 9)],
    ['2026-12-01T09:00:00.000Z', Date.UTC(2026, 11, 1, 9)],
    ['2026-12-01T09:00:00+01:00', Date.UTC(2026, 11, 1, 8)],
    ['2026-12-01 09:00:00+00', Date.UTC(2026, 11, 1, 9)],
    ['2026-12-01 09:00:00.123456+00', Date.UTC(2026, 11, 1, 9, 0, 0, 123)],
    ['2026-12-01T09:00:00', Date.UTC(2026, 11, 1, 9)],
    ['2026-02-31T09:00:00Z', undefined],
    ['tomorrow', undefined],
    ['in a while', undefined],
    ['in 1 month', undefined],
    ['in -1 min', undefined],
    ['1795800000', undefined],
    ['', undefined],
  ];
  for (const [text, ms] of cases) assert.equal(timeMs(text, NOW), ms, text);
});

test('durations require a unit', () => {
  const cases: [text: string, seconds: number | undefined][] = [
    ['30s', 30],
    ['90 seconds', 90],
    ['5m', 300],
    ['10 min', 600],
    ['2 hours', 7_200],
    ['7d', 604_800],
    ['1 week', 604_800],
    ['7', undefined],
    ['soon', undefined],
    ['1 month', undefined],
  ];
  for (const [text, seconds] of cases) assert.equal(durationSeconds(text), seconds, text);
});

/** Days of filters are days of the user's time zone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dayOf, timeOfDay } from '../../portal/src/parts/days.ts';

test('a day is that of the time zone, and begins at its midnight', (t) => {
  const before = process.env.TZ;
  t.after(() => {
    if (before === undefined) delete process.env.TZ;
    else process.env.TZ = before;
  });
  for (const [zone, at, day, since] of [
    ['Pacific/Auckland', '2026-01-01T20:00:00.000Z', '2026-01-02', '2026-01-01T11:00:00.000Z'],
    ['America/Los_Angeles', '2026-01-02T05:00:00.000Z', '2026-01-01', '2026-01-01T08:00:00.000Z'],
    // Its clocks were put forward during this day.
    ['Europe/Berlin', '2026-03-29T12:00:00.000Z', '2026-03-29', '2026-03-28T23:00:00.000Z'],
    ['UTC', '2026-01-01T00:00:00.000Z', '2026-01-01', '2026-01-01T00:00:00.000Z'],
  ] as const) {
    process.env.TZ = zone;
    assert.equal(dayOf(Date.parse(at)), day, zone);
    assert.equal(timeOfDay(dayOf(Date.parse(at)), '00:00:00'), since, zone);
  }
});

test('a text that is not a day filters nothing', () => {
  for (const text of [undefined, '', 'today', '2026-13-01']) assert.equal(timeOfDay(text, '00:00:00'), undefined);
});

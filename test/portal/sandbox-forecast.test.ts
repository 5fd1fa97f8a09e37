/** The forecast of a move of the sandbox clock, and an event feed in which each event appears once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Event } from '../../clients/typescript/src/schema.ts';
import { matches, merge } from '../../portal/src/pages/events/merge.ts';
import { forecastOf, type Waiting } from '../../portal/src/pages/inbox/forecast.ts';

const nowMs = Date.parse('2026-11-23T10:00:00.000Z');
const after = (seconds: number): string => new Date(nowMs + seconds * 1_000).toISOString();

test('attempts, scheduled messages, and expiry are counted up to the selected time', () => {
  const waiting: Waiting[] = [
    { status: 'delayed', nextAttemptAt: after(60), expiresAt: after(259_200) },
    { status: 'delayed', nextAttemptAt: after(7_200), expiresAt: after(3_600) },
    { status: 'queued', expiresAt: after(259_200) },
    { status: 'scheduled', sendAt: after(600), nextAttemptAt: after(600), expiresAt: after(259_800) },
  ];
  assert.deepEqual(forecastOf(waiting, nowMs, 0), { attempts: 1, scheduled: 0, expiries: 0 });
  assert.deepEqual(forecastOf(waiting, nowMs, 60), { attempts: 2, scheduled: 0, expiries: 0 });
  assert.deepEqual(forecastOf(waiting, nowMs, 3_600), { attempts: 2, scheduled: 1, expiries: 1 });
  assert.deepEqual(forecastOf(waiting, nowMs, 604_800), { attempts: 3, scheduled: 1, expiries: 4 });
});

const event = (eventId: string, timestamp: string, further: Partial<Event> = {}): Event => ({
  eventId,
  timestamp,
  eventType: 'Send',
  messageId: 'msg_1',
  mode: 'sandbox',
  recipient: 'Ann@example.com',
  from: 'a@b.example',
  subject: 'Hello',
  headerMessageId: '<1@b.example>',
  tags: ['a', 'b'],
  metadata: {},
  ...further,
});

test('the log and the stream merge into one list, newest first', () => {
  const [one, two, three] = [event('evt_1', after(1)), event('evt_2', after(2)), event('evt_3', after(2))];
  const merged = merge([two, one], [three, two]);
  assert.deepEqual(
    merged.map(({ eventId }) => eventId),
    ['evt_3', 'evt_2', 'evt_1'],
  );
});

test('stream events are filtered as the service filters its log', () => {
  const some = event('evt_1', after(10));
  for (const filter of [
    {},
    { recipient: 'ann@EXAMPLE.com' },
    { tag: ['b'] },
    { since: after(10) },
    { eventType: ['Send'] },
  ])
    assert.ok(matches(some, filter), JSON.stringify(filter));
  for (const filter of [{ messageId: 'msg_2' }, { tag: ['a', 'c'] }, { since: after(11) }, { eventType: ['Bounce'] }])
    assert.ok(!matches(some, filter), JSON.stringify(filter));
});

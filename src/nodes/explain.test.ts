/** What operators read about the speed of a destination. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainDestination, type PublishedDestination } from './nodes.ts';

const one: PublishedDestination = {
  ...{ key: 'google', waiting: 312, connections: 5, limit: 5, messageMs: 100, messagesPerMinute: null },
  ...{
    limitReason: 'the most that the provider google may have',
    pausedUntil: null,
    blockedSince: null,
    fallback: false,
  },
  replies: [{ at: 5, host: 'mx.example', reply: '250 2.0.0 OK', accepted: true }],
};

test('connections by time is the ceiling, with who set it, what waits and the last reply', () => {
  assert.deepEqual(explainDestination([one], 312), {
    messagesPerSecond: 50,
    text: '5 connections × 100 ms a message = 50 messages/s (the most that the provider google may have). 312 wait. Last reply: 250 2.0.0 OK.',
  });
});

test('nodes add up; a rate below the ceiling counts; a pause lets nothing through', () => {
  const slower = { ...one, messageMs: 300, messagesPerMinute: 60, replies: [] };
  const both = explainDestination([{ ...one, messagesPerMinute: 60 }, slower], 7);
  assert.equal(both.messagesPerSecond, 2);
  assert.match(
    both.text,
    /^10 connections × 200 ms a message = 50 messages\/s .*A rate allows 2 messages\/s\. 7 wait\./,
  );
  const paused = explainDestination([{ ...one, pausedUntil: Date.UTC(2026, 10, 14, 14, 5) }], 312);
  assert.equal(paused.messagesPerSecond, 0);
  assert.match(paused.text, /Next try at 2026-11-14T14:05:00\.000Z\.$/);
});

test('before the first message there is no ceiling to tell', () => {
  const { messagesPerSecond, text } = explainDestination([{ ...one, limit: 1, messageMs: null, replies: [] }], 3);
  assert.equal(messagesPerSecond, null);
  assert.match(text, /^1 connection, and no message was measured yet \(/);
});

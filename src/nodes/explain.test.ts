/** The explanation of a destination's rate for operators. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainDestination, type PublishedDestination } from './nodes.ts';

const one: PublishedDestination = {
  key: 'google',
  waiting: 312,
  connections: 5,
  limit: 5,
  messageMs: 100,
  messagesPerMinute: null,
  limitReason: 'the limit of the provider google',
  pausedUntil: null,
  requested: false,
  deferred: 0,
  blockedSince: null,
  fallback: false,
  replies: [{ at: 5, host: 'mx.example', reply: '250 2.0.0 OK', accepted: true }],
};

/** With the last reply that the nodes remember. */
function explain(nodes: PublishedDestination[], depth: number) {
  const replies = nodes.flatMap((node) => node.replies).sort((a, b) => b.at - a.at);
  return explainDestination(nodes, { depth, nextAttemptMs: null, replies });
}

test('connections over time list the ceiling, its cause, queued messages, and the last reply', () => {
  assert.deepEqual(explain([one], 312), {
    messagesPerSecond: 50,
    text: '5 connections at 100 ms per message allow 50 messages/s (the limit of the provider google). 312 messages queued. Last reply: 250 2.0.0 OK.',
  });
});

test("the nodes' values are summed, and a rate below the ceiling is reported", () => {
  const slower = { ...one, messageMs: 300, messagesPerMinute: 60, replies: [] };
  const both = explain([{ ...one, messagesPerMinute: 60 }, slower], 7);
  assert.equal(both.messagesPerSecond, 2);
  assert.match(
    both.text,
    /^10 connections at 200 ms per message allow 50 messages\/s .*The rate limit is 2 messages\/s\. 7 messages queued\./,
  );
});

test('a pause is listed first, with the queued messages', () => {
  const until = {
    pausedUntil: Date.UTC(2026, 10, 14, 14, 5),
    requested: true,
    limitReason: 'resumes after one successful probe',
  };
  const replies = [{ at: 5, host: 'mx.example', reply: '421 4.7.28 unusual rate of mail.', accepted: false }];
  assert.deepEqual(explain([{ ...one, ...until, limit: 1, replies }, one], 312), {
    messagesPerSecond: 0,
    text: 'google requested a pause until 2026-11-14T14:05:00.000Z; 312 messages queued. Last reply: 421 4.7.28 unusual rate of mail. 6 connections at 100 ms per message allow 60 messages/s (resumes after one successful probe; the limit of the provider google).',
  });
  const { text } = explain([{ ...one, ...until, requested: false }], 1);
  assert.match(text, /^Postrider paused google until 2026-11-14T14:05:00\.000Z; 1 message queued\. Last reply: /);
});

test('explains since when a destination blocks the host, and when the next attempt is', () => {
  const blocked = { ...one, requested: true, blockedSince: Date.UTC(2026, 10, 14, 13, 5) };
  const tried = explain([{ ...blocked, pausedUntil: Date.UTC(2026, 10, 14, 14, 5) }], 2).text;
  const since = 'google has blocked this host since 2026-11-14T13:05:00.000Z; ';
  assert.ok(tried.startsWith(`${since}next attempt at 2026-11-14T14:05:00.000Z; 2 messages queued. `), tried);
  assert.ok(explain([blocked], 2).text.startsWith(`${since}2 messages queued. `));
});

test('has no rate before the first measurement', () => {
  const { messagesPerSecond, text } = explain([{ ...one, limit: 1, messageMs: null, replies: [] }], 3);
  assert.equal(messagesPerSecond, null);
  assert.match(text, /^1 connection allowed; the time per message has not been measured yet \(/);
});

test('messages that no node holds in memory show their next attempt and last reply', () => {
  const replies = [{ at: 5, host: 'mx.example', reply: '451 4.3.0 try later', accepted: false }];
  assert.deepEqual(explainDestination([], { depth: 3, nextAttemptMs: Date.UTC(2026, 10, 14, 14, 5), replies }), {
    messagesPerSecond: null,
    text: '3 messages queued. Next attempt at 2026-11-14T14:05:00.000Z. Last reply: 451 4.3.0 try later.',
  });
  const { text } = explainDestination([], { depth: 1, nextAttemptMs: null, replies: [] });
  assert.equal(text, '1 message queued.');
});

/** What operators read about the speed of a destination. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainDestination, type PublishedDestination } from './nodes.ts';

const one: PublishedDestination = {
  ...{ key: 'google', waiting: 312, connections: 5, limit: 5, messageMs: 100, messagesPerMinute: null },
  ...{
    limitReason: 'the limit of the provider google',
    pausedUntil: null,
    asked: false,
    putOff: 0,
    blockedSince: null,
    fallback: false,
  },
  replies: [{ at: 5, host: 'mx.example', reply: '250 2.0.0 OK', accepted: true }],
};

/** With the last reply that the nodes remember. */
function explain(nodes: PublishedDestination[], depth: number) {
  const replies = nodes.flatMap((node) => node.replies).sort((a, b) => b.at - a.at);
  return explainDestination(nodes, { depth, nextAttemptMs: null, replies });
}

test('connections by time is the ceiling, with who set it, what waits and the last reply', () => {
  assert.deepEqual(explain([one], 312), {
    messagesPerSecond: 50,
    text: '5 connections × 100 ms a message = 50 messages/s (the limit of the provider google). 312 messages are waiting. Last reply: 250 2.0.0 OK.',
  });
});

test('nodes add up; a rate below the ceiling counts', () => {
  const slower = { ...one, messageMs: 300, messagesPerMinute: 60, replies: [] };
  const both = explain([{ ...one, messagesPerMinute: 60 }, slower], 7);
  assert.equal(both.messagesPerSecond, 2);
  assert.match(
    both.text,
    /^10 connections × 200 ms a message = 50 messages\/s .*A rate allows 2 messages\/s\. 7 messages are waiting\./,
  );
});

test('a pause comes first, with what waits for its end', () => {
  const until = {
    pausedUntil: Date.UTC(2026, 10, 14, 14, 5),
    asked: true,
    limitReason: 'resumes after one successful probe',
  };
  const replies = [{ at: 5, host: 'mx.example', reply: '421 4.7.28 unusual rate of mail.', accepted: false }];
  assert.deepEqual(explain([{ ...one, ...until, limit: 1, replies }, one], 312), {
    messagesPerSecond: 0,
    text: 'google asked Postrider to wait until 2026-11-14T14:05:00.000Z; 312 messages are waiting. Last reply: 421 4.7.28 unusual rate of mail. 6 connections × 100 ms a message = 60 messages/s (resumes after one successful probe; the limit of the provider google).',
  });
  const { text } = explain([{ ...one, ...until, asked: false }], 1);
  assert.match(text, /^google is paused until 2026-11-14T14:05:00\.000Z; 1 message is waiting\. Last reply: /);
});

test('a destination that refuses our host says since when, and when it is tried next', () => {
  const blocked = { ...one, asked: true, blockedSince: Date.UTC(2026, 10, 14, 13, 5) };
  const tried = explain([{ ...blocked, pausedUntil: Date.UTC(2026, 10, 14, 14, 5) }], 2).text;
  const since = 'google has blocked this host since 2026-11-14T13:05:00.000Z; ';
  assert.ok(tried.startsWith(`${since}next try at 2026-11-14T14:05:00.000Z; 2 messages are waiting. `), tried);
  assert.ok(explain([blocked], 2).text.startsWith(`${since}2 messages are waiting. `));
});

test('before the first message there is no ceiling to tell', () => {
  const { messagesPerSecond, text } = explain([{ ...one, limit: 1, messageMs: null, replies: [] }], 3);
  assert.equal(messagesPerSecond, null);
  assert.match(text, /^1 connection, and no message was measured yet \(/);
});

test('mail that no node has in memory says when it is tried next, and what the last attempt got', () => {
  const replies = [{ at: 5, host: 'mx.example', reply: '451 4.3.0 try later', accepted: false }];
  assert.deepEqual(explainDestination([], { depth: 3, nextAttemptMs: Date.UTC(2026, 10, 14, 14, 5), replies }), {
    messagesPerSecond: null,
    text: '3 messages are waiting. Next attempt at 2026-11-14T14:05:00.000Z. Last reply: 451 4.3.0 try later.',
  });
  const { text } = explainDestination([], { depth: 1, nextAttemptMs: null, replies: [] });
  assert.equal(text, '1 message is waiting.');
});

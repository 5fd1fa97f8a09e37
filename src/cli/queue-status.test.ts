/** `postrider queue status` prints the figures that nodes publish, in the same order as the API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { beatOperation, type PublishedDestination } from '../nodes/nodes.ts';

const UNTIL = Date.UTC(2026, 10, 14, 14, 5);

function published(key: string, more: Partial<PublishedDestination>): PublishedDestination {
  return {
    key,
    domains: [`${key}.example`],
    waiting: 0,
    connections: 0,
    limit: 5,
    limitReason: 'the most',
    messageMs: 100,
    messagesPerMinute: null,
    pausedUntil: null,
    requested: false,
    deferred: 0,
    blockedSince: null,
    fallback: false,
    replies: [],
    ...more,
  };
}

test('paused destinations are listed first with all deferred messages, and can be filtered', async (t) => {
  const { json, run, store } = commandFolder(t);
  await json('migrate');
  const busy = Array.from({ length: 12 }, (_, index) => published(`busy${index}`, { waiting: 400 + index }));
  const google = published('google', { domains: ['gmail.com'], pausedUntil: UNTIL, requested: true, deferred: 312 });
  const state = JSON.stringify({ destinations: [...busy, google] });
  const sign = { id: 'a', host: 'h', version: '1', roles: 'delivery', state, nowMs: Date.now(), silentMs: 10_000 };
  await store(({ database }) => database.execute(beatOperation, sign));

  const all = await json('queue', 'status');
  assert.equal(all.destinations.length, 10);
  const explanation =
    'google requested a pause until 2026-11-14T14:05:00.000Z; 312 messages queued. 5 connections at 100 ms per message allow 50 messages/s (the most).';
  const pausedUntil = new Date(UNTIL).toISOString();
  assert.deepEqual(all.destinations[0], { destinationId: 'google', waiting: 312, pausedUntil, explanation });
  assert.deepEqual([all.destinations[1].destinationId, all.destinations[1].waiting], ['busy11', 411]);
  for (const asked of ['google', 'Gmail.com']) {
    const { destinations, ...figures } = await json('queue', 'status', asked);
    assert.deepEqual([destinations, figures.depth], [[all.destinations[0]], 0]);
  }
  assert.equal(
    (await json('queue', 'status', 'busy0')).destinations[0].waiting,
    400,
    'a destination outside the first page',
  );
  const text = (await run(['queue', 'status', 'google'])).stdout;
  assert.ok(text.includes(`\ngoogle\n  ${explanation}`) && !text.includes('busy'), text);
  const unknown = await run(['queue', 'status', 'other.example']);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /other\.example has no queued mail and is not paused/);
});

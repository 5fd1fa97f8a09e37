/** How many attempts an account may start with and without incoming messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACCEPTING_MS, AT_ONCE, createPace } from './pace.ts';

function startMost(pace: ReturnType<typeof createPace>, accountId: string, most: number): number {
  let started = 0;
  for (; started < most && pace.allows(accountId); started += 1) pace.started(accountId);
  return started;
}

test('during message acceptance each account starts only a few attempts at a time', async () => {
  const resumed = Promise.withResolvers<void>();
  const pace = createPace(resumed.resolve, () => 1_000);
  pace.giveWay();
  assert.equal(startMost(pace, 'acc_a', 100), AT_ONCE);
  assert.equal(startMost(pace, 'acc_b', 100), AT_ONCE, 'each account has its own');
  assert.equal(startMost(pace, 'acc_a', 100), 0);
  await resumed.promise;
  assert.equal(startMost(pace, 'acc_a', 100), AT_ONCE);
  pace.stop();
});

test('nothing is throttled without incoming messages', () => {
  let nowMs = 1_000;
  const pace = createPace(
    () => undefined,
    () => nowMs,
  );
  assert.equal(startMost(pace, 'acc_a', 100), 100);
  pace.giveWay();
  nowMs += ACCEPTING_MS + 1;
  assert.equal(startMost(pace, 'acc_a', 100), 100);
  pace.stop();
});

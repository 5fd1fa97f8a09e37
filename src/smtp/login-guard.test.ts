import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLoginGuard } from './login-guard.ts';

test('delays grow with the failures of one address, are taken in turn, and other addresses have none', () => {
  let nowMs = 0;
  const guard = createLoginGuard(() => nowMs);
  const waits: (number | undefined)[] = [];
  const closes: boolean[] = [];
  for (let i = 0; i < 12; i += 1) {
    waits.push(guard.enter('192.0.2.1'));
    nowMs += waits.at(-1) ?? 0;
    closes.push(guard.failed('192.0.2.1'));
  }
  assert.deepEqual(waits, [0, 0, 0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 8000]);
  assert.deepEqual(closes.indexOf(true), 9);
  assert.equal(guard.enter('192.0.2.2'), 0);
  // At one moment: the first waits, the second waits behind it, the third would wait too long.
  assert.deepEqual(
    [guard.enter('192.0.2.1'), guard.enter('192.0.2.1'), guard.enter('192.0.2.1')],
    [8000, 16_000, undefined],
  );
});

test('a success forgets, and so does time; who succeeded is known for a while', () => {
  let nowMs = 0;
  const guard = createLoginGuard(() => nowMs);
  for (let i = 0; i < 8; i += 1) guard.failed('192.0.2.1');
  assert.equal(guard.knows('192.0.2.1'), false);
  guard.succeeded('192.0.2.1');
  assert.equal(guard.enter('192.0.2.1'), 0);
  assert.equal(guard.knows('192.0.2.1'), true);
  for (let i = 0; i < 8; i += 1) guard.failed('192.0.2.1');
  nowMs += 600_000;
  assert.equal(guard.enter('192.0.2.1'), 0);
  assert.equal(guard.knows('192.0.2.1'), false);
});

test('many addresses cost no more than some', () => {
  const guard = createLoginGuard(() => 0);
  for (let i = 0; i < 20_000; i += 1) for (let n = 0; n < 6; n += 1) guard.failed(`a${i}`);
  assert.equal(guard.enter('a0'), 0);
  assert.equal(guard.enter('a19999'), 500);
});

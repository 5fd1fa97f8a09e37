/** Long jobs run in short slices and yield to others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SLICE_MS, timeSlice } from './time-slice.ts';

const PIECE_MS = 5;

function hold(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

async function job(name: string, pieces: number, done: string[]): Promise<void> {
  for (let i = 0; i < pieces; i += 1) {
    const wait = timeSlice();
    if (wait) await wait;
    hold(PIECE_MS);
    done.push(name);
  }
}

test('short work continues immediately', async (t) => {
  await new Promise((resolve) => setImmediate(resolve));
  // The process may be paused in between; the fake clock does not advance.
  const now = performance.now();
  const stopped = t.mock.method(performance, 'now', () => now);
  for (let i = 0; i < 100; i += 1) assert.equal(timeSlice(), undefined);
  stopped.mock.restore();
  await new Promise((resolve) => setImmediate(resolve));
});

test('concurrent long jobs block the loop no longer than one job, and alternate', async () => {
  const done: string[] = [];
  let others = 0;
  let isOver = false;
  const count = (): void => {
    others += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const names = ['a', 'b', 'c', 'd', 'e'];
  await Promise.all(names.map((name) => job(name, 8, done)));
  isOver = true;
  const turns = (names.length * 8 * PIECE_MS) / SLICE_MS;
  assert.ok(others >= turns - 1, `other work ran ${others} times in about ${turns} turns`);
  const finished = names.map((name) => done.lastIndexOf(name));
  assert.ok(Math.min(...finished) >= 12, `no job finished long before the others: ${done.join('')}`);
});

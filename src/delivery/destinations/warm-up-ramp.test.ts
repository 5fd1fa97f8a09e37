/** Compares the ramp with docs/guides/warm-up.md. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { shareOfDay, WARM_UP_DAYS } from './warm-up-ramp.ts';

test('the ramp starts at 50, never decreases, at most doubles, and ends after six weeks', () => {
  assert.deepEqual([1, 2, 3, 4, 5].map(shareOfDay), [50, 100, 200, 400, 500]);
  assert.equal(shareOfDay(0), 50, 'a future day');
  for (let day = 2; day <= WARM_UP_DAYS; day += 1) {
    const [before, now] = [shareOfDay(day - 1)!, shareOfDay(day)!];
    assert.ok(now > before && now <= 2 * before, `day ${day}`);
  }
  assert.deepEqual([WARM_UP_DAYS, WARM_UP_DAYS + 1].map(shareOfDay), [1_900_000, undefined]);
});

test('the documentation contains the ramp', () => {
  const docs = readFileSync(new URL('../../../docs/guides/warm-up.md', import.meta.url), 'utf8');
  const rows = [...docs.matchAll(/^\| (\d+(?:, \d+)*) \| ([\d,]+(?: · [\d,]+)*) \|$/gm)];
  const shown = rows.flatMap(([, days, shares]) => {
    const numbers = shares!.split(' · ').map((one) => Number(one.replaceAll(',', '')));
    return days!.split(', ').map((day, index) => [Number(day), numbers[index]]);
  });
  assert.deepEqual(
    shown,
    Array.from({ length: WARM_UP_DAYS }, (_, index) => [index + 1, shareOfDay(index + 1)]),
  );
});

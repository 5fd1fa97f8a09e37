/** A kill at a random moment, and controls of the check; kill-under-load.slow.test.ts is the long form. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { duplicateFaults, killTrial } from './kill-trial.ts';

test('a kill under load loses nothing and invents nothing', { timeout: 170_000 }, async (t) => {
  const report = await killTrial({ kills: 1, workers: 4, between: [60, 100] });
  t.diagnostic(JSON.stringify(report));
  assert.equal(report.kills, 1);
  assert.ok(report.acknowledged >= 60);
});

test('control: the duplicate check detects violations', () => {
  const copy = (at: number) => ({ headerMessageId: '<a@b>', at });
  assert.deepEqual(duplicateFaults([copy(10_000), copy(20_000)], [10_005], [20_001]), [], 'in flight at a kill');
  assert.match(duplicateFaults([copy(10_000), copy(20_000)], [], [20_001])[0]!, /no kill/);
  assert.match(duplicateFaults([copy(10_000), copy(20_000)], [15_000], [20_001])[0]!, /no kill/, 'settled long before');
  assert.match(duplicateFaults([copy(10_000), copy(20_000)], [25_000], [20_001])[0]!, /no kill/, 'a later kill');
  assert.match(duplicateFaults([copy(10_000), copy(20_000)], [11_000], [10_001])[0]!, /recorded delivery/);
  assert.match(duplicateFaults([copy(10_000), copy(20_000)], [10_005], [10_001, 20_001])[0]!, /2 Delivery/);
});

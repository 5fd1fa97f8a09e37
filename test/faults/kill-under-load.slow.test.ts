/** Twenty kills at random moments under load, checked with a ledger (see kill-trial.ts for the rules). */
import assert from 'node:assert/strict';
import test from 'node:test';
import { killTrial } from './kill-trial.ts';

test('20 kills under load lose nothing and invent nothing', { timeout: 420_000 }, async (t) => {
  const report = await killTrial({ kills: 20, workers: 8, between: [40, 250] });
  t.diagnostic(JSON.stringify(report));
  assert.equal(report.kills, 20);
  assert.ok(report.acknowledged >= 400, `too little load to be meaningful: ${report.acknowledged}`);
});

/**
 * Power cuts under load, of both kinds (see power-trial.ts for the checks); `npm run torture -- --power-cuts 300` is the long form. Needs
 * root and a loop device; cut-disk.ts documents when it may be skipped in CI.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { cannotCutPower } from '../kit/cut-disk.ts';
import { powerTrial } from './power-trial.ts';

test('six power cuts keep all acknowledged mail and an intact database', {
  skip: cannotCutPower(),
  timeout: 500_000,
}, async (t) => {
  const report = await powerTrial({
    cuts: 6,
    workers: 6,
    between: [15, 60],
    onCut: (one) => t.diagnostic(JSON.stringify(one)),
  });
  t.diagnostic(JSON.stringify(report));
  assert.deepEqual(report.cuts, { frozen: 3, running: 3 });
  assert.ok(report.accepted >= 90, `too little load to be meaningful: ${report.accepted}`);
});

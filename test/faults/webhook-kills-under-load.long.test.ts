/** Ten thousand messages, a receiver that fails three times out of ten, and fifty kills (webhook-trial.ts). */
import assert from 'node:assert/strict';
import test from 'node:test';
import { webhookTrial } from './webhook-trial.ts';

test('50 kills: every event arrives, and none is invented', { timeout: 420_000 }, async (t) => {
  const report = await webhookTrial({ messages: 10_000, kills: 50 });
  t.diagnostic(JSON.stringify(report));
  assert.ok(report.events >= 20_000);
});

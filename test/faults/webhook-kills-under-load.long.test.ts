/** Four thousand messages, a receiver that fails three times out of ten, and twenty kills (webhook-trial.ts). */
import assert from 'node:assert/strict';
import test from 'node:test';
import { webhookTrial } from './webhook-trial.ts';

test('20 kills: every event arrives, and none is invented', { timeout: 420_000 }, async (t) => {
  const report = await webhookTrial({ messages: 4_000, kills: 20 });
  t.diagnostic(JSON.stringify(report));
  assert.ok(report.events >= 8_000);
});

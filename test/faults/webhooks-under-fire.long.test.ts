/** Two hundred messages, a receiver that fails three times out of ten, one kill; the long form is webhooks-under-fire.slow.test.ts. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { webhookTrial } from './webhook-trial.ts';

test('a kill: every event arrives, none is invented', { timeout: 170_000 }, async (t) => {
  const report = await webhookTrial({ messages: 200, kills: 1 });
  t.diagnostic(JSON.stringify(report));
  assert.ok(report.events >= 400);
  assert.ok(report.failed >= 40, 'the receiver failed');
});

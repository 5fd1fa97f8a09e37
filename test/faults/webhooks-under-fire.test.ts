/** Five hundred messages, a receiver that fails three times out of ten, five kills; the long form is webhooks-under-fire.slow.test.ts. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { webhookTrial } from './webhook-trial.ts';

test('five kills: every event arrives, none is invented', { timeout: 170_000 }, async (t) => {
  const report = await webhookTrial({ messages: 500, kills: 5 });
  t.diagnostic(JSON.stringify(report));
  assert.ok(report.events >= 1_000);
  assert.ok(report.failed >= 100, 'the receiver failed');
});

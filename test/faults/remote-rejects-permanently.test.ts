import assert from 'node:assert/strict';
import { test } from 'node:test';
import { relayRig } from '../kit/relay-rig.ts';
import type { SinkStage } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

// A 5xx at the banner or to EHLO, and a policy rejection at MAIL, concern our host: see host-blocked.long.test.ts.
for (const [stage, enhancedCode] of [
  ['mail', '5.5.4'],
  ['rcpt', '5.7.0'],
  ['data', '5.7.0'],
  ['dot', '5.7.0'],
] as [SinkStage, string][]) {
  test(`a 5xx at ${stage} bounces immediately with its code and is not retried`, async (t) => {
    const { rig } = await relayRig(t, { script: { [stage]: `554 ${enhancedCode} no` } });
    const [id] = await rig.send({ to: ['a@x.example'] });
    await waitUntil('the bounce', () => rig.status(id!) === 'bounced');
    const { bounce } = rig.events(id!).at(-1)!.detail;
    assert.deepEqual([bounce!.smtpCode, bounce!.enhancedCode, bounce!.suppressed], [554, enhancedCode, false]);
    assert.deepEqual(rig.rows('SELECT * FROM work'), []);
    assert.deepEqual(rig.rows('SELECT * FROM suppression'), []);
    assert.equal(rig.attempts(id!).length, 1);
  });
}

for (const stage of ['banner', 'ehlo', 'mail', 'rcpt', 'data', 'dot'] as SinkStage[]) {
  test(`421 at ${stage} never bounces`, async (t) => {
    const { rig } = await relayRig(t, { script: { [stage]: { reply: '421 4.3.2 shutting down', drop: true } } });
    const [id] = await rig.send({ to: ['a@x.example'] });
    await waitUntil('the delay', () => rig.status(id!) === 'delayed');
    assert.equal(rig.events(id!)[1]!.detail.deliveryDelay!.smtpCode, 421);
  });
}

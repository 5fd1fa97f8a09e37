/** Bounces are counted by category and by the provider of the host that rejected the message. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { deliveryRig } from '../../../test/kit/delivery-rig.ts';
import { smtpSink } from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { createMetrics } from '../../base/metrics.ts';
import { mergeProviders } from '../destinations/providers.ts';

async function linesOf(providers: ReturnType<typeof mergeProviders>, t: test.TestContext): Promise<string[]> {
  const sink = await smtpSink({
    script: {
      rcpt: ({ line }) =>
        line.includes('full') ? '552 5.2.2 Mailbox full' : '550 5.1.1 The email account does not exist',
    },
  });
  const metrics = createMetrics();
  const rig = await deliveryRig({ relayPort: sink.port, deps: { metrics, providers } });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const ids = await rig.send({ to: ['a@x.example', 'b@x.example', 'full@x.example'] });
  await waitUntil('the bounces', () => ids.every((id) => rig.status(id) === 'bounced'));
  const name = 'postrider_messages_bounced_by_category_total';
  await waitUntil('the counters', async () => (await metrics.text()).includes('bounced_total{mode="live"} 3'));
  return (await metrics.text())
    .split('\n')
    .filter((line) => line.startsWith(name))
    .map((line) => line.slice(name.length))
    .sort();
}

test('a known provider is named', async (t) => {
  const lines = await linesOf(mergeProviders({ loopback: { match: ['127.0.0.1'] } }), t);
  assert.deepEqual(lines, [
    '{category="mailbox-full",provider="loopback"} 1',
    '{category="mailbox-not-found",provider="loopback"} 2',
  ]);
});

test('all other hosts are counted together', async (t) => {
  const lines = await linesOf(mergeProviders({}), t);
  assert.deepEqual(lines, [
    '{category="mailbox-full",provider="other"} 1',
    '{category="mailbox-not-found",provider="other"} 2',
  ]);
});

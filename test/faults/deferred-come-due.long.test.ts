/** Thousands of mails that were deferred in one moment do not all come back in one moment. Counted at the peer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { relayRig } from '../kit/relay-rig.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MAILS = 4_000;
const MINUTE = 60_000;

test('4,000 mails that were deferred together are tried again over a fifth of their delay, evenly', async (t) => {
  const { sink, rig } = await relayRig(
    t,
    { script: { rcpt: '451 4.3.0 temporary local problem' } },
    { deps: { random: Math.random } },
  );
  await Promise.all(Array.from({ length: MAILS }, (_, i) => rig.store({ to: [`${i}@d${i % 50}.example`] })));
  rig.delivery.nudge();
  const deferred = (): number =>
    rig.rows<{ n: number }>('SELECT count(*) AS n FROM work WHERE attempts = 1 AND leased = 0')[0]!.n;
  await waitUntil('all to be deferred', () => deferred() === MAILS, 120_000);
  sink.setScript({});
  const began = rig.clock.now();
  const arrivals: number[] = [];
  rig.clock.advance(0.9 * MINUTE);
  for (let second = 0; second <= 12; second += 1) {
    const dueBy = rig.clock.now();
    const due = rig.rows<{ n: number }>('SELECT count(*) AS n FROM work WHERE due <= ?', dueBy)[0]!.n;
    rig.delivery.nudge();
    const before = sink.messages.length;
    await waitUntil('what is due to arrive', () => sink.messages.length >= before + due, 60_000);
    arrivals.push(sink.messages.length - before);
    rig.clock.advance(1_000);
  }
  t.diagnostic(`arrivals each second: ${arrivals.join(' ')}`);
  await waitUntil('the last ones to arrive', () => sink.messages.length === MAILS);
  assert.ok(rig.clock.now() - began <= 1.15 * MINUTE, 'none comes later');
  const most = Math.max(...arrivals);
  assert.ok(most <= (MAILS / 12) * 1.4, `${most} of ${MAILS} came within one second`);
});

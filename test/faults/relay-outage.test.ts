import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MAILS = 1_000;

test('a backlog deferred by an outage comes due together: few dials while down, bounded connections after, no mail twice', async (t) => {
  const down = await smtpSink({ script: { banner: { reply: '421 4.3.2 down for maintenance', drop: true } } });
  const rig = await deliveryRig({ relayPort: down.port });
  t.after(async () => {
    await rig.close();
    await down.close();
  });
  await Promise.all(Array.from({ length: MAILS }, (_, i) => rig.store({ to: [`${i}@x${i % 7}.example`] })));
  rig.delivery.nudge();
  const delayed = (): number =>
    rig.rows<{ n: number }>("SELECT count(*) AS n FROM message WHERE status = 'delayed'")[0]!.n;
  await waitUntil('all to be deferred', () => delayed() === MAILS);
  assert.ok(down.connections.total < MAILS / 2, `${down.connections.total} dials for ${MAILS} mails`);
  assert.equal(rig.rows("SELECT 1 FROM event WHERE type = 'DeliveryDelay'").length, MAILS);
  down.setScript({});
  rig.clock.advance(66_000);
  await waitUntil('all to be delivered', () => rig.rows('SELECT 1 FROM work').length === 0);
  assert.ok(down.connections.peak <= 50, `${down.connections.peak} connections at once`);
  assert.equal(down.messages.length, MAILS);
  assert.equal(new Set(down.messages.map((mail) => mail.to[0])).size, MAILS);
});

test('a refusal at the door while other sessions are open lowers their number and costs no message an attempt', async (t) => {
  const sink = await smtpSink({
    script: {
      banner: () => (sink.connections.now > 3 ? { reply: '421 4.7.0 too many connections', drop: true } : undefined),
    },
  });
  const rig = await deliveryRig({ relayPort: sink.port });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const [first] = await rig.send({ to: ['first@x.example'] });
  await waitUntil('the first', () => rig.status(first!) === 'delivered');
  await Promise.all(Array.from({ length: 100 }, (_, i) => rig.send({ to: [`${i}@x.example`] })));
  await waitUntil('all to be delivered', () => rig.rows('SELECT 1 FROM work').length === 0);
  assert.equal(rig.rows("SELECT 1 FROM event WHERE type = 'DeliveryDelay'").length, 0);
});

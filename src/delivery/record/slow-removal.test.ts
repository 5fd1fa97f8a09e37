/** Slow removal of content after a message is settled: results do not wait for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deliveryRig } from '../../../test/kit/delivery-rig.ts';
import { smtpSink } from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';

test('results are recorded during slow content removal, and stopping loses none', async (t) => {
  const sink = await smtpSink();
  const rig = await deliveryRig({ relayPort: sink.port });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  let removing = 0;
  const never = new Promise<void>(() => undefined);
  const remove = (): Promise<void> => {
    removing += 1;
    return never;
  };
  await rig.restart({ blobs: { ...rig.blobs, remove } });
  const ids: string[] = [];
  for (let i = 0; i < 20; i += 1) {
    ids.push(...(await rig.send({ to: [`${i}@x.example`], retain: 'none', blob: true })));
  }
  await waitUntil('the removal to start', () => removing > 0);
  const [other] = await rig.send({ to: ['other@x.example'], accountId: 'acc_other' });
  for (const id of [...ids, other!]) await waitUntil('a delivery', () => rig.status(id) === 'delivered');
  assert.ok(removing <= 8, 'at the same time');
  await rig.delivery.stop();
});

test('an unreadable clock crashes only its own sandbox message', async (t) => {
  const sink = await smtpSink();
  const rig = await deliveryRig({ relayPort: sink.port });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  rig.tamper(
    "INSERT INTO sandbox_clock (account_id, ahead_ms, moved_by, moving_until) VALUES ('acc_far', 9e15, NULL, 0)",
  );
  const [far] = await rig.store({ to: ['a@x.example'], accountId: 'acc_far', mode: 'sandbox' });
  rig.delivery.nudge();
  const [near] = await rig.send({ to: ['b@x.example'], accountId: 'acc_near', mode: 'sandbox' });
  await waitUntil('the other', () => rig.status(near!) === 'delivered');
  await waitUntil('the crash', () => rig.rows<{ crashes: number }>('SELECT crashes FROM work')[0]?.crashes === 1);
  assert.notEqual(rig.status(far!), 'delivered');
});

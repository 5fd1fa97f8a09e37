import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MAILS = 1_000;

test('a backlog deferred by an outage: one connection while down, limited ones after, no duplicates', async (t) => {
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
  await waitUntil('all messages to be deferred', () => delayed() === MAILS);
  assert.equal(down.connections.total, 1, 'one connection decides for all');
  assert.equal(rig.rows('SELECT 1 FROM attempt').length, 1, 'queued messages count no attempt');
  assert.equal(rig.rows("SELECT 1 FROM event WHERE type = 'DeliveryDelay'").length, MAILS);
  down.setScript({});
  rig.clock.advance(66_000);
  await waitUntil('all messages to be delivered', () => rig.rows('SELECT 1 FROM work').length === 0);
  assert.ok(down.connections.peak <= 50, `${down.connections.peak} connections at once`);
  assert.equal(down.messages.length, MAILS);
  assert.equal(new Set(down.messages.map((mail) => mail.to[0])).size, MAILS);
});

test('a relay that drops connections is tried once per batch of queued or due messages', async (t) => {
  let dials = 0;
  const down = await smtpSink({
    script: {
      banner: () => {
        dials += 1;
        return { drop: true };
      },
    },
  });
  const rig = await deliveryRig({ relayPort: down.port });
  t.after(async () => {
    await rig.close();
    await down.close();
  });
  await Promise.all(Array.from({ length: MAILS }, (_, i) => rig.store({ to: [`${i}@x${i % 7}.example`] })));
  rig.delivery.nudge();
  const afterAttempt = (number: number): boolean =>
    rig.rows<{ n: number }>(`SELECT count(*) AS n FROM work WHERE leased = 0 AND attempts = ${number}`)[0]!.n === MAILS;
  await waitUntil('all messages to be deferred', () => afterAttempt(1));
  // Messages claimed in several batches are not covered by the previous connection.
  assert.ok(dials <= MAILS / 100 + 2, `${dials} connections for ${MAILS} messages`);
  dials = 0;
  rig.clock.advance(60_000);
  await waitUntil('all messages to be deferred again', () => afterAttempt(2));
  assert.ok(dials <= MAILS / 100 + 2, `${dials} connections for ${MAILS} messages`);
});

test('a rejected connection while others are open lowers their number and counts no attempt', async (t) => {
  let refused = 0;
  const sink = await smtpSink({
    script: {
      banner: () => {
        if (sink.connections.now <= 3) return undefined;
        refused += 1;
        return { reply: '421 4.7.0 too many connections', drop: true };
      },
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
  await waitUntil('all messages to be delivered', () => rig.rows('SELECT 1 FROM work').length === 0);
  assert.equal(rig.rows("SELECT 1 FROM event WHERE type = 'DeliveryDelay'").length, 0);
  assert.ok(refused <= 6, `${refused} connections were refused`);
  assert.deepEqual(rig.rows('SELECT 1 FROM attempt WHERE number > 1'), []);
});

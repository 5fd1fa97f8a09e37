import assert from 'node:assert/strict';
import { test } from 'node:test';
import { extendOperation } from '../../src/work/work.ts';
import { relayRig } from '../kit/relay-rig.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

test('451 forever: retried on schedule, one DeliveryDelay, one Bounce at expiry, then nothing', async (t) => {
  const { rig } = await relayRig(t, { script: { rcpt: '451 4.3.0 not now' } });
  const start = rig.clock.now();
  const [id] = await rig.send({ to: ['a@x.example'], lifetimeMs: 24 * HOUR });
  const expected = [1, 5, 15, 30, 60, 120, 240, 360, 360].map((minutes) => minutes * MINUTE);
  let at = start;
  for (const [index, delay] of expected.entries()) {
    await waitUntil(`attempt ${index + 1} to be recorded`, () => rig.attempts(id!).length === index + 1);
    const [work] = rig.rows<{ due: number; leased: number }>('SELECT due, leased FROM work');
    at += delay;
    assert.equal(work!.due, Math.min(at, start + 24 * HOUR), `due after attempt ${index + 1}`);
    rig.clock.set(work!.due - 1);
    rig.delivery.nudge();
    // Writes are applied in order: when this one is done, the claim of the nudge is done too.
    await rig.storage.database.execute(extendOperation, { leases: [], nowMs: 0, leaseMs: 0 });
    assert.equal(rig.attempts(id!).length, index + 1, 'nothing before its time');
    rig.clock.set(work!.due);
  }
  await waitUntil('the end of the lifetime', () => rig.attempts(id!).length === expected.length + 1);
  at = rig.rows<{ due: number }>('SELECT due FROM work')[0]?.due ?? at;
  rig.clock.set(start + 24 * HOUR);
  await waitUntil('the bounce', () => rig.status(id!) === 'bounced');
  const last = rig.attempts(id!).length;
  assert.deepEqual(
    rig.events(id!).map((event) => event.type),
    ['Send', 'DeliveryDelay', 'Bounce'],
  );
  const { bounce } = rig.events(id!)[2]!.detail;
  assert.equal(bounce!.category, 'expired');
  assert.equal(bounce!.kind, 'soft');
  assert.equal(bounce!.reply, '451 4.3.0 not now');
  assert.equal(bounce!.suppressed, false);
  rig.clock.advance(48 * HOUR);
  rig.delivery.nudge();
  assert.deepEqual(rig.rows('SELECT * FROM work'), []);
  assert.equal(rig.attempts(id!).length, last);
});

test('greylisting: 451 first, then one copy from the same sender', async (t) => {
  const { sink, rig } = await relayRig(t, { script: { rcpt: ['451 4.7.1 Greylisted, try again in 60 seconds'] } });
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the delay', () => rig.status(id!) === 'delayed');
  assert.equal(rig.events(id!)[1]!.detail.deliveryDelay!.category, 'greylisted');
  rig.clock.advance(MINUTE);
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
  assert.equal(sink.messages.length, 1);
  assert.equal(
    new Set(sink.commands.filter((line) => line.startsWith('MAIL')).map((line) => line.split(' ')[1])).size,
    1,
  );
  assert.equal(rig.events(id!)[2]!.detail.delivery!.attempts, 2);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heldDots } from '../kit/held-dots.ts';
import { relayRig } from '../kit/relay-rig.ts';
import { waitUntil } from '../kit/wait-until.ts';

const DAY = 86_400_000;

test('three days forward: leases of running attempts stay, and nothing is sent twice', async (t) => {
  const { sink, rig, release } = await heldDots(t);
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the content to be sent', () => sink.commands.includes('DATA'));
  rig.clock.advance(3 * DAY);
  rig.delivery.nudge();
  const extended = (): boolean => {
    const [work] = rig.rows<{ due: number }>('SELECT due FROM work');
    return work !== undefined && work.due > rig.clock.now();
  };
  await waitUntil('the lease to be kept', extended);
  release();
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
  assert.equal(sink.messages.length, 1);
  assert.equal(rig.events(id!).length, 2);
});

test('three days forward: an expired deferred message is tried before it expires', async (t) => {
  const { rig } = await relayRig(t, { script: { rcpt: ['451 4.3.0 not now'] } });
  const [id] = await rig.send({ to: ['a@x.example'], lifetimeMs: DAY });
  await waitUntil('the delay', () => rig.status(id!) === 'delayed');
  rig.clock.advance(3 * DAY);
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
});

test('a day back: deferred mail is retried within its interval; scheduled mail stays', async (t) => {
  const { rig } = await relayRig(t, { script: { rcpt: ['451 4.3.0 not now'] } });
  const [deferred] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the delay', () => rig.status(deferred!) === 'delayed');
  const sendAtMs = rig.clock.now() + 2 * DAY;
  const [scheduled] = await rig.store({ to: ['b@x.example'], sendAtMs });
  rig.clock.advance(-DAY);
  const due = (id: string): number =>
    rig.rows<{ due: number }>('SELECT due FROM work WHERE subject = ?', id)[0]?.due ?? 0;
  await waitUntil('the schedule to be mended', () => due(deferred!) < rig.clock.now() + 70_000);
  assert.equal(due(scheduled!), sendAtMs);
  rig.clock.advance(70_000);
  await waitUntil('the delivery', () => rig.status(deferred!) === 'delivered');
  assert.equal(rig.status(scheduled!), 'scheduled');
});

test('a row claimed again under a new fence during its attempt is the same attempt', async (t) => {
  const { sink, rig, release } = await heldDots(t);
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the content to be sent', () => sink.commands.includes('DATA'));
  rig.tamper('UPDATE work SET fence = fence + 1, leased = 0, due = 0');
  await waitUntil(
    'the row to be claimed again',
    () => rig.rows<{ fence: number }>('SELECT fence FROM work')[0]!.fence === 3,
  );
  release();
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
  assert.equal(sink.messages.length, 1);
});

test('a day back: held or crashed messages that were never tried do not wait a day either', async (t) => {
  const { rig } = await relayRig(t, {}, { idle: true });
  const [crashed] = await rig.store({ to: ['a@x.example'] });
  const [aside] = await rig.store({ to: ['b@x.example'] });
  const sendAtMs = rig.clock.now() - 2 * DAY;
  const [released] = await rig.store({ to: ['c@x.example'], sendAtMs });
  const [scheduled] = await rig.store({ to: ['d@x.example'], sendAtMs: rig.clock.now() - DAY / 2 });
  const later = rig.clock.now() + 10_000;
  rig.tamper(`UPDATE work SET due = ${later}`);
  rig.tamper('UPDATE work SET crashes = 1 WHERE subject = ?', crashed!);
  rig.tamper('UPDATE work SET held = 1 WHERE subject = ?', aside!);
  rig.clock.advance(-DAY);
  await rig.restart();
  for (const id of [crashed, aside, released]) {
    await waitUntil('a delivery', () => rig.status(id!) === 'delivered');
  }
  assert.equal(rig.status(scheduled!), 'scheduled');
  const [work] = rig.rows<{ due: number }>('SELECT due FROM work');
  assert.equal(work!.due, rig.clock.now() + DAY / 2);
});

test('a restart keeps long waits for servers that block the host, and shortens impossible ones', async (t) => {
  const { rig } = await relayRig(t, {}, { idle: true });
  const [blocked] = await rig.store({ to: ['a@x.example'] });
  const [lost] = await rig.store({ to: ['b@x.example'] });
  const dueMs = rig.clock.now() + 15 * 60_000;
  rig.tamper('UPDATE work SET attempts = 1');
  rig.tamper(`UPDATE work SET due = ${dueMs} WHERE subject = ?`, blocked!);
  rig.tamper(`UPDATE work SET due = ${dueMs + DAY} WHERE subject = ?`, lost!);
  await rig.restart();
  const due = (id: string): number => rig.rows<{ due: number }>('SELECT due FROM work WHERE subject = ?', id)[0]!.due;
  await waitUntil('the schedule to be repaired', () => due(lost!) < rig.clock.now() + 20 * 60_000);
  assert.equal(due(blocked!), dueMs);
});

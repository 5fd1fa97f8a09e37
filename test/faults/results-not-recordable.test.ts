import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Unavailable } from '../../src/base/failure.ts';
import type { Database } from '../../src/storage/database.ts';
import { relayRig } from '../kit/relay-rig.ts';
import { waitUntil } from '../kit/wait-until.ts';

/** A database with one operation that can be made to fail. */
function refusing(database: () => Database, refuse: { operation: string | undefined; error: Error }): Database {
  return {
    dialect: 'sqlite',
    execute: (op, args) => (op.name === refuse.operation ? Promise.reject(refuse.error) : database().execute(op, args)),
    state: () => database().state(),
    close: () => Promise.resolve(),
  };
}

test('while results cannot be recorded, sending stops; sent mail is recorded later, not resent', async (t) => {
  const { sink, rig } = await relayRig(t, {}, { idle: true });
  const refuse = { operation: 'delivery.settle' as string | undefined, error: new Unavailable('disk is full') };
  await rig.restart({ database: refusing(() => rig.storage.database, refuse) });
  const [first] = await rig.send({ to: ['1@x.example'] });
  await waitUntil('the pause', () => rig.delivery.state().paused);
  assert.equal(rig.delivery.hasCapacity(1, 1), false);
  const second = await rig.store({ to: ['2@x.example'] });
  rig.delivery.nudge();
  await waitUntil('a few tries to record', () => rig.delivery.state().paused && rig.delivery.state().unrecorded === 1);
  assert.equal(sink.accepted, 1);
  assert.equal(rig.status(first!), 'queued');
  refuse.operation = undefined;
  await waitUntil(
    'both to be delivered',
    () => rig.status(first!) === 'delivered' && rig.status(second[0]!) === 'delivered',
  );
  assert.equal(sink.accepted, 2);
  assert.deepEqual(
    sink.messages.map((mail) => mail.to[0]),
    ['1@x.example', '2@x.example'],
  );
});

test('a lease lost while its result could not be recorded causes no second copy', async (t) => {
  const { sink, rig } = await relayRig(t, {}, { idle: true });
  const refuse = { operation: 'delivery.settle' as string | undefined, error: new Unavailable('disk is full') };
  await rig.restart({ database: refusing(() => rig.storage.database, refuse) });
  const [id] = await rig.send({ to: ['1@x.example'] });
  await waitUntil('the pause', () => rig.delivery.state().paused);
  // Another node took the row over and returned it.
  rig.tamper('UPDATE work SET fence = fence + 5, leased = 0, due = 0');
  refuse.operation = undefined;
  await waitUntil('the delivery to be recorded', () => rig.status(id!) === 'delivered');
  assert.equal(sink.accepted, 1);
});

test('a result that our code rejects does not block others', async (t) => {
  const { rig } = await relayRig(t);
  const [bad] = await rig.store({ to: ['bad@x.example'], sendAtMs: rig.clock.now() + 1000 });
  // A status that cannot change to delivered, with a work item that contradicts it.
  rig.tamper("UPDATE message SET status = 'suppressed'");
  rig.clock.advance(1000);
  const ids = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => (await rig.send({ to: [`${i}@x.example`] }))[0]!),
  );
  for (const id of ids) await waitUntil('a delivery', () => rig.status(id) === 'delivered');
  await waitUntil(
    'the rejected one to be returned to the queue',
    () => rig.rows<{ leased: number }>('SELECT leased FROM work')[0]?.leased === 0,
  );
  assert.equal(rig.status(bad!), 'suppressed');
});

test('rows of a full lane that could not be parked are parked later and count no crash', async (t) => {
  const { sink, rig } = await relayRig(t, {}, { idle: true });
  const ids: string[] = [];
  for (let i = 0; i < 12; i += 1) ids.push(...(await rig.store({ to: [`${i}@x.example`] })));
  const refuse = { operation: 'work.putBack' as string | undefined, error: new Unavailable('disk is full') };
  let refused = 0;
  const picky = refusing(() => rig.storage.database, refuse);
  const database: Database = {
    ...picky,
    execute: (op, args) => {
      if (op.name === refuse.operation) refused += 1;
      return picky.execute(op, args);
    },
  };
  await rig.restart({ database, limits: { lane: 4 } });
  await waitUntil('several tries to park', () => refused >= 3);
  refuse.operation = undefined;
  for (const id of ids) await waitUntil('a delivery', () => rig.status(id) === 'delivered');
  assert.equal(sink.accepted, 12);
});

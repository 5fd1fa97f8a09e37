import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { heldDots } from '../kit/held-dots.ts';
import { relayRig } from '../kit/relay-rig.ts';
import { runningMs } from '../kit/running-time.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('a stop waits for the reply to a sent final dot, records it, and returns the rest untried', async (t) => {
  const { sink, rig, release } = await heldDots(t);
  const ids: string[] = [];
  for (let i = 0; i < 60; i += 1) ids.push(...(await rig.send({ to: [`${i}@x.example`] })));
  await waitUntil('some contents to be sent', () => sink.commands.filter((line) => line === 'DATA').length >= 5);
  const stopped = rig.delivery.stop();
  assert.equal(rig.delivery.hasCapacity(1, 1), false);
  release();
  await stopped;
  const sent = sink.messages.length;
  const delivered = ids.filter((id) => rig.status(id) === 'delivered');
  assert.equal(delivered.length, sent, 'every accepted copy is recorded');
  assert.ok(sent < 60, 'the stop came before all were sent');
  assert.deepEqual(rig.rows('SELECT * FROM work WHERE leased = 1 OR crashes > 0 OR attempts > 0'), []);
  await rig.restart();
  for (const id of ids) await waitUntil('a delivery after the start', () => rig.status(id) === 'delivered');
  assert.equal(sink.messages.length, 60);
});

test('a stop cuts off a peer that does not reply before the dot; the message counts as untried', async (t) => {
  const { sink, rig } = await relayRig(t, { script: { rcpt: [{ silent: true }] } }, { deps: { stopGraceMs: 100 } });
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the RCPT', () => sink.commands.some((line) => line.startsWith('RCPT')));
  await rig.delivery.stop();
  const [work] = rig.rows<{ leased: number; attempts: number; crashes: number }>(
    'SELECT leased, attempts, crashes FROM work',
  );
  assert.deepEqual({ ...work }, { leased: 0, attempts: 0, crashes: 0 });
  await rig.restart();
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
  assert.equal(sink.messages.length, 1);
  assert.equal(rig.attempts(id!).length, 1);
});

test('a stop cuts transactions before their dot early, and gives those after it all the time', async (t) => {
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const cut = Promise.withResolvers<void>();
  const sink = await smtpSink({
    script: {
      rcpt: ({ line }) => (line.includes('stuck') ? { silent: true } : undefined),
      // Answered when no client waits any more: content after a late 354 would be a message.
      data: async ({ to }) => {
        if (to[0]!.startsWith('late')) await cut.promise;
        return undefined;
      },
      dot: async () => {
        await held;
        return '250 2.0.0 ok';
      },
    },
  });
  const rig = await deliveryRig({ relayPort: sink.port });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const [slow] = await rig.send({ to: ['slow@x.example'] });
  await waitUntil('the content of the slow one', () => sink.commands.includes('DATA'));
  const [stuck] = await rig.send({ to: ['stuck@x.example'] });
  const [late] = await rig.send({ to: ['late@x.example'] });
  await waitUntil('all three', () => sink.commands.filter((line) => line.startsWith('RCPT')).length === 3);
  let stopped = false;
  const stopping = rig.delivery.stop().then(() => {
    stopped = true;
  });
  await waitUntil('two sessions to be cut', () => sink.connections.now === 1);
  assert.equal(stopped, false, 'the stop waits for the reply to the dot');
  cut.resolve();
  release();
  await stopping;
  assert.equal(rig.status(slow!), 'delivered');
  for (const id of [stuck, late]) {
    const [work] = rig.rows<{ leased: number; attempts: number }>(
      'SELECT leased, attempts FROM work WHERE subject = ?',
      id!,
    );
    assert.deepEqual({ ...work }, { leased: 0, attempts: 0 });
  }
  assert.deepEqual(
    sink.messages.map((mail) => mail.to[0]),
    ['slow@x.example'],
  );
  sink.setScript({});
  await rig.restart();
  for (const id of [stuck, late]) await waitUntil('a delivery', () => rig.status(id!) === 'delivered');
  assert.equal(sink.messages.length, 3);
});

test('a stop while a connection is being opened returns the message immediately', async (t) => {
  const { sink, rig } = await relayRig(t, { script: { banner: [{ silent: true }] } });
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the connection', () => sink.connections.total === 1);
  const start = runningMs();
  await rig.delivery.stop();
  assert.ok(runningMs() - start < 5_000);
  assert.equal(rig.rows<{ leased: number }>('SELECT leased FROM work')[0]!.leased, 0);
  await rig.restart();
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
});

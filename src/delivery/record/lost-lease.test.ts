/**
 * A worker whose lease has expired because its process was paused or lost the database, while another worker took over: it sends no final
 * dot and does not overwrite newer results. The test changes the row as the other worker would.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { deliveryRig, type Rig, type RigOptions } from '../../../test/kit/delivery-rig.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';

const THREE_LEASES_MS = 180_000;
const HEADER = 'From: orders@shop.example\r\nSubject: Hello\r\nMessage-ID: <1@shop.example>\r\n\r\n';

async function rigWithSink(
  t: TestContext,
  sinkOptions: SinkOptions,
  options: RigOptions = {},
): Promise<{ rig: Rig; sink: SmtpSink }> {
  const sink = await smtpSink(sinkOptions);
  const rig = await deliveryRig({ relayPort: sink.port, ...options });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  return { rig, sink };
}

/** Another worker claims the message, or any message, at the rig's time. */
function takeOver(rig: Rig, messageId = ''): void {
  const sql = "UPDATE work SET fence = fence + 1, leased = 1, due = ? WHERE ? IN (subject, '')";
  rig.tamper(sql, rig.clock.now() + 60_000, messageId);
}

/** The other worker returns the row, which is due now. */
function giveBack(rig: Rig): void {
  rig.tamper('UPDATE work SET leased = 0, due = ?', rig.clock.now());
}

for (const [size, content] of [
  ['small', `${HEADER}Hello\r\n`],
  ['large', `${HEADER}${`${'x'.repeat(70)}\r\n`.repeat(5_000)}`],
] as const) {
  test(`the final dot of a ${size} message is not sent after its lease ends`, async (t) => {
    let rig: Rig | undefined;
    const script: SinkOptions['script'] = {
      data: ({ occurrence }) => {
        if (occurrence > 1) return undefined;
        rig!.clock.advance(THREE_LEASES_MS);
        takeOver(rig!);
        return undefined;
      },
    };
    const made = await rigWithSink(t, { script });
    rig = made.rig;
    const [id] = await rig.send({ to: ['a@x.example'], content });
    await waitUntil('the attempt to end', () => rig!.delivery.state().window === 0);
    assert.equal(made.sink.accepted, 0, 'nothing was sent without a lease');
    assert.deepEqual([rig.status(id!), rig.attempts(id!).length], ['queued', 0], 'not counted as an attempt');
    giveBack(rig);
    await waitUntil('the message to be delivered', () => rig!.status(id!) === 'delivered');
    assert.equal(made.sink.accepted, 1);
  });
}

/** Counts lease extensions from now on. */
function countExtensions({ storage: { database } }: Rig): () => number {
  const { execute } = database;
  let count = 0;
  database.execute = async (operation, args) => {
    const answer = await execute(operation, args);
    if (operation.name === 'work.extend') count += 1;
    return answer;
  };
  return () => count;
}

test('the final dot is not sent after the lease is found lost, even before it expires', async (t) => {
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
  const script: SinkOptions['script'] = {
    data: async () => {
      await resumed;
      return undefined;
    },
  };
  const { rig, sink } = await rigWithSink(t, { script });
  await rig.send({ to: ['a@x.example'] });
  await waitUntil('the envelope to be sent', () => sink.commands.includes('DATA'));
  const extensions = countExtensions(rig);
  takeOver(rig);
  // Short enough that the lease holds, long enough that it needs an extension.
  rig.clock.advance(20_000);
  await waitUntil('the loss to be detected', () => extensions() > 0);
  resume();
  await waitUntil('the attempt to end', () => rig.delivery.state().window === 0);
  assert.equal(sink.accepted, 0);
});

test('an attempt outlives its lease while it is extended', async (t) => {
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
  const script: SinkOptions['script'] = {
    data: async () => {
      await resumed;
      return undefined;
    },
  };
  const { rig, sink } = await rigWithSink(t, { script });
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the envelope to be sent', () => sink.commands.includes('DATA'));
  const extensions = countExtensions(rig);
  for (let i = 1; i <= 4; i += 1) {
    rig.clock.advance(30_000);
    await waitUntil('the lease to be extended', () => extensions() >= i);
  }
  resume();
  await waitUntil('the message to be delivered', () => rig.status(id!) === 'delivered');
  assert.equal(sink.connections.total, 1, 'at the first attempt');
});

test('a message dispatched after its lease has ended is not sent by this worker', async (t) => {
  const { rig, sink } = await rigWithSink(t, {});
  const stands = (): void => {
    rig.clock.advance(THREE_LEASES_MS);
    takeOver(rig);
  };
  const [id] = await rig.send({ to: ['a@x.example'], beforeDispatch: stands });
  await waitUntil('the message to be dropped', () => rig.delivery.state().window === 0);
  assert.equal(sink.accepted, 0);
  giveBack(rig);
  await waitUntil('the message to be delivered', () => rig.status(id!) === 'delivered');
});

test('a message whose lease is lost while it waits is not sent, and its lane continues', async (t) => {
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
  const script: SinkOptions['script'] = {
    data: async () => {
      await resumed;
      return undefined;
    },
  };
  const { rig, sink } = await rigWithSink(t, { script }, { deps: { connectionShare: () => 0.01 } });
  const [first] = await rig.send({ to: ['1@x.example'] });
  await waitUntil('the only connection to be busy', () => sink.commands.includes('DATA'));
  const [lost] = await rig.send({ to: ['2@x.example'] });
  const extensions = countExtensions(rig);
  takeOver(rig, lost!);
  rig.clock.advance(20_000);
  await waitUntil('the loss to be detected', () => extensions() > 0);
  const [last] = await rig.send({ to: ['3@x.example'] });
  resume();
  await waitUntil('the last message to be delivered', () => rig.status(last!) === 'delivered');
  assert.deepEqual([rig.status(first!), rig.status(lost!)], ['delivered', 'queued']);
  assert.deepEqual(
    sink.messages.map((message) => message.to[0]),
    ['1@x.example', '3@x.example'],
  );
});

test('if one of two recipients in a transaction loses its lease, only the other is delivered', async (t) => {
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
  const script: SinkOptions['script'] = {
    data: async ({ occurrence }) => {
      if (occurrence === 1) await resumed;
      return undefined;
    },
  };
  const { rig, sink } = await rigWithSink(t, { script });
  const [kept, lost] = await rig.send({ to: ['1@x.example', '2@x.example'] });
  await waitUntil('the envelope to be sent', () => sink.commands.includes('DATA'));
  const extensions = countExtensions(rig);
  takeOver(rig, lost!);
  rig.clock.advance(20_000);
  await waitUntil('the loss to be detected', () => extensions() > 0);
  resume();
  await waitUntil('the other message to be delivered', () => rig.status(kept!) === 'delivered');
  assert.deepEqual([rig.status(lost!), rig.attempts(kept!).length], ['queued', 1]);
  assert.deepEqual(
    sink.messages.map((message) => message.to),
    [['1@x.example']],
  );
});

test('a failure lost with its lease is forgotten, and the message is tried again when it returns', async (t) => {
  let rig: Rig | undefined;
  const script: SinkOptions['script'] = {
    dot: ({ occurrence }) => {
      if (occurrence > 1) return undefined;
      takeOver(rig!);
      return '451 4.3.0 later';
    },
  };
  const made = await rigWithSink(t, { script });
  rig = made.rig;
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the result to be dropped', () => rig!.delivery.state().window === 0);
  giveBack(rig);
  await waitUntil('the message to be delivered', () => rig!.status(id!) === 'delivered');
  assert.deepEqual(
    rig.events(id!).map((event) => event.type),
    ['Send', 'Delivery'],
  );
});

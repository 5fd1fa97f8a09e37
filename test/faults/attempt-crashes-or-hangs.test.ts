import assert from 'node:assert/strict';
import type { KeyObject } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { Unavailable } from '../../src/base/failure.ts';
import type { SigningKeys } from '../../src/delivery/delivery.ts';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { relayRig } from '../kit/relay-rig.ts';
import { againIfPaused } from '../kit/running-time.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('a message whose attempt throws is parked after three tries with an event; others proceed', async (t) => {
  const sink = await smtpSink();
  let thrown = 0;
  // Invalid keys: signing with them throws in our own code.
  const keysFor = async (accountId: string, domain: string): Promise<SigningKeys | undefined> => {
    if (accountId !== 'acc_poison') return undefined;
    thrown += 1;
    return { domain, keys: [{ algorithm: 'rsa', selector: 's', privateKey: {} as KeyObject }] };
  };
  const rig = await deliveryRig({ relayPort: sink.port, deps: { keysFor } });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const [poison] = await rig.send({ to: ['a@x.example'], accountId: 'acc_poison' });
  for (let i = 1; i <= 3; i += 1) {
    await waitUntil(
      `crash ${i}`,
      () => rig.rows<{ crashes: number; leased: number }>('SELECT crashes, leased FROM work')[0]?.crashes === i,
    );
    const [other] = await rig.send({ to: ['b@x.example'] });
    await waitUntil('the other to be delivered', () => rig.status(other!) === 'delivered');
    rig.clock.advance(10_000);
  }
  await waitUntil('the bounce', () => rig.status(poison!) === 'bounced');
  assert.equal(thrown, 3);
  const { bounce } = rig.events(poison!)[1]!.detail;
  assert.deepEqual([bounce!.category, bounce!.owner, bounce!.suppressed], ['internal', 'service', false]);
  assert.deepEqual(rig.rows('SELECT * FROM work'), []);
});

test('unreadable DKIM keys delay the message without counting a crash', async (t) => {
  const sink = await smtpSink();
  let refusing = true;
  const keysFor = async (): Promise<undefined> => {
    if (refusing) throw new Unavailable('the reader is gone');
  };
  const rig = await deliveryRig({ relayPort: sink.port, deps: { keysFor } });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the delay', () => rig.status(id!) === 'delayed');
  assert.deepEqual(
    rig.rows<{ crashes: number }>('SELECT crashes FROM work').map((row) => row.crashes),
    [0],
  );
  refusing = false;
  rig.clock.advance(70_000);
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
});

test('rows whose lease holder died three times are parked without another attempt', async (t) => {
  const { sink, rig } = await relayRig(t);
  const [id] = await rig.store({ to: ['a@x.example'], sendAtMs: rig.clock.now() + 1000 });
  rig.tamper('UPDATE work SET crashes = 3');
  rig.clock.advance(1000);
  await waitUntil('the bounce', () => rig.status(id!) === 'bounced');
  assert.equal(sink.connections.total, 0);
});

test('suspect messages are attempted one at a time and cleared', async (t) => {
  let open = 0;
  let most = 0;
  const sink = await smtpSink({
    script: {
      dot: async () => {
        open += 1;
        most = Math.max(most, open);
        await new Promise((resolve) => setImmediate(resolve));
        open -= 1;
        return undefined;
      },
    },
  });
  const rig = await deliveryRig({ relayPort: sink.port });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const ids: string[] = [];
  for (let i = 0; i < 5; i += 1)
    ids.push(...(await rig.store({ to: [`${i}@x.example`], sendAtMs: rig.clock.now() + 1000 })));
  rig.tamper('UPDATE work SET crashes = 2');
  rig.clock.advance(1000);
  for (const id of ids) await waitUntil('a delivery', () => rig.status(id) === 'delivered');
  assert.equal(most, 1);
});

test('a suspect is attempted under a mark, and one running long without a crash frees its place', async (t) => {
  const { rig } = await relayRig(
    t,
    { script: { dot: { silent: true } } },
    { deps: { crashWatchMs: 100, stopGraceMs: 50 } },
  );
  for (let i = 0; i < 2; i += 1) await rig.store({ to: [`${i}@x.example`], sendAtMs: rig.clock.now() + 1000 });
  rig.tamper('UPDATE work SET crashes = 2');
  // Records each state in order, however short it is.
  rig.tamper('CREATE TABLE seen (leased TEXT)');
  rig.tamper(
    `CREATE TRIGGER see AFTER UPDATE OF leased ON work BEGIN
       INSERT INTO seen SELECT group_concat(leased) FROM (SELECT leased FROM work ORDER BY seq);
     END`,
  );
  rig.clock.advance(1000);
  const leased = (): string[] => rig.rows<{ leased: string }>('SELECT leased FROM seen').map((row) => row.leased);
  // Both rows are also leased while the second one is claimed and has no mark yet.
  await waitUntil('the second to be marked and cleared', () => leased().includes('1,2') && leased().at(-1) === '1,1');
  const marks = leased().filter((both) => both.includes('2'));
  assert.deepEqual([...new Set(marks)], ['2,0', '1,2'], 'the mark of the first, and the second’s when it was cleared');
  assert.deepEqual(
    rig.rows<{ crashes: number }>('SELECT crashes FROM work').map((row) => row.crashes),
    [2, 2],
  );
});

test('a recently started process attempts no suspects; other messages proceed', async (t) => {
  const { rig } = await relayRig(t, {}, { deps: { quarantineAfterMs: 60_000 } });
  const sendAtMs = rig.clock.now() + 1000;
  const [suspect] = await rig.store({ to: ['a@x.example'], sendAtMs });
  rig.tamper('UPDATE work SET crashes = 2');
  const [other] = await rig.store({ to: ['b@x.example'], sendAtMs });
  rig.clock.advance(1000);
  await waitUntil('the other', () => rig.status(other!) === 'delivered');
  assert.equal(rig.status(suspect!), 'scheduled');
});

test('an attempt that hangs in our code frees its slot at the deadline and is retried', (t) =>
  againIfPaused(() => hangOnce(t)));

async function hangOnce(t: TestContext): Promise<void> {
  const sink = await smtpSink();
  let hung = 0;
  let revive = (): void => {};
  const keysFor = (accountId: string): Promise<undefined> => {
    if (accountId !== 'acc_hang' || hung > 0) return Promise.resolve(undefined);
    hung += 1;
    return new Promise((resolve) => {
      revive = () => resolve(undefined);
    });
  };
  const rig = await deliveryRig({ relayPort: sink.port, deps: { keysFor, attemptDeadlineMs: 100 } });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const [id] = await rig.send({ to: ['a@x.example'], accountId: 'acc_hang' });
  await waitUntil('the delay', () => rig.status(id!) === 'delayed');
  assert.equal(rig.events(id!)[1]!.detail.deliveryDelay!.category, 'internal');
  revive();
  // Anything the resumed attempt still does happens before the next message is delivered.
  const [other] = await rig.send({ to: ['b@x.example'] });
  await waitUntil('another message', () => rig.status(other!) === 'delivered');
  assert.deepEqual(
    sink.messages.map((mail) => mail.to[0]),
    ['b@x.example'],
  );
  rig.clock.advance(60_000);
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
}

test('a server that never replies to the final dot is cut off at the deadline and frees the slot', async (t) => {
  const { rig } = await relayRig(t, { script: { dot: [{ silent: true }] } }, { deps: { attemptDeadlineMs: 100 } });
  const [id] = await rig.send({ to: ['a@x.example'] });
  await waitUntil('the delay', () => rig.status(id!) === 'delayed');
  await waitUntil('no attempt to run', () => rig.delivery.state().trying === 0);
});

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { deliveryRig, type Rig, type RigOptions } from '../../../test/kit/delivery-rig.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import type { KeysFor } from '../attempt/prepare.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function rigWithSink(deps: RigOptions['deps'], sinkOptions: SinkOptions = {}): Promise<[Rig, SmtpSink]> {
  const sink = await smtpSink(sinkOptions);
  const rig = await deliveryRig({ relayPort: sink.port, ...(deps && { deps }) });
  closers.push(async () => {
    await rig.close();
    await sink.close();
  });
  return [rig, sink];
}

const settled = (rig: Rig, id: string, status: string): Promise<unknown> =>
  waitUntil(`${id} to be ${status}, it is ${rig.status(id)}`, () => rig.status(id) === status);

test('removing a domain applies to the remaining recipients of an email', async () => {
  let asked = 0;
  const keysFor: KeysFor = async () => {
    asked += 1;
    return asked === 1 ? undefined : 'unverified';
  };
  const script: SinkOptions['script'] = {
    rcpt: ({ to }) => (to.length >= 1 ? '452 4.5.3 too many recipients' : undefined),
  };
  const [rig, sink] = await rigWithSink({ keysFor }, { script });
  const [first, second] = await rig.send({ to: ['1@x.example', '2@x.example'] });
  await settled(rig, first!, 'delivered');
  await settled(rig, second!, 'bounced');
  assert.equal(sink.accepted, 1);
  const { bounce } = rig.events(second!).at(-1)!.detail;
  assert.deepEqual([bounce!.category, bounce!.owner, bounce!.smtpCode], ['policy', 'sender', 550]);
  assert.deepEqual(rig.rows('SELECT email FROM suppression'), []);
});

test('an address suppressed while its message is in memory receives nothing', async () => {
  const shortestLease = (): number =>
    Math.min(...rig.rows<{ due: number }>('SELECT due FROM work').map(({ due }) => due));
  /** Waits for the leases, which expire within a minute. */
  const passMinute = async (): Promise<void> => {
    for (let part = 0; part < 3; part += 1) {
      rig.clock.advance(25_000);
      await waitUntil('the leases to be extended', () => shortestLease() > rig.clock.now() + 50_000);
    }
  };
  const script: SinkOptions['script'] = {
    async rcpt({ to }) {
      if (to.length === 0) return undefined;
      await passMinute();
      rig.tamper(`INSERT INTO suppression (account_id, mode, email, reason, created_at)
        VALUES ('acc_1', 'live', '2@x.example', 'manual', 0)`);
      return '452 4.5.3 too many recipients';
    },
  };
  const [rig, sink] = await rigWithSink({}, { script });
  const [first, second] = await rig.send({ to: ['1@x.example', '2@x.example'] });
  await settled(rig, first!, 'delivered');
  await settled(rig, second!, 'suppressed');
  assert.equal(sink.accepted, 1);
  assert.deepEqual(rig.attempts(second!), []);
  assert.equal(rig.events(second!).at(-1)!.type, 'Reject');
});

test('one claim skips any number of messages of a suspended account', async () => {
  const [rig, sink] = await rigWithSink({ pollMs: 3_600_000 });
  const account = (id: string, status: string) =>
    rig.tamper(`INSERT INTO account (id, name, plan, status, approved_email_bytes, settings, created_at)
       VALUES ('${id}', 'x', 'paid', '${status}', 2000000, '{}', 0)`);
  account('acc_suspended', 'suspended');
  account('acc_active', 'active');
  const many = Array.from({ length: 450 }, (_, index) => `${index}@y.example`);
  await rig.store({ accountId: 'acc_suspended', to: many });
  const [id] = await rig.store({ accountId: 'acc_active', to: ['a@x.example'] });
  rig.delivery.nudge();
  await settled(rig, id!, 'delivered');
  assert.equal(sink.accepted, 1);
});

test('a message in memory returns untried when its account is suspended, and bounces at expiry', async () => {
  let suspended = true;
  let asked = 0;
  const isSuspended = async (): Promise<boolean> => {
    asked += 1;
    return suspended;
  };
  const [rig, sink] = await rigWithSink({ isSuspended });
  const [id] = await rig.send({ to: ['a@x.example'], lifetimeMs: 60_000 });
  const [played] = await rig.send({ to: ['a@x.example'], mode: 'sandbox' });
  await settled(rig, played!, 'delivered');
  await waitUntil('the message to be checked again', () => asked >= 2);
  assert.deepEqual(
    rig.rows<{ attempts: number; crashes: number }>('SELECT attempts, crashes FROM work').map((row) => ({ ...row })),
    [{ attempts: 0, crashes: 0 }],
  );
  assert.deepEqual(rig.attempts(id!), []);
  suspended = false;
  await settled(rig, id!, 'delivered');
  suspended = true;
  const [late] = await rig.send({ to: ['b@x.example'], lifetimeMs: 60_000 });
  rig.clock.advance(60_000);
  await settled(rig, late!, 'bounced');
  const { bounce } = rig.events(late!).at(-1)!.detail;
  assert.deepEqual([bounce!.category, bounce!.kind, bounce!.owner], ['expired', 'soft', 'service']);
  assert.match(String(bounce!.reply), /suspended/);
  assert.equal(sink.accepted, 1);
});

test('messages are held back if the account status cannot be read', async () => {
  let asked = 0;
  const isSuspended = async (): Promise<boolean> => {
    asked += 1;
    if (asked < 3) throw new Error('the storage refuses');
    return false;
  };
  const [rig, sink] = await rigWithSink({ isSuspended });
  const [id] = await rig.send({ to: ['a@x.example'] });
  await settled(rig, id!, 'delivered');
  assert.equal(asked, 3);
  assert.equal(sink.accepted, 1);
});

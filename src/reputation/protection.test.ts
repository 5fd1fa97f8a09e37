/**
 * Sending protection on real databases, and its effect at the receiving server: which accounts are warned, whose messages are held, and how
 * they are released.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deliveryRig } from '../../test/kit/delivery-rig.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { noticeText } from '../../test/kit/notice-text.ts';
import { smtpSink } from '../../test/kit/smtp-sink.ts';
import { DIALECTS, tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { createAccount, sendingProtectionOperation, setAccountOperation } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import type { Notice } from '../base/notice.ts';
import { addStepOperation, type Step } from '../statistics/roll-up-store.ts';
import type { Database } from '../storage/database.ts';
import { startSendingProtection } from './protection.ts';
import { resumeSending } from './resume.ts';

const HOUR = 3_600_000;
const MINUTE = 60_000;
const DAY = 24 * HOUR;

/** Counters of live messages in the current hour, in the format that statistics write. */
function counter(database: Database, clock: Clock, accountId: string, mode: 'live' | 'sandbox' = 'live') {
  let seq = 0;
  return async (
    counts: Partial<Record<'delivered' | 'bouncedHard' | 'bouncedSoft' | 'bouncedBlock' | 'complained', number>>,
  ) => {
    const start = Math.floor(clock.now() / HOUR) * HOUR;
    const none = { accepted: 0, delayed: 0, suppressed: 0, opened: 0, clicked: 0, unsubscribed: 0 };
    const zeros = { delivered: 0, bouncedHard: 0, bouncedSoft: 0, bouncedBlock: 0, complained: 0 };
    const counted = { dimension: 'none', period: 'hour', start, groupValue: '', ...none, ...zeros, ...counts } as const;
    const step: Step = {
      owner: { accountId, mode },
      from: { position: 0, seq },
      to: { position: 0, seq: seq + 1 },
      events: 1,
      lastAtMs: clock.now(),
      isLast: true,
      counted: [{ ...counted, deliveryMs: new Map() }],
    };
    assert.equal(await database.execute(addStepOperation, step), true);
    seq += 1;
  };
}

async function guarded(database: Database, clock: ReturnType<typeof fakeClock>) {
  const { account } = await createAccount({ database, clock }, { name: 'One', plan: 'paid' });
  const mails: Notice[] = [];
  const rounds = [1, 2].map(() =>
    startSendingProtection({
      database,
      clock,
      log: silentLog,
      roundMs: 1e9,
      notify: async (notice) => {
        if (!mails.some(({ key }) => key === notice.key)) mails.push(notice);
      },
    }),
  );
  const status = async () => (await database.execute(sendingProtectionOperation, account.id))!.status;
  return {
    accountId: account.id,
    mails,
    status,
    count: counter(database, clock, account.id),
    stop: async () => Promise.all(rounds.map((one) => one.stop())),
    /** Runs a round on two nodes at the same time, after this time. */
    after: async (ms: number) => {
      clock.advance(ms);
      await Promise.all(rounds.map((one) => one.run()));
      return status();
    },
  };
}

for (const dialect of DIALECTS) {
  test(`${dialect}: only hard bounces cause a warning, not blocks and soft bounces`, async (t) => {
    const { database, close } = await tempDatabase(dialect);
    t.after(close);
    const { count, after, stop } = await guarded(database, fakeClock());
    t.after(stop);
    await count({ delivered: 100, bouncedBlock: 4_000, bouncedSoft: 4_000 });
    assert.equal(await after(0), 'good');
    await count({ bouncedHard: 8_000 });
    assert.equal(await after(0), 'warned');
  });

  test(`${dialect}: a hold follows a warning, lasts until released, and then counts from zero`, async (t) => {
    const { database, close } = await tempDatabase(dialect);
    t.after(close);
    const clock = fakeClock();
    const { accountId, mails, status, count, after, stop } = await guarded(database, clock);
    t.after(stop);
    await counter(database, clock, accountId, 'sandbox')({ delivered: 10, bouncedHard: 990 });
    await count({ bouncedHard: 99 });
    assert.equal(await after(0), 'good', 'one below the minimum volume, and the sandbox is excluded');
    await count({ delivered: 901 });
    assert.equal(await after(0), 'warned', '99 of 1,000');
    assert.equal(mails.length, 1);
    await count({ bouncedHard: 20 });
    assert.equal(await after(14 * MINUTE), 'warned', 'less than 15 minutes');
    assert.equal(await after(MINUTE), 'held');
    assert.equal(mails.length, 2, 'one email per decision, even with two nodes');
    assert.match(
      noticeText(mails[1]!),
      /11\.666 % of 1020 live messages hard-bounced \(warning at 5 %, hold at 10 %\)/,
    );
    assert.equal(await after(30 * DAY), 'held');
    const changes = database;
    const resumed = await resumeSending({ changes, accountId, nowMs: clock.now() });
    assert.ok(resumed.ok);
    assert.equal((await resumeSending({ changes, accountId, nowMs: clock.now() })).ok, false, 'it is no longer held');
    assert.equal(await after(0), 'good');
    await count({ delivered: 100, bouncedHard: 5 });
    await resumeSending({ changes, accountId, nowMs: clock.now() });
    assert.equal(await after(0), 'good');
    await count({ bouncedHard: 1 });
    assert.equal(await after(MINUTE), 'warned');
    assert.equal(await after(DAY), 'warned', 'the last seven days are still above the threshold');
    assert.equal(await after(8 * DAY), 'good');
    const thresholds = { bounceRate: { warning: 0, critical: 0 } };
    await database.execute(setAccountOperation, {
      id: accountId,
      plan: null,
      status: null,
      approvedEmailBytes: null,
      nowMs: Date.now(),
      thresholds,
    });
    await count({ bouncedHard: 1_000 });
    assert.equal(await after(MINUTE), 'good', 'switched off');
    await count({ bouncedSoft: 1_000, bouncedBlock: 1_000, complained: 3 });
    assert.equal(await after(0), 'warned', '3 of 3,000 complained');
    assert.equal(await status(), 'warned');
  });
}

test('held messages are accepted, not attempted, and sent after the release', async (t) => {
  const sink = await smtpSink();
  t.after(sink.close);
  const rig = await deliveryRig({ relayPort: sink.port, idle: true });
  t.after(rig.close);
  const { database } = rig.storage;
  const { account } = await createAccount({ database, clock: rig.clock }, { name: 'One', plan: 'paid' });
  rig.tamper(`UPDATE account SET protection_status = 'held', protection_since = 1 WHERE id = '${account.id}'`);
  const ids = await rig.store({ accountId: account.id, to: ['a@x.example', 'b@x.example'] });
  const [other] = await rig.store({ accountId: 'acc_other', to: ['c@x.example'] });
  const [played] = await rig.store({ accountId: account.id, to: ['d@x.example'], mode: 'sandbox' });
  await rig.restart();
  await waitUntil('the others', () => rig.status(other!) === 'delivered' && rig.status(played!) === 'delivered');
  assert.deepEqual([sink.accepted, ...ids.map(rig.status)], [1, 'queued', 'queued']);
  assert.deepEqual(rig.attempts(ids[0]!), []);
  const resumed = await resumeSending({ changes: database, accountId: account.id, nowMs: rig.clock.now() });
  assert.ok(resumed.ok);
  await waitUntil('its mail', () => ids.every((id) => rig.status(id) === 'delivered'));
  assert.equal(sink.accepted, 2, 'both in one transaction');
});

test('a hold extends the default lifetime, but not one set by the sender', async (t) => {
  const sink = await smtpSink();
  t.after(sink.close);
  const rig = await deliveryRig({ relayPort: sink.port, idle: true });
  t.after(rig.close);
  const { clock } = rig;
  const { database } = rig.storage;
  const { account } = await createAccount({ database, clock }, { name: 'One', plan: 'paid' });
  const { id: accountId } = account;
  rig.tamper(
    `UPDATE account SET protection_status = 'held', protection_since = ? WHERE id = ?`,
    clock.now(),
    accountId,
  );
  const [mail] = await rig.store({ accountId, to: ['a@x.example'] });
  const [code] = await rig.store({ accountId, to: ['b@x.example'], lifetimeMs: HOUR });
  const isSuspended = async (id: string) => (await database.execute(sendingProtectionOperation, id))?.status === 'held';
  await rig.restart({ isSuspended });
  clock.advance(4 * DAY);
  await waitUntil('the code to expire', () => rig.status(code!) === 'bounced');
  await waitUntil('the other message to stay held', () =>
    rig.rows<{ due: number }>('SELECT due FROM work').every(({ due }) => due > clock.now() + MINUTE),
  );
  assert.deepEqual([rig.status(mail!), rig.events(mail!).map(({ type }) => type)], ['queued', ['Send']]);
  assert.equal(rig.events(code!).at(-1)!.detail.bounce!.category, 'expired');
  sink.setScript({ mail: '451 4.3.0 later' });
  assert.ok((await resumeSending({ changes: database, accountId, nowMs: clock.now() })).ok);
  await waitUntil('its first attempt', () => rig.status(mail!) === 'delayed');
  sink.setScript({});
  clock.advance(2 * DAY);
  await waitUntil('its delivery', () => rig.status(mail!) === 'delivered');
  assert.equal(sink.accepted, 1);
});

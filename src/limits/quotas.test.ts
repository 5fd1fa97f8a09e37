/** Quotas on both databases: exact counts under concurrent sends, periods in UTC, separate modes, and notices at 80 and 100 percent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { acceptance, seedMail } from '../../test/kit/seed-mail.ts';
import { DIALECTS, tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount, setAccountOperation } from '../accounts/accounts.ts';
import { silentLog } from '../base/log.ts';
import type { Notice } from '../base/notice.ts';
import { removeEmailsOperation } from '../messages/messages.ts';
import { acceptOperation } from '../send/acceptance.ts';
import type { SetLimits } from './limits.ts';
import { startQuotaNotices } from './quota-notices.ts';
import { periodOf, quotaExceeded, quotaNoticesOperation, quotaUsageOperation } from './quota-store.ts';

const DAY = 86_400_000;
const NOON = Date.UTC(2026, 1, 27, 12);

test('periods are days and months in UTC', () => {
  for (const [now, day, month] of [
    ['2026-02-28T23:59:59.999Z', '2026-02-28/2026-03-01', '2026-02-01/2026-03-01'],
    ['2028-02-29T00:00:00.000Z', '2028-02-29/2028-03-01', '2028-02-01/2028-03-01'],
    ['2026-12-31T12:00:00.000Z', '2026-12-31/2027-01-01', '2026-12-01/2027-01-01'],
  ] as const) {
    const shown = (quota: 'messagesPerDay' | 'messagesPerMonth') => {
      const { startMs, endMs } = periodOf(quota, Date.parse(now));
      return [startMs, endMs].map((ms) => new Date(ms).toISOString().replace('T00:00:00.000Z', '')).join('/');
    };
    assert.deepEqual([shown('messagesPerDay'), shown('messagesPerMonth')], [day, month], now);
  }
});

async function rig(dialect: (typeof DIALECTS)[number]) {
  const temp = await tempDatabase(dialect);
  const clock = fakeClock(NOON);
  const { database } = temp;
  const { account } = await createAccount({ database, clock }, { name: 'One', plan: 'paid' });
  const accountId = account.id;
  const send = (messages: number, mode: 'live' | 'sandbox' = 'live', to = accountId) => {
    const recipients = Array.from({ length: messages }, (_, index) => `r${index}@example.com`);
    return seedMail(database, { accountId: to, mode, recipients, nowMs: clock.now() });
  };
  const set = (limits: { [N in keyof SetLimits]: number | null }) =>
    database.execute(setAccountOperation, {
      id: accountId,
      plan: null,
      status: null,
      approvedEmailBytes: null,
      limits,
      nowMs: clock.now(),
    });
  return { temp, database, clock, accountId, send, set };
}

for (const dialect of DIALECTS) {
  test(`a send above the quota stores nothing, and the next period starts at zero (${dialect})`, async () => {
    const { temp, database, clock, send, set } = await rig(dialect);
    try {
      await send(3);
      await set({ messagesPerDay: 10, messagesPerMonth: 14 });
      assert.equal((await send(6)).stored, true, '3 + 6: messages sent before the quota count');
      const refused = await send(2);
      assert.deepEqual([refused.stored, refused.recipients.length], [false, 0]);
      assert.deepEqual(refused.quota, {
        quota: 'messagesPerDay',
        most: 10,
        used: 9,
        asked: 2,
        resetsInMs: DAY / 2,
      });
      const failure = quotaExceeded(refused.quota!);
      assert.deepEqual([failure.code, failure.retryAfterSeconds], ['QUOTA_EXCEEDED', DAY / 2 / 1000]);
      assert.match(failure.message, /has 1 left, but this email needs 2\./);
      assert.match(quotaExceeded(refused.quota!, 'batch').message, /has 1 left, but this batch needs 2\./);
      assert.equal((await send(1)).stored, true, 'a send within the quota is accepted');
      assert.equal((await send(10, 'sandbox')).stored, true, 'the sandbox is counted separately');
      assert.equal((await send(1, 'sandbox')).quota?.quota, 'messagesPerDay');
      const other = await createAccount({ database, clock }, { name: 'Two', plan: 'paid' });
      assert.equal((await send(50, 'live', other.account.id)).stored, true, 'other accounts have no quota');
      clock.advance(DAY / 2);
      assert.equal((await send(4)).stored, true);
      const monthly = await send(1);
      assert.deepEqual([monthly.quota?.quota, monthly.quota?.resetsInMs], ['messagesPerMonth', DAY]);
      await set({ messagesPerMonth: null });
      assert.equal((await send(1)).stored, true, 'the day has 5 of 10');
      clock.advance(DAY);
      await set({ messagesPerMonth: 3 });
      assert.equal((await send(3)).stored, true, 'March');
      assert.equal((await send(1)).quota?.quota, 'messagesPerMonth');
    } finally {
      await temp.close();
    }
  });

  test(`a send that arrived before midnight and is stored after it counts in the new period (${dialect})`, async () => {
    const { temp, clock, send, set } = await rig(dialect);
    try {
      clock.advance(Date.UTC(2026, 2, 1) - NOON);
      await set({ messagesPerDay: 10, messagesPerMonth: 10 });
      assert.equal((await send(9)).stored, true);
      clock.advance(-100);
      assert.equal((await send(1)).stored, true, 'stored late');
      const late = await send(1);
      assert.deepEqual([late.quota?.used, late.quota?.resetsInMs], [10, 31 * DAY + 100]);
      clock.advance(100);
      assert.equal((await send(1)).quota?.used, 10);
      clock.advance(-DAY / 2);
      assert.equal((await send(10)).stored, true, 'a clock that was set back by hours starts a period');
      assert.equal((await send(1)).quota?.used, 10);
    } finally {
      await temp.close();
    }
  });

  test(`setting a quota keeps the counts of messages that no longer exist (${dialect})`, async () => {
    const { temp, database, clock, accountId, send, set } = await rig(dialect);
    const recipients = Array.from({ length: 10 }, (_, index) => `r${index}@example.com`);
    const suppressed = acceptance({ accountId, recipients, nowMs: clock.now() });
    for (const recipient of suppressed.emails[0]!.recipients) recipient.simulateSuppressed = true;
    const usage = () => database.execute(quotaUsageOperation, { accountId, nowMs: clock.now() });
    try {
      await set({ messagesPerMonth: 10 });
      await database.execute(acceptOperation, suppressed);
      const expired = { beforeMs: clock.now() + DAY, afterSeq: 0, limit: 10 };
      assert.equal((await database.execute(removeEmailsOperation, expired)).count, 1);
      await set({ messagesPerDay: 20 });
      assert.deepEqual(
        await usage(),
        { messagesPerDay: 10, messagesPerMonth: 10 },
        'also the count of the day continues',
      );
      assert.equal((await send(1)).quota?.quota, 'messagesPerMonth');
      await set({ messagesPerMonth: 5 });
      await set({ messagesPerMonth: 12 });
      assert.equal((await usage()).messagesPerMonth, 10, 'a lower quota in between changes no count');
      assert.equal((await send(3)).stored, false);
      assert.equal((await send(2)).stored, true);
    } finally {
      await temp.close();
    }
  });

  test(`the account is not notified of a quota that was removed (${dialect})`, async () => {
    const { temp, database, send, set } = await rig(dialect);
    const mails: Notice[] = [];
    const notify = async (notice: Notice) => void mails.push(notice);
    const notices = startQuotaNotices({ database, log: silentLog, notify, roundMs: 1e9 });
    const subjects = async () => {
      await notices.run();
      return mails.splice(0).map(({ subject }) => subject);
    };
    try {
      await set({ messagesPerDay: 10, messagesPerMonth: 10 });
      await send(10);
      await set({ messagesPerDay: null });
      assert.deepEqual(await subjects(), ['You have used up your messages for this month']);
      assert.deepEqual(await database.execute(quotaNoticesOperation, 10), []);
      await set({ messagesPerDay: 10 });
      assert.deepEqual(await subjects(), ['You have used up your messages for this day'], 'it is set again');
    } finally {
      await notices.stop();
      await temp.close();
    }
  });

  test(`concurrent sends never exceed the quota (${dialect})`, async () => {
    const { temp, send, set } = await rig(dialect);
    try {
      await set({ messagesPerDay: 25 });
      const answers = await Promise.all(Array.from({ length: 40 }, () => send(1)));
      assert.equal(answers.filter(({ stored }) => stored).length, 25);
    } finally {
      await temp.close();
    }
  });

  test(`the account is notified once at 80% and once at 100% (${dialect})`, async () => {
    const { temp, database, clock, accountId, send, set } = await rig(dialect);
    const mails: Notice[] = [];
    const notify = async (notice: Notice) => void mails.push(notice);
    const notices = startQuotaNotices({ database, log: silentLog, notify, roundMs: 1e9 });
    const subjects = async () => {
      await notices.run();
      return mails.splice(0).map(({ accountId: id, subject }) => [id, subject]);
    };
    const half = 'You have used 80% of your messages for this day';
    const all = 'You have used up your messages for this day';
    try {
      await set({ messagesPerDay: 10 });
      await send(7);
      assert.deepEqual(await subjects(), []);
      await send(1);
      await send(10, 'sandbox');
      assert.deepEqual(await subjects(), [[accountId, half]]);
      await send(1);
      assert.deepEqual(await subjects(), [], 'not notified again');
      assert.equal((await send(2)).stored, false);
      assert.deepEqual(await subjects(), [[accountId, all]], 'a rejected send triggers the notice');
      await send(2);
      await send(1);
      assert.deepEqual(await subjects(), []);
      await set({ messagesPerDay: 100 });
      assert.deepEqual(await subjects(), []);
      await send(70);
      assert.deepEqual(await subjects(), [[accountId, half]], 'notified again after the quota was raised');
      clock.advance(DAY);
      assert.deepEqual(await subjects(), []);
      await send(100);
      assert.deepEqual(await subjects(), [[accountId, all]], 'one notice for both levels');
    } finally {
      await notices.stop();
      await temp.close();
    }
  });
}

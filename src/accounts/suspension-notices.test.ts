/** Notices of suspensions on both databases: one per change of the status, from every way to make it, retried until it is sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { noticeText } from '../../test/kit/notice-text.ts';
import { DIALECTS, tempDatabase } from '../../test/kit/temp-database.ts';
import { silentLog } from '../base/log.ts';
import type { Notice } from '../base/notice.ts';
import { type AccountStatus, createAccount, setAccountOperation } from './accounts.ts';
import { startSuspensionNotices } from './suspension-notices.ts';

for (const dialect of DIALECTS) {
  test(`a changed status is notified once, and until it succeeds (${dialect})`, async () => {
    const temp = await tempDatabase(dialect);
    const clock = fakeClock(Date.UTC(2026, 1, 27, 12));
    const { database } = temp;
    const sent: Notice[] = [];
    const failing = new Set<string>();
    const notify = async (notice: Notice): Promise<void> => {
      if (failing.has(notice.accountId)) throw new Error('the disk is full');
      sent.push(notice);
    };
    const sender = startSuspensionNotices({ database, log: silentLog, notify, roundMs: 3_600_000 });
    try {
      const newAccount = async (name: string) =>
        (await createAccount({ database, clock }, { name, plan: 'paid' })).account.id;
      const [one, other] = [await newAccount('One'), await newAccount('Other')];
      const set = (id: string, status: AccountStatus, suspensionReason?: string) =>
        database.execute(setAccountOperation, {
          id,
          plan: null,
          status,
          approvedEmailBytes: null,
          nowMs: clock.now(),
          ...(suspensionReason !== undefined && { suspensionReason }),
        });
      await Promise.all([set(one, 'suspended', 'Unpaid invoices'), set(one, 'suspended', 'Unpaid invoices')]);
      clock.advance(1);
      await set(other, 'suspended');
      await set(one, 'suspended', 'Still unpaid');
      failing.add(one);
      await sender.run();
      assert.deepEqual(
        sent.map(({ accountId }) => accountId),
        [other],
        'a failure does not delay other accounts',
      );
      failing.clear();
      await sender.run();
      clock.advance(1);
      await set(one, 'active');
      await sender.run();
      await sender.run();
      assert.deepEqual(
        sent.map(({ accountId, subject }) => [accountId, subject]),
        [
          [other, 'Your account was suspended'],
          [one, 'Your account was suspended'],
          [one, 'Your account is active again'],
        ],
      );
      assert.match(noticeText(sent[1]!), /Reason.*Unpaid invoices/s, 'the reason at the time of the suspension');
      assert.doesNotMatch(noticeText(sent[0]!), /Reason/);
      assert.equal(new Set(sent.map(({ key }) => key)).size, 3);
    } finally {
      await sender.stop();
      await temp.close();
    }
  });
}

/** Scenario of delivery reports: which events are reported, once, to whom, and the message data in a report. */
import assert from 'node:assert/strict';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import { recordReportsOperation } from '../../src/inbound/report-store.ts';
import type { LateResult } from '../../src/messages/messages.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { claimReportsOperation, settleReportOperation } from '../../src/send/delivery-report-store.ts';
import { suppressOperation } from '../../src/suppressions/store.ts';
import { leases } from './late-reports.ts';
import { acceptance, claimRequest, settlement } from './mail.ts';
import type { Scenario } from './stage.ts';

const REPORTS: Record<string, string> = {
  ada: '{"notify":["success","failure"],"originalRecipient":"rfc822;a@b.example"}',
  bob: '{"notify":["failure"]}',
  kim: '{"notify":["delay"]}',
};

export const deliveryReports: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const to = ['ada@example.com', 'bob@example.com', 'kim@example.com', 'eve@example.com'];
  const suppress = (email: string) =>
    stage.act(suppressOperation, {
      addressHash: '',
      accountId,
      mode: 'live',
      suppression: { email, reason: 'manual', sourceMessageId: null, expiresAt: null, createdAt: stage.nowMs },
    });
  await suppress('bob@example.com');
  const mail = acceptance(stage, { accountId, to, email: { dsn: '{"envid":"e 1","ret":"full"}' } });
  for (const recipient of mail.emails[0]!.recipients) recipient.dsn = REPORTS[recipient.email.split('@')[0]!] ?? null;
  await stage.act(acceptOperation, mail);
  const [ada, bob] = mail.emails[0]!.recipients.map((one) => one.messageId) as [string, string];

  const due = async (): Promise<[messageId: string, type: string][]> => {
    const claimed = await stage.act(claimReportsOperation, claimRequest(stage));
    for (const { seq, fence } of claimed) {
      assert.equal(await stage.act(settleReportOperation, { lease: { seq, fence }, againAtMs: null }), true);
    }
    return claimed.map(({ messageId, eventType }) => [messageId, eventType]);
  };
  assert.deepEqual(await due(), [[bob, 'Reject']], 'a suppressed recipient is a failure');

  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const settlements = jobs.map((job) => settlement(stage, job));
  await stage.act(settleOperation, settlements);
  const [success] = await stage.act(claimReportsOperation, claimRequest(stage));
  assert.ok(success);
  assert.deepEqual([success.messageId, success.eventType, success.messageDsn], [ada, 'Delivery', REPORTS.ada]);
  assert.deepEqual([success.emailDsn, success.envelopeFrom], ['{"envid":"e 1","ret":"full"}', 'shop@example.org']);
  assert.deepEqual([success.recipient, success.isSenderSuppressed], ['ada@example.com', false]);
  assert.ok(success.content);
  const { seq, fence } = success;
  assert.equal(await stage.act(settleReportOperation, { lease: { seq, fence }, againAtMs: stage.nowMs }), true);
  assert.equal(await stage.act(settleReportOperation, { lease: { seq, fence: fence + 5 }, againAtMs: null }), false);
  assert.deepEqual(await due(), [[ada, 'Delivery']], 'rescheduled');
  await stage.act(settleOperation, settlements);
  assert.deepEqual(await due(), [], 'lost leases report nothing');

  await suppress('shop@example.org');
  const bounce = (): LateResult => ({
    accountId,
    messageId: ada,
    atMs: stage.nowMs + 9,
    eventId: stage.id('evt'),
    type: 'Bounce',
    detail: { bounce: { late: true } },
    suppress: null,
  });
  for (const lease of await leases(stage, 2)) {
    const { inboundId } = lease;
    await stage.act(recordReportsOperation, [{ inboundId, lease, results: [bounce()], unsubscribing: null }]);
  }
  const [late, ...others] = await stage.act(claimReportsOperation, claimRequest(stage));
  assert.deepEqual([late?.eventType, late?.isSenderSuppressed, others.length], ['Bounce', true, 0]);
};

/** The message that a delivery report returns if the stored content cannot be read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { BlobDamaged } from '../storage/blobs/blobs.ts';
import { type ClaimedReport, claimReportsOperation, settleReportOperation } from './delivery-report-store.ts';
import { type DeliveryReportDeps, startDeliveryReports } from './delivery-reports.ts';

const CLAIMED: ClaimedReport = {
  seq: 1,
  fence: 1,
  accountId: 'acc_1',
  messageId: 'msg_1',
  attempts: 0,
  eventId: 'evt_1',
  eventType: 'Bounce',
  eventAt: 2,
  detail: JSON.stringify({ bounce: { category: 'mailbox-not-found', smtpCode: 550, enhancedCode: '5.1.1' } }),
  recipient: 'ann@example.com',
  expiresAt: 3,
  messageDsn: '{}',
  emailDsn: '{"ret":"full"}',
  envelopeFrom: 'orders@shop.example',
  headerFrom: 'Shop <orders@shop.example>',
  headerTo: '{"to":["ann@example.com"],"cc":[]}',
  subject: 'Your order',
  headerMessageId: '<1@shop.example>',
  createdAt: 1,
  content: null,
  blobKey: 'damaged',
  isSenderSuppressed: false,
};

/** Runs one report with this content store; returns the report, if one was sent, and when it is tried again. */
async function reportWith(get: DeliveryReportDeps['blobs']['get']): Promise<{ report: string; againAtMs: unknown }> {
  const reports: string[] = [];
  const settled: unknown[] = [];
  let due = [CLAIMED];
  const execute = async (operation: unknown, args: { againAtMs: number | null }): Promise<unknown> => {
    if (operation === settleReportOperation) settled.push(args.againAtMs);
    if (operation !== claimReportsOperation) return undefined;
    const claimed = due;
    due = [];
    return claimed;
  };
  const rounds = startDeliveryReports({
    database: { execute, state: () => ({ state: 'ok' }) } as unknown as DeliveryReportDeps['database'],
    blobs: { get },
    clock: systemClock,
    log: silentLog,
    hostname: 'mail.example',
    relays: [],
    mail: {
      sender: undefined,
      sendDeliveryReport: async ({ report }) => {
        reports.push(report.content.toString());
      },
    },
    everyMs: 10,
  } as DeliveryReportDeps);
  try {
    await waitUntil('the report to be settled', () => settled.length > 0);
  } finally {
    await rounds.stop();
  }
  return { report: reports.join(), againAtMs: settled[0] };
}

test('a report is sent even if the content is damaged, with the recorded header', async () => {
  const { report, againAtMs } = await reportWith(() => Promise.reject(new BlobDamaged('damaged')));
  assert.match(report, /Subject: Your order/);
  assert.equal(againAtMs, null);
});

test('a report waits while the content cannot be read', async () => {
  const { report, againAtMs } = await reportWith(() => Promise.reject(new Error('the disk is slow')));
  assert.equal(report, '');
  assert.equal(typeof againAtMs, 'number');
});

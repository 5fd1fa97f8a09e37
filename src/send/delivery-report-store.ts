/** The work of delivery reports, claimed with everything a report says about its message; see src/messages/report-work.ts. */
import type { EventType } from '../events/events.ts';
import { sameAddressKey } from '../mail/address.ts';
import { REPORT_WORK } from '../messages/messages.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { suppressedUntil } from '../suppressions/suppressions.ts';
import { type ClaimLimits, claim, DEAD_LETTER_AFTER_CRASHES, finish, type Lease, reschedule } from '../work/work.ts';

export interface ClaimedReport extends Lease {
  accountId: string;
  messageId: string;
  attempts: number;
  eventId: string;
  eventType: EventType;
  /** Unix ms. */
  eventAt: number;
  /** JSON. */
  detail: string;
  recipient: string;
  expiresAt: number;
  /** JSON of MessageDsn. */
  messageDsn: string;
  /** JSON of EmailDsn. */
  emailDsn: string | null;
  envelopeFrom: string;
  headerFrom: string;
  /** JSON. */
  headerTo: string;
  subject: string;
  headerMessageId: string;
  createdAt: number;
  content: Uint8Array | null;
  blobKey: string | null;
  /** The envelope sender is on the account's suppression list: it receives no report. */
  isSenderSuppressed: boolean;
}

type Row = Omit<ClaimedReport, keyof Lease | 'accountId' | 'messageId' | 'attempts' | 'isSenderSuppressed'>;

/** Claims reports that are due. Drops rows whose message was removed, and rows that crashed the process too often. */
export const claimReportsOperation = operation(
  'send.claimDeliveryReports',
  'write',
  async (tx, limits: ClaimLimits): Promise<ClaimedReport[]> => {
    const due: ClaimedReport[] = [];
    for (const work of await claim(tx, { kind: REPORT_WORK, ...limits })) {
      const { seq, fence, account_id: accountId, subject: messageId, attempts, crashes } = work;
      const row = crashes < DEAD_LETTER_AFTER_CRASHES ? await read(tx, { accountId, messageId, ref: work.ref }) : null;
      if (!row) {
        await finish(tx, [work]);
        continue;
      }
      const sender = { accountId, mode: 'live' as const, email: sameAddressKey(row.envelopeFrom) };
      const isSenderSuppressed = (await suppressedUntil(tx, [sender]))(sender) > limits.nowMs;
      due.push({ seq, fence, accountId, messageId, attempts, ...row, isSenderSuppressed });
    }
    return due;
  },
);

async function read(
  tx: Transaction,
  { accountId, messageId, ref }: { accountId: string; messageId: string; ref: number },
): Promise<Row | undefined> {
  return tx.get<Row>(
    `SELECT v.id AS "eventId", v.type AS "eventType", v.at AS "eventAt", v.detail, m.recipient, m.expires_at AS "expiresAt",
       m.dsn AS "messageDsn", e.dsn AS "emailDsn", e.envelope_from AS "envelopeFrom", e.header_from AS "headerFrom",
       e.header_to AS "headerTo", e.subject, e.header_message_id AS "headerMessageId", e.created_at AS "createdAt",
       e.content, e.blob_key AS "blobKey"
     FROM message m JOIN email e ON e.seq = m.email_seq JOIN event v ON v.seq = ?
     WHERE m.account_id = ? AND m.mode = 'live' AND m.id = ? AND v.message_id = m.id AND m.dsn IS NOT NULL`,
    ref,
    accountId,
    messageId,
  );
}

/** Completes a report that was sent, or reschedules one that could not be sent. */
export const settleReportOperation = operation(
  'send.settleDeliveryReport',
  'write',
  async (tx, { lease, againAtMs }: { lease: Lease; againAtMs: number | null }): Promise<boolean> => {
    const kept = await (againAtMs === null
      ? finish(tx, [lease])
      : reschedule(tx, [{ ...lease, dueMs: againAtMs, tried: true }]));
    return kept.size === 1;
  },
);

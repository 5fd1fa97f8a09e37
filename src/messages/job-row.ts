/** What a claim reads of a message and its email, and the job that the delivery gets of it. */
import type { Work } from '../work/work.ts';
import type { DeliveryJob, EmailOptions, MessageStatus, Retain } from './message.ts';

export interface JobRow {
  status: MessageStatus;
  recipient: string;
  created_at: number;
  expires_at: number;
  envelope_from: string;
  header_from: string;
  header_message_id: string;
  size_bytes: number;
  options: string;
  retain: Retain;
  source: 'http' | 'smtp';
  content: Uint8Array | null;
  blob_key: string | null;
  /** Sandbox: what the account's clock is ahead of the real time. */
  ahead_ms?: number | null;
}

export function jobOf(work: Work, row: JobRow): DeliveryJob {
  return {
    seq: work.seq,
    fence: work.fence,
    attempts: work.attempts,
    crashes: work.crashes,
    lane: work.lane,
    accountId: work.account_id,
    mode: work.mode,
    messageId: work.subject,
    recipient: row.recipient,
    status: row.status,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    emailSeq: work.ref,
    envelopeFrom: row.envelope_from,
    headerFrom: row.header_from,
    headerMessageId: row.header_message_id,
    sizeBytes: row.size_bytes,
    options: JSON.parse(row.options) as EmailOptions,
    retain: row.retain,
    source: row.source,
    content: row.content,
    blobKey: row.blob_key,
    ...(row.ahead_ms ? { clockOffsetMs: row.ahead_ms } : {}),
  };
}

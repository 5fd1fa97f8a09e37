/**
 * The transaction of an accepted send: emails, messages, their events, their work, and the idempotency record, all or
 * nothing. Suppressed recipients are recognised here, inside the transaction, so that the answer and the record agree.
 */
import { loadedOnce } from '../base/loaded-once.ts';
import type { Mode } from '../base/mode.ts';
import { appendEvent } from '../events/events.ts';
import { enqueue, heldAheadOf } from '../queue/queue.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { newCopy, realNowMs, sendAnswer } from './accept-rows.ts';
import { acceptWire } from './accept-wire.ts';
import { isStillOwed } from './kept-answer.ts';
import { DELIVERY_WORK, type Retain, type Role } from './message.ts';

export interface AcceptedRecipient {
  messageId: string;
  /** Ids for the Send event and, where it comes to that, the Reject event. */
  sendEventId: string;
  rejectEventId: string;
  /** Bare address as it is delivered to and shown. */
  email: string;
  /** Lower-case key of the address for the suppression list. */
  suppressionKey: string;
  role: Role;
  lane: string;
  /** Sandbox: the outcome `suppressed` was asked for; no suppression is looked up then. */
  simulateSuppressed: boolean;
}

export interface AcceptedEmail {
  headerFrom: string;
  /** JSON of what the header shows: `{"to":[…],"cc":[…]}`. */
  headerTo: string;
  envelopeFrom: string;
  subject: string;
  headerMessageId: string;
  tags: string;
  metadata: string;
  /** JSON of EmailOptions. */
  options: string;
  templateId: string | null;
  templateVersion: number | null;
  sizeBytes: number;
  content: Uint8Array | null;
  blobKey: string | null;
  recipients: AcceptedRecipient[];
}

export interface IdempotencyRecord {
  endpoint: string;
  key: string;
  bodyHash: Uint8Array;
  status: number;
  expiresAtMs: number;
}

export interface Acceptance {
  accountId: string;
  mode: Mode;
  source: 'http' | 'smtp';
  /** With sendAtMs and expiresAtMs by the clock of the account's mode. */
  nowMs: number;
  /** Sandbox: by how much that clock was ahead of the real time when it was read; 0 unless given. */
  aheadMs?: number;
  /** Emails that differ per recipient (unsubscribe links) are several; otherwise there is one. */
  emails: AcceptedEmail[];
  retain: Retain;
  /** Real time. */
  contentUntilMs: number;
  sendAtMs: number | null;
  expiresAtMs: number;
  /** The sender as the answer repeats it. */
  from: string;
  idempotency: IdempotencyRecord | null;
  /** Lease for work that the caller's own delivery takes at once; null leaves it to the claims. */
  leaseUntilMs: number | null;
}

export interface RecipientAnswer {
  email: string;
  role: Role;
  status: 'queued' | 'scheduled' | 'suppressed';
  messageId: string;
}

export interface AcceptanceResult {
  /** False: a record with this key exists; nothing was stored. */
  stored: boolean;
  /** The whole answer body as text. */
  answer: string;
  recipients: RecipientAnswer[];
  /** Work rows that were leased to the caller, by message id. */
  leased: { messageId: string; seq: number; emailSeq: number }[];
  /** Blobs of emails that were settled at once and whose content is not to be kept: nothing names them. */
  unkeptBlobKeys: string[];
}

const onPostgres = loadedOnce(() => import('./accept-postgres.ts'));

export const acceptOperation = operation(
  'messages.accept',
  'write',
  async (tx, acceptance: Acceptance): Promise<AcceptanceResult> => {
    const recipients: RecipientAnswer[] = [];
    const leased: AcceptanceResult['leased'] = [];
    const unkeptBlobKeys: string[] = [];
    if (acceptance.idempotency && (await recordExists(tx, acceptance, acceptance.idempotency))) {
      return { stored: false, answer: '', recipients, leased, unkeptBlobKeys };
    }
    let firstEmailSeq: number | null = null;
    const aheadMs = acceptance.mode === 'live' ? 0 : await heldAheadOf(tx, acceptance);
    for (const email of acceptance.emails) {
      const suppressed = await suppressedOf(tx, acceptance, email.recipients);
      const isKept = acceptance.retain !== 'none' || suppressed.size < email.recipients.length;
      if (!isKept && email.blobKey !== null) unkeptBlobKeys.push(email.blobKey);
      const emailSeq = await insertEmail(tx, acceptance, { email, isKept });
      firstEmailSeq ??= emailSeq;
      for (const recipient of email.recipients) {
        const isSuppressed = suppressed.has(recipient);
        const status = await insertMessage(tx, { acceptance, aheadMs, emailSeq, recipient, isSuppressed, leased });
        recipients.push({ email: recipient.email, role: recipient.role, status, messageId: recipient.messageId });
      }
    }
    const answer = sendAnswer(acceptance.from, recipients);
    if (acceptance.idempotency)
      await insertRecord(tx, acceptance, { ...acceptance.idempotency, answer, firstEmailSeq });
    return { stored: true, answer, recipients, leased, unkeptBlobKeys };
  },
  {
    wire: acceptWire,
    together: async (tx, calls) => (await onPostgres()).acceptTogether(tx, calls),
  },
);

/** Content that is not kept is not written at all: every copy is settled, and nobody asked to see it later. */
function insertEmail(
  tx: Transaction,
  acceptance: Acceptance,
  { email, isKept }: { email: AcceptedEmail; isKept: boolean },
): Promise<number> | number {
  return tx.insert(
    `INSERT INTO email (account_id, mode, source, header_from, header_to, envelope_from, subject, header_message_id,
       tags, metadata, options, template_id, template_version, size_bytes, content, blob_key, created_at, retain,
       content_until)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    acceptance.accountId,
    acceptance.mode,
    acceptance.source,
    email.headerFrom,
    email.headerTo,
    email.envelopeFrom,
    email.subject,
    email.headerMessageId,
    email.tags,
    email.metadata,
    email.options,
    email.templateId,
    email.templateVersion,
    email.sizeBytes,
    isKept ? email.content : null,
    isKept ? email.blobKey : null,
    realNowMs(acceptance),
    acceptance.retain,
    isKept ? acceptance.contentUntilMs : null,
  );
}

interface MessageInsert {
  acceptance: Acceptance;
  /** What the clock of the mode is ahead of the real time now. */
  aheadMs: number;
  emailSeq: number;
  recipient: AcceptedRecipient;
  isSuppressed: boolean;
  leased: AcceptanceResult['leased'];
}

async function insertMessage(tx: Transaction, insert: MessageInsert): Promise<RecipientAnswer['status']> {
  const { acceptance, emailSeq, recipient, isSuppressed } = insert;
  const { accountId, mode, nowMs } = acceptance;
  const { status, dueMs, leaseMs, events } = newCopy(acceptance, recipient, isSuppressed);
  let workSeq: number | null = null;
  if (dueMs !== null) {
    workSeq = await enqueue(tx, {
      kind: DELIVERY_WORK,
      accountId,
      mode,
      subject: recipient.messageId,
      ref: emailSeq,
      lane: recipient.lane,
      dueMs: dueMs - insert.aheadMs,
      leaseMs,
    });
    if (leaseMs !== null) insert.leased.push({ messageId: recipient.messageId, seq: workSeq, emailSeq });
  }
  await tx.run(
    `INSERT INTO message (account_id, mode, id, email_seq, recipient, role, status, attempts, work_seq, send_at,
       next_attempt_at, expires_at, created_at, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)`,
    accountId,
    mode,
    recipient.messageId,
    emailSeq,
    recipient.email,
    recipient.role,
    status,
    workSeq,
    acceptance.sendAtMs,
    dueMs,
    acceptance.expiresAtMs,
    nowMs,
    nowMs,
  );
  for (const event of events) await appendEvent(tx, event);
  if (mode === 'sandbox') await insertSandboxItem(tx, insert, isSuppressed ? 'Suppressed' : null);
  return status;
}

async function insertSandboxItem(tx: Transaction, insert: MessageInsert, outcome: string | null): Promise<void> {
  await tx.run(
    `INSERT INTO sandbox_item (account_id, message_id, email_seq, recipient, outcome, created_at)
     VALUES (?, ?, ?, ?, ?, ?)`,
    insert.acceptance.accountId,
    insert.recipient.messageId,
    insert.emailSeq,
    insert.recipient.email,
    outcome,
    insert.acceptance.nowMs,
  );
}

async function suppressedOf(
  tx: Transaction,
  acceptance: Acceptance,
  recipients: readonly AcceptedRecipient[],
): Promise<ReadonlySet<AcceptedRecipient>> {
  const found = new Set<AcceptedRecipient>();
  for (const recipient of recipients) {
    if (recipient.simulateSuppressed || (await isSuppressed(tx, acceptance, recipient.suppressionKey))) {
      found.add(recipient);
    }
  }
  return found;
}

async function isSuppressed(tx: Transaction, acceptance: Acceptance, key: string): Promise<boolean> {
  const row = await tx.get(
    `SELECT 1 AS found FROM suppression WHERE account_id = ? AND mode = ? AND email = ?
       AND (expires_at IS NULL OR expires_at > ?)`,
    acceptance.accountId,
    acceptance.mode,
    key,
    realNowMs(acceptance),
  );
  return row !== undefined;
}

/** A record past its time no longer counts once its messages are settled; it makes way for the new one then. */
async function recordExists(tx: Transaction, acceptance: Acceptance, record: IdempotencyRecord): Promise<boolean> {
  const place = [acceptance.accountId, acceptance.mode, record.endpoint, record.key];
  const row = await tx.get<{ body: string; expires_at: number }>(
    'SELECT body, expires_at FROM idempotency WHERE account_id = ? AND mode = ? AND endpoint = ? AND key = ?',
    ...place,
  );
  if (row === undefined) return false;
  if (
    row.expires_at > realNowMs(acceptance) ||
    (await isStillOwed(tx, { accountId: acceptance.accountId, mode: acceptance.mode, body: row.body }))
  )
    return true;
  await tx.run('DELETE FROM idempotency WHERE account_id = ? AND mode = ? AND endpoint = ? AND key = ?', ...place);
  return false;
}

async function insertRecord(
  tx: Transaction,
  acceptance: Acceptance,
  record: IdempotencyRecord & { answer: string; firstEmailSeq: number | null },
): Promise<void> {
  await tx.run(
    `INSERT INTO idempotency (account_id, mode, endpoint, key, body_hash, status, body, email_seq, created_at, expires_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    acceptance.accountId,
    acceptance.mode,
    record.endpoint,
    record.key,
    record.bodyHash,
    record.status,
    record.answer,
    record.firstEmailSeq,
    realNowMs(acceptance),
    record.expiresAtMs,
  );
}

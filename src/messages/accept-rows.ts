/**
 * The rows that an acceptance becomes: what each copy is at first, when it is due, what its timeline begins with; and the answer
 * to its sender. The same on every database.
 */
import type { NewEvent } from '../events/events.ts';
import type { NewWork } from '../work/work.ts';
import type {
  Acceptance,
  AcceptanceResult,
  AcceptedEmail,
  AcceptedRecipient,
  RecipientAnswer,
} from './accept-store.ts';
import { DELIVERY_WORK, SIMULATED_SUPPRESSED, SUPPRESSED } from './message.ts';

/** When it was accepted; the sandbox of an account may have another time. */
export function realNowMs({ nowMs, clockOffsetMs = 0 }: Acceptance): number {
  return nowMs - clockOffsetMs;
}

export interface NewCopy {
  status: RecipientAnswer['status'];
  /** Unix ms, by the clock of the mode, at which it is due; null when it never leaves. */
  dueMs: number | null;
  /** Length of the lease that the caller gets with it; null when it gets none. */
  leaseMs: number | null;
  events: NewEvent[];
}

export function newCopy(acceptance: Acceptance, recipient: AcceptedRecipient, isSuppressed: boolean): NewCopy {
  const { accountId, mode, nowMs, sendAtMs, leaseUntilMs } = acceptance;
  const event = { accountId, mode, messageId: recipient.messageId, at: nowMs };
  const events: NewEvent[] = [{ ...event, id: recipient.sendEventId, type: 'Send', detail: {} }];
  if (isSuppressed) {
    const detail = recipient.simulateSuppressed ? SIMULATED_SUPPRESSED : SUPPRESSED;
    events.push({ ...event, id: recipient.rejectEventId, type: 'Reject', at: nowMs + 1, detail });
    return { status: 'suppressed', dueMs: null, leaseMs: null, events };
  }
  if (sendAtMs !== null) return { status: 'scheduled', dueMs: sendAtMs, leaseMs: null, events };
  return { status: 'queued', dueMs: nowMs, leaseMs: leaseUntilMs === null ? null : leaseUntilMs - nowMs, events };
}

/** The answer of POST /send (contract: section 3). Recipients keep the order to, cc, bcc in which they are given. */
export function sendAnswer(from: string, recipients: RecipientAnswer[]): string {
  const status =
    (['queued', 'scheduled'] as const).find((one) => recipients.some((recipient) => recipient.status === one)) ??
    'suppressed';
  return JSON.stringify({
    success: true,
    data: {
      message: status,
      messageId: recipients[0]?.messageId,
      from,
      status,
      totalRecipients: recipients.length,
      recipients,
    },
  });
}

export interface EmailInsert {
  acceptance: Acceptance;
  email: AcceptedEmail;
  seq: number;
  isKept: boolean;
}

export interface CopyInsert {
  acceptance: Acceptance;
  recipient: AcceptedRecipient;
  emailSeq: number;
  workSeq: number | null;
  status: RecipientAnswer['status'];
  dueMs: number | null;
}

export interface RecordInsert {
  acceptance: Acceptance;
  emailSeq: number;
  answer: string;
}

/** Everything that one group of acceptances writes. */
export interface Rows {
  emails: EmailInsert[];
  copies: CopyInsert[];
  work: NewWork[];
  workSeqs: number[];
  events: NewEvent[];
  records: RecordInsert[];
}

export function noRows(): Rows {
  return { emails: [], copies: [], work: [], workSeqs: [], events: [], records: [] };
}

/** The key of an acceptance as one text; undefined when it has none. */
export function recordKey({ accountId, mode, idempotency }: Acceptance): string | undefined {
  return idempotency ? JSON.stringify([accountId, mode, idempotency.endpoint, idempotency.key]) : undefined;
}

/** Its key has an answer already. */
export function notStored(): AcceptanceResult {
  return { stored: false, answer: '', recipients: [], leased: [], unkeptBlobKeys: [] };
}

export interface Making {
  rows: Rows;
  /** Numbers that nobody else gets. */
  nextEmailSeq(): number;
  nextWorkSeq(): number;
  /** Until when the address is suppressed, in Unix ms; 0 when it is not, infinite when for good. */
  suppressedUntilMs(call: Acceptance, suppressionKey: string): number;
  /** What the clock of the mode is ahead of the real time now. */
  clockOffsetMs: number;
}

/** Adds the rows of an acceptance that is stored. */
export function makeRows(call: Acceptance, making: Making): AcceptanceResult {
  const { rows } = making;
  const result: AcceptanceResult = { stored: true, answer: '', recipients: [], leased: [], unkeptBlobKeys: [] };
  let firstEmailSeq: number | undefined;
  for (const email of call.emails) {
    const seq = making.nextEmailSeq();
    firstEmailSeq ??= seq;
    let isKept = call.retain !== 'none';
    for (const recipient of email.recipients) {
      const isSuppressed =
        recipient.simulateSuppressed || making.suppressedUntilMs(call, recipient.suppressionKey) > realNowMs(call);
      if (!isSuppressed) isKept = true;
      addCopy({ call, recipient, emailSeq: seq, isSuppressed }, making, result);
    }
    // Content that is not kept is not written at all: every copy is settled, and nobody asked to see it later.
    if (!isKept && email.blobKey !== null) result.unkeptBlobKeys.push(email.blobKey);
    rows.emails.push({ acceptance: call, email, seq, isKept });
  }
  result.answer = sendAnswer(call.from, result.recipients);
  if (call.idempotency) rows.records.push({ acceptance: call, emailSeq: firstEmailSeq!, answer: result.answer });
  return result;
}

interface NewMessage {
  call: Acceptance;
  recipient: AcceptedRecipient;
  emailSeq: number;
  isSuppressed: boolean;
}

function addCopy(
  { call, recipient, emailSeq, isSuppressed }: NewMessage,
  making: Making,
  result: AcceptanceResult,
): void {
  const { rows } = making;
  const { accountId, mode } = call;
  const { messageId, lane } = recipient;
  const { status, dueMs, leaseMs, events } = newCopy(call, recipient, isSuppressed);
  const workSeq = dueMs === null ? null : making.nextWorkSeq();
  rows.copies.push({ acceptance: call, recipient, emailSeq, workSeq, status, dueMs });
  rows.events.push(...events);
  result.recipients.push({ email: recipient.email, role: recipient.role, status, messageId });
  if (workSeq === null) return;
  const kind = DELIVERY_WORK;
  rows.work.push({
    kind,
    accountId,
    mode,
    subject: messageId,
    ref: emailSeq,
    lane,
    dueMs: dueMs! - making.clockOffsetMs,
    leaseMs,
  });
  rows.workSeqs.push(workSeq);
  if (leaseMs !== null) result.leased.push({ messageId, seq: workSeq, emailSeq });
}

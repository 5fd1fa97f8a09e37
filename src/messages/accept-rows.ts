/**
 * What an accepted copy is at first: its state, when it is due, what its timeline begins with; and the answer to its sender.
 * The same on every database.
 */
import type { NewEvent } from '../events/events.ts';
import type { Acceptance, AcceptedRecipient, RecipientAnswer } from './accept-store.ts';
import { SIMULATED_SUPPRESSED, SUPPRESSED } from './message.ts';

/** When it was accepted; the sandbox of an account may have another time. */
export function realNowMs({ nowMs, aheadMs = 0 }: Acceptance): number {
  return nowMs - aheadMs;
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

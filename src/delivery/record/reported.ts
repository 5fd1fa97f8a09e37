/**
 * Handles a bounce or a complaint that arrives after a message was delivered: the event and the suppression that the late settling writes.
 * reported-outcome.ts classifies the text of a bounce.
 */
import { newId } from '../../base/ids.ts';
import { sameAddressKey } from '../../mail/address.ts';
import type { ReportedRecipient } from '../../mail/report/report.ts';
import type { LateResult, SentCopy } from '../../messages/messages.ts';
import { reportedOutcome } from '../outcome/reported-outcome.ts';
import { failureDetail } from './results.ts';

const DAY_MS = 86_400_000;

/** Returns the late result for the copy that a report of a bounce or delay is about. */
export function lateFailure(copy: SentCopy, reported: ReportedRecipient, nowMs: number): LateResult {
  const outcome = reportedOutcome(reported);
  const isFinal = reported.action === 'failed';
  const detail = { ...failureDetail(outcome, { host: reported.remoteHost }), late: true };
  const days = outcome.suppressDays;
  return {
    ...lateOf(copy, nowMs),
    ...(isFinal ? ({ type: 'Bounce', detail: { bounce: detail } } as const) : lateDelay(detail)),
    suppress: outcome.suppress
      ? {
          email: sameAddressKey(copy.recipient),
          reason: 'bounce',
          untilMs: days === undefined ? null : nowMs + days * DAY_MS,
        }
      : null,
  };
}

const lateDelay = (deliveryDelay: Record<string, unknown>) =>
  ({ type: 'DeliveryDelay', detail: { deliveryDelay } }) as const;

const lateOf = ({ accountId, messageId }: SentCopy, nowMs: number) => ({
  accountId,
  messageId,
  atMs: nowMs,
  eventId: newId('evt', nowMs),
});

const NAMED_ADVICE = 'The recipient reported this message as spam; stop sending to this address.';
const UNNAMED_ADVICE =
  'A recipient reported this message as spam. The report does not identify the recipient, so no address was suppressed.';

export interface Complained {
  feedbackType: string;
  /** The server that reported it. */
  remoteHost: string | null;
  /** If the report does not identify the recipient, the message may have had only this one. */
  recipientIs: 'named' | 'the-only-one' | 'one-of-several';
}

export function lateComplaint(copy: SentCopy, complained: Complained, nowMs: number): LateResult {
  const { feedbackType, remoteHost, recipientIs } = complained;
  const suppressed = recipientIs === 'named';
  const advice = suppressed ? NAMED_ADVICE : UNNAMED_ADVICE;
  return {
    ...lateOf(copy, nowMs),
    type: 'Complaint',
    detail: { complaint: { feedbackType, remoteHost, owner: 'recipient', advice, suppressed } },
    ...(recipientIs === 'one-of-several' && { eventOnly: true }),
    suppress: suppressed ? { email: sameAddressKey(copy.recipient), reason: 'complaint', untilMs: null } : null,
  };
}

/**
 * Determines which sent copies a report is about, and the results for them. Changes nothing. A report is trusted only as far as it proves
 * that its author received the message:
 *
 * - A bounce is sent to the return path of the copies that it may be about; its original or final recipients select among them. If there is
 *   only one copy, a missing or rewritten recipient refers to it, unless the report contradicts other facts about the copy. A rewritten
 *   recipient counts only if the report quotes the Message-ID of the email, or is machine-readable and quotes none. This is as safe as a
 *   name: anyone with the token has a copy of the email and knows its recipient.
 * - A complaint is about the copy whose token it is addressed to or quotes (return path, CFBL-Address, List-Unsubscribe), which only a
 *   recipient of that copy knows. All recipients of an email know its Message-ID, so with it alone a named recipient is trusted only if the
 *   email had no other. Otherwise the complaint becomes one event of the email and suppresses no address.
 *
 * Other reports have no effect, and are counted by kind.
 */
import type { InboundResult } from '../base/metrics.ts';
import { inTimeSlice } from '../base/time-slice.ts';
import { lateComplaint, lateFailure } from '../delivery/delivery.ts';
import { sameAddressKey } from '../mail/address.ts';
import { feedbackId } from '../mail/compose/header.ts';
import type { Report, ReportedRecipient } from '../mail/report/report.ts';
import type { LateResult, SentCopy } from '../messages/messages.ts';

type Bounce = Report & { kind: 'bounce' };
type Complaint = Report & { kind: 'complaint' };

/** The results to record, and the kind of the other recipients. */
export interface ReportResults {
  results: LateResult[];
  ignored: InboundResult[];
  /** A copy in the report is being sent right now; the result of that attempt is needed first. */
  isTooEarly: boolean;
}

const NOTHING: ReportResults = { results: [], ignored: [], isTooEarly: false };
const ignored = (...what: InboundResult[]): ReportResults => ({ ...NOTHING, ignored: what });

/** `copies`: those identified by the token of the return path. */
export async function resultsOfBounce(
  report: Bounce,
  copies: readonly SentCopy[],
  nowMs: number,
): Promise<ReportResults> {
  if (copies.length === 0) return ignored('unknown-mail');
  const found: ReportResults = { results: [], ignored: [], isTooEarly: false };
  const byAddress = copiesByAddress(copies);
  const isNamed = report.recipients.some((recipient) => namedCopy(recipient, byAddress));
  const only = copies.length === 1 && !isNamed ? copies[0] : undefined;
  const isRewrittenToo = only !== undefined && provesRewritten(report, only);
  const done = new Set<string>();
  for (const recipient of report.recipients) {
    if (recipient.action !== 'failed' && recipient.action !== 'delayed') {
      found.ignored.push('no-failure');
      continue;
    }
    const copy = namedCopy(recipient, byAddress) ?? (isRewrittenToo || hasNoAddress(recipient) ? only : undefined);
    const once = `${recipient.action} ${copy?.messageId}`;
    if (!copy) found.ignored.push('other-recipient');
    else if (copy.isBeingSent) found.isTooEarly = true;
    else if (done.has(once)) found.ignored.push('repeated');
    else found.results.push(await inTimeSlice(() => lateFailure(copy, recipient, nowMs)));
    done.add(once);
  }
  return report.recipients.length === 0 ? ignored('other-recipient') : found;
}

const isMessageId = ({ mail }: Bounce | Complaint, copy: SentCopy): boolean => mail.messageId === copy.headerMessageId;

/** Maps normalized addresses to the copy of the newest email; copies that were sent take precedence. */
function copiesByAddress(copies: readonly SentCopy[]): Map<string, SentCopy> {
  const byAddress = new Map<string, SentCopy>();
  for (const copy of copies) {
    const key = sameAddressKey(copy.recipient);
    const known = byAddress.get(key);
    if (known === undefined || (LEFT.has(copy.status) && !LEFT.has(known.status))) byAddress.set(key, copy);
  }
  return byAddress;
}

const hasNoAddress = (recipient: ReportedRecipient): boolean =>
  recipient.originalRecipient === null && recipient.finalRecipient === null;

function namedCopy(
  { originalRecipient, finalRecipient }: ReportedRecipient,
  byAddress: ReadonlyMap<string, SentCopy>,
): SentCopy | undefined {
  for (const address of [originalRecipient, finalRecipient]) {
    const copy = address === null ? undefined : byAddress.get(sameAddressKey(address));
    if (copy) return copy;
  }
  return undefined;
}

/**
 * Returns whether a recipient with another address can be that of the only copy. Free text can mention any address before the recipient's,
 * so a text that also contains the recipient's address is about the recipient.
 */
function provesRewritten(report: Bounce, only: SentCopy): boolean {
  const key = sameAddressKey(only.recipient);
  if (report.mentioned.some((address) => sameAddressKey(address) === key)) return true;
  return report.mail.messageId === null ? report.isForMachines : isMessageId(report, only);
}

const LEFT: ReadonlySet<SentCopy['status']> = new Set(['delivered', 'bounced', 'complained']);

/** Proof of the copies that a complaint is about: a token of one copy, a token of all copies in a transaction, or only the Message-ID. */
export type ComplaintProof = 'copy' | 'transaction' | 'message-id';

export interface ComplaintContext {
  /** The copies in the transactions of the token, or those with the Message-ID in the report. */
  copies: readonly SentCopy[];
  proof: ComplaintProof;
  /** Name that the reporting server gives itself. */
  reporter: string | null;
  nowMs: number;
}

export function resultsOfComplaint(report: Complaint, context: ComplaintContext): ReportResults {
  const { proof, reporter, nowMs } = context;
  const copies = ofOneAccount(report, context.copies);
  if (copies.length === 0) return ignored(context.copies.length > 0 ? 'unproven' : 'unknown-mail');
  const facts = { feedbackType: report.feedbackType, remoteHost: reporter };
  const byAddress = copiesByAddress(copies);
  const isTrusted = proof !== 'message-id' || byAddress.size === 1;
  const recipients = isTrusted ? report.recipients : [];
  const named = new Set(recipients.flatMap((address) => byAddress.get(sameAddressKey(address)) ?? []));
  if (named.size === 0 && proof === 'copy') named.add(copies[0]!);
  const results = [...named].map(
    (copy) => [copy, lateComplaint(copy, { ...facts, recipientIs: 'named' }, nowMs)] as const,
  );
  if (named.size === 0) {
    // One copy of the newest email represents all, so that a repeated report finds its event there.
    const [copy] = copies as [SentCopy];
    const recipientIs = copies.length === 1 ? 'the-only-one' : 'one-of-several';
    results.push([copy, lateComplaint(copy, { ...facts, recipientIs }, nowMs)]);
  }
  const isTooEarly = results.some(([copy]) => copy.isBeingSent);
  return { results: results.flatMap(([copy, one]) => (copy.isBeingSent ? [] : [one])), ignored: [], isTooEarly };
}

/**
 * Emails submitted over SMTP have their own Message-ID, which two accounts may have used; Postrider's Feedback-ID identifies the account.
 */
function ofOneAccount({ mail }: Complaint, copies: readonly SentCopy[]): readonly SentCopy[] {
  const accounts = new Set(copies.map((copy) => copy.accountId));
  if (accounts.size <= 1) return copies;
  const hash = mail.feedbackId?.split(':')[1];
  return copies.filter(({ accountId }) => feedbackId(accountId).split(':')[1] === hash);
}

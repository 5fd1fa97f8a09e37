/**
 * Which copies of our mail a report is about, and what it makes of them. Changes nothing. A report is believed as far as it shows that its
 * author has the mail:
 *
 * - A bounce comes to the return path of the copies that it may be about. Which of them, its recipients say: the original one
 *   or the final one. Where there was one copy only, a recipient that was left out or rewritten on the way is that one's, but where the
 *   report says something else of the copy itself; a rewritten one if the report quotes our Message-ID, or is for machines and quotes none.
 *   That is no less safe than a name: who has the token has the copy, and could name its recipient.
 * - A complaint is about the copy whose token it comes to or quotes (its return path, CFBL-Address, List-Unsubscribe): only who has the copy
 *   has that. The Message-ID is known to every recipient of the mail, so that by it alone a recipient that is named is believed where
 *   the mail had no other. What is not believed is one event of the whole mail, and suppresses nobody.
 *
 * All else changes nothing, and is counted by what it was.
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

/** What is to be recorded, and of the rest what it was. */
export interface ReportResults {
  results: LateResult[];
  ignored: InboundResult[];
  /** A copy that the report is about is being sent at this moment: how that ends has to be known first. */
  isTooEarly: boolean;
}

const NOTHING: ReportResults = { results: [], ignored: [], isTooEarly: false };
const ignored = (...what: InboundResult[]): ReportResults => ({ ...NOTHING, ignored: what });

/** `copies`: those that the token of the return path stands for. */
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
    const copy = namedCopy(recipient, byAddress) ?? (isRewrittenToo || namesNobody(recipient) ? only : undefined);
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

/** By the key that addresses are compared by: the copy of the newest email, one that left before one that did not. */
function copiesByAddress(copies: readonly SentCopy[]): Map<string, SentCopy> {
  const byAddress = new Map<string, SentCopy>();
  for (const copy of copies) {
    const key = sameAddressKey(copy.recipient);
    const known = byAddress.get(key);
    if (known === undefined || (LEFT.has(copy.status) && !LEFT.has(known.status))) byAddress.set(key, copy);
  }
  return byAddress;
}

const namesNobody = (recipient: ReportedRecipient): boolean =>
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
 * Whether a recipient with another name may be that of the only copy. In words for people any address may stand, also in front of the recipient's:
 * a text that has the recipient's too is about that one.
 */
function provesRewritten(report: Bounce, only: SentCopy): boolean {
  const key = sameAddressKey(only.recipient);
  if (report.mentioned.some((address) => sameAddressKey(address) === key)) return true;
  return report.mail.messageId === null ? report.isForMachines : isMessageId(report, only);
}

const LEFT: ReadonlySet<SentCopy['status']> = new Set(['delivered', 'bounced', 'complained']);

/** What shows which copies a complaint is about: a token of one, a token of all in a transaction, or no more than the Message-ID. */
export type ComplaintProof = 'copy' | 'transaction' | 'message-id';

export interface ComplaintContext {
  /** Those of the token, or those with the Message-ID that the report quotes. */
  copies: readonly SentCopy[];
  proof: ComplaintProof;
  /** As the reporting server names itself. */
  reporter: string | null;
  nowMs: number;
}

export function resultsOfComplaint(report: Complaint, context: ComplaintContext): ReportResults {
  const { proof, reporter, nowMs } = context;
  const copies = ofOneAccount(report, context.copies);
  if (copies.length === 0) return ignored(context.copies.length > 0 ? 'unproven' : 'unknown-mail');
  const said = { feedbackType: report.feedbackType, remoteHost: reporter };
  const byAddress = copiesByAddress(copies);
  const isBelieved = proof !== 'message-id' || byAddress.size === 1;
  const recipients = isBelieved ? report.recipients : [];
  const named = new Set(recipients.flatMap((address) => byAddress.get(sameAddressKey(address)) ?? []));
  if (named.size === 0 && proof === 'copy') named.add(copies[0]!);
  const results = [...named].map(
    (copy) => [copy, lateComplaint(copy, { ...said, recipientIs: 'named' }, nowMs)] as const,
  );
  if (named.size === 0) {
    // One copy of the newest email stands for all, so that the same report again finds its event there.
    const [copy] = copies as [SentCopy];
    const recipientIs = copies.length === 1 ? 'the-only-one' : 'one-of-several';
    results.push([copy, lateComplaint(copy, { ...said, recipientIs }, nowMs)]);
  }
  const isTooEarly = results.some(([copy]) => copy.isBeingSent);
  return { results: results.flatMap(([copy, one]) => (copy.isBeingSent ? [] : [one])), ignored: [], isTooEarly };
}

/** Mail submitted over SMTP brings its own Message-ID, which two accounts may have used: our Feedback-ID tells whose it was. */
function ofOneAccount({ mail }: Complaint, copies: readonly SentCopy[]): readonly SentCopy[] {
  const accounts = new Set(copies.map((copy) => copy.accountId));
  if (accounts.size <= 1) return copies;
  const hash = mail.feedbackId?.split(':')[1];
  return copies.filter(({ accountId }) => feedbackId(accountId).split(':')[1] === hash);
}

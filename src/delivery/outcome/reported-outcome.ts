/**
 * Classifies a recipient's entry in a bounce, in the same categories as replies in Postrider's own sessions and by the same rows
 * (reply-rules.ts). The difference is the author: a server that had accepted the message reports how its own attempt ended.
 *
 * - The report's action, not the code, says whether the result is final: `failed` is, `delayed` is not.
 * - `failed` after temporary refusals means that the message expired at that server: category `expired`, as with Postrider itself.
 * - A block concerns that server's host, and Postrider's operator cannot have it lifted: its owner is the remote side.
 * - Suppression follows the same rows and vetoes; a report of an unknown address counts like a refusal at RCPT, unless the report names
 *   another stage: at MAIL the sender was refused (RFC 5321 §3.3).
 */
import { type ReportedRecipient, stageIn } from '../../mail/report/report.ts';
import { classify, expired, type Outcome } from './outcome.ts';
import { explanations, REPORTED_BLOCK_ADVICE } from './outcome-texts.ts';

const RAN_OUT =
  /(?:message|queue|envelope)[ .](?:has )?expired|failing for a long time|after multiple retries|failed \d+ attempts|deliver for the last \d+ seconds|delivery time expired|retry time(?:out)? (?:not )?(?:reached|exceeded)|(?:in|been in) the queue too long|could not be delivered for \d+ (?:days|hours)|too many (?:delivery )?attempts|maximum (?:delivery )?(?:time|retries)|unable to deliver (?:in|for) \d+|cannot send message (?:within|for) \d+/i;

/** Failures of that server without a reply from another server. */
const NO_ANSWER =
  /connection (?:timed out|refused|reset|dropped)|no route to host|(?:network|host) (?:is )?(?:unreachable|not reachable|not responding)|network error|requests to connect|(?:unable|failed) to connect|establish an smtp connection|conversation with .{0,200} timed out/i;

export type Reported = Pick<ReportedRecipient, 'action' | 'status' | 'smtpCode' | 'diagnostic'> &
  Partial<Pick<ReportedRecipient, 'finalRecipient' | 'stage'>>;

/** A report does not include the number of recipients of that transaction: assume several, unless the reply names this one. */
const UNKNOWN_COUNT = 2;

/** Shown instead of a reply if the report quotes none. */
const NO_REASON = 'the report gives no reason';

/** Returns the code that the status or the action implies if the report has none. */
function codeOf({ smtpCode, status, action }: Reported): number {
  if (smtpCode !== null && smtpCode >= 400) return smtpCode;
  if (status !== null) return status.startsWith('4') ? 450 : 550;
  return action === 'failed' ? 550 : 450;
}

/** Returns the enhanced code if its class matches the code. */
function fittingStatus({ status }: Reported, code: number): string | undefined {
  if (status === null || !/^[45]\.\d{1,3}\.\d{1,3}$/.test(status)) return undefined;
  return Number(status[0]) === Math.floor(code / 100) ? status : undefined;
}

/** The code selects the row; the report's action decides whether the result is final. */
function settled(action: Reported['action'], isReply: boolean, classified: Outcome): Outcome {
  const isBlock = classified.category === 'blocked';
  const owner = isBlock || classified.category === 'internal' ? 'remote' : classified.owner;
  if (action !== 'failed') {
    return {
      ...classified,
      kind: 'temporary',
      owner,
      advice: explanations[classified.category].advice.temporary,
      suppress: false,
    };
  }
  const isDns = classified.category === 'domain-not-found' && !isReply;
  if ((classified.smtpCode ?? 0) < 500 && !isDns) return expired({ ...classified, owner });
  if (isBlock) return { ...classified, kind: 'permanent', owner, advice: REPORTED_BLOCK_ADVICE };
  if (classified.kind === 'permanent') return { ...classified, owner };
  return { ...classified, kind: 'permanent', owner, advice: explanations[classified.category].advice.permanent };
}

function isNoAnswer({ smtpCode, status, diagnostic }: Reported): boolean {
  return smtpCode === null && (/^4\.4\.[12]$/.test(status ?? '') || NO_ANSWER.test(diagnostic ?? ''));
}

/** Returns the outcome of one recipient of a report: `failed` is permanent, every other action is temporary. */
export function reportedOutcome(reported: Reported): Outcome {
  const code = codeOf(reported);
  const enhanced = fittingStatus(reported, code);
  const words = (reported.diagnostic ?? '').trim() || NO_REASON;
  const text = words.replace(/^[245]\d\d(?:[ -]|$)/, '');
  const reply = { code, text, lines: [text], ...(enhanced !== undefined && { enhanced }) };
  const shown = { smtpCode: code, enhancedCode: enhanced ?? null, reply: `${code} ${text}` };
  if (isNoAnswer(reported)) {
    const waits = classify({ stage: 'connect', relay: false, message: words });
    return { ...(reported.action === 'failed' ? expired(waits) : waits), ...shown };
  }
  const stage = stageIn(words) ?? reported.stage ?? 'rcpt';
  const isReply = reported.smtpCode !== null;
  const recipient = reported.finalRecipient ?? undefined;
  const classified = classify({
    stage,
    reply,
    relay: false,
    recipientCount:
      recipient !== undefined && words.toLowerCase().includes(recipient.toLowerCase()) ? 1 : UNKNOWN_COUNT,
    ...(recipient !== undefined && { recipient }),
  });
  const outcome = settled(reported.action, isReply, classified);
  const ranOut = /^[45]\.4\.7$/.test(reported.status ?? '') || RAN_OUT.test(words);
  return { ...(ranOut && reported.action === 'failed' ? expired(outcome) : outcome), ...shown };
}

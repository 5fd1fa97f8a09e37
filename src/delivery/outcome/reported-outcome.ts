/**
 * What a bounce says of one recipient, in the same categories as replies of our own sessions and by the same rows
 * (reply-rules.ts). What differs is who speaks: a server that had taken the mail tells how its own attempt ended.
 *
 * - Whether it is over is said by the report's action, not by the code: `failed` is final, `delayed` is not.
 * - A `failed` after temporary refusals is mail whose time ran out at that server: category `expired`, as for our own.
 * - A block is one of that server's host, which nobody here can have lifted: it belongs to the remote side.
 * - Suppression follows the same rows and vetoes; a report of an address that is unknown counts like a refusal at RCPT.
 */
import type { ReportedRecipient } from '../../mail/report/report.ts';
import type { SmtpStage } from '../../net/smtp-types.ts';
import { classify, expired, type Outcome } from './outcome.ts';
import { explanations, REPORTED_BLOCK_ADVICE } from './outcome-words.ts';

/** Where in its session the reporting server was refused, as Postfix and Exim say it. Unknown is taken for RCPT. */
const STAGES: readonly [stage: SmtpStage, said: RegExp][] = [
  ['dot', /(?:in reply to|after) (?:the )?(?:end of data|end of message|data\b|pipelined end of data)|\(data\b/i],
  ['mail', /(?:in reply to|after) (?:pipelined )?mail from/i],
  ['rcpt', /(?:in reply to|after) (?:pipelined )?rcpt to/i],
  [
    'ehlo',
    /refused to talk to me|in reply to (?:ehlo|helo)|after (?:ehlo|helo|initial connection)|while receiving the initial server greeting/i,
  ],
];

const RAN_OUT =
  /(?:message|queue|envelope)[ .](?:has )?expired|failing for a long time|after multiple retries|failed \d+ attempts|deliver for the last \d+ seconds|delivery time expired|retry time(?:out)? (?:not )?(?:reached|exceeded)|(?:in|been in) the queue too long|could not be delivered for \d+ (?:days|hours)|too many (?:delivery )?attempts|maximum (?:delivery )?(?:time|retries)|unable to deliver (?:in|for) \d+|cannot send message (?:within|for) \d+/i;

/** What that server met on its way, where no server answered it. */
const NO_ANSWER =
  /connection (?:timed out|refused|reset|dropped)|no route to host|(?:network|host) (?:is )?(?:unreachable|not reachable|not responding)|network error|requests to connect|(?:unable|failed) to connect|establish an smtp connection|conversation with .{0,200} timed out/i;

export type Reported = Pick<ReportedRecipient, 'action' | 'status' | 'smtpCode' | 'diagnostic'> &
  Partial<Pick<ReportedRecipient, 'finalRecipient'>>;

/** A report does not say how many recipients the transaction of its server had: more than one, for all that is known. */
const UNKNOWN_COUNT = 2;

/** Shown in the place of a reply where the report quotes none. */
const NO_WORDS = 'the report gives no reason';

/** Of a report without one, the code that its status or its action stands for. */
function codeOf({ smtpCode, status, action }: Reported): number {
  if (smtpCode !== null && smtpCode >= 400) return smtpCode;
  if (status !== null) return status.startsWith('4') ? 450 : 550;
  return action === 'failed' ? 550 : 450;
}

/** The enhanced code, where its class is that of the code. */
function fittingStatus({ status }: Reported, code: number): string | undefined {
  if (status === null || !/^[45]\.\d{1,3}\.\d{1,3}$/.test(status)) return undefined;
  return Number(status[0]) === Math.floor(code / 100) ? status : undefined;
}

/** The row that speaks is chosen by the code; the report's action says whether it is over. */
function settled(action: Reported['action'], isReply: boolean, said: Outcome): Outcome {
  const isBlock = said.category === 'blocked';
  const owner = isBlock || said.category === 'internal' ? 'remote' : said.owner;
  if (action !== 'failed') {
    return { ...said, kind: 'temporary', owner, advice: explanations[said.category].advice.temporary, suppress: false };
  }
  const isDns = said.category === 'domain-not-found' && !isReply;
  if ((said.smtpCode ?? 0) < 500 && !isDns) return expired({ ...said, owner });
  if (isBlock) return { ...said, kind: 'permanent', owner, advice: REPORTED_BLOCK_ADVICE };
  if (said.kind === 'permanent') return { ...said, owner };
  return { ...said, kind: 'permanent', owner, advice: explanations[said.category].advice.permanent };
}

function isNoAnswer({ smtpCode, status, diagnostic }: Reported): boolean {
  return smtpCode === null && (/^4\.4\.[12]$/.test(status ?? '') || NO_ANSWER.test(diagnostic ?? ''));
}

/** The outcome of one recipient of a report, of which `failed` is for good and all else is for now. */
export function reportedOutcome(reported: Reported): Outcome {
  const code = codeOf(reported);
  const enhanced = fittingStatus(reported, code);
  const words = (reported.diagnostic ?? '').trim() || NO_WORDS;
  const text = words.replace(/^[245]\d\d(?:[ -]|$)/, '');
  const reply = { code, text, lines: [text], ...(enhanced !== undefined && { enhanced }) };
  const shown = { smtpCode: code, enhancedCode: enhanced ?? null, reply: `${code} ${text}` };
  if (isNoAnswer(reported)) {
    const waits = classify({ stage: 'connect', relay: false, message: words });
    return { ...(reported.action === 'failed' ? expired(waits) : waits), ...shown };
  }
  const stage = STAGES.find(([, said]) => said.test(words))?.[0] ?? 'rcpt';
  const isReply = reported.smtpCode !== null;
  const recipient = reported.finalRecipient ?? undefined;
  const said = classify({
    stage,
    reply,
    relay: false,
    recipientCount: UNKNOWN_COUNT,
    ...(recipient !== undefined && { recipient }),
  });
  const outcome = settled(reported.action, isReply, said);
  const ranOut = /^[45]\.4\.7$/.test(reported.status ?? '') || RAN_OUT.test(words);
  return { ...(ranOut && reported.action === 'failed' ? expired(outcome) : outcome), ...shown };
}

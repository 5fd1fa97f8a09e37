/**
 * The one table that says what a reply, a socket error or a refusal of our own means. The policy, in order:
 *
 * - Unknown means temporary. Only a 5xx, or a fact of the DNS that will not pass by itself, ends a message at once.
 * - The code decides whether it is over (4xx: try again, 5xx: bounce); enhanced code and text only say why. A reply that
 *   contradicts itself (`550 4.2.2`) goes by its three digits.
 * - Only RCPT and the DNS speak of an address. Nothing said at the banner, EHLO, MAIL, DATA or the final dot puts an address on
 *   the suppression list, whatever the code: a block of our host bounces one message, it must not lose a customer.
 * - An address is suppressed for 5.1.1, 5.1.3, 5.1.6, 5.1.10 and a mailbox that is said to be disabled, or, without a telling
 *   enhanced code, for words that can mean nothing else. Never for policy and reputation (5.7.x), nor for a full mailbox.
 * - Trouble between us and our own relay (AUTH, a password it wants, TLS) is ours and temporary: the operator mends it.
 *   421 is temporary everywhere. TLS that fails is temporary and is never replaced by plain text.
 */
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { LocalRefusal, SmtpStage } from '../net/smtp-types.ts';
import { errorSentence } from './error-words.ts';
import { type Category, explanations, type Owner, SENDER_UNVERIFIED_ADVICE } from './outcome-words.ts';

export type { Category, Owner } from './outcome-words.ts';

/** What is known of one recipient's attempt. */
export interface Evidence {
  accepted?: boolean;
  stage: SmtpStage;
  reply?: SmtpReply;
  /** Error code of the socket, the resolver or our own code. */
  cause?: string;
  local?: LocalRefusal;
  message?: string;
  /** The peer is the operator's relay, not the recipient's server. */
  relay: boolean;
}

export interface Outcome {
  kind: 'delivered' | 'temporary' | 'permanent';
  category: Category;
  owner: Owner;
  /** One sentence in plain words. */
  advice: string;
  suppress: boolean;
  smtpCode: number | null;
  enhancedCode: string | null;
  /** The reply that decided, or what happened instead of one. */
  reply: string | null;
}

/** Cause of our own refusal of mail whose sender's domain the account may not send from any more. */
export const SENDER_UNVERIFIED = 'EUNVERIFIED';

interface Judgement {
  category: Category;
  suppress?: boolean;
  owner?: Owner;
}

const SPEAKS_OF_SENDER =
  /\b(sender|from address|mail ?from|return[- ]path|envelope|helo|ehlo|reverse|rdns|ptr|spf|dkim|dmarc|client host|your (ip|host|server|domain)|sending (ip|host|server|domain))\b/i;
const SPEAKS_OF_BLOCK =
  /spamhaus|barracuda|spamcop|\b(black|block|deny)[- ]?list|\b[dr]bl\b|\bblocked\b(?! by polic)|\bbanned\b|reputation|listed (at|in|on|by)|poor sender/i;
const SPEAKS_OF_POLICY =
  /\bpolicy\b|polic(y|ies) |not authori[sz]ed|unauthenticated|authenticat|access denied|permission|relay(ing)? (access )?(denied|not|prohibited)|not permitted|unable to relay|refused by/i;
const SPEAKS_OF_CONTENT =
  /\bspam\b|\bvirus|malware|malicious|phish|content (reject|denied|block|filter)|suspicious|unsolicited|attachment|\burl\b/i;
const SPEAKS_OF_RATE =
  /too many (messages|connections|emails|mails|concurrent|sessions)|\brate\b|throttl|too (quickly|fast)|limit exceeded|exceeded .*limit|deferred due to user complaints|\bTSS?0\d/i;
const SPEAKS_OF_GREYLIST = /gr[ea]y[- ]?list|postgrey|greyd|try again in \d+ (second|minute)|come back later/i;
const SPEAKS_OF_FULL =
  /quota|mailbox (is )?full|over ?quota|inbox (is )?full|out of (storage|space)|storage (space|limit)|insufficient (disk|mailbox)/i;
const SPEAKS_OF_DISABLED =
  /disabled|inactive|deactivated|suspended|not active|no longer (active|available|in use)|closed/i;
const SPEAKS_OF_SIZE = /too (large|big)|message size|size (limit|exceed)|exceeds .*size|maximum .*size/i;
const SPEAKS_OF_TLS = /starttls|\btls\b|encrypt/i;
/** Words that can mean nothing but that there is no such mailbox. */
const NO_SUCH_MAILBOX =
  /(user|recipient|mailbox|account|address(ee)?|alias) (is |was |name )?(unknown|not ?found|does(n't| not) exist|not exist|not known|not recogni[sz]ed|invalid)|(unknown|invalid|no such|non-?existent|nonexistent|bad destination) (local )?(user|recipient|mailbox|account|address|person|e-?mail|alias|local part|or illegal alias)|no (such )?mailbox (here )?(by|with) that name|(does not|doesn't) have an? [\w.]+ account|not a valid (user|recipient|mailbox)|not our customer|user doesn't exist|unrouteable address|there is no one (here )?by that name|mailbox unavailable|is not a known user/i;

/** What an enhanced code says by itself, given without its class (`1.1` of `5.1.1`): RFC 3463 and the IANA registry; undefined where the text must tell. */
function byEnhancedCode(detail: string, text: string): Judgement | undefined {
  switch (detail) {
    case '1.1':
    case '1.3':
    case '1.6':
    case '1.10':
      return { category: 'mailbox-not-found', suppress: true };
    case '1.2':
      return { category: 'domain-not-found' };
    case '1.7':
    case '1.8':
      return { category: 'policy', owner: 'sender-domain' };
    case '2.1':
      if (SPEAKS_OF_RATE.test(text)) return { category: 'rate-limited' };
      return { category: 'mailbox-disabled', suppress: SPEAKS_OF_DISABLED.test(text) };
    case '2.2':
      return { category: 'mailbox-full' };
    case '2.3':
    case '3.4':
      return { category: 'content-rejected', owner: 'sender-domain' };
    case '4.5':
      return { category: 'rate-limited' };
    case '4.6':
      return { category: 'policy', owner: 'remote' };
    case '4.1':
      // Exchange Online answers so for addresses that its directory lacks, and for domains it is not set up for.
      return /recipient address rejected/i.test(text) ? { category: 'mailbox-not-found' } : undefined;
    case '4.4':
      return { category: 'domain-not-found' };
    case '5.3':
      return { category: 'rate-limited' };
    case '7.10':
    case '7.30':
      return { category: 'tls' };
    case '7.20':
    case '7.23':
    case '7.25':
    case '7.26':
    case '7.27':
    case '7.29':
      return { category: 'policy', owner: 'sender-domain' };
    case '7.28':
      return { category: 'rate-limited' };
    default:
      if (detail.startsWith('6.')) return { category: 'content-rejected', owner: 'sender-domain' };
      if (detail.startsWith('7.')) return byPolicyText(text);
      return undefined;
  }
}

/** 5.7.x and 4.7.x, and text that sounds like them. Never suppresses. */
function byPolicyText(text: string): Judgement {
  if (SPEAKS_OF_GREYLIST.test(text)) return { category: 'greylisted' };
  if (SPEAKS_OF_RATE.test(text)) return { category: 'rate-limited' };
  if (SPEAKS_OF_BLOCK.test(text)) return { category: 'blocked' };
  if (SPEAKS_OF_CONTENT.test(text)) return { category: 'content-rejected', owner: 'sender-domain' };
  if (/starttls/i.test(text)) return { category: 'tls' };
  return { category: 'policy', owner: SPEAKS_OF_SENDER.test(text) ? 'sender-domain' : 'remote' };
}

/** A reply without a telling enhanced code. */
function byText(code: number, stage: SmtpStage, text: string): Judgement {
  if (SPEAKS_OF_GREYLIST.test(text)) return { category: 'greylisted' };
  if (SPEAKS_OF_FULL.test(text)) return { category: 'mailbox-full' };
  if (SPEAKS_OF_BLOCK.test(text)) return { category: 'blocked' };
  if (SPEAKS_OF_RATE.test(text)) return { category: 'rate-limited' };
  if (SPEAKS_OF_SIZE.test(text)) return { category: 'content-rejected', owner: 'sender-domain' };
  if (stage === 'rcpt') {
    if (NO_SUCH_MAILBOX.test(text) && !SPEAKS_OF_SENDER.test(text) && !SPEAKS_OF_POLICY.test(text)) {
      return { category: 'mailbox-not-found', suppress: true };
    }
    if (code === 552) return { category: 'mailbox-full' };
  }
  if (SPEAKS_OF_TLS.test(text) && code === 530) return { category: 'tls' };
  if (SPEAKS_OF_CONTENT.test(text)) return { category: 'content-rejected', owner: 'sender-domain' };
  if (SPEAKS_OF_POLICY.test(text) || SPEAKS_OF_SENDER.test(text)) return byPolicyText(text);
  if (NO_SUCH_MAILBOX.test(text)) return { category: 'mailbox-not-found' };
  if (stage === 'banner' || stage === 'ehlo') return { category: code >= 500 ? 'blocked' : 'remote-error' };
  if ((stage === 'data' || stage === 'dot') && code >= 552)
    return { category: 'content-rejected', owner: 'sender-domain' };
  return { category: code >= 500 ? 'refused' : 'remote-error' };
}

function judgeReply(evidence: Evidence, reply: SmtpReply): Outcome {
  const { stage, relay } = evidence;
  const text = reply.text;
  const detail = reply.enhanced?.slice(2) ?? '';
  const fields = { smtpCode: reply.code, enhancedCode: reply.enhanced ?? null, reply: replyText(reply) };
  if (stage === 'auth' || (relay && reply.code === 530)) return outcome('temporary', { category: 'our-side' }, fields);
  if (stage === 'starttls' || stage === 'tls') return outcome('temporary', { category: 'tls' }, fields);
  const judged = byEnhancedCode(detail, text) ?? byText(reply.code, stage, text);
  const permanent = reply.code >= 500;
  const suppress = permanent && stage === 'rcpt' && judged.suppress === true;
  return outcome(permanent ? 'permanent' : 'temporary', { ...judged, suppress }, fields);
}

function judgeLocal(evidence: Evidence, local: LocalRefusal): Outcome {
  const fields = { smtpCode: local.code, enhancedCode: local.enhanced, reply: local.text };
  if (evidence.cause === SENDER_UNVERIFIED) {
    const refused = outcome('permanent', { category: 'policy', owner: 'our-side' }, fields);
    return { ...refused, advice: SENDER_UNVERIFIED_ADVICE };
  }
  if (evidence.stage === 'auth') return outcome('temporary', { category: 'our-side' }, fields);
  if (local.code < 500) return outcome('temporary', { category: 'our-side' }, fields);
  const nullMx = local.enhanced === '5.1.10';
  if (nullMx || local.enhanced === '5.1.2') {
    return outcome('permanent', { category: 'domain-not-found', suppress: true }, fields);
  }
  if (local.enhanced === '5.4.4') {
    const category = local.code === 554 ? 'policy' : 'domain-not-found';
    return outcome('permanent', { category, owner: 'remote' }, fields);
  }
  const judged = byEnhancedCode(local.enhanced.slice(2), local.text) ?? { category: 'our-side' as const };
  return outcome('permanent', { ...judged, suppress: false }, fields);
}

function judgeError(evidence: Evidence): Outcome {
  const { stage, relay, cause } = evidence;
  const fields = { smtpCode: null, enhancedCode: null, reply: errorSentence(evidence) };
  if (cause === 'ECONTENT' || cause === 'EDEADLINE' || cause === 'ECANCELLED') {
    return outcome('temporary', { category: 'our-side' }, fields);
  }
  if (stage === 'tls' || stage === 'starttls') return outcome('temporary', { category: 'tls' }, fields);
  return outcome('temporary', { category: 'network', owner: relay ? 'our-side' : 'remote' }, fields);
}

function outcome(
  kind: Outcome['kind'],
  judged: Judgement,
  fields: Pick<Outcome, 'smtpCode' | 'enhancedCode' | 'reply'>,
): Outcome {
  const { owner, advice } = explanations[judged.category];
  return {
    kind,
    category: judged.category,
    owner: judged.owner ?? owner,
    advice: kind === 'temporary' ? advice.temporary : advice.permanent,
    suppress: judged.suppress ?? false,
    ...fields,
  };
}

/** The reply as it is shown: code and text on one line. */
export function replyText(reply: SmtpReply): string {
  return `${reply.code} ${reply.text}`;
}

/** Judges one recipient's attempt. */
export function judge(evidence: Evidence): Outcome {
  const { reply, local } = evidence;
  if (evidence.accepted === true) {
    return outcome(
      'delivered',
      { category: 'accepted' },
      { smtpCode: reply?.code ?? null, enhancedCode: reply?.enhanced ?? null, reply: reply ? replyText(reply) : null },
    );
  }
  if (local) return judgeLocal(evidence, local);
  // A 2xx or 3xx that refuses is a peer that lost its way: unknown, hence temporary.
  if (reply && reply.code >= 400) return judgeReply(evidence, reply);
  return judgeError(reply ? { ...evidence, message: `unexpected reply: ${replyText(reply)}` } : evidence);
}

/** What becomes of a temporary outcome when the lifetime of the message has ended; the last reply stays. */
export function expired(last: Outcome): Outcome {
  const { owner, advice } = explanations.expired;
  return {
    ...last,
    kind: 'permanent',
    category: 'expired',
    owner: last.owner ?? owner,
    advice: advice.permanent,
    suppress: false,
  };
}

/** The outcome of a message whose account was suspended when its lifetime ended. */
export function expiredWhileSuspended(): Outcome {
  const text = 'the account was suspended until the lifetime of the message ended';
  return expired(
    outcome('temporary', { category: 'our-side' }, { smtpCode: null, enhancedCode: '5.4.7', reply: text }),
  );
}

/** The outcome of a message that crashed its worker too often, and of one that no attempt can be made for. */
export function parked(): Outcome {
  const text = 'handling this message failed three times in our own code; it is not tried again';
  return outcome('permanent', { category: 'our-side' }, { smtpCode: null, enhancedCode: '5.3.0', reply: text });
}

/**
 * Finds the rule of a reply, and decides what else its text says: whether it is about the address or the number of recipients, or asks for
 * a retry.
 */
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import type { SmtpStage } from '../../net/smtp-types.ts';
import {
  MENTIONS_RECIPIENT,
  NOT_PER_TRANSACTION,
  type ReplyRule,
  replyRules,
  SECOND_HAND,
  SENDER_WITHOUT_HOST,
  TOO_MANY_RECIPIENTS,
  UNSURE,
} from './reply-rules.ts';
import {
  CURRENTLY,
  DISABLED_MAILBOX,
  either,
  type ReplyTexts,
  replyTexts,
  TEMPORARILY,
  type TextPattern,
  TRY_LATER,
} from './reply-text.ts';

/** The texts that RFC 5321 §4.2.3 suggests for a code. They repeat the code, so other text in the same reply says more. */
const STANDARD_TEXT =
  /requested (mail )?action (not taken|aborted):? (mailbox unavailable|mailbox name not allowed|local error in processing|insufficient system storage|exceeded storage allocation)/g;

/**
 * Matches text about the sender, the sending host, another server, a list, a policy, or a temporary problem. Such a reply is not about the
 * address, whatever its code is.
 */
const NOT_THE_ADDRESS = either(
  /\bsender\b|from (address|domain)|mail ?from\b|return[- ]path|\b(helo|ehlo|ptr|spf|dkim|dmarc|dnsbl|[dr]bl)\b/,
  /client host|your (ip|host|server|domain|network|mail server)|sending (ip|host|server|domain)|reputation/,
  /(black|block|deny)[- ]?list|\b(is|are|been) (black|block)?listed\b|\bpolic(y|ies)\b|not authori[sz]ed/,
  /access denied|\bspam\b|rcpthosts|relay(ing)?( access)? (denied|not)/,
  /\b(absender|expediteur|emetteur|remitente|remetente|mittente|afzender|nadawc\w*|avsandare|afsender|odesilatel)\b/,
  /отправител|发件人|發件人|差出人/,
  SENDER_WITHOUT_HOST,
);

/** Parts of a server that know its mailboxes. `Not in our database` is about the address, so names after `in` do not match. */
const DIRECTORY = String.raw`(?<!\b(?:in|from|by|within)(?: \w+){0,4} )\b(?:ldaps?|\w*sql|database|db|back-?end|directory)\b`;
/** The address is unknown. After a failed lookup, this is its reason. */
const IS_UNKNOWN = String.raw`\b(?:no such|unknown|invalid|no (?:entry|match|result)|not (?:be )?(?:found|exist|listed|known|present)|n't exist)`;

/** Matches text about a problem of the server's own directory, so the server did not learn whether the mailbox exists. */
const DIRECTORY_TROUBLE = either(
  new RegExp(
    String.raw`\b(?:lookup|look-up|query|verification|validation|callout)\b[^.;:]{0,40}\b(?:error|fail(?:ed|ure|s)?)\b(?!.{0,80}${IS_UNKNOWN})`,
  ),
  new RegExp(
    String.raw`\b(?:cannot|can't|could not|couldn't|unable to|failed to) (?:verify|validate|look ?up)\b(?!.{0,80}${IS_UNKNOWN})`,
  ),
  new RegExp(
    String.raw`${DIRECTORY}(?! (?:lookup|query))[^.;:,]{0,30}\b(?:error|fail(?:ed|ure|s)?)\b(?!.{0,80}${IS_UNKNOWN})`,
  ),
  new RegExp(
    String.raw`${DIRECTORY}[^.;:,]{0,30}\b(?:(?:un|not )(?:available|reachable)|refused|down|offline|gone away|maintenance|busy|corrupt\w*)\b`,
  ),
  /\b(?:error|problem|trouble|connect\w*|bind\w*|reach|contact|access) (?:\w+ ){0,4}(?:ldaps?|\w*sql|database|db|back-?end|directory)\b/,
  /\btime(?:d )?-?out\b/,
);

/** A reply in the form that the rules match against. */
export interface NormalizedReply extends ReplyTexts {
  code: number;
  /** The enhanced code without its class, such as `1.1`; empty if there is none. */
  detail: string;
}

/** Prepares a reply for the rules. `recipient` is the address that the reply was about, if known. */
export function normalizeReply(
  reply: Pick<SmtpReply, 'code' | 'enhanced' | 'text'>,
  recipient?: string,
): NormalizedReply {
  return { ...replyTexts(reply, recipient), code: reply.code, detail: reply.enhanced?.slice(2) ?? '' };
}

function matchesDetail(pattern: string, detail: string): boolean {
  if (pattern.endsWith('.')) return detail.startsWith(pattern);
  if (!pattern.includes('x')) return detail === pattern;
  return new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('x', '\\d')}$`).test(detail);
}

function containsText(pattern: TextPattern, { texts }: ReplyTexts): boolean {
  return texts.some((text) => pattern.test(text));
}

/** Returns the reply without standard texts; undefined if it has none. */
function withoutStandardText(reply: NormalizedReply): NormalizedReply | undefined {
  const cut = (text: string): string => text.replace(STANDARD_TEXT, ' ').trim();
  const whole = cut(reply.whole);
  return whole === reply.whole ? undefined : { ...reply, whole, texts: reply.texts.map(cut) };
}

/** Returns the rule of a reply. A standard text counts only if no rule matches the rest of the text. */
export function matchReply(reply: NormalizedReply, stage: SmtpStage): ReplyRule {
  const rest = withoutStandardText(reply);
  const found = rest && findRule(rest, stage);
  return found?.text !== undefined ? found : findRule(reply, stage);
}

function findRule(reply: NormalizedReply, stage: SmtpStage): ReplyRule {
  const { code, detail, whole } = reply;
  // X.4.1, X.4.2, X.4.7, and X.4.3xx are about the network between the replying server and another one.
  const isSecondHand = containsText(SECOND_HAND, reply) || /^4\.([127]|3\d\d)$/.test(detail);
  const matches = (rule: ReplyRule): boolean =>
    (rule.at === undefined || rule.at.includes(stage)) &&
    (rule.codes === undefined || rule.codes.includes(code)) &&
    (rule.class === undefined || rule.class === Math.floor(code / 100)) &&
    (rule.enhanced === undefined || rule.enhanced.some((one) => matchesDetail(one, detail))) &&
    (rule.text === undefined || containsText(rule.text, reply) || (rule.inLinks === true && rule.text.test(whole))) &&
    (rule.unless === undefined || !containsText(rule.unless, reply)) &&
    !(isSecondHand && rule.category === 'blocked');
  return replyRules.find(matches)!;
}

/** Returns whether the mailbox is disabled only now. */
function isDisabledForNow(reply: NormalizedReply): boolean {
  return containsText(CURRENTLY, reply) && containsText(DISABLED_MAILBOX, reply);
}

/**
 * Returns whether the reply can be about the address, and permanently: neither its enhanced code nor its text contradicts this. Names and
 * links in the text are ignored.
 */
export function isAboutAddress(reply: NormalizedReply): boolean {
  // X.4.x is about the network, X.7.x about policy.
  const vetoes = [NOT_THE_ADDRESS, SECOND_HAND, UNSURE, TEMPORARILY, DIRECTORY_TROUBLE];
  return !/^[47]\./.test(reply.detail) && !vetoes.some((veto) => containsText(veto, reply)) && !isDisabledForNow(reply);
}

/**
 * Returns whether a refusal is about the number of recipients in the transaction: `552` and `550 5.5.3` then mean 452 (RFC 5321
 * §4.5.3.1.10).
 */
export function isAboutRecipientCount(reply: NormalizedReply): boolean {
  const mentionsCount = reply.detail === '5.3' || containsText(TOO_MANY_RECIPIENTS, reply);
  return mentionsCount && !containsText(NOT_PER_TRANSACTION, reply);
}

/** Returns whether the reply mentions the recipient, or its mailbox, in any language. */
export function mentionsRecipient(reply: NormalizedReply): boolean {
  return containsText(MENTIONS_RECIPIENT, reply);
}

/** Returns whether the server itself requests a retry. */
export function requestsRetry(reply: NormalizedReply): boolean {
  return containsText(TRY_LATER, reply);
}

/**
 * Classifies a reply, an error or Postrider's own refusal for one recipient. The policy, in order:
 *
 * - Unknown means temporary. Only a 5xx, or a permanent DNS fact, ends a message.
 * - Problems between Postrider and its relay (AUTH, a required password, TLS, a suspended account, no permission to relay) are temporary.
 *   So are a failed TLS handshake and a 530 that demands STARTTLS. 421 and every other 4xx are temporary at every stage.
 * - The text of a reply is read first, then its enhanced code, then its class (reply-rules.ts). They determine the category.
 * - A refusal of the sending host is temporary whatever its code, category `blocked`: a 5xx at the banner or to EHLO (except about a rate),
 *   one to MAIL that is about neither the sender nor the message, and text about the host's address, its name or a blocklist at any stage.
 *   The operator can have it lifted; until then the message is retried until it expires.
 * - A 5xx that itself says "later" is temporary like its 4xx form: greylisting, a limit on a rate, on connections or on recipients in one
 *   transaction, problems of the server itself, and `try again later`. Any other 5xx is permanent. For one that contradicts itself (`550
 *   4.2.2`), the three digits decide.
 * - A refusal of RSET is temporary, because no message was presented.
 * - Only RCPT, the DNS and, if the transaction had one recipient, the final dot are about one address. No other reply suppresses.
 * - A row may suppress (no such mailbox, a disabled one). Text about the sender, the sending host, another server, a list, a policy, a
 *   temporary state or the server's own directory prevents that whatever the code, and so do 5.4.x, 5.7.x, an uncertain reply, and a
 *   temporary outcome. A domain that does not exist or accepts no mail suppresses for 7 days: a lapsed registration is usually fixed
 *   within a day.
 * - Unknown text with a 5xx is `refused`, which is permanent and never suppresses.
 */

import type { SmtpReply } from '../../mail/smtp-reply.ts';
import { errorSentence, POLICY_UNMET } from '../../net/error-sentence.ts';
import type { LocalRefusal, RecipientResult, SmtpStage } from '../../net/smtp-types.ts';
import {
  type Category,
  explanations,
  LOOP_ADVICE,
  type Owner,
  PRIVATE_MX_ADVICE,
  SENDER_SMTPUTF8_ADVICE,
  SENDER_UNVERIFIED_ADVICE,
  TLS_POLICY_ADVICE,
} from './outcome-texts.ts';
import {
  isAboutAddress,
  matchReply,
  mentionsRecipient,
  type NormalizedReply,
  normalizeReply,
  requestsRetry,
} from './reply-match.ts';
import type { ReplyRule } from './reply-rules.ts';

export type { Category, Owner } from './outcome-texts.ts';

/** The facts about one recipient's attempt: the result of a session, or what happened instead of a session. */
export interface Evidence extends Partial<RecipientResult> {
  stage: SmtpStage;
  /** The peer is the operator's relay, not the recipient's server. */
  relay: boolean;
  /** How many recipients the final dot was for; 1 by default. */
  recipientCount?: number;
  /** The address in MAIL FROM, if known. */
  sender?: string;
}

type Refused = Pick<Evidence, 'reply' | 'local'>;

/**
 * Whether the failure at this host outweighs the failure at an earlier host: a temporary failure outweighs a permanent one, a reply (which
 * may ask for a pause) outweighs an unreachable host; otherwise the later one counts.
 */
export function outweighs(now: Refused, before: Refused): boolean {
  const isPermanent = (now.reply?.code ?? now.local?.code ?? 0) >= 500;
  const wasPermanent = (before.reply?.code ?? before.local?.code ?? 0) >= 500;
  if (isPermanent || wasPermanent) return !isPermanent;
  return now.reply !== undefined || before.reply === undefined;
}

export interface Outcome {
  kind: 'delivered' | 'temporary' | 'permanent';
  category: Category;
  owner: Owner;
  /** One sentence for readers without SMTP knowledge. */
  advice: string;
  suppress: boolean;
  /** With `suppress`: for how long; permanently if absent. */
  suppressDays?: number;
  smtpCode: number | null;
  enhancedCode: string | null;
  /** The deciding reply, or what happened instead of a reply. */
  reply: string | null;
}

/** Cause of Postrider's refusal of mail from a domain that the account may no longer use. */
export const SENDER_UNVERIFIED = 'EUNVERIFIED';

interface Meaning {
  category: Category;
  owner?: Owner | undefined;
  advice?: string;
  suppress?: boolean;
  suppressDays?: number;
}

/** How long addresses stay suppressed if their domain does not exist or accepts no mail. */
const DOMAIN_SUPPRESSED_DAYS = 7;

/** Categories of the recipient. A reply about the sender that has one of them means that the sender is not accepted. */
const OF_RECIPIENT: ReadonlySet<Category> = new Set([
  'mailbox-not-found',
  'mailbox-disabled',
  'mailbox-full',
  'domain-not-found',
]);

function names({ text }: SmtpReply, address: string | undefined): boolean {
  return address !== undefined && address !== '' && text.toLowerCase().includes(address.toLowerCase());
}

/** Returns whether a reply is about the sender: to MAIL, which names no recipient (RFC 5321 §3.3), or with only the sender's address. */
function isAboutSender({ stage, sender, recipient }: Evidence, reply: SmtpReply): boolean {
  if (stage === 'mail' || stage === 'reset') return true;
  return names(reply, sender) && !names(reply, recipient);
}

/** Returns whether a relay refuses Postrider itself, for example because the account there is suspended. */
function isAboutRelayClient(
  evidence: Evidence,
  { ofRelayClient }: ReplyRule,
  { reply, normalized }: { reply: SmtpReply; normalized: NormalizedReply },
): boolean {
  const { relay, stage, recipient } = evidence;
  if (!relay || ofRelayClient === undefined) return false;
  // X.1.1 and X.2.1 are about the mailbox of the recipient (RFC 3463 §3.2 and §3.3).
  const { detail } = normalized;
  const isOfMailbox = detail === '1.1' || (detail === '2.1' && ofRelayClient !== 'always');
  if (stage === 'rcpt' && isOfMailbox && !isAboutSender(evidence, reply)) return false;
  return ofRelayClient === 'always' || !(names(reply, recipient) || mentionsRecipient(normalized));
}

const SENDER_REFUSED = { category: 'policy', owner: 'sender', suppress: undefined } as const;

/** Temporary whatever the class of the code. */
const PASSING: ReadonlySet<Category> = new Set(['blocked', 'greylisted', 'rate-limited', 'remote-error']);

function classifyReply(evidence: Evidence, reply: SmtpReply): Outcome {
  const { stage, relay, recipient, recipientCount = 1 } = evidence;
  const fields = { smtpCode: reply.code, enhancedCode: reply.enhanced ?? null, reply: replyText(reply) };
  if (stage === 'auth' || (relay && reply.code === 530)) return outcome('temporary', { category: 'internal' }, fields);
  if (stage === 'starttls' || stage === 'tls') return outcome('temporary', { category: 'tls' }, fields);
  const normalized = normalizeReply(reply, recipient);
  const rule = matchReply(normalized, stage);
  const { category, owner, suppress } =
    OF_RECIPIENT.has(rule.category) && isAboutSender(evidence, reply) ? SENDER_REFUSED : rule;
  if (reply.code >= 500 && (stage === 'banner' || stage === 'ehlo')) {
    const isRate = category === 'rate-limited' || category === 'greylisted';
    return outcome('temporary', { category: isRate ? category : 'blocked' }, fields);
  }
  if (isAboutRelayClient(evidence, rule, { reply, normalized })) {
    return outcome('temporary', { category: 'internal' }, fields);
  }
  const isTlsDemand = category === 'tls' && reply.code === 530;
  const isPassing = PASSING.has(category) || isTlsDemand || requestsRetry(normalized);
  if (reply.code < 500 || stage === 'reset' || isPassing) {
    return outcome('temporary', { category, owner }, fields);
  }
  const isOfOne = stage === 'rcpt' || (stage === 'dot' && recipientCount === 1);
  if (suppress === undefined || !isOfOne || !isAboutAddress(normalized)) {
    return outcome('permanent', { category, owner }, fields);
  }
  const days = suppress === '7 days' ? { suppressDays: DOMAIN_SUPPRESSED_DAYS } : {};
  return outcome('permanent', { category, owner, suppress: true, ...days }, fields);
}

/** What Postrider's own refusals mean, by enhanced code; codes that are not listed mean the same as from a server. */
const localMeanings: readonly { enhanced: string; code?: number; meaning: Meaning }[] = [
  {
    enhanced: '5.1.2',
    meaning: { category: 'domain-not-found', suppress: true, suppressDays: DOMAIN_SUPPRESSED_DAYS },
  },
  {
    enhanced: '5.1.10',
    meaning: { category: 'domain-not-found', suppress: true, suppressDays: DOMAIN_SUPPRESSED_DAYS },
  },
  {
    enhanced: '5.4.4',
    code: 554,
    meaning: { category: 'policy', owner: 'service', advice: PRIVATE_MX_ADVICE },
  },
  { enhanced: '5.4.4', meaning: { category: 'domain-not-found', owner: 'remote' } },
  { enhanced: '5.4.6', code: 550, meaning: { category: 'policy', owner: 'service', advice: LOOP_ADVICE } },
];

function classifyLocal(evidence: Evidence, local: LocalRefusal): Outcome {
  const { code, enhanced } = local;
  const fields = { smtpCode: code, enhancedCode: enhanced, reply: local.text };
  if (evidence.cause === SENDER_UNVERIFIED) {
    return outcome('permanent', { category: 'policy', owner: 'sender', advice: SENDER_UNVERIFIED_ADVICE }, fields);
  }
  if (evidence.stage === 'auth' || code < 500) return outcome('temporary', { category: 'internal' }, fields);
  const own = localMeanings.find((row) => row.enhanced === enhanced && (row.code ?? code) === code);
  if (own) return outcome('permanent', own.meaning, fields);
  const { category, owner } = matchReply(normalizeReply({ code, enhanced, text: '' }), evidence.stage);
  if (category === 'smtputf8' && evidence.stage !== 'rcpt') {
    return outcome('permanent', { category, owner: 'sender', advice: SENDER_SMTPUTF8_ADVICE }, fields);
  }
  return outcome('permanent', category === 'refused' ? { category: 'internal' } : { category, owner }, fields);
}

function classifyError(evidence: Evidence): Outcome {
  const { stage, relay, cause } = evidence;
  const fields = { smtpCode: null, enhancedCode: null, reply: errorSentence(evidence) };
  if (cause === 'ECONTENT' || cause === 'EDEADLINE' || cause === 'ECANCELLED') {
    return outcome('temporary', { category: 'internal' }, fields);
  }
  if (cause === POLICY_UNMET) return outcome('temporary', { category: 'tls', advice: TLS_POLICY_ADVICE }, fields);
  if (stage === 'tls' || stage === 'starttls') return outcome('temporary', { category: 'tls' }, fields);
  if (cause === 'ENOTFOUND' && !relay) return outcome('temporary', { category: 'domain-not-found' }, fields);
  return outcome('temporary', { category: 'network', owner: relay ? 'service' : 'remote' }, fields);
}

function outcome(
  kind: Outcome['kind'],
  meaning: Meaning,
  fields: Pick<Outcome, 'smtpCode' | 'enhancedCode' | 'reply'>,
): Outcome {
  const { owner, advice } = explanations[meaning.category];
  return {
    kind,
    category: meaning.category,
    owner: meaning.owner ?? owner,
    advice: meaning.advice ?? (kind === 'temporary' ? advice.temporary : advice.permanent),
    suppress: meaning.suppress ?? false,
    ...(meaning.suppressDays !== undefined && { suppressDays: meaning.suppressDays }),
    ...fields,
  };
}

/** Formats a reply for display: code and text on one line. */
export function replyText(reply: SmtpReply): string {
  return `${reply.code} ${reply.text}`;
}

export function classify(evidence: Evidence): Outcome {
  const { reply, local } = evidence;
  if (evidence.accepted === true) {
    return outcome(
      'delivered',
      { category: 'accepted' },
      { smtpCode: reply?.code ?? null, enhancedCode: reply?.enhanced ?? null, reply: reply ? replyText(reply) : null },
    );
  }
  if (local) return classifyLocal(evidence, local);
  // A 2xx or 3xx that refuses comes from a confused peer: unknown, therefore temporary.
  if (reply && reply.code >= 400) return classifyReply(evidence, reply);
  return classifyError(reply ? { ...evidence, message: `unexpected reply: ${replyText(reply)}` } : evidence);
}

/** Returns the outcome when the lifetime of a message with a temporary outcome has ended; with its last reply, or RFC 3463 X.4.7. */
export function expired(last: Outcome): Outcome {
  const { owner, advice } = explanations.expired;
  return {
    ...last,
    smtpCode: last.smtpCode ?? 550,
    enhancedCode: last.enhancedCode ?? '5.4.7',
    kind: 'permanent',
    category: 'expired',
    owner: last.owner ?? owner,
    advice: advice.permanent,
    suppress: false,
  };
}

/** The outcome of a message whose account was suspended, or whose mail was held by sending protection, when its lifetime ended. */
export function expiredWhileSuspended(): Outcome {
  const text = 'the account was suspended, or its live mail held, until the message expired';
  return expired(
    outcome('temporary', { category: 'internal' }, { smtpCode: null, enhancedCode: '5.4.7', reply: text }),
  );
}

/** The outcome of a message for which today's share is used up (warm-up.ts). */
export function warmingUp(reply: string): Outcome {
  return outcome('temporary', { category: 'warm-up' }, { smtpCode: null, enhancedCode: null, reply });
}

/** The outcome of a message for which a limit of the relay is used up (relay-limits.ts). */
export function relayLimitReached(reply: string): Outcome {
  return outcome('temporary', { category: 'relay-limit' }, { smtpCode: null, enhancedCode: null, reply });
}

/** The outcome of a message that crashed its worker too often, or for which no attempt is possible. */
export function deadLettered(): Outcome {
  const text = 'an internal error occurred three times while handling this message; Postrider does not retry it';
  return outcome('permanent', { category: 'internal' }, { smtpCode: null, enhancedCode: '5.3.0', reply: text });
}

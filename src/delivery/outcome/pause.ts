/**
 * Decides which replies pause a whole destination, and for how long. Pure.
 *
 * A reply pauses the destination if it refuses Postrider before a recipient was named, reports a rate limit or overload, blocks this host,
 * is 421, or names a time to retry. Replies about one sender, message, mailbox, transaction or session, and greylisting, defer only the
 * message. A retry time in a reply to RCPT or DATA pauses the destination only if it accepts no other message in the meantime.
 */

import type { PauseRule } from '../destinations/providers.ts';
import type { Evidence, Outcome } from './outcome.ts';
import { isAboutRecipientCount, normalizeReply } from './reply-match.ts';

export interface PauseRequest {
  /** How long the peer asks to wait, within limits; undefined if it does not say. */
  ms: number | undefined;
  /** The peer blocks this host, until the listing is removed. */
  blocked?: true;
  /** The reply is about a recipient or a message: it pauses the destination only if that accepts nothing else in the meantime. */
  unlessAccepting?: true;
}

const SHORTEST_MS = 10_000;
const LONGEST_MS = 3_600_000;

const UNITS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000 };
/** `in 300 seconds`, `after 5 min`, `for 1 hour`, `wait 10m`, `retry-after: 600` (seconds). */
const IN_UNITS =
  /\b(?:in|after|for|wait|within|least)\s*:?\s*(?:about |another |the next )?(\d{1,6}) ?(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)\b/i;
const IN_CLOCK = /\b(?:in|after|for|wait)\s+(\d{1,2}):([0-5]\d):([0-5]\d)\b/i;
const IN_ISO = /\bPT(?:(\d{1,3})H)?(?:(\d{1,4})M)?(?:(\d{1,6})S)?\b/;
/** Matches seconds without a unit. Another word after the number would be the unit. */
const BARE_SECONDS = /\bretry[-_ ]after\s*[:=]?\s*(\d{1,6})\b(?!\s*[a-z])/i;
const SPELLED_OUT = /\b(?:in|after|for) (?:a|an|one) (minute|hour)\b/i;

function clamp(ms: number): number {
  return Math.min(LONGEST_MS, Math.max(SHORTEST_MS, ms));
}

/** Returns the time that a reply asks to wait, between 10 s and 1 h; undefined if it names none. */
export function waitHintMs(text: string): number | undefined {
  const units = IN_UNITS.exec(text);
  if (units) return clamp(Number(units[1]) * UNITS[units[2]![0]!.toLowerCase()]!);
  const clock = IN_CLOCK.exec(text);
  if (clock) return clamp(((Number(clock[1]) * 60 + Number(clock[2])) * 60 + Number(clock[3])) * 1_000);
  const iso = IN_ISO.exec(text);
  if (iso && iso[0] !== 'PT') {
    return clamp(Number(iso[1] ?? 0) * UNITS.h! + Number(iso[2] ?? 0) * UNITS.m! + Number(iso[3] ?? 0) * UNITS.s!);
  }
  const bare = BARE_SECONDS.exec(text);
  if (bare) return clamp(Number(bare[1]) * 1_000);
  const words = SPELLED_OUT.exec(text);
  return words ? clamp(words[1] === 'hour' ? UNITS.h! : UNITS.m!) : undefined;
}

/** X.1.x and X.2.x are about an address or mailbox, X.4.2 is about a lost session. */
const ABOUT_LESS = /^(1\.\d+|2\.\d+|4\.2)$/;
const ABOUT_SESSION =
  /\b(messages?|e?mails?|transactions?|recipients?|commands?|errors?)\b.{0,20}\b(per|in this|for this|on this|this) (smtp )?(session|connection)\b|\bidle\b|\btimed? ?out\b/i;
/** Category `greylisted` is wider: it includes every unexplained "try again in 30 seconds", whose time applies to the destination. */
const NAMES_GREYLISTING = /gr[ea]y[- ]?list|postgrey|greyd/i;
/** What makes `sender` mean this host, as in `sender IP` and `sender [192.0.2.1]`. */
const OF_HOST = String.raw`(?:'s)?[- ]?(?:ips?|hosts?|servers?|networks?|mta|reputation|score|guidelines?)\b|\s*[[(]?(?:\d|ipv6)`;
/** Matches a reply that says that it is about one sender. `The sender should retry` is about no one in particular. */
const SAYS_SENDER = new RegExp(
  [
    String.raw`\b(?:this|your|same|per|for|from|by) sender\b(?!${OF_HOST})`,
    String.raw`\bsender(?:'s)? (?:e-?mail )?address\b(?! lists?)`,
    String.raw`\bsender:? <?[^\s<>@]+@`,
  ].join('|'),
  'i',
);
/** X.3.2: the system is not accepting messages; X.4.5: congestion. */
const ABOUT_SYSTEM = /^(3\.2|4\.5)$/;

/**
 * Returns whether a reply is about one sender: it says so, or names an address or a domain of that sender. A name with an address after
 * it, such as `mail.example.com[192.0.2.1]`, is this host.
 */
function isAboutSender(text: string, senders: readonly string[]): boolean {
  if (isAboutConnections(text)) return false;
  const lowered = text.toLowerCase();
  return SAYS_SENDER.test(text) || senders.some((sender) => namesSender(lowered, sender.toLowerCase()));
}

function namesSender(lowered: string, sender: string): boolean {
  if (sender === '') return false;
  for (let at = lowered.indexOf(sender); at !== -1; at = lowered.indexOf(sender, at + 1)) {
    const [before, after] = [lowered.slice(0, at), lowered.slice(at + sender.length)];
    if (!/[\w.@-]$/.test(before) && !/^(?:[\w-]|\.\w|\s?[[(](?:\d|ipv6))/.test(after)) return true;
  }
  return false;
}

/**
 * Returns the pause that a refusal requires of the entire destination; undefined if none. `senders` are the addresses and domains of the
 * message's sender.
 */
export function pauseRequestOf(
  { stage, reply }: Pick<Evidence, 'stage' | 'reply'>,
  outcome: Pick<Outcome, 'kind' | 'category' | 'owner'>,
  senders: readonly string[] = [],
): PauseRequest | undefined {
  if (!reply || outcome.kind !== 'temporary') return undefined;
  const { text } = reply;
  const detail = reply.enhanced?.slice(2) ?? '';
  const beforeMail = stage === 'banner' || stage === 'ehlo';
  const atMail = stage === 'mail' || stage === 'reset';
  if (outcome.category === 'blocked') {
    return { ms: waitHintMs(text), blocked: true, ...(!beforeMail && !atMail && { unlessAccepting: true }) };
  }
  const isAboutLess =
    (ABOUT_LESS.test(detail) && reply.code !== 421) ||
    ABOUT_SESSION.test(text) ||
    isAboutRecipientCount(normalizeReply(reply));
  if (!beforeMail && isAboutLess) return undefined;
  if (!beforeMail && isAboutSender(text, senders)) return undefined;
  const hint = waitHintMs(text);
  if (!beforeMail && !atMail && NAMES_GREYLISTING.test(text)) return undefined;
  // A 421 that a sender or its message causes ends the session. If it paused the destination, one sender would stop the mail of all others.
  if (!beforeMail && reply.code === 421 && (outcome.owner === 'sender' || outcome.owner === 'recipient')) {
    return undefined;
  }
  const asks = beforeMail || reply.code === 421 || outcome.category === 'rate-limited' || ABOUT_SYSTEM.test(detail);
  if (asks) return { ms: hint };
  return hint === undefined ? undefined : { ms: hint, ...(!atMail && { unlessAccepting: true }) };
}

/** Returns the pause that a provider's rule requires for a temporary refusal; a time in the reply takes precedence. */
export function pauseByRule(
  rules: readonly PauseRule[],
  outcome: Pick<Outcome, 'kind' | 'reply'>,
): PauseRequest | undefined {
  if (rules.length === 0 || outcome.kind !== 'temporary' || outcome.reply === null) return undefined;
  const lowered = outcome.reply.toLowerCase();
  const rule = rules.find(({ reply }) => lowered.includes(reply.toLowerCase()));
  return rule && { ms: waitHintMs(outcome.reply) ?? rule.minutes * 60_000 };
}

/** Whether a refusal is about the number of Postrider's connections, not about the rate of messages. */
export function isAboutConnections(text: string): boolean {
  return /\btoo many\b.{0,30}\b(connections|sessions)\b|\b(connections?|sessions?)\b.{0,30}\b(limit|exceeded|too many)/i.test(
    text,
  );
}

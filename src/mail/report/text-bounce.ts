/**
 * Reads bounces that are written for people: of qmail, Exim, Gmail, Exchange, Notes, web mailers, and many others. One parser serves all
 * dialects, since they have the same structure: the recipient (a field, a line with or starting with the address, or after a label), and
 * below or next to it the server's reply. The quoted mail that follows is not searched.
 */

import { isDelayNotice } from './bounce-phrases.ts';
import { addressesIn, addressIn, type QuotedReply, quotedReply, tidied } from './quoted-reply.ts';
import type { ReportedRecipient } from './report-types.ts';

const MAX_LINES = 1500;
const MAX_RECIPIENTS = 100;
/** Lines below an address that may be about it. */
const MAX_BLOCK = 25;
const MAX_BLOCK_TEXT = 3000;
const MAX_REASON = 400;
/** Maximum length of a host name (RFC 1035 §3.1). */
const MAX_HOST = 255;

/** An address alone on its line, or before the text about it. */
const ADDRESS_FIRST =
  /^[ \t*•-]{0,12}(?:[<"'([]|&lt;){0,3}(?:\S{1,60}:\d{1,12}:<)?(?:mailto:|smtp:)?([^\s<>()[\]"',;:]{1,64}@[\p{L}\p{N}._-]{1,250})(?:[>"')\]]|&gt;){0,3}\s{0,5}(?:$|[:;,(.[<-]|\s)/iu;
/** Matches a line of a session transcript: `550 5.1.1 <a@b.example>... User unknown`. */
const REPLY_FIRST = /^[ \t]{0,12}(?=[45]\d\d[ -](?:[45]\.\d{1,3}\.\d{1,3} )?<([^<>\s]{3,320})>\.\.\.)/;
/** A label before an address. */
const LABELLED =
  /(?:recipients?|address(?:es)?|addressed to|user|mailbox|account|deliver(?:ed|y|ing)?(?: \w+){0,4}|rcpt to|failed|unknown|to|destinat[\p{L}]{1,12}|empf[^ :]{1,3}nger|an|à|errors|geadresseerden?|ontvangers?|mottagar\p{L}{0,4}|modtager\p{L}{0,2}|vastaanottaja\p{L}{0,2}|odbior\p{L}{1,3}|adresat\p{L}{0,3}|příjemc\p{L}{1,2}|príjemc\p{L}{1,2}|címzett\p{L}{0,3}|alıcı\p{L}{0,3}|получател\p{L}{1,2}|адресат\p{L}{0,2}|одержувач\p{L}{0,2}|παραλήπτης|宛先(?:アドレス)?|受取人|收件人|收信人|수신자|받는 ?사람)\s{0,3}(?:address(?:es)?)?\s{0,3}[:：<=]{1,2}[\s<"'[]{0,5}(?:smtp:|mailto:)?([^\s<>()[\]"',;:]{1,64}@[\p{L}\p{N}._-]{1,250})/iu;
const NOT_A_RECIPIENT =
  /^\s*(?:>+\s*)?(?:(?:from|sender|reply-?to|mail from|return-path|cc|contact|by|id|for help|message-id|references|in-reply-to|received|envelope-from|feedback-id|list-[a-z]+)\b|(?:de|von|da|van|od|fra|från|absender|expéditeur|expediteur|remitente|mittente|remetente|afzender|avsändare|afsender|lähettäjä|nadawca|odesílatel|odosielateľ|feladó|отправитель|від|от|gönderen|差出人|送信者|发件人|寄件者|보낸 ?사람)\s{0,3}[:：])|mail from:|\bfrom\s?[:<]/iu;
const NOBODY = /^(?:mailer-daemon|postmaster|abuse|support|helpdesk|noreply|no-reply|admin(?:istrator)?)@/i;

interface Found {
  address: string;
  line: number;
  /** Index on the line after the address. */
  after: number;
}

export interface ReportText {
  lines: readonly string[];
  subject: string;
  /** X-Failed-Recipients. */
  failed: readonly string[];
  /** Addresses in the report's own header (sender and recipient), which are not failed recipients. */
  own: ReadonlySet<string>;
  /** Addresses that the report was delivered to, or, in reports of some programs, the recipient: used if no other is named. */
  deliveredTo: ReadonlySet<string>;
  /** To of the returned mail. */
  to: readonly string[];
}

const sameAddress = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();

const WIDE: Readonly<Record<string, string>> = { '＜': '<', '〈': '<', '＞': '>', '〉': '>', '：': ':', '＠': '@' };

/** With address punctuation in ASCII; the length of the line stays the same. */
const inAscii = (line: string): string => line.replace(/[＜〈＞〉：＠]/g, (mark) => WIDE[mark]!);

function addressLines(lines: readonly string[], pattern: RegExp): Found[] {
  const found: Found[] = [];
  for (let line = 0; line < lines.length && found.length < MAX_RECIPIENTS; line += 1) {
    const text = inAscii(lines[line]!);
    if (!text.includes('@')) continue;
    const match = NOT_A_RECIPIENT.test(text) ? null : pattern.exec(text);
    const address = match && addressIn(match[1]!);
    if (!match || !address) continue;
    found.push({ address, line, after: match.index + match[0].length });
  }
  return found;
}

/** Finds the recipients, each with the first line that names it. */
function recipientsIn({ lines, subject, failed, own, deliveredTo, to }: ReportText): Found[] {
  const isOf = (addresses: ReadonlySet<string>, one: Found): boolean => addresses.has(one.address.toLowerCase());
  const mayBe = (one: Found): boolean => !isOf(own, one) && !NOBODY.test(one.address);
  const foreign = (one: Found): boolean => mayBe(one) && !isOf(deliveredTo, one);
  const once = (all: readonly Found[]): Found[] =>
    all.filter((one, i) => all.findIndex((other) => sameAddress(other.address, one.address)) === i);
  if (failed.length > 0) return firstMentions(lines, failed);
  for (const pattern of [ADDRESS_FIRST, REPLY_FIRST, LABELLED]) {
    const all = addressLines(lines, pattern);
    const others = once(all.filter(foreign));
    if (others.length > 0) return others;
    const toThem = once(all.filter((one) => to.some((other) => sameAddress(other, one.address))));
    if (toThem.length > 0) return toThem;
  }
  for (const pattern of [ADDRESS_FIRST, REPLY_FIRST, LABELLED]) {
    const delivered = once(addressLines(lines, pattern).filter(mayBe));
    if (delivered.length > 0) return delivered;
  }
  const named = addressesIn(lines.filter((line) => !NOT_A_RECIPIENT.test(line)).join('\n'), MAX_RECIPIENTS);
  const mentioned = firstMentions(lines, named);
  for (const isOne of [foreign, mayBe]) {
    const anywhere = mentioned.filter(isOne);
    const known = anywhere.filter((one) => to.some((other) => sameAddress(other, one.address)));
    if (anywhere.length > 0) return known.length > 0 ? known : anywhere.slice(0, 1);
  }
  const inSubject = addressesIn(subject, 1).map((address) => ({ address, line: -1, after: 0 }));
  return [...once(addressLines(lines, ADDRESS_FIRST)), ...inSubject.filter(mayBe)].slice(0, 1);
}

function firstMentions(lines: readonly string[], addresses: readonly string[]): Found[] {
  const lower = lines.map((line) => (line.includes('@') && !NOT_A_RECIPIENT.test(line) ? line.toLowerCase() : ''));
  return addresses.map((address) => {
    const wanted = address.toLowerCase();
    const line = lower.findIndex((one) => one.includes(wanted));
    return { address, line, after: line < 0 ? 0 : lower[line]!.indexOf(wanted) + wanted.length };
  });
}

const MAIL_FOLLOWS = /^\W*(?:bounced|original|returned|unsent) (?:message|mail|e-mail)/i;

/** Returns the text about a recipient: the rest of its line and the lines below, up to the next recipient. */
function blockOf(lines: readonly string[], found: Found, all: readonly Found[]): string[] {
  if (found.line < 0) return [];
  const next = Math.min(...all.filter((one) => one.line > found.line).map((one) => one.line), found.line + MAX_BLOCK);
  const block = [lines[found.line]!.slice(found.after)];
  let length = block[0]!.length;
  for (const line of lines.slice(found.line + 1, next)) {
    length += line.length;
    if (length > MAX_BLOCK_TEXT || MAIL_FOLLOWS.test(line)) break;
    block.push(line);
  }
  return block;
}

const MAY_BE_REPLY = /[245]\d\d|[245]\.\d/;

/** Returns the line with a reply and its continuation lines. */
function paragraphOfReply(lines: readonly string[]): string {
  let start = -1;
  let vague = '';
  for (const [index, line] of lines.entries()) {
    if (start >= 0 || !MAY_BE_REPLY.test(line)) continue;
    const { smtpCode, status } = quotedReply(line);
    if (smtpCode !== null) start = index;
    else if (vague === '' && status !== null && !/^\s*status:/i.test(line)) vague = line;
  }
  if (start < 0) return vague;
  const rest = lines.slice(start);
  const end = rest.findIndex(
    (line, i) => i > 0 && (line.trim() === '' || /^\s*(?:-{3,}|={3,}|<<<|>>>|Final-|\*{3,})/i.test(line)),
  );
  return rest.slice(0, end < 0 ? 8 : Math.min(end, 8)).join(' ');
}

/** Greetings and standard phrases; the other lines give the reason. */
const FILLER =
  /^\W{0,8}(?:hi[.!]?|your message|this (?:message|is an?|is the)|i'm (?:sorry|afraid)|a message that you|the following|recipients? of|this is a permanent|delivery to the following|reporting-mta|to:|subject:|sent:|date:|please (?:note|do not)|you do not need|message headers follow|and try (?:re)?send|action:|status:|original message|unable to deliver|message (?:from|will be retried)|technical details of|failure reasons|transcript of|google tried to)/i;

const NAMED_REASON = /^\W{0,8}(?:\w+ )?(?:reason|error|cause|grund|motivo|raison)\s*:\s*\S/i;

function telling(lines: readonly string[]): string {
  const kept = lines.filter((line) => /[\p{L}\p{N}]/u.test(line) && !FILLER.test(line.trim()));
  return tidied(kept.join(' ')).slice(0, MAX_REASON);
}

interface Reason {
  isNamed: boolean;
  text: string;
}

/** Returns the reason that a text gives for all its recipients. */
function commonReason(lines: readonly string[]): Reason {
  const named = lines.find((line) => NAMED_REASON.test(line));
  if (named === undefined) return { isNamed: false, text: telling(lines) };
  return { isNamed: true, text: tidied(named).slice(0, MAX_REASON) };
}

/** Labels end before the address; only the last words before it matter. */
const LABEL = /(?:address|recipient|to)\s{0,3}[:<]{0,2}\s*\S+$/i;
const LABEL_LENGTH = 200;

function reasonWithoutReply(block: readonly string[], inFront: string, common: () => Reason): string {
  // Paragraph by paragraph: text further down is about something else.
  for (let from = 0; from < block.length; ) {
    const blank = block.findIndex((line, i) => i > from && line.trim() === '');
    const end = blank < 0 ? block.length : blank;
    const quoted = telling(block.slice(from, end));
    if (quoted.length > 3 && !quoted.endsWith(':')) return quoted;
    from = end;
  }
  const { isNamed, text } = common();
  const isLabel = LABEL.test(inFront.slice(-LABEL_LENGTH));
  return !isNamed && !isLabel && /\p{L}{3} \p{L}{3}.*[: ]/u.test(inFront) ? inFront : text;
}

const REMOTE = /\bhost:? ([\p{L}\p{N}][\p{L}\p{N}.-]{0,250}\.[\p{L}\p{N}-]{2,63})|remote host ([\d.:a-f]{7,45})\b/iu;

function remoteHostIn(text: string): string | null {
  const host = REMOTE.exec(text);
  return (host?.[1] ?? host?.[2] ?? null)?.slice(0, MAX_HOST) ?? null;
}

/** Returns whether a line starts with an address, as lines about recipients do. */
export function namesRecipientFirst(lines: readonly string[]): boolean {
  return [ADDRESS_FIRST, REPLY_FIRST].some((pattern) => addressLines(lines.slice(0, MAX_LINES), pattern).length > 0);
}

/** Reads what the text states about each recipient; none if it names none. */
export function readTextBounce(text: ReportText): ReportedRecipient[] {
  const lines = text.lines.slice(0, MAX_LINES);
  const found = recipientsIn({ ...text, lines }).slice(0, MAX_RECIPIENTS);
  if (found.length === 0) return [];
  const ofText = aboutText(text.subject, lines);
  return found.map((one) => {
    const block = blockOf(lines, one, found);
    const reply = paragraphOfReply(block) || (found.length === 1 ? paragraphOfReply(lines) : '');
    const inFront = one.line < 0 ? '' : tidied(lines[one.line]!.slice(0, one.after));
    const quoted = quotedReply(reply === '' ? reasonWithoutReply(block, inFront, ofText.reason) : reply);
    const remoteHost = remoteHostIn(block.join(' ').slice(0, 2000));
    return reported(ofText, quoted, { finalRecipient: one.address, remoteHost });
  });
}

/** Reads a bounce that names no recipient: its message has only one. */
export function readNamelessBounce({ lines: all, subject }: ReportText): ReportedRecipient {
  const lines = all.slice(0, MAX_LINES);
  const ofText = aboutText(subject, lines);
  const quoted = quotedReply(paragraphOfReply(lines) || ofText.reason().text);
  return reported(ofText, quoted, { finalRecipient: null, remoteHost: null });
}

interface OfText {
  action: 'failed' | 'delayed';
  remoteHost: string | null;
  /** Returns the reason for all recipients. */
  reason(): Reason;
}

function aboutText(subject: string, lines: readonly string[]): OfText {
  let known: Reason | undefined;
  return {
    action: isDelayNotice(subject, lines.join('\n')) ? 'delayed' : 'failed',
    remoteHost: remoteHostIn(lines.join(' ').slice(0, 4000)),
    reason: () => (known ??= commonReason(lines)),
  };
}

function reported(
  ofText: OfText,
  quoted: QuotedReply,
  { finalRecipient, remoteHost }: Pick<ReportedRecipient, 'finalRecipient' | 'remoteHost'>,
): ReportedRecipient {
  return {
    finalRecipient,
    originalRecipient: null,
    action: ofText.action,
    status: quoted.status,
    smtpCode: quoted.smtpCode,
    diagnostic: quoted.text === '' ? null : quoted.text,
    remoteHost: remoteHost ?? ofText.remoteHost,
  };
}

/**
 * Parses mailboxes as people type them: `a@example.com`, `Display Name <a@example.com>`, and lists separated by commas (RFC 5322 §3.4, with
 * the UTF-8 of RFC 6531/6532 and internationalized domains). Comments are white space, except that a comment after a bare address is its
 * name. Empty list elements (RFC 5322 §4.4) and trailing commas are ignored. Text that SMTP cannot carry or that is used to deceive is
 * refused: control characters, addresses in comments, groups, source routes, address literals, single-label domains, and names with an
 * unquoted `@` or text direction controls. Lists are limited, so parsing takes time in proportion to the length of the text. A parsed
 * `Address` is safe in a header or an SMTP command in the form of `wireAddress`.
 *
 * Encoded-words (RFC 2047 §5) in names and comments are decoded, but not those in quotes, where they are literal text. The caller checks
 * whether a decoded name is deceptive (`displayNameIssue`).
 *
 * Japanese carriers assigned addresses whose local part has a dot at an end or several in a row (`a..b@docomo.ne.jp`). They are accepted as
 * typed, quoted on the wire (RFC 5321 §4.1.2), and equal with and without quotes.
 */
import { domainToASCII, domainToUnicode } from 'node:url';
import { listItems, MARK, severalIssue, type Uncommented, withoutComments } from './address-items.ts';
import { decodeWords } from './mime/header-fields.ts';

export interface Address {
  /** Display name, decoded; empty if there is none. */
  name: string;
  /** Local part as typed: atoms and dots, or a quoted string with its quotes. `wireLocal` is its form on the wire. */
  local: string;
  /** In lower case; U-labels are not converted to A-labels. */
  domain: string;
  /** `local@domain`. */
  address: string;
}

export type AddressResult =
  | {
      ok: true;
      value: Address;
      /** The name was in encoded-words. */
      isEncoded?: true;
    }
  | { ok: false; reason: string };

export interface AddressIssue {
  /** Position in the list, from 0. */
  index: number;
  text: string;
  reason: string;
}

export type AddressListResult = { ok: true; value: Address[] } | { ok: false; issues: AddressIssue[] };

const MAX_LOCAL_BYTES = 64;
const MAX_DOMAIN_BYTES = 255;
const MAX_ADDRESS_BYTES = 254;
const MAX_TEXT_LENGTH = 1000;
/** Maximum number of addresses in a list, well above the maximum number of recipients of a message. */
export const MAX_LISTED = 1000;
/** Parsing of a list stops after this many invalid addresses. */
const MAX_LIST_ISSUES = 100;
const MAX_SHOWN_LENGTH = 100;
const NO_AT = 'is not an email address: it needs a local part, an @ and a domain';

const PLAIN_ADDRESS =
  /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?:\.[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,63}$/;
// These match control characters and line separators, and spaces and invisible characters that make two addresses look alike.
const CONTROL = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u;
const INVISIBLE = /[\p{Z}\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\uffff]|\u034f/u;
/** Matches embeddings, overrides, and isolates, which make a name look like another one. */
const DIRECTION = /[\u202a-\u202e\u2066-\u2069]/;
const DOT_ATOM =
  /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~\u0080-\u{10ffff}]+(?:\.[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~\u0080-\u{10ffff}]+)*$/u;
/** Matches a name followed by an address without angle brackets: `Ann ann@example.com`. */
const NAME_AND_ADDRESS = /^[^@"\\]*[^@"\\ \t][ \t]+[^@\s"\\]+@[^@\s]+$/;
/** Matches a local part of atoms and dots, with dots in any place. */
const DOTTED = /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.\u0080-\u{10ffff}]+$/u;
const QUOTED_STRING = /^"(?:[^"\\]|\\.)*"$/su;
const ASCII_LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const NON_ASCII = /[^\x00-\x7f]/;

/** Matches names that need no quotes, with single spaces between words. */
const PLAIN_NAME = /^[A-Za-z0-9!#$%&'*+\-./=?^_`{|}~]+(?: [A-Za-z0-9!#$%&'*+\-./=?^_`{|}~]+)*$/;
const PLAIN_DOMAIN = /^[a-z0-9.-]*$/;

function refused(reason: string): { ok: false; reason: string } {
  return { ok: false, reason };
}

/**
 * Returns the domain with every label in ASCII (IDNA A-labels), in lower case; undefined if it has no such form. Does not check whether the
 * domain is valid in an address.
 */
export function domainToAscii(domain: string): string | undefined {
  if (PLAIN_DOMAIN.test(domain) && !domain.includes('xn--')) return domain;
  if (!NON_ASCII.test(domain) && !/xn--/i.test(domain)) return domain.toLowerCase();
  // The URL parser would percent-decode and strip, so only letters, digits, hyphens, and dots may reach it.
  if (/[\x00-\x2c\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]/.test(domain)) return undefined;
  const ascii = domainToASCII(domain);
  return ascii === '' ? undefined : ascii;
}

/** Returns whether the address can only be sent with SMTPUTF8 (RFC 6531): a domain can always be sent as A-labels. */
export function needsSmtpUtf8(address: Address | string): boolean {
  return NON_ASCII.test(typeof address === 'string' ? address.slice(0, address.lastIndexOf('@')) : address.local);
}

/** Returns whether the text has text direction controls, which can make it look like other text. */
function hasDirectionControl(text: string): boolean {
  return DIRECTION.test(text);
}

/** Returns the local part as RFC 5321 §4.1.2 requires: quoted if its dots require it. */
export function wireLocal(local: string): string {
  return local.startsWith('"') || DOT_ATOM.test(local) ? local : `"${local}"`;
}

/** Returns the address without unnecessary quotes and escapes in its local part. */
function withoutNeedlessQuotes(address: string): string {
  const at = address.lastIndexOf('@');
  const local = address.slice(0, at);
  if (!QUOTED_STRING.test(local)) return address;
  const content = local.slice(1, -1).replace(/\\(.)/gsu, '$1');
  const plain = isDotted(content) ? content : `"${content.replace(/["\\]/g, '\\$&')}"`;
  return plain + address.slice(at);
}

/** Returns a key that is equal for all spellings of an address: lower case, NFC, the domain as A-labels, no unnecessary quotes. */
export function sameAddressKey(address: Address | string): string {
  const text = typeof address === 'string' ? address : address.address;
  const lower = text.toLowerCase();
  const key = lower.startsWith('"') ? withoutNeedlessQuotes(lower) : lower;
  if (!NON_ASCII.test(key)) return key;
  const at = key.lastIndexOf('@');
  const domain = key.slice(at + 1).normalize('NFC');
  return `${key.slice(0, at).normalize('NFC')}@${domainToAscii(domain) ?? domain}`;
}

/**
 * Returns the forms in which an address may have been stored as typed: its domain in A-labels and in Unicode, its local part as given, in
 * lower case, and quoted. The caller compares ASCII letters without case.
 */
export function addressSpellings(address: string): string[] {
  const text = address.trim().normalize('NFC');
  if (!text.includes('@')) return [address];
  const key = sameAddressKey(text);
  const at = key.lastIndexOf('@');
  const ascii = key.slice(at + 1);
  const local = key.slice(0, at);
  const locals = [text.slice(0, text.lastIndexOf('@')), local, local.startsWith('"') ? local : `"${local}"`];
  const domains = [ascii, domainToUnicode(ascii) || ascii];
  return [...new Set([address, ...locals.flatMap((one) => domains.map((domain) => `${one}@${domain}`))])];
}

/** Returns the form for the wire and headers: the local part quoted if necessary, the domain in ASCII if the local part allows it. */
export function wireAddress({ address, local, domain }: Address): string {
  const wire = wireLocal(local);
  if (!NON_ASCII.test(address) || NON_ASCII.test(local)) return wire === local ? address : `${wire}@${domain}`;
  return `${wire}@${domainToAscii(domain) ?? domain}`;
}

/** Shortens text of the caller for an error message. */
function shortened(text: string): string {
  return text.length <= MAX_SHOWN_LENGTH ? text : `${text.slice(0, MAX_SHOWN_LENGTH)}…`;
}

function domainIssue(domain: string): string | undefined {
  if (domain === '') return 'has no domain after the @';
  if (domain.startsWith('[')) return 'has an IP address as its domain; use a domain name';
  if (CONTROL.test(domain) || INVISIBLE.test(domain)) return 'has a space or an invisible character in its domain';
  const ascii = domainToAscii(domain);
  if (ascii === undefined) return `has a domain that is not valid (${shortened(domain)})`;
  if (ascii.length > MAX_DOMAIN_BYTES - 2) return `has a domain longer than ${MAX_DOMAIN_BYTES - 2} characters`;
  const labels = ascii.split('.');
  if (labels.length < 2) return `has a domain without a dot (${shortened(domain)}); use the full domain name`;
  for (const label of labels) {
    if (label === '') return 'has an empty label in its domain (two dots in a row, or a dot at either end)';
    if (label.length > 63) return 'has a label longer than 63 characters in its domain';
    if (!ASCII_LABEL.test(label))
      return `has characters in its domain that are not allowed (${shortened(label)}); a label has letters, digits, and hyphens between them`;
  }
  if (/^\d+$/.test(labels[labels.length - 1]!)) return 'has a domain that ends in a number; use a domain name';
  return undefined;
}

function isDotted(local: string): boolean {
  return DOTTED.test(local) && !/^\.+$/.test(local);
}

function localIssue(local: string): string | undefined {
  if (local === '') return 'has nothing before the @';
  if (Buffer.byteLength(local) > MAX_LOCAL_BYTES) return `has more than ${MAX_LOCAL_BYTES} bytes before the @`;
  if (local.startsWith('"')) {
    if (!QUOTED_STRING.test(local)) return 'has a quoted part before the @ that is not closed properly';
    if (local.length === 2) return 'has an empty quoted part before the @';
    return /[^\x20-\x7e\u00a0-\u{10ffff}]/u.test(local) ? 'has a control character before the @' : undefined;
  }
  if (INVISIBLE.test(local)) return 'has a space or an invisible character before the @';
  if (DOT_ATOM.test(local)) return undefined;
  if (/^\.+$/.test(local)) return 'has nothing but dots before the @';
  if (isDotted(local)) {
    return Buffer.byteLength(local) > MAX_LOCAL_BYTES - 2
      ? `has more than ${MAX_LOCAL_BYTES} bytes before the @`
      : undefined;
  }
  const special = [...local].find((character) => !DOTTED.test(character));
  return `has the character ${special} before the @, which is allowed only in double quotes`;
}

/** Parses an address without name or angle brackets. */
function parseAddrSpec(text: string, name: string): AddressResult {
  if (text.startsWith('@')) {
    return refused(text.includes(':') ? 'has a source route, which is not allowed' : 'has nothing before the @');
  }
  const at = text.startsWith('"') ? closingQuote(text) + 1 : text.indexOf('@');
  if (at < 0 || text[at] !== '@') return refused(missingAt(text));
  const local = text.slice(0, at);
  const typed = text.slice(at + 1);
  if (typed.includes('@')) {
    return refused(
      typed.includes(';')
        ? 'has a semicolon between addresses; separate them with commas'
        : 'has more than one @; separate addresses with commas',
    );
  }
  const issue = localIssue(local);
  if (issue !== undefined) return refused(issue);
  const domain = typed
    .replace(/[\u3002\uff0e\uff61]/g, '.')
    .toLowerCase()
    .normalize('NFC');
  const badDomain = domainIssue(domain);
  if (badDomain !== undefined) return refused(badDomain);
  const address = `${local}@${domain}`;
  const asciiBytes = Buffer.byteLength(local) + 1 + (domainToAscii(domain) ?? '').length;
  if (Math.max(asciiBytes, Buffer.byteLength(address)) > MAX_ADDRESS_BYTES) {
    return refused(`is longer than ${MAX_ADDRESS_BYTES} bytes`);
  }
  return { ok: true, value: { name, local, domain, address } };
}

function missingAt(text: string): string {
  return text.startsWith('"') ? 'has a quoted part without an @ and a domain after it' : NO_AT;
}

/** Returns the index of the quote that closes the one at the start; the last index if there is none. */
function closingQuote(text: string): number {
  for (let i = 1; i < text.length; i += 1) {
    if (text[i] === '\\') i += 1;
    else if (text[i] === '"') return i;
  }
  return text.length - 1;
}

const SPACES = /[ \t]+/g;

/** Decodes the encoded-words in text that is not quoted. The result may have control characters. */
function decodedText(text: string): string {
  const spaced = text.replace(SPACES, ' ');
  return spaced.includes('=?') ? decodeWords(spaced).replace(SPACES, ' ') : spaced;
}

/** Parses a display name: words, encoded-words, and quoted strings (RFC 5322 phrase, with the dots of §4.1). */
function parseName(text: string): { name: string; isEncoded: boolean } | { reason: string } {
  let name = '';
  let isEncoded = false;
  let rest = text;
  while (rest !== '') {
    if (rest.startsWith('"')) {
      const end = closingQuote(rest);
      const quoted = rest.slice(0, end + 1);
      if (!QUOTED_STRING.test(quoted)) return { reason: 'has an unclosed quoted display name' };
      name += quoted.slice(1, -1).replace(/\\(.)/gsu, '$1');
      rest = rest.slice(end + 1);
      continue;
    }
    const words = /^[^"]+/.exec(rest)![0];
    const special = /[\\()<>[\]:;@,]/.exec(words);
    if (special !== null) {
      return { reason: `has the character ${special[0]} in its display name; put the display name in double quotes` };
    }
    name += decodedText(words);
    isEncoded ||= words.includes('=?');
    rest = rest.slice(words.length);
  }
  if (isEncoded && CONTROL.test(name)) return { reason: 'has a control character in its display name' };
  return { name: name.trim(), isEncoded };
}

/** Returns an ASCII address without quoting, which needs no further check; undefined for all others. */
function plainAddress(text: string, name: string): Address | undefined {
  if (text.length >= MAX_ADDRESS_BYTES || !PLAIN_ADDRESS.test(text)) return undefined;
  if (text.includes('--') && /xn--/i.test(text)) return undefined;
  const at = text.indexOf('@');
  const typed = text.slice(at + 1);
  if (at > MAX_LOCAL_BYTES || typed.length > MAX_DOMAIN_BYTES - 2) return undefined;
  const local = text.slice(0, at);
  const domain = typed.toLowerCase();
  return { name, local, domain, address: domain === typed ? text : `${local}@${domain}` };
}

/** Fast path for the common forms `a@example.com` and `Name <a@example.com>`; undefined for anything that needs closer inspection. */
function plainMailbox(text: string): Address | undefined {
  if (!text.endsWith('>')) return plainAddress(text, '');
  const open = text.indexOf(' <');
  if (open <= 0 || text.length > MAX_TEXT_LENGTH) return undefined;
  const name = text.slice(0, open);
  return PLAIN_NAME.test(name) && !name.includes('=?') ? plainAddress(text.slice(open + 2, -1), name) : undefined;
}

/**
 * Parses one mailbox. The reason of a refusal continues a sentence that starts with the field or the address, for example `is not an email
 * address: it needs a local part, an @ and a domain`.
 */
export function parseAddress(text: string): AddressResult {
  const plain = plainMailbox(text);
  if (plain !== undefined) return { ok: true, value: plain };
  if (text.length > MAX_TEXT_LENGTH) return refused(`is longer than ${MAX_TEXT_LENGTH} characters`);
  if (CONTROL.test(text.replaceAll('\t', ' '))) return refused('has a line break or another control character');
  const trimmed = text.replace(/^[ \t,]+|[ \t,]+$/g, '');
  if (trimmed === '') return refused(text.includes(',') ? 'has no address, only commas' : 'is empty');
  if (trimmed.endsWith(';')) {
    return refused('is a group or ends with a semicolon; separate addresses with commas');
  }
  const several = trimmed.includes(',') ? severalIssue(trimmed) : undefined;
  if (several !== undefined) return refused(several);
  if (!trimmed.includes('(')) return parseMailbox(trimmed);
  const uncommented = withoutComments(trimmed);
  if (uncommented === undefined) {
    return refused('has an unclosed parenthesis; put a display name with parentheses in double quotes');
  }
  return parseWithComments(uncommented);
}

/** Parses an address as in an SMTP command: without a name, comments, or brackets. */
export function parseBareAddress(text: string): AddressResult {
  const plain = plainAddress(text, '');
  if (plain !== undefined) return { ok: true, value: plain };
  if (text.length > MAX_TEXT_LENGTH) return refused(`is longer than ${MAX_TEXT_LENGTH} characters`);
  if (CONTROL.test(text)) return refused('has a line break or another control character');
  return parseAddrSpec(text, '');
}

/** Parses a mailbox that has no surrounding space and no comments. */
function parseMailbox(text: string): AddressResult {
  if (!text.endsWith('>')) return parseWithoutBrackets(text);
  const open = openingBracket(text);
  if (open < 0) return refused('has a > without a <');
  const inside = text.slice(open + 1, -1).replace(/^[ \t]+|[ \t]+$/g, '');
  const name = parseName(text.slice(0, open).replace(/[ \t]+$/, ''));
  if ('reason' in name) return refused(name.reason);
  if (hasDirectionControl(name.name)) return refused('has a text direction control character in its display name');
  if (inside === '') return refused('has no address between < and >');
  const result = parseAddrSpec(inside, name.name);
  return result.ok && name.isEncoded ? { ...result, isEncoded: true } : result;
}

const SURROUNDING_SPACE = /^[ \t\u0001]+|[ \t\u0001]+$/g;

/** Parses a mailbox whose comments were removed. If the address has no name, the last comment is its name, as old mailers write it. */
function parseWithComments({ text, comments: written }: Uncommented): AddressResult {
  const comments = written.map(decodedText);
  for (const comment of comments) {
    if (comment.normalize('NFKC').includes('@'))
      return refused(`has an address in a comment (${shortened(comment)}); remove the comment`);
    if (hasDirectionControl(comment)) return refused('has a text direction control character in a comment');
    if (CONTROL.test(comment)) return refused('has a control character in a comment');
  }
  const trimmed = text.replace(SURROUNDING_SPACE, '');
  if (trimmed === '') return refused('has a comment in parentheses but no address');
  const spec = trimmed.endsWith('>')
    ? trimmed.slice(trimmed.lastIndexOf('<') + 1, -1).replace(SURROUNDING_SPACE, '')
    : trimmed;
  if (spec.includes(MARK)) return refused('has a comment inside the address; put it after the address');
  const result = parseMailbox(trimmed.replaceAll(MARK, ' '));
  if (!result.ok) return result;
  const { value } = result;
  return { ...result, value: { ...value, name: value.name || (comments.at(-1) ?? '').trim() } };
}

function parseWithoutBrackets(text: string): AddressResult {
  if (!text.startsWith('"') && text.includes('<')) return refused('has a < without a >');
  if (NAME_AND_ADDRESS.test(text))
    return refused('has a space before the @; remove it, or write Name <ann@example.com>');
  return parseAddrSpec(text, '');
}

/** Returns the index of the first `<` outside quotes; -1 if there is none. */
function openingBracket(text: string): number {
  if (!text.includes('"')) return text.indexOf('<');
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i];
    if (c === '<') return i;
    if (c === '"') i += closingQuote(text.slice(i));
  }
  return -1;
}

/**
 * Parses mailboxes separated by commas, except in quotes and comments; ignores empty elements. Reports every issue, up to a hundred; more
 * than a thousand addresses are an issue too. `parse` parses one mailbox, and may refuse more than `parseAddress`.
 */
export function parseAddressList(text: string, parse = parseAddress): AddressListResult {
  if (!text.includes(',')) {
    const only = parse(text);
    return only.ok ? { ok: true, value: [only.value] } : { ok: false, issues: [issueOf(0, text, only.reason)] };
  }
  const value: Address[] = [];
  const issues: AddressIssue[] = [];
  let index = 0;
  for (const item of listItems(text)) {
    if (item.trim() === '') continue;
    if (index >= MAX_LISTED) {
      issues.push({ index, text: '', reason: `has more than ${MAX_LISTED} addresses` });
      break;
    }
    const result = parse(item);
    if (result.ok) value.push(result.value);
    else if (issues.push(issueOf(index, item, listReason(result.reason))) >= MAX_LIST_ISSUES) break;
    index += 1;
  }
  if (index === 0) issues.push(issueOf(0, text, 'has no address, only commas'));
  return issues.length === 0 ? { ok: true, value } : { ok: false, issues };
}

/** Adds a fix to the reason for a missing @: a comma in an unquoted display name splits the mailbox. */
function listReason(reason: string): string {
  return reason === NO_AT ? `${reason}; put a display name with a comma in double quotes` : reason;
}

function issueOf(index: number, text: string, reason: string): AddressIssue {
  return { index, text: text.trim().slice(0, 200), reason };
}

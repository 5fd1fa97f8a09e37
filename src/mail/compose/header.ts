/**
 * Writes header fields of a message: names, folding (RFC 5322 §2.2.3), encoded-words (RFC 2047), parameters (RFC 2231), dates, and
 * Message-IDs. All output is ASCII; lines end in CRLF and have at most 78 characters if the content can be folded, never more than 998.
 * Values with line breaks or other control characters throw; callers check with `hasForbiddenControl` first.
 */
import { hash } from 'node:crypto';
import { randomText } from '../../base/ids.ts';
import { type Address, domainToAscii, wireAddress } from '../address.ts';

const FORBIDDEN = /[\x00-\x08\x0a-\x1f\x7f\u0085\u2028\u2029]/;
/** Has no FORBIDDEN character. */
const PRINTABLE = /^[\t\x20-\x7e]*$/;
const ATOMS = /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?: [A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*$/;
const PREFERRED_LINE = 78;
const ENCODED_WORD = 75;
const ENCODED_WORD_OVERHEAD = '=?UTF-8?B??='.length;
/** A longer word cannot be folded and would come close to the limit of 998. */
const LONG_WORD = /[^ \t]{900}/;

/** Returns whether the value has CR, LF, NUL, or another control character (TAB is allowed), or a Unicode line separator. */
export function hasForbiddenControl(value: string): boolean {
  return FORBIDDEN.test(value);
}

/** Returns whether the text may be the name of a header field (RFC 5322 §3.6.8), at most 76 characters. */
export function isHeaderName(name: string): boolean {
  return name.length <= 76 && /^[!-9;-~]+$/.test(name);
}

function assertClean(name: string, value: string): void {
  if (FORBIDDEN.test(value)) throw new TypeError(`control character in the value of ${name}`);
}

/** Folds ASCII text at its spaces; the first line starts at `column`. */
export function fold(text: string, column: number): string {
  if (column + text.length <= PREFERRED_LINE) return text;
  // A match starts only where spaces start, so that each run of spaces is read once.
  const words = text.match(/(?<![ \t])[ \t]*[^ \t]+/g) ?? [];
  let out = '';
  let width = column;
  for (const word of words) {
    const first = word.charCodeAt(0);
    if (width + word.length > PREFERRED_LINE && width > 1 && (first === 0x20 || first === 9)) {
      out += '\r\n';
      width = 0;
    }
    out += word;
    width += word.length;
  }
  return out;
}

/** Bytes that RFC 2047 §5 (3) allows unencoded in a Q word in any place: the strictest set, that of a phrase. */
const Q_SAFE = new Uint8Array(128);
for (const c of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/ ') Q_SAFE[c.charCodeAt(0)] = 1;

function utf8Length(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x800) return 2;
  return codePoint < 0x10000 ? 3 : 4;
}

function qEncode(text: string): string {
  let out = '';
  for (const byte of Buffer.from(text, 'utf8')) {
    if (byte === 0x20) out += '_';
    else if (byte < 0x80 && Q_SAFE[byte] === 1) out += String.fromCharCode(byte);
    else out += `=${byte < 16 ? '0' : ''}${byte.toString(16).toUpperCase()}`;
  }
  return out;
}

/**
 * Returns encoded-words, separated by one space, each at most 75 characters and not splitting code points; B or Q, whichever is shorter for
 * the complete value. The first one leaves `column` characters for what precedes it.
 */
export function encodedWords(value: string, column: number): string {
  const text = value.toWellFormed();
  let bytes = 0;
  let quoted = 0;
  for (const character of text) {
    const code = character.codePointAt(0)!;
    const length = utf8Length(code);
    bytes += length;
    quoted += code < 0x80 && Q_SAFE[code] === 1 ? 1 : 3 * length;
  }
  const q = quoted <= Math.ceil(bytes / 3) * 4;
  const words: string[] = [];
  let room = Math.max(24, Math.min(ENCODED_WORD, 76 - column) - ENCODED_WORD_OVERHEAD);
  let chunk = '';
  let used = 0;
  const flush = () => {
    words.push(q ? `=?UTF-8?Q?${qEncode(chunk)}?=` : `=?UTF-8?B?${Buffer.from(chunk, 'utf8').toString('base64')}?=`);
    chunk = '';
    used = 0;
    room = ENCODED_WORD - ENCODED_WORD_OVERHEAD;
  };
  for (const character of text) {
    const code = character.codePointAt(0)!;
    const cost = q ? (code < 0x80 && Q_SAFE[code] === 1 ? 1 : 3 * utf8Length(code)) : utf8Length(code);
    if (used > 0 && used + cost > (q ? room : Math.floor(room / 4) * 3)) flush();
    chunk += character;
    used += cost;
  }
  if (chunk !== '') flush();
  return words.join(' ');
}

/**
 * Returns a field with readable text, such as Subject: email clients display it exactly as given, even if it looks like an encoded-word.
 * The result is a folded line with its CRLF.
 */
export function textField(name: string, value: string): string {
  const column = name.length + 2;
  const isPrintable = PRINTABLE.test(value);
  if (!isPrintable) assertClean(name, value);
  if (isPrintable && !value.includes('=?') && (column + value.length <= PREFERRED_LINE || !LONG_WORD.test(value))) {
    return `${name}: ${fold(value, column)}\r\n`;
  }
  return `${name}: ${fold(encodedWords(value, column), column)}\r\n`;
}

/** Returns a display name as RFC 5322 phrase: bare words, a quoted string, or encoded-words. Not folded. */
export function encodePhrase(name: string): string {
  if (name === '' || (ATOMS.test(name) && !name.includes('=?'))) return name;
  assertClean('a display name', name);
  if (PRINTABLE.test(name) && !name.includes('=?') && !LONG_WORD.test(name)) {
    return `"${name.replace(/["\\]/g, '\\$&')}"`;
  }
  return encodedWords(name, 12);
}

/** Returns a mailbox for From, To, or Cc: `Name <address>` or the bare address. Not folded. */
export function mailboxText(address: Address): string {
  if (!PRINTABLE.test(address.address)) assertClean('an address', address.address);
  const wire = wireAddress(address);
  return address.name === '' ? wire : `${encodePhrase(address.name)} <${wire}>`;
}

/** Returns an address field, folded after its commas if possible, with its CRLF; `addresses` is not empty. */
export function addressField(name: string, addresses: readonly Address[]): string {
  if (addresses.length === 1) return `${name}: ${fold(mailboxText(addresses[0]!), name.length + 2)}\r\n`;
  let out = `${name}:`;
  let column = out.length;
  for (let i = 0; i < addresses.length; i += 1) {
    const text = mailboxText(addresses[i]!) + (i < addresses.length - 1 ? ',' : '');
    if (column + 1 + text.length > PREFERRED_LINE && i > 0) {
      out += '\r\n';
      column = 0;
    }
    const folded = fold(text, column + 1);
    out += ` ${folded}`;
    column = folded === text ? column + 1 + text.length : folded.length - folded.lastIndexOf('\n') - 1;
  }
  return `${out}\r\n`;
}

/**
 * Returns a parameter of Content-Type or Content-Disposition with its leading `;` and fold. ASCII values are a quoted string; others follow
 * RFC 2231 (`filename*=UTF-8''…`), in numbered continuations if they are long.
 */
export function parameter(name: string, value: string): string {
  assertClean(name, value);
  const quoted = PRINTABLE.test(value) ? value.replace(/["\\]/g, '\\$&') : undefined;
  if (quoted !== undefined && quoted.length <= 900) return `;\r\n ${name}="${quoted}"`;
  const pieces: string[] = [];
  let piece = "UTF-8''";
  for (const character of value.toWellFormed()) {
    const encoded = encodeURIComponent(character).replace(
      /[*'()]/g,
      (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
    );
    if (piece.length + encoded.length > 60) {
      pieces.push(piece);
      piece = '';
    }
    piece += encoded;
  }
  pieces.push(piece);
  if (pieces.length === 1) return `;\r\n ${name}*=${piece}`;
  return pieces.map((text, i) => `;\r\n ${name}*${i}*=${text}`).join('');
}

/**
 * Returns the `name` parameter of Content-Type, which older email clients read instead of `filename`: non-ASCII as encoded-words in quotes
 * (against RFC 2047 §5, but all clients write and read it).
 */
export function legacyNameParameter(value: string): string {
  if (PRINTABLE.test(value) && !value.includes('=?')) return parameter('name', value);
  assertClean('name', value);
  return `;\r\n name="${fold(encodedWords(value, 12), 8)}"`;
}

let cachedSecond = -1;
let cachedDate = '';

/** Returns the date and time of RFC 5322 §3.3 in UTC, for example `Fri, 20 Nov 2026 09:44:00 +0000`. */
export function formatDate(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== cachedSecond) {
    cachedDate = new Date(second * 1000).toUTCString().replace('GMT', '+0000');
    cachedSecond = second;
  }
  return cachedDate;
}

let cachedMs = -1;
let cachedTime = '';

/** Caches the time in a Message-ID: writing a number in base 36 is more than half of the work. */
function timeText(ms: number): string {
  if (ms !== cachedMs) {
    cachedTime = ms.toString(36);
    cachedMs = ms;
  }
  return cachedTime;
}

/** Returns a new Message-ID in angle brackets: time and 95 random bits at the domain, in A-labels. */
export function newMessageId(domain: string, nowMs: number): string {
  return `<${timeText(nowMs)}.${randomText(16)}@${domainToAscii(domain) ?? 'invalid'}>`;
}

/** Identifies the sender to mailbox providers: 5 to 15 characters. */
const SENDER_ID = 'POSTRIDER';
const ACCOUNT_HASH_CHARACTERS = 10;

/**
 * Returns the value of Feedback-ID, by which feedback loops group complaints: tag, account, kind, sender. The account is a hash, because
 * recipients can read it.
 */
export function feedbackId(accountId: string, tag = 'untagged'): string {
  return `${tag}:${hash('sha256', accountId).slice(0, ACCOUNT_HASH_CHARACTERS)}:mail:${SENDER_ID}`;
}

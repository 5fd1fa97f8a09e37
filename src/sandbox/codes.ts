/**
 * Finds one-time codes in the text of a message, the likely ones first, for tests of a sign-up. Pure. A heuristic; codes.test.ts lists what
 * it finds and what it ignores.
 *
 * - Four to eight digits, or digits in equal groups (`482 913`, `1234-5678`, `12-34-56`).
 * - Capitals mixed with digits, in one piece or in groups (`K7Q2MX`, `AB12-CD34`), and groups of capitals (`WDJB-MJHT`), only near a
 *   word for a code (code, OTP, PIN, TAN, passcode, token, password, in some more languages).
 * - No years and dates, no prices and amounts, no telephone, card, order, house, and postal numbers, nothing from a web or mail
 *   address. A number directly after such a word (`your PIN is 2024`) is always a code.
 * - A number directly after a colon, `#`, or `_` is part of a time, a port, a ratio, or an id, unless such a word precedes it
 *   (`code:482913`, `PIN is #0042`).
 * - `G-482913` is 482913: the letter is not typed.
 *
 * Codes near such a word come first, each group in the order of the text.
 */

const MOST_FOUND = 100;
const READ_CHARACTERS = 200_000;
const ADDRESS = /\b(?:https?:\/\/|www\.)\S+|(?<![^\s<("'])[^\s@]{1,64}@\S+/giu;
/** Words for a code, and phrases that contain one but mean something else (`postal code`). */
const WORD =
  /(?<![\p{L}\d])(?:otp|pin|tan|pass(?:code|word|wort)|token|kennwort|clave|contraseña|codice|código|kod)(?![\p{L}\d])|code(?:s|-nummer)?(?![\p{L}\d])|one[- ]time|verif(?:y|ication|izier)|einmal|bestätig/giu;
const OTHER_CODES =
  /\b(?:zip|postal|post|area|country|promo(?:tion)?|discount|coupon|voucher|gift|error|status|exit|source|qr|bar|dress|colou?r|swift|sort|product|tax)[- ]?codes?\b/giu;
/** Directly before a number: it is the code. */
const SAYS =
  /(?:code|otp|pin|tan|passcode|password|passwort|token|kennwort|clave|contraseña|codice|código|kod)["'»”)]*\s*(?:is|ist|lautet|was|es|est|è|:|=|-|–|→)*\s*["'«“„(*#_]*$/iu;
const SAYS_OTHER = new RegExp(`${OTHER_CODES.source}[^\\p{L}]*(?:is|ist)?[^\\p{L}]*$`, 'iu');
const NEAR_BEFORE = 90;
const NEAR_AFTER = 45;

const DIGITS =
  /(?<![\p{L}\d.,/+§-]|[\p{L}\d]_{1,2})(?:[A-Z]-)?(\d{3}[- ]\d{3}|\d{4}[- ]\d{4}|\d{2}([- ])\d{2}\2\d{2}|\d{4,8})(?!_{0,2}[\p{L}\d]|[.,:/-]\d)/gu;
const LETTERS =
  /(?<![\p{L}\d_.,/+§@-])([A-Z\d]{4,10}|[A-Z\d]{3,5}-[A-Z\d]{3,5}(?:-[A-Z\d]{3,5})?)(?![\p{L}\d_@-]|[.,:/]\d)/gu;
/** Directly before a number or letters, these make them part of something else. */
const JOINED = new Set([':', '#', '_']);
const KNOWN_NAMES = /^(?:SHA|MD|UTF|ISO|HTTP|IPV|COVID|RFC|WIN|MP|DIN|EN|OAUTH|BASE|TLSV?|USB|[A-Z])\d{1,5}$/;

const MONEY_BEFORE = /(?:[$€£¥₹₽]|\b(?:usd|eur|gbp|chf|jpy|cad|aud|inr|rs|kr|sek|nok|dkk|pln))\.?\s*$/i;
const AMOUNT_AFTER =
  /^\s*(?:[$€£¥₹₽%°]|(?:usd|eur|gbp|chf|jpy|cad|aud|inr|kr|euros?|dollars?|pounds?|cents?|percent|prozent|[kmgt]i?b|bytes?|bits?|k?m|kg|mg|g|px|pt|ms|s|sec(?:ond)?s?|min(?:ute)?s?|minuten|hours?|stunden|days?|tagen?|weeks?|months?|years?|jahre?n?|points?|punkte|credits?|users?|people|customers?|items?|artikel|messages?|mails?|emails?|words?|steps?|miles?|times|mal|characters?|zeichen)\b)/i;
const OTHER_NUMBER_BEFORE =
  /(?:\b(?:order|bestell\w*|invoice|rechnung\w*|ref(?:erence)?|ticket|case|booking|buchung\w*|customer|kunde\w*|account|konto\w*|tracking|article|item|version|tel(?:efon)?|phone|call|fax|mobile?|whatsapp|sms to|p\.? ?o\.? ?box|iban|vat|hrb)(?:\s*(?:number|nummer|no|nr|id|us|at|on)){0,2}|\b(?:no|nr|n°|№))[.:#\s(]*$|#\s*$/i;
const YEAR = /^(?:19|20)\d\d$/;
const DAY = /^(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$/;
const PLACE_AFTER = /^ \p{Lu}\p{Ll}/u;
const STATE_BEFORE = /\b[A-Z]{2}[ -]$/;

interface Found {
  code: string;
  at: number;
  likely: boolean;
}

/** Numbers that continue with more groups are longer than any code: a telephone or card number. */
function isPartOfLonger(text: string, at: number, end: number): boolean {
  const before = /(?:\d[\d ().-]{0,2}|\+|\(\d*\)?[ -]?)$/.test(text.slice(Math.max(0, at - 6), at));
  const after = /^[ .-]\(?\d{2,}/.test(text.slice(end, end + 4));
  return before || after;
}

function isOtherNumber(text: string, number: string, at: number): boolean {
  const end = at + number.length;
  const before = text.slice(Math.max(0, at - 40), at);
  const after = text.slice(end, end + 40);
  if (YEAR.test(number) || DAY.test(number)) return true;
  if (MONEY_BEFORE.test(before) || AMOUNT_AFTER.test(after) || OTHER_NUMBER_BEFORE.test(before)) return true;
  if (isPartOfLonger(text, at, end)) return true;
  return number.length <= 5 && (PLACE_AFTER.test(after) || (number.length === 5 && STATE_BEFORE.test(before)));
}

/** Returns the positions of words for a code. */
function wordsOf(text: string): [start: number, end: number][] {
  const other = text.replace(OTHER_CODES, (match) => ' '.repeat(match.length));
  return [...other.matchAll(WORD)].map((match) => [match.index, match.index + match[0].length]);
}

/** Returns the index of the first word that starts at or after `at`. */
function firstFrom(words: readonly [start: number, end: number][], at: number): number {
  let low = 0;
  for (let high = words.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (words[middle]![0] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isAnnounced(text: string, at: number): boolean {
  const before = text.slice(Math.max(0, at - 60), at);
  return SAYS.test(before) && !SAYS_OTHER.test(before);
}

function isJoined(text: string, at: number): boolean {
  return JOINED.has(text.charAt(at - 1));
}

export function codesOf(content: string): string[] {
  // Removed text keeps its length, so that distances stay the same.
  const text = content.slice(0, READ_CHARACTERS).replace(ADDRESS, (match) => '|'.repeat(match.length));
  const words = wordsOf(text);
  const isNear = (at: number, end: number): boolean => {
    const next = firstFrom(words, at);
    const [before, behind] = [words[next - 1], words[next]];
    return (
      (before !== undefined && at - before[1] <= NEAR_BEFORE) || (behind !== undefined && behind[0] - end <= NEAR_AFTER)
    );
  };
  const found: Found[] = [];
  for (const match of text.matchAll(DIGITS)) {
    const number = match[1]!;
    const at = match.index + match[0].length - number.length;
    const hasLetter = number.length < match[0].length;
    const announced = isAnnounced(text, match.index);
    if (!announced && isJoined(text, match.index)) continue;
    if (!announced && !hasLetter && isOtherNumber(text, number, at)) continue;
    const likely = announced || isNear(at, at + number.length);
    if (hasLetter && !likely) continue;
    found.push({ code: number, at, likely });
  }
  for (const { 1: code = '', index: at } of text.matchAll(LETTERS)) {
    const isMixed = /\d/.test(code) && /[A-Z]/.test(code);
    const isGrouped = code.includes('-') && /^[A-Z-]+$/.test(code);
    if ((!isMixed && !isGrouped) || /^[A-Z]-/.test(code) || KNOWN_NAMES.test(code)) continue;
    if (isJoined(text, at) && !isAnnounced(text, at)) continue;
    if (isNear(at, at + code.length)) found.push({ code, at, likely: true });
  }
  const inOrder = found.sort((a, b) => Number(b.likely) - Number(a.likely) || a.at - b.at);
  return [...new Set(inOrder.map((one) => one.code))].slice(0, MOST_FOUND);
}

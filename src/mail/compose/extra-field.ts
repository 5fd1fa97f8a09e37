/**
 * Writes the header fields that callers add to a message. Text becomes encoded-words (RFC 2047), but these are not allowed inside links and
 * message ids. In fields with links, such as List-Unsubscribe (RFC 2369), links in angle brackets are percent-encoded, and only the text
 * around them becomes encoded-words. Message ids beyond ASCII have no such form, so callers check with `structuredIssue` first.
 */
import { encodedWords, fold, hasForbiddenControl, textField } from './header.ts';

const ASCII = /^[\x00-\x7f]*$/;
const NON_ASCII = /[^\x00-\x7f]/;
const NON_ASCII_RUN = /[^\x00-\x7f]+/g;
const PREFERRED_LINE = 78;
/** RFC 5322 §2.1.1. */
const MAX_LINE = 998;
/** A folded line starts with a space. */
const MAX_WORD = MAX_LINE - 1;
/** A longer word cannot be folded and would come close to the limit of 998. */
const LONG_WORD = /[^ \t]{900}/;
const ID_FIELDS = new Set(['in-reply-to', 'references']);
const LINK = /<[^<>]*>/g;
/** A link without the angle brackets that RFC 2369 requires. */
const BARE_LINK = /^(?:https?|mailto|ftp):/i;
const QUOTED_OR_SEPARATOR = /"(?:[^"\\]|\\.)*"?|[(),]|[^"(),]+/gsu;

/** Returns whether the field has links in angle brackets (RFC 2369, RFC 5064). `name` is in lower case. */
export function hasLinks(name: string): boolean {
  return name.startsWith('list-') || name === 'archived-at';
}

/** Percent-encodes the characters of a link beyond ASCII (RFC 3986 §2.1, RFC 3987 §3.1). */
export function percentEncoded(link: string): string {
  return link.replace(NON_ASCII_RUN, (run) => encodeURIComponent(run.toWellFormed()));
}

/** Encodes the words from the first to the last one beyond ASCII. */
function encodedRun(text: string): string {
  const words = text.split(/([ \t]+)/).map((word) => (BARE_LINK.test(word) ? percentEncoded(word) : word));
  const first = words.findIndex((word) => NON_ASCII.test(word));
  if (first < 0) return words.join('');
  const last = words.findLastIndex((word) => NON_ASCII.test(word));
  const run = words.slice(first, last + 1).join('');
  return words.slice(0, first).join('') + encodedWords(run, 20) + words.slice(last + 1).join('');
}

/** Encodes text between links. A quoted string beyond ASCII loses its quotes, because it cannot contain encoded-words (RFC 2047 §5). */
function encodedAround(text: string): string {
  if (ASCII.test(text)) return text;
  const pieces = text.match(QUOTED_OR_SEPARATOR) ?? [];
  return pieces
    .map((piece) => {
      if (ASCII.test(piece)) return piece;
      if (!piece.startsWith('"')) return encodedRun(piece);
      return encodedWords(piece.replace(/^"|"$/g, '').replace(/\\(.)/gsu, '$1'), 20);
    })
    .join('');
}

/** Returns the value with percent-encoded links and encoded text around them. */
function linksText(value: string): string {
  let out = '';
  let at = 0;
  const addText = (text: string): void => {
    const encoded = encodedAround(text);
    // RFC 2047 §5 (3): white space separates an encoded-word from a special character.
    out += (at > 0 && encoded.startsWith('=?') ? ' ' : '') + encoded;
  };
  for (const { 0: link, index } of value.matchAll(LINK)) {
    addText(value.slice(at, index));
    out += (out.endsWith('?=') ? ' ' : '') + percentEncoded(link);
    at = index + link.length;
  }
  addText(value.slice(at));
  return out;
}

/** Returns the length of the longest part without white space. */
function longestWord(text: string): number {
  let longest = 0;
  for (const word of text.split(/[ \t]+/)) longest = Math.max(longest, word.length);
  return longest;
}

/** Returns the ASCII text of a field with links or message ids; undefined for all other fields, and for ids beyond ASCII. */
function structuredText(name: string, value: string): string | undefined {
  const lower = name.toLowerCase();
  let text: string;
  if (hasLinks(lower)) text = ASCII.test(value) ? value : linksText(value);
  else if (ID_FIELDS.has(lower) && ASCII.test(value)) text = value;
  else return undefined;
  // White space is allowed between links and between ids, and lines are folded there.
  return longestWord(text) > MAX_WORD ? text.replace(/>(,?)(?=<)/g, '>$1 ') : text;
}

/**
 * Returns why a value of a field with links or message ids cannot be written, as the rest of a sentence; undefined if it can, and for all
 * other fields.
 */
export function structuredIssue(name: string, value: string): string | undefined {
  const lower = name.toLowerCase();
  const isId = ID_FIELDS.has(lower);
  if (!isId && !hasLinks(lower)) return undefined;
  if (isId && NON_ASCII.test(value)) return 'has a character that is not ASCII, which is not allowed in a message ID';
  const length = longestWord(structuredText(name, value)!);
  return length > MAX_WORD
    ? `has ${length} characters without a space after encoding; at most ${MAX_WORD} fit into a line`
    : undefined;
}

/** Returns the field, with a fold after its colon if its first word needs the complete line. */
function structuredField(name: string, text: string): string {
  const value = text.trim().replace(/[ \t]+/g, ' ');
  const firstWord = /^[^ \t]*/.exec(value)![0];
  if (name.length + 2 + firstWord.length > MAX_LINE) return `${name}:\r\n ${fold(value, 1)}\r\n`;
  return `${name}: ${fold(value, name.length + 2)}\r\n`;
}

/**
 * Returns a field that the caller composed, such as List-Unsubscribe: ASCII is kept (folded), and only the words from the first to the last
 * non-ASCII one are encoded. The result is a folded line with its CRLF.
 */
export function extraField(name: string, value: string): string {
  const column = name.length + 2;
  const isAscii = ASCII.test(value);
  if (hasForbiddenControl(value)) throw new TypeError(`control character in the value of ${name}`);
  const isLong = column + value.length > PREFERRED_LINE && LONG_WORD.test(value);
  if (isAscii && !isLong) return `${name}: ${fold(value, column)}\r\n`;
  const structured = structuredText(name, value);
  if (structured !== undefined && longestWord(structured) <= MAX_WORD) return structuredField(name, structured);
  const run = isLong ? null : /(?:[\x21-\x7e]*[^\x00-\x7f][^ \t]*)(?:.*[^\x00-\x7f][^ \t]*)?/su.exec(value);
  if (run === null) return textField(name, value);
  const before = value.slice(0, run.index);
  const after = value.slice(run.index + run[0].length);
  return `${name}: ${fold(before + encodedWords(run[0], 20) + after, column)}\r\n`;
}

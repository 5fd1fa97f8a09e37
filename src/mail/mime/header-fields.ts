/**
 * The one parser of header blocks: finds the end of the header and its fields by their positions in the text. Nothing is copied, so that
 * what is kept or signed is unchanged. The text is the block as Latin-1, one character per byte, with CRLF line ends; an empty line after
 * it does not matter. Lines that are not fields are returned too, for the caller to refuse or ignore. White space before the colon is not
 * part of the name (RFC 5322 §4.5.8).
 *
 * Decodes encoded-words (RFC 2047) like email clients do: also with spaces and question marks inside, inside quotes, and with a character
 * split between neighbors. A word of an unknown charset is left as written. Takes time linear in the text.
 */

import { trimmed } from '../../base/trim.ts';
import { decoderOf, guessedText, isUnspecified } from './charset.ts';

export interface HeaderField {
  /** In lower case; empty for lines that are not fields. */
  name: string;
  start: number;
  /** Index of the colon; -1 for lines that are not fields. */
  colon: number;
  /** After the CRLF of its last line. */
  end: number;
}

/** Visible ASCII without the colon (RFC 5322 §3.6.8). */
const NAME = /^[!-9;-~]+$/;

function isSpace(code: number): boolean {
  return code === 0x20 || code === 9;
}

/** Returns the ends of the last field and of the empty line; both are the length of the content if there is no empty line. */
export function endOfHeader(content: Buffer): { headerEnd: number; bodyStart: number } {
  if (content[0] === 13 && content[1] === 10) return { headerEnd: 0, bodyStart: 2 };
  const empty = content.indexOf('\r\n\r\n', 0, 'latin1');
  if (empty < 0) return { headerEnd: content.length, bodyStart: content.length };
  return { headerEnd: empty + 2, bodyStart: empty + 4 };
}

/** Returns the fields in order, at most `atMost`. */
export function headerFields(text: string, atMost: number = Number.POSITIVE_INFINITY): HeaderField[] {
  const fields: HeaderField[] = [];
  for (let start = 0; start < text.length && fields.length < atMost; ) {
    let end = endOfLine(text, start);
    const line = text.slice(start, end);
    while (end < text.length && isSpace(text.charCodeAt(end))) end = endOfLine(text, end);
    const colon = line.indexOf(':');
    let nameEnd = colon;
    while (nameEnd > 0 && isSpace(line.charCodeAt(nameEnd - 1))) nameEnd -= 1;
    const name = line.slice(0, Math.max(0, nameEnd));
    if (NAME.test(name)) fields.push({ name: name.toLowerCase(), start, colon: start + colon, end });
    else fields.push({ name: '', start, colon: -1, end });
    start = end;
  }
  return fields;
}

function endOfLine(text: string, at: number): number {
  const lineEnd = text.indexOf('\r\n', at);
  return lineEnd < 0 ? text.length : lineEnd + 2;
}

export function writtenName(text: string, field: HeaderField): string {
  return text.slice(field.start, field.start + field.name.length);
}

/** Returns the value unfolded (RFC 5322 §2.2.3) and trimmed. */
export function fieldValue(text: string, field: HeaderField): string {
  const raw = text.slice(field.colon + 1, field.end);
  return trimmed(raw.indexOf('\r\n') < raw.length - 2 ? raw.replaceAll('\r\n', '') : raw, isBlank);
}

function isBlank(code: number): boolean {
  return isSpace(code) || code === 13 || code === 10;
}

const WORD_START = /=\?([^?\s]{1,80})\?([BbQq])\?/g;
/** Matches the character after an encoded-word in text, a comment, a quoted string, or an address list. */
const AFTER_WORD = /[\s()",;<>]/;
const BETWEEN_WORDS = /^[ \t\r\n]*$/;
const NON_ASCII = /[\x80-\xff]/;

function wordBytes(encoding: string, text: string): Buffer {
  if (encoding === 'B' || encoding === 'b') return Buffer.from(text, 'base64');
  const spaced = text.replaceAll('_', ' ');
  const latin1 = spaced.replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(latin1, 'latin1');
}

/** 'guess' if the charset is not specified; undefined if it is unknown. */
function wordDecoder(charset: string): TextDecoder | 'guess' | undefined {
  // RFC 2231 §5: a language may follow the charset.
  const label = charset.split('*', 1)[0]!;
  return isUnspecified(label) ? 'guess' : decoderOf(label);
}

/**
 * Decodes each word separately, as RFC 2047 §5 requires and stateful charsets need (ISO-2022-JP), or all together if a character was split.
 */
function decodePieces(decoder: TextDecoder | 'guess', pieces: readonly Buffer[]): string {
  if (decoder === 'guess') return guessedText(Buffer.concat(pieces));
  const texts = pieces.map((piece) => decoder.decode(piece));
  const cut = texts.length > 1 && texts.some((text) => text.includes('\ufffd'));
  return cut ? decoder.decode(Buffer.concat(pieces)) : texts.join('');
}

/** Returns a function that finds the next occurrence. Its positions must not decrease, so all calls together read the text once. */
function createFinder(text: string, wanted: string): (from: number) => number {
  let found = -1;
  return (from) => {
    if (found < from) {
      const at = text.indexOf(wanted, from);
      found = at < 0 ? Number.POSITIVE_INFINITY : at;
    }
    return found;
  };
}

/**
 * Returns where a Q word ends whose first `?=` is at `first`. After an unencoded question mark, the `=` of an escape looks like an end
 * (`Caf=C3=A9?=21?=`), so the word continues up to a `?=` after which a word can end. If there is none, it ends at `first`.
 */
function endOfQWord(text: string, first: number): number {
  for (let at = first; at < text.length && !isBlank(text.charCodeAt(at)); at += 1) {
    if (text[at] === '?' && text[at + 1] === '=' && (at + 2 === text.length || AFTER_WORD.test(text[at + 2]!)))
      return at;
    if (at > first && text[at] === '=' && text[at + 1] === '?') break;
  }
  return first;
}

interface EncodedWord {
  start: number;
  end: number;
  charset: string;
  encoding: string;
  encoded: string;
}

function* encodedWordsIn(text: string): Generator<EncodedWord> {
  const nextEnd = createFinder(text, '?=');
  const nextStart = createFinder(text, '=?');
  const nextQuestion = createFinder(text, '?');
  let after = 0;
  for (const { 0: prefix, 1: charset, 2: encoding, index: start } of text.matchAll(WORD_START)) {
    const from = start + prefix.length;
    if (start < after) continue;
    const first = nextEnd(from);
    const isB = encoding === 'B' || encoding === 'b';
    // The last character of the word and the `?` of its end may look like the start of another word.
    if (first > text.length || (isB ? nextQuestion(from) < first : nextStart(from) < first - 1)) continue;
    const end = isB ? first : endOfQWord(text, first);
    after = end + 2;
    yield { start, end: after, charset: charset!, encoding: encoding!, encoded: text.slice(from, end) };
  }
}

/** Decodes every encoded-word in the text; white space between two of them is not part of the text. */
export function decodeWords(text: string): string {
  if (!text.includes('=?')) return text;
  let out = '';
  let from = 0;
  let pending: { charset: string; decoder: TextDecoder | 'guess'; pieces: Buffer[] } | undefined;
  const flush = () => {
    if (pending) out += decodePieces(pending.decoder, pending.pieces);
    pending = undefined;
  };
  for (const { start, end, charset, encoding, encoded } of encodedWordsIn(text)) {
    const between = text.slice(from, start);
    const decoder = wordDecoder(charset);
    if (!pending || !decoder || !BETWEEN_WORDS.test(between)) {
      const gap = pending && decoder && BETWEEN_WORDS.test(between) ? '' : between;
      flush();
      out += gap;
    } else if (pending.charset !== charset.toLowerCase()) flush();
    if (decoder) {
      pending ??= { charset: charset.toLowerCase(), decoder, pieces: [] };
      pending.pieces.push(wordBytes(encoding, encoded));
    } else out += text.slice(start, end);
    from = end;
  }
  flush();
  return out + text.slice(from);
}

/** Decodes header bytes that were read as Latin-1: as UTF-8 (RFC 6532), or otherwise as Windows-1252, like email clients do. */
export function headerText(latin1: string): string {
  if (!NON_ASCII.test(latin1)) return latin1;
  const bytes = Buffer.from(latin1, 'latin1');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return new TextDecoder('windows-1252').decode(bytes);
  }
}

/**
 * Decodes a field value as email clients display it: ISO-2022-JP, which some programs write without encoding it, or `headerText`, with
 * encoded-words.
 */
export function displayedText(latin1: string): string {
  const isJapanese = latin1.includes('\x1b$');
  return decodeWords(
    isJapanese ? new TextDecoder('iso-2022-jp').decode(Buffer.from(latin1, 'latin1')) : headerText(latin1),
  );
}

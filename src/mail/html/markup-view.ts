/**
 * Markup in bytes as a text in which every ASCII character that a reader of the charset sees stands at the place of its byte, and
 * nothing else looks like one: tags are found in it without decoding the rest, and what is found is replaced byte by byte. The
 * charsets are those of browsers (WHATWG Encoding); all of them but UTF-16 and ISO-2022-JP have ASCII in single bytes that
 * are never part of another character where tags are concerned.
 *
 * Unknown charsets are refused, since their ASCII may be something else (UTF-7, EBCDIC).
 */
import { isUtf8 } from 'node:buffer';

export interface MarkupView {
  /** Characters beyond ASCII may be any others beyond ASCII, one for each unit. */
  text: string;
  /** Bytes of one character of the text. */
  unitBytes: 1 | 2;
  /** What is written between two places of the text; undefined where the bytes are not of the charset. */
  written(start: number, end: number): string | undefined;
  /** Text for an attribute's value or a tag, as bytes; characters beyond ASCII become character references. */
  encode(text: string): Buffer;
}

/** Names of ASCII, which browsers take for windows-1252: bytes beyond it are of a charset that is not named. */
const ASCII_NAMES = new Set([
  '',
  'us-ascii',
  'ascii',
  'ansi_x3.4-1968',
  'ansi_x3.4-1986',
  'iso646-us',
  'iso_646.irv:1991',
]);
const BEYOND_ASCII = /[^\x00-\x7f]/;

/** The view of bytes in this charset (a name in any case; empty when none is named); undefined when they cannot be read. */
export function viewMarkup(bytes: Buffer, charset: string): MarkupView | undefined {
  const name = charset.trim().toLowerCase();
  if (ASCII_NAMES.has(name)) {
    // UTF-8 is what mail without a charset has in practice; other bytes mean nothing certain.
    return byteView(bytes, bytes.toString('latin1'), isUtf8(bytes) ? decoderOf('utf-8') : undefined);
  }
  const decoder = decoderOf(name);
  if (decoder === undefined) return undefined;
  if (decoder.encoding === 'utf-16le' || decoder.encoding === 'utf-16be') return wideView(bytes, decoder.encoding);
  if (decoder.encoding !== 'iso-2022-jp') return byteView(bytes, bytes.toString('latin1'), decoder);
  const text = maskedShifts(bytes);
  return text === undefined ? undefined : byteView(bytes, text, decoder);
}

function decoderOf(name: string): TextDecoder | undefined {
  try {
    return new TextDecoder(name, { fatal: true, ignoreBOM: true });
  } catch {
    return undefined;
  }
}

function asciiMarkup(text: string): string {
  return text.replace(/[^\x00-\x7f]/gu, (character) => `&#${character.codePointAt(0)};`);
}

function byteView(bytes: Buffer, text: string, decoder: TextDecoder | undefined): MarkupView {
  return {
    text,
    unitBytes: 1,
    written: (start, end) => {
      const shown = text.slice(start, end);
      if (!BEYOND_ASCII.test(shown)) return shown;
      try {
        return decoder?.decode(bytes.subarray(start, end));
      } catch {
        return undefined;
      }
    },
    encode: (added) => Buffer.from(asciiMarkup(added), 'latin1'),
  };
}

function wideView(bytes: Buffer, encoding: 'utf-16le' | 'utf-16be'): MarkupView | undefined {
  if (bytes.length % 2 !== 0) return undefined;
  // The mark at the beginning decides (RFC 2781 §3.2).
  const mark = bytes.toString('latin1', 0, 2);
  const isBig = mark === '\xfe\xff' || (encoding === 'utf-16be' && mark !== '\xff\xfe');
  const little = (data: Buffer): Buffer => (isBig ? Buffer.from(data).swap16() : data);
  const text = little(bytes).toString('utf16le');
  return {
    text,
    unitBytes: 2,
    written: (start, end) => {
      const shown = text.slice(start, end);
      return shown.isWellFormed() ? shown : undefined;
    },
    encode: (added) => little(Buffer.from(asciiMarkup(added), 'utf16le')),
  };
}

/**
 * ISO-2022-JP (RFC 1468): between escape sequences bytes that look like ASCII are halves of characters, or the Roman set, which
 * has another tilde. Undefined when the text ends there, so that nothing could be put behind it.
 */
function maskedShifts(bytes: Buffer): string | undefined {
  const text = bytes.toString('latin1');
  if (!text.includes('\x1b')) return text;
  const pieces: string[] = [];
  let at = 0;
  let isAscii = true;
  for (let esc = text.indexOf('\x1b'); esc !== -1; esc = text.indexOf('\x1b', esc + 1)) {
    pieces.push(isAscii ? text.slice(at, esc) : '\x80'.repeat(esc - at));
    at = esc;
    isAscii = text.startsWith('(B', esc + 1);
    if (isAscii) {
      pieces.push('\x80\x80\x80');
      at = esc + 3;
    }
  }
  if (!isAscii) return undefined;
  pieces.push(text.slice(at));
  return pieces.join('');
}

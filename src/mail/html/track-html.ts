/**
 * Replaces the links of an html body and adds a tracking pixel at its end. Everything else stays the same byte for byte: the html is
 * tokenized like in a browser (WHATWG HTML §13.2.5: comments, raw text, quoted and unquoted attributes), and only the values found are
 * replaced. Linear in the length of the html.
 *
 * Links are `href` of `<a>` and `<area>` with an http or https URL. Unchanged are links with the attribute `data-notrack`, links in
 * comments (including Outlook's conditional ones), and URLs that no browser would understand: no link may point elsewhere than before.
 *
 * Bytes of other charsets are read through a view in which every ASCII character is at the position of its byte, and no other byte looks
 * like one: tags are found without decoding the rest, and replaced byte by byte. The charsets are those of browsers (WHATWG Encoding); all
 * of them except UTF-16 and ISO-2022-JP have ASCII in single bytes that are never part of another character where tags are concerned.
 *
 * Unknown charsets are refused, since their ASCII may be something else (UTF-7, EBCDIC).
 */

import { isUtf8 } from 'node:buffer';
import { trimmed } from '../../base/trim.ts';
import { decodeAttribute, escapeAttribute, type HtmlTag, readTags } from './html-tags.ts';

export interface HtmlTracking {
  /** Returns the replacement for this decoded URL; undefined leaves the link unchanged. */
  rewriteLink?(url: string): string | undefined;
  /** URL of the tracking pixel; without it none is added. */
  pixelUrl?: string;
}

/** An html text, read once for any number of copies. Positions are indexes in the text. */
export interface TrackableHtml {
  /** In order of position. */
  links: HtmlLink[];
  /** Positions of the last `</body>` and the last `</html>`; -1 if there is none. */
  bodyEnd: number;
  htmlEnd: number;
  length: number;
}

interface HtmlLink {
  /** Position of the value, without quotes. */
  start: number;
  end: number;
  isQuoted: boolean;
  /** Decoded, as a browser reads it. */
  url: string;
}

/** Replacement of a piece of the html. */
interface HtmlEdit {
  start: number;
  end: number;
  text: string;
}

interface HtmlReading {
  /** Whether to find links. */
  links: boolean;
  /** Returns the characters between two positions, if the text does not show them; undefined leaves a link unchanged. */
  written?(start: number, end: number): string | undefined;
}

const WANTED: ReadonlySet<string> = new Set(['href', 'data-notrack']);

/** Finds what tracking may change. */
export function readTrackable(html: string, reading: HtmlReading): TrackableHtml {
  const { links, written = (start, end) => html.slice(start, end) } = reading;
  const found: TrackableHtml = { links: [], bodyEnd: -1, htmlEnd: -1, length: html.length };
  for (const tag of readTags(html, WANTED)) {
    if (tag.isEnd) {
      if (tag.name === 'body') found.bodyEnd = tag.start;
      else if (tag.name === 'html') found.htmlEnd = tag.start;
    } else if (links && (tag.name === 'a' || tag.name === 'area')) {
      const link = linkOf(tag, written);
      if (link !== undefined) found.links.push(link);
    }
  }
  return found;
}

/** Returns the changes for this tracking in order; none if nothing changes. */
export function trackingEdits(found: TrackableHtml, { rewriteLink, pixelUrl }: HtmlTracking): HtmlEdit[] {
  const edits: HtmlEdit[] = [];
  let done = 0;
  if (rewriteLink !== undefined) {
    for (const { start, end, isQuoted, url } of found.links) {
      const other = rewriteLink(url);
      if (other === undefined) continue;
      const text = escapeAttribute(other);
      edits.push({ start, end, text: isQuoted ? text : `"${text}"` });
      done = end;
    }
  }
  if (pixelUrl === undefined) return edits;
  // An end of the body before a replaced link is not its real end.
  const at = [found.bodyEnd, found.htmlEnd].find((end) => end >= done) ?? found.length;
  edits.push({ start: at, end: at, text: pixel(pixelUrl) });
  return edits;
}

/** Returns the html with these changes, or the same string if there are none. */
export function trackHtml(html: string, tracking: HtmlTracking): string {
  const { rewriteLink, pixelUrl } = tracking;
  if (rewriteLink === undefined && pixelUrl === undefined) return html;
  const edits = trackingEdits(readTrackable(html, { links: rewriteLink !== undefined }), tracking);
  if (edits.length === 0) return html;
  const pieces: string[] = [];
  let done = 0;
  for (const { start, end, text } of edits) {
    pieces.push(html.slice(done, start), text);
    done = end;
  }
  pieces.push(html.slice(done));
  return pieces.join('');
}

function pixel(url: string): string {
  return `<img src="${escapeAttribute(url)}" width="1" height="1" alt="" style="display:block;border:0;width:1px;height:1px">`;
}

function linkOf(tag: HtmlTag, written: NonNullable<HtmlReading['written']>): HtmlLink | undefined {
  const href = tag.attributes.find((attribute) => attribute.name === 'href');
  if (href === undefined || tag.attributes.some((attribute) => attribute.name === 'data-notrack')) return undefined;
  const { start, end, isQuoted } = href;
  const value = written(start, end);
  const url = value === undefined ? undefined : httpAddress(decodeAttribute(value));
  return url === undefined ? undefined : { start, end, isQuoted, url };
}

/**
 * Returns the URL as browsers read it (WHATWG URL ignores surrounding spaces and line breaks) if it is an absolute http or https URL;
 * undefined for anything else, and for one that still has a variable.
 */
function httpAddress(written: string): string | undefined {
  const url = trimmed(written, (code) => code <= 0x20).replace(/[\t\n\r]/g, '');
  if (!/^https?:\/\//i.test(url) || /\{[{%]/.test(url) || !URL.canParse(url)) return undefined;
  return url;
}

export interface MarkupView {
  /** Non-ASCII characters may be replaced by any others, one per unit. */
  text: string;
  /** Bytes per character of the text. */
  unitBytes: 1 | 2;
  /** Decodes the text between two positions; undefined if the bytes are invalid in the charset. */
  written(start: number, end: number): string | undefined;
  /** Encodes text for an attribute value or a tag; non-ASCII characters become character references. */
  encode(text: string): Buffer;
}

/** Names of ASCII, which browsers read as windows-1252: other bytes are of an unnamed charset. */
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

/** Returns a view of bytes in this charset (a name in any case; empty if none is named); undefined if they cannot be read. */
export function viewMarkup(bytes: Buffer, charset: string): MarkupView | undefined {
  const name = charset.trim().toLowerCase();
  if (ASCII_NAMES.has(name)) {
    // Mail without a charset is UTF-8 in practice; other bytes are ambiguous.
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
  // The byte order mark decides (RFC 2781 §3.2).
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
 * ISO-2022-JP (RFC 1468): between escape sequences, bytes that look like ASCII are halves of characters, or of the Roman set, whose tilde
 * differs. Undefined if the text ends there, so that nothing can be appended.
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

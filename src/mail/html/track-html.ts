/**
 * Gives the links of an html body other addresses, and adds a picture at its end. Everything else stays as it is, byte for
 * byte: the html is read with the tokens of a browser (WHATWG HTML §13.2.5: comments, raw text, quoted and unquoted
 * attributes), and only the values found are replaced. Linear in the length of the html, whatever it holds.
 *
 * Links are `href` of `<a>` and `<area>` with an http or https address. Left alone are links with the attribute `data-notrack`,
 * links in comments (and so Outlook's conditional ones) and addresses that no browser would understand: no link may lead
 * elsewhere than before.
 *
 * Markup in bytes as a text in which every ASCII character that a reader of the charset sees stands at the place of its byte,
 * and nothing else looks like one: tags are found in it without decoding the rest, and what is found is replaced byte by byte.
 * The charsets are those of browsers (WHATWG Encoding); all of them but UTF-16 and ISO-2022-JP have ASCII in single bytes that
 * are never part of another character where tags are concerned.
 *
 * Unknown charsets are refused, since their ASCII may be something else (UTF-7, EBCDIC).
 */

import { isUtf8 } from 'node:buffer';
import { trimmed } from '../../base/trim.ts';
import { decodeAttribute, escapeAttribute, type HtmlTag, readTags } from './html-tags.ts';

export interface HtmlTracking {
  /** The address to put in place of this one, as a browser understands it; undefined leaves the link as it is. */
  rewriteLink?(url: string): string | undefined;
  /** Address of the picture; none is added without it. */
  pixelUrl?: string;
}

/** An html text as it is read once for any number of copies. Places are indexes in the text. */
export interface TrackableHtml {
  /** In their order. */
  links: HtmlLink[];
  /** Where the last `</body>` and the last `</html>` stand; -1 where there is none. */
  bodyEnd: number;
  htmlEnd: number;
  length: number;
}

interface HtmlLink {
  /** Where the value stands, without quotes. */
  start: number;
  end: number;
  isQuoted: boolean;
  /** As a browser understands it. */
  url: string;
}

/** What comes in place of a piece of the html. */
interface HtmlEdit {
  start: number;
  end: number;
  text: string;
}

interface HtmlReading {
  /** Without it links are not looked for. */
  links: boolean;
  /** The characters written between two places, where the text does not show them; undefined leaves a link as it is. */
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

/** The changes that give this tracking, in their order; none where nothing is to be changed. */
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
  // An end of the body in front of a link that was replaced is not its end.
  const at = [found.bodyEnd, found.htmlEnd].find((end) => end >= done) ?? found.length;
  edits.push({ start: at, end: at, text: pixel(pixelUrl) });
  return edits;
}

/** The html with these changes, or the same string when there are none. */
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
 * The address as browsers read it (WHATWG URL: spaces around it and line breaks in it do not count) when it is an absolute
 * http or https one; undefined for anything else, and for one that still holds a variable.
 */
function httpAddress(written: string): string | undefined {
  const url = trimmed(written, (code) => code <= 0x20).replace(/[\t\n\r]/g, '');
  if (!/^https?:\/\//i.test(url) || /\{[{%]/.test(url) || !URL.canParse(url)) return undefined;
  return url;
}

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

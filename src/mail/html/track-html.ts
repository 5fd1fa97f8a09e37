/**
 * Gives the links of an html body other addresses, and adds a picture at its end. Everything else stays as it is, byte for
 * byte: the html is read with the tokens of a browser (WHATWG HTML §13.2.5: comments, raw text, quoted and unquoted
 * attributes), and only the values found are replaced. Linear in the length of the html, whatever it holds.
 *
 * Links are `href` of `<a>` and `<area>` with an http or https address. Left alone are links with the attribute
 * `data-notrack`, links in comments (and so Outlook's conditional ones) and addresses that no browser would understand: no
 * link may lead elsewhere than before.
 */
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
export interface HtmlEdit {
  start: number;
  end: number;
  text: string;
}

export interface HtmlReading {
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
  const url = written.replace(/^[\0-\x20]+|[\0-\x20]+$/g, '').replace(/[\t\n\r]/g, '');
  if (!/^https?:\/\//i.test(url) || /\{[{%]/.test(url) || !URL.canParse(url)) return undefined;
  return url;
}

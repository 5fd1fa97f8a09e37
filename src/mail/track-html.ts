/**
 * Gives the links of an html body other addresses, and adds a picture at its end. Everything else stays as it is, byte for
 * byte: the html is read with the tokens of a browser (WHATWG HTML §13.2.5: comments, raw text, quoted and unquoted
 * attributes), and only the values found are replaced. Linear in the length of the html, whatever it holds.
 *
 * Links are `href` of `<a>` and `<area>` with an http or https address. Left alone are links with the attribute
 * `data-notrack`, links in comments (and so Outlook's conditional ones), addresses that no browser would understand, and
 * those whose character references we do not know: no link may lead elsewhere than before.
 */
import { decodeAttribute, escapeAttribute, type HtmlTag, readTags } from './html-tags.ts';

export interface HtmlTracking {
  /** The address to put in place of this one, as a browser understands it; undefined leaves the link as it is. */
  rewriteLink?(url: string): string | undefined;
  /** Address of the picture; none is added without it. */
  pixelUrl?: string;
}

const WANTED: ReadonlySet<string> = new Set(['href', 'data-notrack']);

/** The html with these changes, or the same string when there are none. */
export function trackHtml(html: string, tracking: HtmlTracking): string {
  const { rewriteLink, pixelUrl } = tracking;
  if (rewriteLink === undefined && pixelUrl === undefined) return html;
  const pieces: string[] = [];
  let done = 0;
  let bodyEnd = -1;
  let htmlEnd = -1;
  for (const tag of readTags(html, WANTED)) {
    if (tag.isEnd) {
      if (tag.name === 'body') bodyEnd = tag.start;
      else if (tag.name === 'html') htmlEnd = tag.start;
    } else if (rewriteLink !== undefined && (tag.name === 'a' || tag.name === 'area')) {
      const change = changedLink(html, tag, rewriteLink);
      if (change === undefined) continue;
      pieces.push(html.slice(done, change.start), change.text);
      done = change.end;
    }
  }
  if (pixelUrl === undefined) return pieces.length === 0 ? html : pieces.join('') + html.slice(done);
  // An end of the body in front of a link that was replaced is not its end.
  const end = [bodyEnd, htmlEnd].find((at) => at >= done) ?? html.length;
  pieces.push(html.slice(done, end), pixel(pixelUrl), html.slice(end));
  return pieces.join('');
}

function pixel(url: string): string {
  return `<img src="${escapeAttribute(url)}" width="1" height="1" alt="" style="display:block;border:0;width:1px;height:1px">`;
}

interface Change {
  start: number;
  end: number;
  text: string;
}

function changedLink(
  html: string,
  tag: HtmlTag,
  rewriteLink: NonNullable<HtmlTracking['rewriteLink']>,
): Change | undefined {
  const href = tag.attributes.find((attribute) => attribute.name === 'href');
  if (href === undefined || tag.attributes.some((attribute) => attribute.name === 'data-notrack')) return undefined;
  const written = decodeAttribute(html.slice(href.start, href.end));
  const url = written === undefined ? undefined : httpAddress(written);
  const other = url === undefined ? undefined : rewriteLink(url);
  if (other === undefined) return undefined;
  const text = escapeAttribute(other);
  return { start: href.start, end: href.end, text: href.isQuoted ? text : `"${text}"` };
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

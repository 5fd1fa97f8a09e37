/**
 * Text for people derived from the html of a mail: paragraphs, lists, links as `text <url>`, images by their alternative
 * text, cells of layout tables apart; hidden parts (preheaders), scripts and styles left out; never wrapped. Bounded for hostile input: what
 * goes beyond 256 KB of html or 120 levels is left out. The library that does it takes 0.3 ms for an ordinary mail, so
 * `simpleHtmlToText` goes first and gives the same for html it fully understands.
 */
import { compile, type DomNode, type FormatCallback } from 'html-to-text';
import { simpleHtmlToText } from './html-text-simple.ts';

const MAX_HTML_LENGTH = 256 * 1024;
const MAX_DEPTH = 120;
const MAX_OPEN = 10_000;

/** Cells of a row stand on one line, apart by a space; a cell with blocks inside keeps its lines. */
const cell: FormatCallback = (elem, walk, builder) => {
  builder.addInline(' ');
  walk(elem.children, builder);
  builder.addInline(' ');
};

/** Alternative text only: the addresses of images say nothing to a reader, those of tracking pixels least of all. */
const imageText: FormatCallback = (elem: DomNode, _walk, builder) => {
  builder.addInline(elem.attribs?.alt ?? '', { noWordTransform: true });
};

const heading = { leadingLineBreaks: 2, trailingLineBreaks: 2, uppercase: false };
const line = { leadingLineBreaks: 1, trailingLineBreaks: 1 };

const convert = compile({
  wordwrap: false,
  limits: { maxDepth: MAX_DEPTH, ellipsis: '' },
  formatters: { cell, imageText },
  selectors: [
    { selector: 'a', options: { linkBrackets: ['<', '>'], hideLinkHrefIfSameAsText: true, noAnchorUrl: true } },
    { selector: 'img', format: 'imageText' },
    ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ selector, options: heading })),
    { selector: 'ul', options: { itemPrefix: '- ' } },
    { selector: 'table', format: 'block', options: line },
    { selector: 'tr', format: 'block', options: line },
    ...['address', 'center', 'dd', 'dl', 'dt', 'fieldset', 'figcaption', 'figure', 'li'].map((selector) => ({
      selector,
      format: 'block',
      options: line,
    })),
    { selector: 'td', format: 'cell' },
    { selector: 'th', format: 'cell' },
    ...['head', 'title', 'template', 'textarea', 'select'].map((selector) => ({ selector, format: 'skip' })),
    ...['[hidden]', '[style*="display:none" i]', '[style*="display: none" i]'].map((selector) => ({
      selector,
      format: 'skip',
    })),
  ],
});

/** Spaces at line ends and more than one empty line in a row, which spacer rows and empty cells leave behind. */
export function tidyText(text: string): string {
  let tidy = text.includes('\u00a0') ? text.replaceAll('\u00a0', ' ') : text;
  if (tidy.includes(' \n')) {
    const lines = tidy.split('\n');
    for (let i = 0; i < lines.length; i += 1) lines[i] = lines[i]!.trimEnd();
    tidy = lines.join('\n');
  }
  if (tidy.includes('\n\n\n')) tidy = tidy.replace(/\n{3,}/g, '\n\n');
  return tidy.trim();
}

/** The html up to where more than `MAX_OPEN` elements are open: the parser's time grows with the square of their number. */
function cutTooDeep(html: string): string {
  if (html.length < MAX_OPEN * 3) return html;
  let open = 0;
  for (const tag of html.matchAll(/<(\/?)[a-z][a-z0-9]*/gi)) {
    if (tag[1] === '/') open = Math.max(0, open - 1);
    else if (!/^<(?:br|img|hr|meta|link|wbr|col|input|area|source)$/i.test(tag[0])) open += 1;
    if (open > MAX_OPEN) return html.slice(0, tag.index);
  }
  return html;
}

/** What the library makes of the html; the measure of `simpleHtmlToText`. */
export function htmlToTextByLibrary(html: string): string {
  return tidyText(convert(html));
}

/** Text of an html body, with LF line ends; empty when the html shows no text. */
export function htmlToText(html: string): string {
  const bounded = html.length > MAX_HTML_LENGTH ? html.slice(0, MAX_HTML_LENGTH) : html;
  const simple = simpleHtmlToText(bounded);
  return simple === undefined ? htmlToTextByLibrary(cutTooDeep(bounded)) : tidyText(simple);
}

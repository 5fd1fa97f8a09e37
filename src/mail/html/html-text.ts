/**
 * Converts the html of a message to plain text: paragraphs, lists, quotes, links as `text <url>`, images by their alternative text, table
 * cells separated by a space. Hidden parts (preheaders), scripts, styles, and form values are omitted. Lines are never wrapped.
 *
 * The tags come from `readTags`. Elements without an end tag end where a browser ends them. Limits protect against hostile html: words and
 * tags after the first 256 KB are omitted, and nesting deeper than 120 levels and indents over 40 columns are ignored. Styles, comments,
 * and images in `data:` URLs do not count toward the limits. The time is linear in the length of the html.
 *
 * White space collapses. Line breaks and indents are written only before the next word, so blocks without words add nothing. There is
 * never more than one empty line in a row, and no white space at the end of a line.
 */
import { decodeHTML } from 'entities';
import { attributeOf, type HtmlTag, readTags } from './html-tags.ts';

const SPACES = /[ \t\r\n\f\u200b]+/g;
const UNCOLLAPSED = /[\t\r\n\f\u200b]| {2}/;
/** Maximum indent in columns; an indent that would exceed it is ignored. */
const MAX_INDENT = 40;

class TextLines {
  readonly #pieces: string[] = [];
  /** Line breaks before the next word; if there are none, `#space` decides whether a space precedes it. */
  #breaks = 0;
  #space = false;
  /** Text at the start of each line. */
  #prefix = '';
  /** Text at the start of the next line, which can include list markers. */
  #lead = '';
  /** The shortest prefix since the last word, used as the start of an empty line. */
  #gap = '';

  /** Adds words, with collapsed white space. */
  add(text: string): void {
    const collapsed = UNCOLLAPSED.test(text) ? text.replace(SPACES, ' ') : text;
    if (collapsed === '') return;
    const startsWithSpace = collapsed.charCodeAt(0) === 32;
    if (startsWithSpace) this.#space = true;
    if (collapsed === ' ') return;
    const endsWithSpace = collapsed.charCodeAt(collapsed.length - 1) === 32;
    this.#begin();
    this.#pieces.push(collapsed.slice(startsWithSpace ? 1 : 0, endsWithSpace ? -1 : undefined));
    this.#space = endsWithSpace;
  }

  /** Adds lines whose white space is kept. */
  addPreformatted(text: string): void {
    for (const [index, line] of text.split(/\r\n|\r|\n/).entries()) {
      if (index > 0) this.breakLine();
      if (line === '') continue;
      this.#begin();
      this.#pieces.push(line);
    }
  }

  /** Appends text directly to the last word. */
  append(text: string): void {
    this.#pieces.push(text);
  }

  breakLine(): void {
    this.#breaks += 1;
    this.#space = false;
  }

  /** Requires at least this many line breaks before the next word. */
  breakBlock(breaks: number): void {
    // A list item starts on the line of its marker.
    if (breaks === 0 || this.#lead !== this.#prefix) return;
    this.#breaks = Math.max(this.#breaks, breaks);
    this.#space = false;
  }

  /**
   * Indents the lines that follow with this text; with `once`, only the first line has the text and the others have spaces. Returns the
   * number of columns, 0 if the indent is ignored.
   */
  indent(text: string, { once }: { once: boolean }): number {
    if (this.#prefix.length + text.length > MAX_INDENT) return 0;
    this.#prefix += once ? ' '.repeat(text.length) : text;
    this.#lead += text;
    return text.length;
  }

  outdent(columns: number): void {
    this.#prefix = this.#prefix.slice(0, -columns);
    this.#lead = this.#lead.slice(0, -columns);
    if (this.#prefix.length < this.#gap.length) this.#gap = this.#prefix;
  }

  /** Returns a position in the text, for `textSince`. */
  mark(): number {
    return this.#pieces.length;
  }

  textSince(mark: number): string {
    return this.#pieces.slice(mark).join('');
  }

  text(): string {
    const text = this.#pieces.join('').replaceAll('\u00a0', ' ');
    const lines = text.split('\n');
    return lines
      .map((line) => line.trimEnd())
      .join('\n')
      .replace(/\n{3,}/g, '\n\n')
      .trim();
  }

  #begin(): void {
    if (this.#pieces.length === 0 || this.#breaks > 0) {
      if (this.#pieces.length > 0) this.#pieces.push(this.#breaks > 1 ? `\n${this.#gap}\n` : '\n');
      this.#pieces.push(this.#lead);
    } else if (this.#space) this.#pieces.push(' ');
    this.#breaks = 0;
    this.#space = false;
    this.#lead = this.#prefix;
    this.#gap = this.#prefix;
  }
}

/** Maximum number of characters of displayed words and tags. */
const MAX_CHARACTERS = 256 * 1024;
/** A tag counts for at most this many characters, however long its attributes are. */
const MAX_TAG_CHARACTERS = 1000;
const MAX_DEPTH = 120;

const words = (text: string): string[] => text.trim().split(/\s+/);

/** Line breaks before and after an element; elements that are not listed are inline. */
const BREAKS = new Map<string, number>([
  ...words('p h1 h2 h3 h4 h5 h6 ul ol blockquote pre hr').map((name): [string, number] => [name, 2]),
  ...words(`address article aside caption center dd details dialog div dl dt fieldset figcaption figure footer form header hgroup
    legend li main nav section summary table tbody tfoot thead tr`).map((name): [string, number] => [name, 1]),
]);
const WITHOUT_END = new Set(words('area base br col embed hr img input link meta param source track wbr'));
const NOT_SHOWN = new Set(words('datalist head iframe noembed noframes script select style template textarea title'));
const CELLS = new Set(['td', 'th']);
const TABLE_PARTS = new Set(words('table caption tbody tfoot thead tr td th'));
const HIDDEN_STYLE = /display:\s*none/i;
const ATTRIBUTES = new Set(words('href alt style hidden start type'));

/** The elements that a start tag closes if their end tag is missing; the search stops at `within`. */
interface ImpliedEnd {
  ends: ReadonlySet<string>;
  within: ReadonlySet<string>;
}

function impliedEnd(ends: string, within: string): ImpliedEnd {
  return { ends: new Set(words(ends)), within: new Set(words(within)) };
}

const ROW_GROUP = impliedEnd('td th tr tbody thead tfoot', 'table');
const ENDED_BY = new Map<string, ImpliedEnd>([
  ['a', impliedEnd('a', 'table')],
  ['li', impliedEnd('li', 'ul ol')],
  ['dt', impliedEnd('dt dd', 'dl')],
  ['dd', impliedEnd('dt dd', 'dl')],
  ['td', impliedEnd('td th', 'tr table')],
  ['th', impliedEnd('td th', 'tr table')],
  ['tr', impliedEnd('td th tr', 'table')],
  ['tbody', ROW_GROUP],
  ['thead', ROW_GROUP],
  ['tfoot', ROW_GROUP],
]);

interface OpenElement {
  name: string;
  isHidden: boolean;
  /** Target of a link. */
  href: string;
  /** Start of the link text. */
  mark: number;
  /** Indent of a list or a quote. */
  indent: number;
  /** Returns the marker of the next item of an ordered list. */
  nextMarker: (() => string) | undefined;
}

/** Builds the text from words and tags: keeps the open elements and the text so far. */
class Reader {
  readonly lines = new TextLines();
  readonly #open: OpenElement[] = [];
  /** Number of open elements that are hidden. */
  #hidden = 0;
  /** Number of open elements that keep white space. */
  #preformatted = 0;

  get isHidden(): boolean {
    return this.#hidden > 0;
  }

  text(source: string): void {
    if (this.isHidden || source === '') return;
    const text = source.includes('&') ? decodeHTML(source) : source;
    if (this.#preformatted > 0) this.lines.addPreformatted(text);
    else this.lines.add(text);
  }

  tag(html: string, tag: HtmlTag): void {
    if (tag.isEnd) this.#end(tag.name);
    else this.#start(html, tag);
  }

  #start(html: string, tag: HtmlTag): void {
    const { name } = tag;
    this.#endImplied(name);
    const style = attributeOf(html, tag, 'style');
    const isHidden =
      NOT_SHOWN.has(name) ||
      attributeOf(html, tag, 'hidden') !== undefined ||
      (style !== undefined && HIDDEN_STYLE.test(style));
    if (this.#hidden === 0 && !isHidden) this.#startShown(html, tag);
    if (WITHOUT_END.has(name) || this.#open.length >= MAX_DEPTH) return;
    const element: OpenElement = { name, isHidden, href: '', mark: 0, indent: 0, nextMarker: undefined };
    this.#open.push(element);
    if (isHidden) this.#hidden += 1;
    if (this.#hidden === 0) this.#enter(html, tag, element);
  }

  /** Adds the text and line breaks that a start tag produces itself, such as the alternative text of an image. */
  #startShown(html: string, tag: HtmlTag): void {
    const { name } = tag;
    const breaks = this.#breaksOf(name);
    if (breaks > 0) this.lines.breakBlock(breaks);
    if (name === 'br') this.lines.breakLine();
    else if (CELLS.has(name)) this.lines.add(' ');
    else if (name === 'img') this.lines.add(attributeOf(html, tag, 'alt') ?? '');
    else if (name === 'hr') {
      this.lines.add('-'.repeat(40));
      this.lines.breakBlock(breaks);
    }
  }

  /** Prepares for the content of a link, list, list item, quote, or preformatted element. */
  #enter(html: string, tag: HtmlTag, element: OpenElement): void {
    const { name } = element;
    if (name === 'a') {
      element.href = linkAddress(attributeOf(html, tag, 'href') ?? '');
      element.mark = this.lines.mark();
    } else if (name === 'ol') element.nextMarker = markersOf(html, tag);
    else if (name === 'li') {
      const list = this.#open.findLast((one) => one.name === 'ul' || one.name === 'ol');
      element.indent = this.lines.indent(list?.nextMarker?.() ?? '- ', { once: true });
    } else if (name === 'blockquote') element.indent = this.lines.indent('> ', { once: false });
    else if (name === 'pre') this.#preformatted += 1;
  }

  #end(name: string): void {
    let index = this.#open.length - 1;
    const isTablePart = TABLE_PARTS.has(name);
    while (index >= 0 && this.#open[index]!.name !== name) {
      // An end tag inside a cell closes nothing outside the cell.
      if (!isTablePart && CELLS.has(this.#open[index]!.name)) return;
      index -= 1;
    }
    if (index >= 0) this.#endFrom(index);
    else if (this.#hidden === 0) this.lines.breakBlock(this.#breaksOf(name));
  }

  #endImplied(name: string): void {
    const innermost = this.#open.at(-1)?.name;
    const isBlock = BREAKS.has(name) || name === 'body';
    if (isBlock && (innermost === 'p' || innermost === 'head')) this.#endFrom(this.#open.length - 1);
    const rule = ENDED_BY.get(name);
    if (rule === undefined) return;
    let from = -1;
    for (let index = this.#open.length - 1; index >= 0; index -= 1) {
      const { name: open } = this.#open[index]!;
      if (rule.ends.has(open)) from = index;
      else if (rule.within.has(open)) break;
    }
    if (from >= 0) this.#endFrom(from);
  }

  /** Closes the open element with this index, and those inside it. */
  #endFrom(index: number): void {
    while (this.#open.length > index) {
      const element = this.#open.pop()!;
      if (this.#hidden === 0) this.#leave(element);
      if (element.isHidden) this.#hidden -= 1;
    }
  }

  #leave({ name, href, mark, indent }: OpenElement): void {
    if (href !== '') this.#endLink(href, mark);
    if (name === 'pre') this.#preformatted -= 1;
    if (indent > 0) this.lines.outdent(indent);
    if (CELLS.has(name)) this.lines.add(' ');
    this.lines.breakBlock(this.#breaksOf(name));
  }

  #endLink(href: string, mark: number): void {
    const text = this.lines.textSince(mark).replace(/\s+/g, '');
    if (text === '') this.lines.add(href);
    else if (text !== href) this.lines.append(` <${href}>`);
  }

  #breaksOf(name: string): number {
    const isInList = (name === 'ul' || name === 'ol') && this.#open.some((one) => one.name === 'li');
    return isInList ? 1 : (BREAKS.get(name) ?? 0);
  }
}

/** Returns the address of a link as displayed in the text; empty for links within the same page. */
function linkAddress(href: string): string {
  // Browsers keep an inner space and read it as %20.
  const address = href.trim().replace(/[\t\r\n]+/g, '');
  return address.startsWith('#') ? '' : address.replace(/^mailto:/i, '');
}

/** Returns the markers of an ordered list one by one: numbers, letters, or Roman numerals. */
function markersOf(html: string, tag: HtmlTag): () => string {
  const start = Number.parseInt(attributeOf(html, tag, 'start') ?? '1', 10);
  let number = Number.isSafeInteger(start) ? start : 1;
  const type = attributeOf(html, tag, 'type') ?? '1';
  return () => {
    const marker = `${numberText(number, type)}. `;
    number += 1;
    return marker;
  };
}

const ROMAN: [number, string][] = [
  ...([
    [1000, 'm'],
    [900, 'cm'],
    [500, 'd'],
    [400, 'cd'],
    [100, 'c'],
    [90, 'xc'],
    [50, 'l'],
  ] as [number, string][]),
  ...([
    [40, 'xl'],
    [10, 'x'],
    [9, 'ix'],
    [5, 'v'],
    [4, 'iv'],
    [1, 'i'],
  ] as [number, string][]),
];

function numberText(number: number, type: string): string {
  const lower = type.toLowerCase();
  if (number < 1 || number > 3999 || (lower !== 'a' && lower !== 'i')) return String(number);
  let text = '';
  let rest = number;
  if (lower === 'a')
    for (; rest > 0; rest = Math.floor((rest - 1) / 26)) text = String.fromCharCode(97 + ((rest - 1) % 26)) + text;
  else
    for (const [value, letters] of ROMAN) {
      text += letters.repeat(Math.floor(rest / value));
      rest %= value;
    }
  return type === lower ? text : text.toUpperCase();
}

/** Returns the first characters of html text, without half a surrogate pair or an incomplete reference such as `&am` at the end. */
function firstCharacters(source: string, length: number): string {
  if (source.length <= length) return source;
  return source.slice(0, length).replace(/&[#\w]{0,32}$|[\ud800-\udbff]$/, '');
}

/** Returns the text of an html body, with LF line ends; empty if the html displays no text. */
export function htmlToText(html: string): string {
  const reader = new Reader();
  let remaining = MAX_CHARACTERS;
  let at = 0;
  const readWords = (end: number): void => {
    if (reader.isHidden) return;
    reader.text(firstCharacters(html.slice(at, end), remaining));
    remaining -= end - at;
  };
  for (const tag of readTags(html, ATTRIBUTES)) {
    readWords(tag.start);
    if (remaining <= 0) return reader.lines.text();
    if (tag.name !== '') reader.tag(html, tag);
    remaining -= Math.min(tag.end - tag.start, MAX_TAG_CHARACTERS);
    at = tag.end;
  }
  readWords(html.length);
  return reader.lines.text();
}

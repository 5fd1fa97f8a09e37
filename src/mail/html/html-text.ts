/**
 * Text for people, made of the html of a mail: paragraphs, lists, quotes, links as `text <url>`, images by their alternative
 * text, cells of tables apart by a space. Hidden parts (preheaders), scripts, styles and forms' values are left out. Lines are
 * never wrapped.
 *
 * The tags are those of `readTags`. Elements whose end is missing end where a browser ends them. Bounded for hostile html: words
 * and tags beyond 256 KB are left out, elements deeper than 120 levels and indents beyond 40 columns count for nothing. Styles,
 * comments and pictures in their own address (`data:`) are not limited. Linear in the length of the html.
 *
 * Text as it grows from the words of an html: white space collapses, line breaks and indents wait for the next word, so that
 * blocks without words leave nothing behind. Never more than one empty line in a row, no white space at the end of a line.
 */
import { decodeHTML } from 'entities';
import { attributeOf, type HtmlTag, readTags } from './html-tags.ts';

const SPACES = /[ \t\r\n\f\u200b]+/g;
const UNCOLLAPSED = /[\t\r\n\f\u200b]| {2}/;
/** Further indents count for nothing. */
const MAX_INDENT = 40;

class TextLines {
  readonly #pieces: string[] = [];
  /** What waits before the next word: line breaks, or else a space. */
  #breaks = 0;
  #space = false;
  /** What each line begins with. */
  #prefix = '';
  /** The same for the next line, which may have the markers of list items. */
  #lead = '';
  /** The shortest prefix since the last word: what an empty line begins with. */
  #gap = '';

  /** Words, with their white space collapsed. */
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

  /** Lines whose white space stays. */
  addPreformatted(text: string): void {
    for (const [index, line] of text.split(/\r\n|\r|\n/).entries()) {
      if (index > 0) this.breakLine();
      if (line === '') continue;
      this.#begin();
      this.#pieces.push(line);
    }
  }

  /** Puts text right behind the last word. */
  append(text: string): void {
    this.#pieces.push(text);
  }

  breakLine(): void {
    this.#breaks += 1;
    this.#space = false;
  }

  /** At least so many line breaks before the next word. */
  breakBlock(breaks: number): void {
    // An item of a list begins on the line of its marker.
    if (breaks === 0 || this.#lead !== this.#prefix) return;
    this.#breaks = Math.max(this.#breaks, breaks);
    this.#space = false;
  }

  /** Indents what follows: with the text before each line, or `once` before the first and spaces before the others. Columns. */
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

  /** A place in the text, for `textSince`. */
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

/** Characters of shown words and of tags that are read. */
const MAX_CHARACTERS = 256 * 1024;
/** A tag counts for no more than this, however long its attributes are. */
const MAX_TAG_CHARACTERS = 1000;
const MAX_DEPTH = 120;

const words = (text: string): string[] => text.trim().split(/\s+/);

/** Line breaks before and after an element; those not here stand within a line. */
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

/** The elements that a start tag ends though their own end tag is missing; it looks no further up than to `within`. */
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
  /** Of a link. */
  href: string;
  /** Where the text of the link begins. */
  mark: number;
  /** Of a list or a quote: what its lines begin with. */
  indent: number;
  /** Of an ordered list: the marker of its next item. */
  nextMarker: (() => string) | undefined;
}

/** The html while it is read: which elements are open, and the text so far. */
class Reader {
  readonly lines = new TextLines();
  readonly #open: OpenElement[] = [];
  /** How many of the open elements are hidden, and how many keep white space. */
  #hidden = 0;
  #preformatted = 0;

  get isHidden(): boolean {
    return this.#hidden > 0;
  }

  text(written: string): void {
    if (this.isHidden || written === '') return;
    const text = written.includes('&') ? decodeHTML(written) : written;
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

  /** What a start tag shows where it stands. */
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

  /** What an element means for the text inside it. */
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
      // What stands in a cell ends nothing around it.
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

  /** Ends the open element with this index, and those inside it. */
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

/** The address of a link as the text shows it; empty for places within the html. */
function linkAddress(href: string): string {
  // As browsers read it: a space within stays, and stands for %20.
  const address = href.trim().replace(/[\t\r\n]+/g, '');
  return address.startsWith('#') ? '' : address.replace(/^mailto:/i, '');
}

/** The markers of an ordered list, one after the other: its numbers, letters or Roman numbers. */
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

/** The first characters of a text; half a character or half a reference such as `&am` at the end is left out. */
function beginning(written: string, length: number): string {
  if (written.length <= length) return written;
  return written.slice(0, length).replace(/&[#\w]{0,32}$|[\ud800-\udbff]$/, '');
}

/** Text of an html body, with LF line ends; empty when the html shows no text. */
export function htmlToText(html: string): string {
  const reader = new Reader();
  let left = MAX_CHARACTERS;
  let at = 0;
  const readWords = (end: number): void => {
    if (reader.isHidden) return;
    reader.text(beginning(html.slice(at, end), left));
    left -= end - at;
  };
  for (const tag of readTags(html, ATTRIBUTES)) {
    readWords(tag.start);
    if (left <= 0) return reader.lines.text();
    if (tag.name !== '') reader.tag(html, tag);
    left -= Math.min(tag.end - tag.start, MAX_TAG_CHARACTERS);
    at = tag.end;
  }
  readWords(html.length);
  return reader.lines.text();
}

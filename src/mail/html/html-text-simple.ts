/**
 * Html to text for html without surprises: elements that are closed where they should be, of the kinds below, with attributes
 * in quotes. It follows the block rules of html-to-text, the library behind `htmlToText`, step by step, without building
 * a document; whatever it does not know to the letter (undefined) is left to the library. A differential test holds the two together.
 *
 * The state is a stack of blocks. A block has finished text (`raw`), the line being built (`inline`), line breaks that stand between the
 * two or before the next block (`breaks`), and whether a space waits before the next word (`space`).
 */

interface Block {
  raw: string;
  inline: string;
  /** Whether the current line of `inline` has a word, so that the next one needs a space. */
  hasWord: boolean;
  breaks: number;
  space: boolean;
  leading: number;
  trailing: number;
}

/** Line breaks before and after a block; the elements not here are inline. */
const BLOCKS = new Map<string, number>([
  ...['p', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((name): [string, number] => [name, 2]),
  ...['div', 'table', 'tr', 'center', 'section', 'header', 'footer', 'main', 'nav', 'article'].map(
    (name): [string, number] => [name, 1],
  ),
]);
const INLINE = new Set(
  'html body a b i u s strong em span font small big sub sup code label abbr tbody thead tfoot td th'.split(' '),
);
const EMPTY = new Set(['br', 'img', 'hr', 'meta', 'link']);
/** Elements whose opening ends an open `p`, or whose place in a table decides what they end. */
const CELLS = new Set(['td', 'th']);
const ROW_PARENTS = new Set(['table', 'tbody', 'thead', 'tfoot']);

const ENTITIES: Record<string, string> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
  '&apos;': "'",
  '&nbsp;': '\u00a0',
  '&copy;': '©',
  '&reg;': '®',
  '&trade;': '™',
  '&ndash;': '–',
  '&mdash;': '—',
  '&hellip;': '…',
  '&rsquo;': '’',
  '&lsquo;': '‘',
  '&rdquo;': '”',
  '&ldquo;': '“',
  '&euro;': '€',
  '&bull;': '•',
  '&middot;': '·',
  '&zwnj;': '\u200c',
};

const TAG = /<(\/?)([A-Za-z][A-Za-z0-9]*)((?:\s+[A-Za-z][A-Za-z0-9:_-]*(?:="[^"]*"|='[^']*')?)*)\s*(\/?)>/y;
const ATTRIBUTE = /([A-Za-z][A-Za-z0-9:_-]*)(?:="([^"]*)"|='([^']*)')?/g;
const CLOSINGS: Record<string, RegExp> = { style: /<\/style>/gi, script: /<\/script>/gi, title: /<\/title>/gi };
const HIDDEN_STYLE = /display: ?none/i;
const WHITESPACE = /[ \t\r\n\f\u200b]+/g;
const UNCOLLAPSED = /[\t\r\n\f\u200b]| {2}/;
const LIMIT = 100;

function decode(text: string): string | undefined {
  if (!text.includes('&')) return text;
  let known = true;
  const decoded = text.replace(/&(?:[A-Za-z#][A-Za-z0-9]*;?)?/g, (entity) => {
    if (entity === '&') return entity;
    const character = ENTITIES[entity];
    if (character === undefined) known = false;
    return character ?? entity;
  });
  return known ? decoded : undefined;
}

function attribute(attributes: string, wanted: string): string | undefined {
  ATTRIBUTE.lastIndex = 0;
  for (let match = ATTRIBUTE.exec(attributes); match !== null; match = ATTRIBUTE.exec(attributes)) {
    if (match[1]!.toLowerCase() === wanted) return match[2] ?? match[3] ?? '';
  }
  return undefined;
}

function newBlock(linesAround: number): Block {
  return { raw: '', inline: '', hasWord: false, breaks: 0, space: false, leading: linesAround, trailing: linesAround };
}

function textOf(block: Block): string {
  return block.raw + block.inline;
}

/** Adds a block's text to the one around it, with the larger of the line breaks both ask for. */
function close(block: Block, parent: Block): void {
  const before = textOf(parent);
  const breaks = Math.max(parent.breaks, block.leading);
  parent.inline = '';
  parent.hasWord = false;
  if (before !== '') parent.raw = before + '\n'.repeat(breaks) + textOf(block);
  else {
    parent.raw = textOf(block);
    parent.leading = breaks;
  }
  parent.breaks = Math.max(block.breaks, block.trailing);
}

function breakLine(block: Block, times: number): void {
  block.inline += '\n'.repeat(times);
  block.hasWord = false;
}

/** Adds text with its whitespace collapsed; returns the words it added. */
function addText(block: Block, text: string): string {
  if (text === '') return '';
  const collapsed = UNCOLLAPSED.test(text) ? text.replace(WHITESPACE, ' ') : text;
  const isSpace = collapsed === ' ';
  if (isSpace && block.breaks > 0) return '';
  if (block.breaks > 0) breakLine(block, block.breaks);
  block.breaks = 0;
  if (isSpace) {
    block.space = true;
    return '';
  }
  const from = collapsed.charCodeAt(0) === 32 ? 1 : 0;
  const spaceBehind = collapsed.charCodeAt(collapsed.length - 1) === 32;
  const words = collapsed.slice(from, spaceBehind ? -1 : undefined);
  block.inline += block.hasWord && (block.space || from === 1) ? ` ${words}` : words;
  block.hasWord = true;
  block.space = spaceBehind;
  return words;
}

interface OpenElement {
  name: string;
  hidden: boolean;
  /** Of a link that has one. */
  href: string;
  /** Words inside a link so far. */
  linkText: string;
}

/** What is being read. `undefined` from any step means: not simple. */
interface Reading {
  blocks: Block[];
  elements: OpenElement[];
  /** Elements around that are hidden. */
  hidden: number;
  links: number;
  bodySeen: boolean;
  bodyClosed: boolean;
}

function top(reading: Reading): Block {
  return reading.blocks[reading.blocks.length - 1]!;
}

function takeText(reading: Reading, source: string): boolean {
  const text = decode(source);
  if (text === undefined) return false;
  if (reading.hidden > 0 || reading.bodyClosed) return true;
  const words = addText(top(reading), text);
  if (reading.links > 0) {
    for (const element of reading.elements) if (element.href !== '') element.linkText += words.replaceAll(' ', '');
  }
  return true;
}

function takeEmpty(reading: Reading, name: string, attributes: string): boolean {
  if (reading.hidden > 0 || reading.bodyClosed || name === 'meta' || name === 'link') return true;
  if (/hidden|style/i.test(attributes) && isHidden(attributes)) return true;
  const block = top(reading);
  if (name === 'br') breakLine(block, 1);
  else if (name === 'hr') {
    // A rule counts as text of the link around it: too odd to follow.
    if (reading.links > 0) return false;
    const rule = newBlock(2);
    addText(rule, '-'.repeat(40));
    close(rule, block);
  } else {
    const alt = decode(attribute(attributes, 'alt') ?? '');
    if (alt === undefined) return false;
    addText(block, alt);
  }
  return true;
}

function isHidden(attributes: string): boolean {
  return attribute(attributes, 'hidden') !== undefined || HIDDEN_STYLE.test(attribute(attributes, 'style') ?? '');
}

/** Whether the parser would leave the element where it is written, and close nothing for it. */
function mayOpen(reading: Reading, name: string): boolean {
  const parent = reading.elements[reading.elements.length - 1]?.name;
  if (parent === 'p' && (BLOCKS.has(name) || name === 'hr')) return name === 'tr' || name === 'center';
  if (CELLS.has(name)) return parent === 'tr';
  if (name === 'tr') return ROW_PARENTS.has(parent ?? '');
  if (name === 'tbody' || name === 'thead' || name === 'tfoot') return parent === 'table';
  if (name === 'a') return reading.links === 0;
  return reading.elements.length < LIMIT;
}

function takeOpen(reading: Reading, name: string, attributes: string): boolean {
  if (!mayOpen(reading, name)) return false;
  const hidden = /hidden|style/i.test(attributes) && isHidden(attributes);
  if (/style=(?:"[^"]*|'[^']*)&/i.test(attributes)) return false;
  let href = '';
  if (name === 'body') {
    if (reading.bodySeen || hidden || reading.hidden > 0 || reading.links > 0) return false;
    if (reading.elements.some((element) => element.name !== 'html')) return false;
    reading.bodySeen = true;
    reading.blocks = [newBlock(1)];
  } else if (name === 'a' && reading.hidden === 0 && !hidden) {
    const decoded = decode(attribute(attributes, 'href') ?? '');
    if (decoded === undefined) return false;
    href = decoded.startsWith('#') ? '' : decoded.replace(/^mailto:/, '');
    if (href.startsWith('#') || (decoded !== '' && href === '' && !decoded.startsWith('#'))) return false;
    if (href !== '') reading.links += 1;
  }
  reading.elements.push({ name, hidden, href, linkText: '' });
  if (hidden) reading.hidden += 1;
  if (reading.hidden > 0 || reading.bodyClosed) return true;
  const linesAround = BLOCKS.get(name);
  if (linesAround !== undefined) reading.blocks.push(newBlock(linesAround));
  else if (CELLS.has(name)) addText(top(reading), ' ');
  return true;
}

function takeClose(reading: Reading, name: string): boolean {
  const element = reading.elements.pop();
  if (element === undefined || element.name !== name) return false;
  if (reading.hidden > 0) {
    if (element.hidden) reading.hidden -= 1;
    return true;
  }
  if (name === 'body') reading.bodyClosed = true;
  if (reading.bodyClosed) return true;
  if (element.href !== '') {
    reading.links -= 1;
    if (element.linkText === '') addText(top(reading), element.href);
    else if (element.linkText !== element.href) addText(top(reading), ` <${element.href}>`);
  }
  if (BLOCKS.has(name)) {
    const block = reading.blocks.pop()!;
    close(block, top(reading));
  } else if (CELLS.has(name)) addText(top(reading), ' ');
  return true;
}

/** Index behind a comment, doctype, head, style or script that starts at `at`; -1 when it is none or not a plain one. */
function skipUnseen(html: string, at: number, reading: Reading): number {
  if (html.startsWith('<!--', at)) {
    const end = html.indexOf('-->', at + 4);
    if (end < 0 || /^(?:>|->)|--!>/.test(html.slice(at + 4, end + 3))) return -1;
    return end + 3;
  }
  const start = html.slice(at, at + 10).toLowerCase();
  if (start.startsWith('<!doctype ')) {
    const end = html.indexOf('>', at);
    return reading.elements.length > 0 ? -1 : end + 1;
  }
  for (const name of ['style', 'script', 'title', 'head']) {
    if (!start.startsWith(`<${name}`) || !/[\s>]/.test(start[name.length + 1] ?? '')) continue;
    if (name === 'head') return skipHead(html, at);
    return skipRawText(html, at, name);
  }
  return -1;
}

function skipRawText(html: string, at: number, name: string): number {
  TAG.lastIndex = at;
  const open = TAG.exec(html);
  if (open === null || open[4] === '/') return -1;
  const closing = CLOSINGS[name]!;
  closing.lastIndex = TAG.lastIndex;
  const end = closing.exec(html)?.index ?? -1;
  // Nearly closed elements, and scripts that hold comments, follow rules of their own.
  if (end < 0 || /<\/|<!--/.test(html.slice(TAG.lastIndex, end))) return -1;
  return end + name.length + 3;
}

/** A head holds only elements that show nothing, each skipped in its turn, so that a `</head>` in a script is not its end. */
function skipHead(html: string, at: number): number {
  TAG.lastIndex = at;
  if (TAG.exec(html) === null) return -1;
  let next = TAG.lastIndex;
  for (;;) {
    const tag = html.indexOf('<', next);
    if (tag < 0) return -1;
    if (/^<\/head>/i.test(html.slice(tag, tag + 7))) return tag + 7;
    TAG.lastIndex = tag;
    const match = TAG.exec(html);
    if (match !== null && /^(?:meta|link|base)$/i.test(match[2]!)) {
      next = TAG.lastIndex;
      continue;
    }
    const start = html.slice(tag, tag + 5).toLowerCase();
    if (start === '<head') return -1;
    next = skipUnseen(html, tag, { blocks: [], elements: [], hidden: 0, links: 0, bodySeen: false, bodyClosed: false });
    if (next < 0) return -1;
  }
}

/** The text, not yet tidied; undefined when the html is not simple. */
export function simpleHtmlToText(html: string): string | undefined {
  const reading: Reading = {
    blocks: [newBlock(1)],
    elements: [],
    hidden: 0,
    links: 0,
    bodySeen: false,
    bodyClosed: false,
  };
  for (let at = 0; at < html.length; ) {
    const tagStart = html.indexOf('<', at);
    const textEnd = tagStart < 0 ? html.length : tagStart;
    if (textEnd > at && !takeText(reading, html.slice(at, textEnd))) return undefined;
    if (tagStart < 0) break;
    TAG.lastIndex = tagStart;
    const match = TAG.exec(html);
    const name = match === null ? '' : match[2]!.toLowerCase();
    let understood: boolean;
    if (match !== null && (INLINE.has(name) || BLOCKS.has(name))) {
      if (match[4] === '/' || (match[1] === '/' && match[3] !== '')) return undefined;
      at = TAG.lastIndex;
      understood = match[1] === '/' ? takeClose(reading, name) : takeOpen(reading, name, match[3]!);
    } else if (match !== null && EMPTY.has(name) && match[1] === '') {
      if (name === 'hr' && !mayOpen(reading, name)) return undefined;
      at = TAG.lastIndex;
      understood = takeEmpty(reading, name, match[3]!);
    } else {
      at = skipUnseen(html, tagStart, reading);
      understood = at > tagStart;
    }
    if (!understood) return undefined;
  }
  if (reading.elements.length > 0) return undefined;
  return textOf(reading.blocks[0]!);
}

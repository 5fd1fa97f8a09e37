/**
 * Parses a Handlebars or Mustachio source into text and tags, and nests the blocks. Every tag must be closed, and every block must end with
 * its own name; otherwise parsing throws a ConversionError. The run time is proportional to the length of the source.
 */

/** Thrown for a source that cannot be parsed. The message continues a sentence that starts with the name of the part. */
export class ConversionError extends Error {
  readonly line: number;

  constructor(message: string, line: number) {
    super(`${message} (line ${line})`);
    this.line = line;
  }
}

export type Language = 'handlebars' | 'mustachio';

export interface Tag {
  /** The tag with its braces. */
  source: string;
  /** The text between the braces, without `{`, `&`, and `~`. */
  inner: string;
  isRaw: boolean;
  line: number;
  begin: number;
  end: number;
}

export interface Block {
  type: 'block';
  /** The tag that opens the block. */
  tag: Tag;
  /** `if` in `{{#if name}}`. */
  name: string;
  /** The text after the name. */
  rest: string;
  /** Whether the tag is `{{^name}}`. */
  isInverted: boolean;
  body: Node[];
  otherwise: Node[] | undefined;
  /** Whether the block is the `{{else if}}` of another block. */
  isChained: boolean;
  /** Position at which the block ends in the source. */
  end: number;
}

export type Node =
  | { type: 'text'; text: string; line: number }
  | { type: 'comment'; text: string }
  | { type: 'output'; tag: Tag }
  | { type: 'unsupported'; tag: Tag; why: string }
  | Block;

const MAX_TAGS = 10_000;
const MAX_TAG_LENGTH = 8_000;
/** Maximum number of characters in tags. Liquid templates have the same limit, and a converted tag is never shorter. */
const MAX_IN_TAGS = 35_000;
const MAX_DEPTH = 50;

/** Returns a function that converts a position to its line number, from 1. The positions must not decrease from call to call. */
export function lineCounter(source: string): (at: number) => number {
  let line = 1;
  let next = source.indexOf('\n');
  return (at) => {
    while (next !== -1 && next < at) {
      line += 1;
      next = source.indexOf('\n', next + 1);
    }
    return line;
  };
}

type Piece = { text: string; line: number } | { tag: Tag; trims: readonly [boolean, boolean] };

/** Splits a source into pieces. Throws if it has too many tags. */
function split(source: string, language: Language): Piece[] {
  const lineAt = lineCounter(source);
  for (const brace of ['{{', '{%']) {
    let count = 0;
    for (let at = source.indexOf(brace); at !== -1; at = source.indexOf(brace, at + 2)) {
      count += 1;
      if (count > MAX_TAGS) throw new ConversionError(`has more than ${MAX_TAGS} tags ({{ or {%)`, lineAt(at));
    }
  }
  return splitTags(source, language);
}

/** Splits a source into pieces. In Handlebars, a tag after a backslash (`\{{`) is text. */
function splitTags(source: string, language: Language): Piece[] {
  const pieces: Piece[] = [];
  const lineAt = lineCounter(source);
  const addText = (text: string, at: number): void => {
    const last = pieces.at(-1);
    if (last !== undefined && 'text' in last) last.text += text;
    else if (text !== '') pieces.push({ text, line: lineAt(at) });
  };
  let tagCharacters = 0;
  for (let at = 0; at < source.length; ) {
    const begin = source.indexOf('{{', at);
    if (begin === -1) {
      addText(source.slice(at), at);
      break;
    }
    const backslashes =
      language === 'handlebars' ? /\\{0,2}$/.exec(source.slice(Math.max(at, begin - 2), begin))![0] : '';
    addText(source.slice(at, begin - (backslashes === '' ? 0 : 1)), at);
    const line = lineAt(begin);
    const end = endOfTag(source, begin, line);
    if (backslashes.length === 1) {
      addText(source.slice(begin, end), begin);
    } else {
      if (source[begin + 2] !== '!') tagCharacters += end - begin;
      if (tagCharacters > MAX_IN_TAGS)
        throw new ConversionError(`has more than ${MAX_IN_TAGS} characters in its tags`, line);
      const piece = pieceOf(source, begin, end, line);
      if (source.startsWith('{{{{', begin) && language === 'handlebars')
        throw new ConversionError('has a raw block {{{{…}}}}, which cannot be converted', line);
      pieces.push(piece);
    }
    at = end;
  }
  return pieces;
}

function endOfTag(source: string, begin: number, line: number): number {
  const head = source.slice(begin, begin + 6);
  const isLongComment = /^\{\{~?!--/.test(head);
  const close = isLongComment ? '--' : /^\{\{~?\{/.test(head) ? '}}}' : '}}';
  // A triple tag that starts with `{{~{` ends with `}~}}`.
  const triple = close === '}}}' && head[2] === '~' ? '}~}}' : close;
  let end = source.indexOf(triple, begin + (isLongComment ? 5 : 2));
  if (end === -1 && triple !== close) end = source.indexOf(close, begin + 2);
  const length = source.startsWith(triple, end) ? triple.length : close.length;
  if (isLongComment && end !== -1) {
    const after = /^--~?\}\}/.exec(source.slice(end, end + 5));
    if (after) return end + after[0].length;
    const next = /--~?\}\}/g;
    next.lastIndex = end;
    const found = next.exec(source);
    if (found) return found.index + found[0].length;
    end = -1;
  }
  if (end === -1)
    throw new ConversionError(`has a tag that is not closed: ${source.slice(begin, begin + 30).trim()}`, line);
  if (!isLongComment && end - begin > MAX_TAG_LENGTH && source[begin + 2] !== '!')
    throw new ConversionError(`has a tag that is longer than ${MAX_TAG_LENGTH} characters`, line);
  return end + length;
}

function pieceOf(source: string, begin: number, end: number, line: number): Piece {
  const text = source.slice(begin, end);
  let inner = text.slice(2, -2);
  const trims = [inner.startsWith('~'), inner.endsWith('~')] as const;
  if (trims[0]) inner = inner.slice(1);
  if (trims[1]) inner = inner.slice(0, -1);
  const isTriple = inner.startsWith('{') && inner.endsWith('}');
  if (isTriple) inner = inner.slice(1, -1);
  const isUnescaped = !isTriple && inner.startsWith('&');
  if (isUnescaped) inner = inner.slice(1);
  const tag = { source: text, inner: inner.trim(), isRaw: isTriple || isUnescaped, line, begin, end };
  return { tag, trims };
}

const STANDALONE = /^(?:[#^/!>]|else(?:\s|$))/;

/** Removes the white space next to `~`, and lines that contain only a tag without output. */
function trimText(pieces: Piece[]): void {
  const originals = pieces.map((piece) => ('text' in piece ? piece.text : undefined));
  for (const [i, piece] of pieces.entries()) {
    if ('text' in piece) continue;
    const before = pieces[i - 1];
    const after = pieces[i + 1];
    const { tag, trims } = piece;
    const isFirst = i === 0 || (i === 1 && originals[0] !== undefined);
    const isLast = i === pieces.length - 1 || (i === pieces.length - 2 && originals[i + 1] !== undefined);
    const text = [originals[i - 1], originals[i + 1]];
    const startsLine = i === 0 || (text[0] !== undefined && isBlankFromLine(text[0], isFirst));
    const endsLine = i === pieces.length - 1 || (text[1] !== undefined && isBlankToLine(text[1], isLast));
    const isStandalone = !tag.isRaw && STANDALONE.test(tag.inner) && startsLine && endsLine;
    if (before !== undefined && 'text' in before) {
      if (trims[0]) before.text = before.text.trimEnd();
      else if (isStandalone) before.text = before.text.slice(0, lastNonBlank(before.text));
    }
    if (after !== undefined && 'text' in after) {
      if (trims[1]) after.text = after.text.trimStart();
      else if (isStandalone) after.text = after.text.replace(/^[ \t]*\r?\n?/, '');
    }
  }
}

function lastNonBlank(text: string): number {
  let at = text.length;
  while (at > 0 && (text[at - 1] === ' ' || text[at - 1] === '\t')) at -= 1;
  return at;
}

function isBlankFromLine(text: string, isStart: boolean): boolean {
  const at = lastNonBlank(text);
  return at === 0 ? isStart : text[at - 1] === '\n';
}

function isBlankToLine(text: string, isEnd: boolean): boolean {
  return /^[ \t]*\r?\n/.test(text) || (isEnd && /^[ \t]*$/.test(text));
}

/** A block whose closing tag has not been read yet. */
interface OpenBlock {
  block: Block;
  /** The list to which the next nodes are added. */
  into: Node[];
  chained: Block[];
}

/** Returns the nodes of a source. Throws a ConversionError if the source cannot be parsed. */
export function parseTags(source: string, language: Language): Node[] {
  const pieces = split(source, language);
  if (language === 'handlebars') trimText(pieces);
  const root: Node[] = [];
  const open: OpenBlock[] = [];
  for (const piece of pieces) {
    const into = open.at(-1)?.into ?? root;
    if ('text' in piece) {
      if (piece.text !== '') into.push({ type: 'text', text: piece.text, line: piece.line });
      continue;
    }
    const { tag } = piece;
    const [first = ''] = tag.inner;
    if (tag.isRaw) into.push({ type: 'output', tag });
    else if (first === '!')
      into.push({
        type: 'comment',
        text: tag.inner
          .slice(1)
          .replace(/^--|--$/g, '')
          .trim(),
      });
    else if (first === '>' || /^#\s*[>*]/.test(tag.inner))
      into.push({ type: 'unsupported', tag, why: 'a template cannot include another template; copy its content here' });
    else if (first === '#' || (first === '^' && tag.inner.length > 1)) {
      if (language === 'mustachio') endSection(tag, open);
      open.push(openBlock(tag, open.at(-1)?.into ?? root, open.length));
    } else if (first === '/') closeBlock(tag, open.pop());
    else if (language === 'handlebars' && /^(?:\^|else(?:\s.*)?)$/s.test(tag.inner)) addElse(tag, open.at(-1));
    else into.push({ type: 'output', tag });
  }
  const unclosed = open.at(-1);
  if (unclosed !== undefined)
    throw new ConversionError(
      `has a block that is not closed: ${unclosed.block.tag.source.slice(0, 60)}`,
      unclosed.block.tag.line,
    );
  return root;
}

function blockOf(tag: Tag, head: string, isChained: boolean): Block {
  const [, name = '', rest = ''] = /^(\S*)\s*(.*)$/s.exec(head.trim())!;
  return {
    type: 'block',
    tag,
    name,
    rest: rest.trim(),
    isInverted: tag.inner.startsWith('^'),
    body: [],
    otherwise: undefined,
    isChained,
    end: tag.end,
  };
}

function openBlock(tag: Tag, into: Node[], depth: number): OpenBlock {
  if (depth >= MAX_DEPTH)
    throw new ConversionError(`has blocks that are nested deeper than ${MAX_DEPTH} levels`, tag.line);
  const block = blockOf(tag, tag.inner.slice(1), false);
  into.push(block);
  return { block, into: block.body, chained: [] };
}

/**
 * Ends a section implicitly. In Mustachio, `{{#x}}…{{^x}}…{{/x}}` is a section and its alternative, so a section also ends at the next
 * section of the same name.
 */
function endSection(tag: Tag, open: OpenBlock[]): void {
  const last = open.at(-1)?.block;
  if (last === undefined || last.name === 'each' || last.name !== tag.inner.slice(1).trim()) return;
  last.end = tag.begin;
  open.pop();
}

function closeBlock(tag: Tag, open: OpenBlock | undefined): void {
  const name = tag.inner.slice(1).trim();
  if (open === undefined) throw new ConversionError(`has ${tag.source} without an opening tag`, tag.line);
  const { block, chained } = open;
  if (name !== block.name)
    throw new ConversionError(`has ${tag.source} instead of {{/${block.name.slice(0, 60)}}}`, tag.line);
  for (const one of [block, ...chained]) one.end = tag.end;
}

/** Adds an else branch. `{{else if x}}` opens a block in that branch, and both blocks end with the same closing tag. */
function addElse(tag: Tag, open: OpenBlock | undefined): void {
  if (open === undefined) throw new ConversionError(`has ${tag.source} outside a block`, tag.line);
  const last = open.chained.at(-1) ?? open.block;
  if (last.otherwise !== undefined) throw new ConversionError(`has two {{else}} tags in one block`, tag.line);
  last.otherwise = [];
  open.into = last.otherwise;
  const head = tag.inner.replace(/^(?:\^|else)\s*/, '');
  if (head === '') return;
  if (open.chained.length >= 100) throw new ConversionError('has a block with more than 100 branches', tag.line);
  const chained = blockOf(tag, head, true);
  last.otherwise.push(chained);
  open.chained.push(chained);
  open.into = chained.body;
}

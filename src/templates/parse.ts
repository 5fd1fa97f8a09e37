/**
 * Parses the sources of subject, html, and text with Liquid. Limits the length, number, size, and depth of tags, gives templates no access
 * to files or other templates, and caches parsed templates.
 *
 * Converts errors in a source, or during rendering, to a message with their position, if the position is known.
 */
import {
  type Liquid,
  LiquidError,
  ParseError,
  Parser,
  type Template,
  Tokenizer,
  type TopLevelToken,
  TypeGuards,
  type Value,
} from 'liquidjs';
import type { Issue } from '../base/failure.ts';
import {
  type Kind,
  MAX_OUTPUT_LENGTH,
  OverLimit,
  RENDER_LIMIT_EXCEEDED,
  RENDER_LIMIT_MS,
  TooMuchText,
} from './context.ts';
import { foreignSyntaxHint, hasTypographicQuotes, shownTag, tagAt } from './foreign-syntax.ts';
import { assertOneValue, createLiquid, MailOutput, UNSUBSCRIBE_VARIABLE } from './language.ts';
import { MAX_SOURCE_LENGTH } from './template.ts';

const TOO_MUCH_TEXT = `produces too much text: more than ${MAX_OUTPUT_LENGTH} characters in all parts together`;

const TOO_DEEP_OR_LONG = 'is nested too deeply or produces too much text';

/** Thrown if a template exceeds a limit, with the position of the excess. */
class LimitError extends Error {
  readonly line: number;
  readonly column: number;

  constructor(message: string, source: string, at: number) {
    super(message);
    const before = source.slice(0, at);
    this.line = before.split('\n').length;
    this.column = at - before.lastIndexOf('\n');
  }
}

/** Returns the message for an error of parsing or rendering. It follows the name of the field, for example `has more than 10000 tags`. */
export function parseIssue(error: unknown): Omit<Issue, 'field'> {
  if (error instanceof LimitError) return withPosition(error.message, error.line, error.column);
  if (error instanceof OverLimit) return { message: error.message };
  if (error instanceof TooMuchText) return { message: TOO_MUCH_TEXT };
  const limit = error instanceof Error ? timeLimitMessage(error.message) : undefined;
  if (limit !== undefined && !LiquidError.is(error)) return { message: limit };
  // Excessive nesting causes a stack overflow, and endless text an invalid string length: both throw a RangeError.
  if (error instanceof RangeError) return { message: TOO_DEEP_OR_LONG };
  if (!LiquidError.is(error)) throw error;
  const { originalError } = error;
  if (originalError instanceof TooMuchText) return { message: TOO_MUCH_TEXT };
  const [line, column] = error.token.getPosition() as [number, number];
  if (originalError instanceof RangeError) return withPosition(TOO_DEEP_OR_LONG, line, column);
  if (originalError instanceof OverLimit) return withPosition(originalError.message, line, column);
  return withPosition(messageOf(error), line, column);
}

function withPosition(message: string, line: number, column: number): Omit<Issue, 'field'> {
  return { message: `${message} (line ${line}, column ${column})`, line, column };
}

function messageOf(error: LiquidError): string {
  const problem = (error.originalError?.message ?? error.message).replace(/, line:\d+, col:\d+$/, '').slice(0, 200);
  const limit = timeLimitMessage(problem);
  if (limit !== undefined) return limit;
  const tag = error.name === 'RenderError' ? undefined : tagAround(error.token);
  const hint = tag === undefined ? undefined : foreignSyntaxHint(tag, problem);
  return hint === undefined ? `is not a valid template: ${problem}` : `has an invalid tag ${shownTag(tag!)}: ${hint}`;
}

/** Returns the complete tag that contains a token. */
function tagAround({ input, begin }: LiquidError['token']): string | undefined {
  let at = Math.max(input.lastIndexOf('{{', begin), input.lastIndexOf('{%', begin));
  while (at > 0 && input[at - 1] === '{') at -= 1;
  return at < 0 ? undefined : tagAt(input, at);
}

/** Returns the message if the time limit was exceeded. This may also happen outside of any tag, and then has no position. */
function timeLimitMessage(problem: string): string | undefined {
  if (problem !== RENDER_LIMIT_EXCEEDED) return undefined;
  return `takes longer than ${RENDER_LIMIT_MS} ms to render; loop over fewer items, or compute values before the send`;
}

/** A cache of recently used entries. */
interface RecentCache<V> {
  get(key: string): V | undefined;
  set(key: string, value: V): void;
}

interface RecentLimits<V> {
  entries: number;
  /** Maximum memory of a generation in bytes. A larger entry is not cached. */
  weight: number;
  /** Returns the approximate memory of an entry in bytes. */
  weigh(key: string, value: V): number;
}

/**
 * Creates a cache with two generations. New entries and entries that are read are in the young generation. When it is full, it replaces the
 * old one.
 */
export function createRecentCache<V>(limits: RecentLimits<V>): RecentCache<V> {
  let young = new Map<string, V>();
  let old = new Map<string, V>();
  let total = 0;

  const set = (key: string, value: V): void => {
    const weight = limits.weigh(key, value);
    if (weight > limits.weight) return;
    young.set(key, value);
    total += weight;
    if (young.size < limits.entries && total < limits.weight) return;
    old = young;
    young = new Map();
    total = 0;
  };

  return {
    get: (key) => {
      const found = young.get(key);
      if (found !== undefined) return found;
      const older = old.get(key);
      if (older !== undefined) set(key, older);
      return older;
    },
    set,
  };
}

const MAX_TAGS = 10_000;
const MAX_TAG_LENGTH = 8_000;
/** Maximum number of lines. For each error, Liquid splits the template into lines to find the position. */
const MAX_LINES = 100_000;
/**
 * Maximum number of characters within all tags of a source. Tags take far longer to parse than text: this many take up to 32 ms, and three
 * parts may be parsed together.
 */
const MAX_IN_TAGS = 35_000;
const MAX_DEPTH = 50;

/** Approximate memory of a parsed tag (measured: 740 to 940 bytes). */
const TAG_BYTES = 1_000;

const BLOCK_TAGS = new Set(['if', 'unless', 'case', 'for', 'tablerow', 'capture', 'comment']);

export interface MailTemplate {
  kind: Kind;
  templates: Template[];
  /** Approximate memory in bytes, including the source. */
  weight: number;
  /** Whether the name of the unsubscribe link occurs in the source. */
  mentionsUnsubscribeLink: boolean;
}

type ParseResult = { ok: true; value: MailTemplate } | { ok: false; issue: Omit<Issue, 'field'> };

class MailParser extends Parser {
  readonly #liquid: Liquid;
  readonly #kind: Kind;

  constructor(liquid: Liquid, kind: Kind) {
    super(liquid);
    this.#liquid = liquid;
    this.#kind = kind;
  }

  override parseToken(token: TopLevelToken, rest: TopLevelToken[]): ReturnType<Parser['parseToken']> {
    try {
      // The tag {% # … %} is a comment.
      const isComment = TypeGuards.isTagToken(token) && token.name === '#';
      if (!TypeGuards.isHTMLToken(token) && !isComment && hasTypographicQuotes(token.getText()))
        throw new Error('unexpected quotation mark');
      if (!TypeGuards.isOutputToken(token)) {
        const tag = super.parseToken(token, rest);
        // Check the conditions of {% if %} and {% unless %}.
        for (const { value } of (tag as { branches?: { value?: Value }[] }).branches ?? [])
          if (value !== undefined) assertOneValue(value);
        return tag;
      }
      return new MailOutput(token, this.#liquid, this.#kind) as unknown as ReturnType<Parser['parseToken']>;
    } catch (error) {
      throw LiquidError.is(error) ? error : new ParseError(error as Error, token);
    }
  }
}

/** Finds tags with indexOf, because Liquid's tokenizer tests every character, and rejects tags that are too long. */
class TopLevelTokenizer extends Tokenizer {
  #inTags = 0;

  override readHTMLToken(): ReturnType<Tokenizer['readHTMLToken']> {
    let at = this.input.indexOf('{', this.p);
    while (at !== -1 && this.input[at + 1] !== '{' && this.input[at + 1] !== '%') at = this.input.indexOf('{', at + 1);
    // The empty string matches immediately, so Liquid does not search.
    const token = super.readHTMLToken(['']);
    token.end = at === -1 ? this.N : at;
    this.p = token.end;
    return token;
  }

  override readTo(end: string): number {
    const at = this.input.indexOf(end, this.p + 1 - end.length);
    this.p = at === -1 ? this.N : at + end.length;
    return at === -1 ? -1 : this.p;
  }

  /** Reads a word of at most the maximum tag length. */
  override readIdentifier(): ReturnType<Tokenizer['readIdentifier']> {
    return this.#withinTagLimit(() => super.readIdentifier());
  }

  /** Searches for the end of a tag only within the maximum tag length. */
  override readToDelimiter(delimiter: string, respectQuoted?: boolean): number {
    const begin = this.p;
    const end = this.#withinTagLimit(() => super.readToDelimiter(delimiter, respectQuoted));
    if (end === -1 && this.p < this.N)
      throw new LimitError(`has a tag of more than ${MAX_TAG_LENGTH} characters`, this.input, begin);
    this.#inTags += this.p - begin;
    if (this.#inTags > MAX_IN_TAGS)
      throw new LimitError(`has more than ${MAX_IN_TAGS} characters within tags`, this.input, begin);
    return end;
  }

  #withinTagLimit<T>(read: () => T): T {
    const length = this.N;
    this.N = Math.min(length, this.p + MAX_TAG_LENGTH);
    const found = read();
    this.N = length;
    return found;
  }
}

/** Returns the tokens as a list with a fast shift(), because shifting a long array moves all other items. */
function toQueue(tokens: TopLevelToken[]): TopLevelToken[] {
  let next = 0;
  const list = {
    shift: () => tokens[next++],
    get length() {
      return tokens.length - Math.min(next, tokens.length);
    },
  };
  return list as unknown as TopLevelToken[];
}

const liquids: Record<Kind, Liquid> = { html: createLiquid('html'), text: createLiquid('text') };
const limits = { entries: 500, weight: 16_000_000, weigh: (_: string, { weight }: MailTemplate) => weight };
const caches: Record<Kind, ReturnType<typeof createRecentCache<MailTemplate>>> = {
  html: createRecentCache(limits),
  text: createRecentCache(limits),
};

export function liquidFor(kind: Kind): Liquid {
  return liquids[kind];
}

/** Returns whether the text contains template syntax. Other text is not changed. */
export function isTemplate(source: string): boolean {
  return source.includes('{{') || source.includes('{%');
}

/** Returns whether the text is a template that contains the name of the unsubscribe link. Uses the cache if possible. */
export function mentionsUnsubscribeLink(source: string, kind: Kind): boolean {
  return (
    isTemplate(source) && (caches[kind].get(source)?.mentionsUnsubscribeLink ?? source.includes(UNSUBSCRIBE_VARIABLE))
  );
}

/** Parses the source, or returns the cached template. */
export function parseTemplate(source: string, kind: Kind): ParseResult {
  const found = caches[kind].get(source);
  if (found !== undefined) return { ok: true, value: found };
  const parsed = parseUncached(source, kind);
  if (parsed.ok) caches[kind].set(source, parsed.value);
  return parsed;
}

/** Parses without the cache, for callers that have their own cache. */
export function parseUncached(source: string, kind: Kind): ParseResult {
  try {
    const { templates, tags } = parseFresh(source, kind);
    const weight = 2 * source.length + TAG_BYTES * tags;
    const mentionsUnsubscribeLink = source.includes(UNSUBSCRIBE_VARIABLE);
    return { ok: true, value: { kind, templates, weight, mentionsUnsubscribeLink } };
  } catch (error) {
    return { ok: false, issue: parseIssue(error) };
  }
}

function parseFresh(source: string, kind: Kind): { templates: Template[]; tags: number } {
  if (source.length > MAX_SOURCE_LENGTH)
    throw new LimitError(`has more than ${MAX_SOURCE_LENGTH} characters`, source, MAX_SOURCE_LENGTH);
  let lines = 0;
  for (let at = source.indexOf('\n'); at !== -1; at = source.indexOf('\n', at + 1)) {
    lines += 1;
    if (lines > MAX_LINES) throw new LimitError(`has more than ${MAX_LINES} lines`, source, at);
  }
  let tags = 0;
  for (const delimiter of ['{{', '{%']) {
    for (let at = source.indexOf(delimiter); at !== -1; at = source.indexOf(delimiter, at + 2)) {
      tags += 1;
      if (tags > MAX_TAGS) throw new LimitError(`has more than ${MAX_TAGS} tags ({{ or {%)`, source, at);
    }
  }
  const liquid = liquids[kind];
  const tokens = new TopLevelTokenizer(source, liquid.options.operators).readTopLevelTokens(liquid.options);
  let depth = 0;
  for (const token of tokens) {
    if (TypeGuards.isHTMLToken(token)) continue;
    if (!TypeGuards.isTagToken(token)) continue;
    if (BLOCK_TAGS.has(token.name)) depth += 1;
    else if (token.name.startsWith('end')) depth -= 1;
    if (depth > MAX_DEPTH) throw new LimitError(`has tags nested deeper than ${MAX_DEPTH} levels`, source, token.begin);
  }
  return { templates: new MailParser(liquid, kind).parseTokens(toQueue(tokens)), tags };
}

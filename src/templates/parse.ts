/**
 * Sources of subject, html and text become templates: parsed by Liquid with limits on length, number, size and depth of its
 * tags, without access to files or other templates, and remembered. A template that only prints variables is also kept as a
 * list of pieces, which needs no Liquid to be filled in; most mail is of that kind.
 */
import {
  type Context,
  CycleTag,
  type EchoTag,
  type Emitter,
  evalToken,
  ForTag,
  Liquid,
  LiquidError,
  ParseError,
  Parser,
  TablerowTag,
  Tag,
  type TagToken,
  type Template,
  Tokenizer,
  type TopLevelToken,
  TypeGuards,
  toValue,
} from 'liquidjs';
import type { Fault } from '../base/failure.ts';
import { boundFilters } from './bound-filters.ts';
import { type Budget, MAX_OUTPUT_LENGTH, TooMuchText } from './budget.ts';
import { type Kind, type MailContext, MailOutput, noteWithoutValue, UNSUBSCRIBE_VARIABLE } from './output.ts';
import { createRecent } from './recent.ts';
import { RENDER_LIMIT_EXCEEDED, RENDER_LIMIT_MS } from './time-limit.ts';
import { escapeHtml, printable } from './value.ts';

export const MAX_SOURCE_LENGTH = 2_000_000;
const MAX_TAGS = 10_000;
const MAX_TAG_LENGTH = 8_000;
const MAX_DEPTH = 50;
/** Characters and elements that filters and loops may make in one rendering. */
const MEMORY_LIMIT = 10_000_000;
const TOO_MUCH_TEXT = `makes too much text: more than ${MAX_OUTPUT_LENGTH} characters in all parts together`;

/** About what a parsed tag keeps in memory; measured 740 to 940 bytes. */
const TAG_BYTES = 1_000;

/** Tags that would read other templates, or write to the values given. */
const REFUSED_TAGS = ['include', 'render', 'layout', 'block', 'increment', 'decrement'];
const BLOCK_TAGS = new Set(['if', 'unless', 'case', 'for', 'tablerow', 'capture', 'comment']);

export interface MailTemplate {
  kind: Kind;
  templates: Template[];
  /** About how many bytes it keeps in memory, its source included. */
  weight: number;
  /** Literal text and plain variables in order, when there is nothing else. */
  pieces: (string | MailOutput)[] | undefined;
  /** For html: the same as text, made when first asked for; null when that has to be made from each rendering. */
  derived: (string | MailOutput)[] | null | undefined;
  /** Whether the name of the unsubscribe link stands anywhere in the source. */
  namesLink: boolean;
}

export type ParseResult = { ok: true; value: MailTemplate } | { ok: false; fault: Omit<Fault, 'field'> };

type Ranged = TopLevelToken & { contentRange: [number, number] };

class MailParser extends Parser {
  readonly #liquid: Liquid;
  readonly #kind: Kind;

  constructor(liquid: Liquid, kind: Kind) {
    super(liquid);
    this.#liquid = liquid;
    this.#kind = kind;
  }

  override parseToken(token: TopLevelToken, rest: TopLevelToken[]): ReturnType<Parser['parseToken']> {
    if (!TypeGuards.isOutputToken(token)) return super.parseToken(token, rest);
    try {
      return new MailOutput(token, this.#liquid, this.#kind) as unknown as ReturnType<Parser['parseToken']>;
    } catch (error) {
      throw LiquidError.is(error) ? error : new ParseError(error as Error, token);
    }
  }
}

/** Where rendering writes, within the budget of the rendering. */
class BoundedEmitter implements Emitter {
  readonly #budget: Budget;
  buffer = '';

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  write(value: unknown): void {
    const text = typeof value === 'string' ? value : (printable(toValue(value)) ?? '');
    this.#budget.write(text.length);
    this.buffer += text;
  }
}

/** Whatever is rendered, also what `capture` keeps to itself, is written within the budget. */
function boundRenderer(liquid: Liquid): void {
  const { renderer } = liquid;
  const render = renderer.renderTemplates.bind(renderer);
  renderer.renderTemplates = (templates, context, emitter) =>
    render(templates, context, emitter ?? new BoundedEmitter((context as MailContext).report.budget));
}

/** Notes a list that is looped over without being there; the loop runs zero times. */
function* noteMissing(collection: ForTag['collection'], context: Context): Generator<unknown, void, unknown> {
  if (!TypeGuards.isPropertyAccessToken(collection)) return;
  const value = yield evalToken(collection, context, true);
  if (value === undefined || value === null) noteWithoutValue((context as MailContext).report, collection);
}

class MailFor extends ForTag {
  override *render(context: Context, emitter: Emitter): ReturnType<ForTag['render']> {
    yield noteMissing(this.collection, context);
    return yield* super.render(context, emitter);
  }
}

class MailTablerow extends TablerowTag {
  override *render(context: Context, emitter: Emitter): ReturnType<TablerowTag['render']> {
    yield noteMissing(this.collection, context);
    yield* super.render(context, emitter);
  }
}

function createLiquid(kind: Kind): Liquid {
  const liquid = new Liquid({
    ownPropertyOnly: true,
    strictFilters: true,
    parseLimit: MAX_SOURCE_LENGTH,
    memoryLimit: MEMORY_LIMIT,
    templates: {},
    timezoneOffset: 0,
  });
  for (const name of REFUSED_TAGS) delete liquid.tags[name];
  liquid.registerTag('for', MailFor);
  liquid.registerTag('tablerow', MailTablerow);
  liquid.registerTag('echo', echoTag(kind));
  liquid.registerTag('cycle', cycleTag(kind));
  if (kind === 'html') {
    liquid.registerFilter('newline_to_br', (value: unknown) =>
      escapeHtml(printable(value) ?? '').replace(/\r?\n/g, '<br>\n'),
    );
  } else liquid.registerFilter('newline_to_br', (value: unknown) => value);
  boundFilters(liquid);
  boundRenderer(liquid);
  return liquid;
}

/** `{% echo x %}` is `{{ x }}`. */
function echoTag(kind: Kind): typeof EchoTag {
  class MailEcho extends Tag {
    readonly #output: MailOutput;

    constructor(token: TagToken, rest: TopLevelToken[], liquid: Liquid) {
      super(token, rest, liquid);
      const ranged = token as TagToken & { contentRange: [number, number] };
      const contentRange: [number, number] = [this.tokenizer.p, ranged.contentRange[1]];
      const { input, begin, end } = token;
      const source = { input, begin, end, contentRange, getText: () => token.getText() } as unknown as Ranged;
      this.#output = new MailOutput(source, liquid, kind);
    }

    render(context: Context, emitter: Emitter): unknown {
      return this.#output.render(context, emitter);
    }
  }
  return MailEcho as unknown as typeof EchoTag;
}

function cycleTag(kind: Kind): typeof CycleTag {
  return class extends CycleTag {
    override *render(context: Context, emitter: Emitter): ReturnType<CycleTag['render']> {
      const text = printable(toValue(yield* super.render(context, emitter))) ?? '';
      return kind === 'html' ? escapeHtml(text) : text;
    }
  };
}

const liquids: Record<Kind, Liquid> = { html: createLiquid('html'), text: createLiquid('text') };
const limits = { entries: 500, weight: 16_000_000, weigh: (_: string, { weight }: MailTemplate) => weight };
const known: Record<Kind, ReturnType<typeof createRecent<MailTemplate>>> = {
  html: createRecent(limits),
  text: createRecent(limits),
};

export function liquidFor(kind: Kind): Liquid {
  return liquids[kind];
}

/** Whether the text is a template at all; anything else passes untouched. */
export function isTemplate(source: string): boolean {
  return source.includes('{{') || source.includes('{%');
}

/** Whether the text is a template in which the name of the unsubscribe link stands; of one remembered this is known. */
export function namesLink(source: string, kind: Kind): boolean {
  return isTemplate(source) && (known[kind].get(source)?.namesLink ?? source.includes(UNSUBSCRIBE_VARIABLE));
}

/** Parses, or takes the template parsed before from the same source. */
export function parseTemplate(source: string, kind: Kind): ParseResult {
  const found = known[kind].get(source);
  if (found !== undefined) return { ok: true, value: found };
  const parsed = parseUnremembered(source, kind);
  if (parsed.ok) known[kind].set(source, parsed.value);
  return parsed;
}

/** Parses for somebody who remembers it himself. */
export function parseUnremembered(source: string, kind: Kind): ParseResult {
  try {
    const { templates, tags } = parseFresh(source, kind);
    const weight = 2 * source.length + TAG_BYTES * tags;
    const namesLink = source.includes(UNSUBSCRIBE_VARIABLE);
    return { ok: true, value: { kind, templates, weight, pieces: piecesOf(templates), derived: undefined, namesLink } };
  } catch (error) {
    return { ok: false, fault: parseFault(error) };
  }
}

/** A template that is too much, with the place where it becomes so. */
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

function parseFresh(source: string, kind: Kind): { templates: Template[]; tags: number } {
  if (source.length > MAX_SOURCE_LENGTH)
    throw new LimitError(`has more than ${MAX_SOURCE_LENGTH} characters`, source, MAX_SOURCE_LENGTH);
  let tags = 0;
  for (const delimiter of ['{{', '{%']) {
    for (let at = source.indexOf(delimiter); at !== -1; at = source.indexOf(delimiter, at + 2)) {
      tags += 1;
      if (tags > MAX_TAGS) throw new LimitError(`has more than ${MAX_TAGS} tags ({{ or {%)`, source, at);
    }
  }
  const liquid = liquids[kind];
  const tokens = new Tokenizer(source, liquid.options.operators).readTopLevelTokens(liquid.options);
  let depth = 0;
  for (const token of tokens) {
    if (TypeGuards.isHTMLToken(token)) continue;
    if (token.end - token.begin > MAX_TAG_LENGTH)
      throw new LimitError(`has a tag of more than ${MAX_TAG_LENGTH} characters`, source, token.begin);
    if (!TypeGuards.isTagToken(token)) continue;
    if (BLOCK_TAGS.has(token.name)) depth += 1;
    else if (token.name.startsWith('end')) depth -= 1;
    if (depth > MAX_DEPTH) throw new LimitError(`has tags nested deeper than ${MAX_DEPTH} levels`, source, token.begin);
  }
  return { templates: new MailParser(liquid, kind).parseTokens(tokens), tags };
}

function piecesOf(templates: Template[]): (string | MailOutput)[] | undefined {
  const pieces: (string | MailOutput)[] = [];
  for (const template of templates) {
    if (template instanceof MailOutput) {
      if (template.path === undefined) return undefined;
      pieces.push(template);
    } else {
      const token = template.token as TopLevelToken & { getContent?(): string };
      if (!TypeGuards.isHTMLToken(token) || token.getContent === undefined) return undefined;
      pieces.push(token.getContent());
    }
  }
  return pieces;
}

/** What went wrong while parsing or rendering, as the end of a sentence that starts with the field. */
export function parseFault(error: unknown): Omit<Fault, 'field'> {
  if (error instanceof LimitError) return placed(error.message, error.line, error.column);
  if (error instanceof TooMuchText) return { message: TOO_MUCH_TEXT };
  const limit = error instanceof Error ? limitSentence(error.message) : undefined;
  if (limit !== undefined && !LiquidError.is(error)) return { message: limit };
  // Nesting that got past the limits ends in an overflow of the stack, endless text in an invalid length.
  if (error instanceof RangeError) return { message: 'is nested too deeply or makes too much text' };
  if (!LiquidError.is(error)) throw error;
  const { originalError } = error;
  if (originalError instanceof TooMuchText) return { message: TOO_MUCH_TEXT };
  if (originalError instanceof RangeError) return { message: 'is nested too deeply or makes too much text' };
  const [line, column] = error.token.getPosition() as [number, number];
  return placed(sentenceOf(error), line, column);
}

function placed(sentence: string, line: number, column: number): Omit<Fault, 'field'> {
  return { message: `${sentence} (line ${line}, column ${column})`, line, column };
}

function sentenceOf(error: LiquidError): string {
  const said = (error.originalError?.message ?? error.message).replace(/, line:\d+, col:\d+$/, '').slice(0, 200);
  return limitSentence(said) ?? `is not a valid template: ${said}`;
}

/** What Liquid's own limits mean; it asks some of them outside of any tag, and then tells no place. */
function limitSentence(said: string): string | undefined {
  if (said === RENDER_LIMIT_EXCEEDED) return `takes longer than ${RENDER_LIMIT_MS} ms to fill in`;
  return said === 'memory alloc limit exceeded' ? 'makes too much text or too long lists' : undefined;
}

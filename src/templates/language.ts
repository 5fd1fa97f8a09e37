/**
 * Configures Liquid for mail templates: removes tags that read other templates or modify the given values, replaces output, loops, and
 * filters, and charges every filter, operator, and piece of text to the budget of the rendering.
 *
 * `{{ … }}` escapes values in html and not in text. Names that end in `_html`, and anything that ends in `| raw`, are inserted unescaped in
 * html and converted to text in text. Every variable that is printed without a value is recorded. Output is never expanded again.
 *
 * A variable without a value is missing if it would be printed or looped over, not if it is only tested. A template marks a value as
 * optional with `{% if name %}` or `{{ name | default: "…" }}`, at any place of the chain of filters. Filters before the first `default`
 * are skipped if the variable has no value. Variables in a branch that is not taken are never missing, and neither are values that filters
 * computed from a value.
 */
import {
  AssignTag,
  type Context,
  CycleTag,
  type EchoTag,
  type Emitter,
  evalToken,
  ForTag,
  Liquid,
  TablerowTag,
  Tag,
  type TagToken,
  type Template,
  Tokenizer,
  type TopLevelToken,
  TypeGuards,
  toValue,
  Value,
} from 'liquidjs';
import {
  type Budget,
  checkItems,
  escapeWithin,
  isLoop,
  type Kind,
  MAX_NAME_LENGTH,
  type MailContext,
  printable,
  type Report,
  readProperty,
  recordMissing,
} from './context.ts';
import { keepDigitsOfNumbers, limitFilters, limitOperators, limitRanges, registerOwnFilters } from './filters.ts';

/** A token with the range of the text between its braces. */
type RangedToken = TopLevelToken & { contentRange: [number, number] };

/** Filters whose result is already html. */
const ESCAPING = new Set(['escape', 'escape_once', 'xml_escape', 'newline_to_br']);

type Treatment = 'escape' | 'as is' | 'html to text';

function treatmentOf(kind: Kind, value: Value, lastName: string | undefined): Treatment {
  const names = value.filters.map((filter) => filter.name);
  const last = names.at(-1);
  const isHtml = last === 'raw' || (lastName?.endsWith('_html') === true && names.every((name) => name === 'default'));
  if (kind === 'text') return isHtml ? 'html to text' : 'as is';
  return isHtml || (last !== undefined && ESCAPING.has(last)) ? 'as is' : 'escape';
}

/** Names that are tags in Handlebars and Go. They are refused, because as variables they would never have a value. */
const RESERVED_NAMES = new Set(['else', 'end', 'endif', 'endfor']);

/** Throws if an output has several values, such as `{{ first name }}`. Liquid would print the first one and drop the others. */
export function assertOneValue(value: Value): void {
  let values = 0;
  for (const token of value.initial.postfix) {
    if (!TypeGuards.isOperatorToken(token)) values += 1;
    else if (token.operator !== 'not') values -= 1;
  }
  if (values !== 1) throw new Error('expected one value, found several without an operator between them');
}

/** Returns the names and indexes of `user.orders[0].id`; undefined for anything that must be computed. */
function plainPath(value: Value): (string | number)[] | undefined {
  const token = value.initial.postfix[0];
  if (value.initial.postfix.length !== 1 || !TypeGuards.isPropertyAccessToken(token) || token.variable)
    return undefined;
  const path: (string | number)[] = [];
  for (const prop of token.props) {
    if (!TypeGuards.isWordToken(prop) && !TypeGuards.isQuotedToken(prop) && !TypeGuards.isNumberToken(prop))
      return undefined;
    path.push(prop.content);
  }
  return path;
}

/** Returns the name of an output's variable for the report of missing values. */
function nameOf(value: Value, path: readonly (string | number)[] | undefined, source: string): string {
  const { postfix } = value.initial;
  const name = path?.join('.') ?? (postfix.length === 1 ? postfix[0]!.getText() : source.trim());
  return name.slice(0, MAX_NAME_LENGTH);
}

function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

/**
 * Returns the filters to apply to a value. An absent value skips the filters before the first `default`, which would turn it into text or
 * zero, so `{{ name | prepend: "Mr " | default: "customer" }}` prints `customer`. Returns undefined for an absent value without `default`.
 */
function filtersFor(value: unknown, filters: Value['filters']): Value['filters'] | undefined {
  if (!isAbsent(value)) return filters;
  const first = filters.findIndex((filter) => filter.name === 'default');
  return first === -1 ? undefined : filters.slice(first);
}

export const UNSUBSCRIBE_VARIABLE = 'unsubscribe_email_html';

const tokenizers = new WeakMap<Liquid, Tokenizer>();

/** One tokenizer for all outputs, reset each time: creating one costs more than reading an output. */
function tokenizerFor({ input, contentRange: [begin, end] }: RangedToken, liquid: Liquid): Tokenizer {
  let tokenizer = tokenizers.get(liquid);
  if (tokenizer === undefined) {
    tokenizer = new Tokenizer('', liquid.options.operators);
    tokenizers.set(liquid, tokenizer);
  }
  tokenizer.input = input;
  tokenizer.p = begin;
  tokenizer.N = end;
  return tokenizer;
}

export class MailOutput implements Template {
  readonly token: TopLevelToken;
  /** Path of a plain variable, which is printed without Liquid; otherwise undefined. */
  readonly #path: (string | number)[] | undefined;
  readonly #value: Value;
  readonly #name: string;
  /** First name of the path, such as `user` of `user.name`; undefined if the value must be computed. */
  readonly #first: string | undefined;
  readonly #treatment: Treatment;
  /** Whether the unsubscribe link is inside quotes after `=`, where only its URL is printed instead of its html. */
  readonly #isHref: boolean;

  constructor(token: RangedToken, liquid: Liquid, kind: Kind) {
    const tokenizer = tokenizerFor(token, liquid);
    this.token = token;
    this.#value = new Value(tokenizer.readFilteredValue(), liquid);
    assertOneValue(this.#value);
    if (RESERVED_NAMES.has(this.#value.initial.postfix[0]!.getText()))
      throw new Error('expected the name of a variable');
    const path = plainPath(this.#value);
    const isPlain = this.#value.filters.every((filter) => filter.name === 'raw');
    this.#path = isPlain && typeof path?.[0] === 'string' ? path : undefined;
    this.#first = typeof path?.[0] === 'string' ? path[0] : undefined;
    const lastName = path?.at(-1);
    this.#name = nameOf(this.#value, path, token.input.slice(...token.contentRange));
    this.#treatment = treatmentOf(kind, this.#value, typeof lastName === 'string' ? lastName : undefined);
    this.#isHref =
      kind === 'html' &&
      lastName === UNSUBSCRIBE_VARIABLE &&
      /=\s*["']$/.test(token.input.slice(token.begin - 4, token.begin));
  }

  render(context: Context, emitter: Emitter): unknown {
    const path = this.#path;
    const scope = path === undefined ? undefined : scopeOf(context, path[0] as string);
    let value: unknown = path === undefined ? undefined : scope?.[path[0]!];
    // Liquid's own objects, such as forloop, are read through their methods.
    if (path === undefined || !isPlainData(value)) return this.#renderFiltered(context as MailContext, emitter);
    const { report } = context as MailContext;
    // Reading an object may take time in proportion to its members, and print nothing.
    if (typeof value === 'object' && value !== null) report.budget.checkTime();
    for (let i = 1; i < path.length; i += 1) value = readProperty(value, path[i]!);
    emitter.write(this.#text(value, report));
    return undefined;
  }

  *#renderFiltered(context: MailContext, emitter: Emitter): Generator<unknown, void, unknown> {
    const { report } = context;
    const found = yield this.#value.initial.evaluate(context, true);
    if (isLoop(found)) {
      report.addObject(this.#name);
      return;
    }
    let value = toValue(found);
    const filters = filtersFor(value, this.#value.filters);
    if (filters === undefined) {
      emitter.write(this.#text(undefined, report));
      return;
    }
    let isArgumentMissing = false;
    for (const filter of filters) {
      for (const argument of filter.args) {
        const token = Array.isArray(argument) ? argument[1] : argument;
        if (!TypeGuards.isPropertyAccessToken(token)) continue;
        if (isAbsent(yield evalToken(token, context, true)) && recordMissing(report, token)) isArgumentMissing = true;
      }
      value = yield filter.render(value, context);
    }
    value = toValue(value);
    // The variable has a value or a default, so it is not missing if filters computed nothing from it.
    if (!isAbsent(value)) emitter.write(this.#text(value, report));
    else if (isArgumentMissing && report.keepMissing) emitter.write(this.token.getText());
  }

  #text(value: unknown, report: Report): string {
    if (isAbsent(value)) {
      if (this.#first !== undefined && report.optional.has(this.#first)) return '';
      report.addMissing(this.#name);
      return report.keepMissing ? this.token.getText() : '';
    }
    const text = printable(value, report.budget);
    if (text === undefined) {
      report.addObject(this.#name);
      return '';
    }
    // Checked before escaping or converting, which can take far longer than joining.
    report.budget.check(text.length);
    if (this.#isHref) return /href="([^"]*)"/.exec(text)?.[1] ?? text;
    if (this.#treatment === 'escape') return escapeWithin(text, report.budget);
    return this.#treatment === 'html to text' ? report.htmlToText(text) : text;
  }
}

function scopeOf(context: Context, name: string): Record<string, unknown> | undefined {
  const scopes = (context as unknown as { scopes: Record<string, unknown>[] }).scopes;
  for (let i = scopes.length - 1; i >= 0; i -= 1) {
    const scope = scopes[i]!;
    if (Object.hasOwn(scope, name)) return scope;
  }
  if (Object.hasOwn(context.environments, name)) return context.environments as Record<string, unknown>;
  return Object.hasOwn(context.globals, name) ? (context.globals as Record<string, unknown>) : undefined;
}

function isPlainData(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === Array.prototype || prototype === null;
}

/** Tags that would read other templates, or modify the given values. */
const REFUSED_TAGS = ['include', 'render', 'layout', 'block', 'increment', 'decrement'];
/** Maximum number of values of a `cycle`. */
const MAX_CYCLE = 100;

/** Collects the output of a rendering, within its budget. */
class LimitedEmitter implements Emitter {
  readonly #budget: Budget;
  buffer = '';

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  write(value: unknown): void {
    const text = typeof value === 'string' ? value : (printable(toValue(value), this.#budget) ?? '');
    this.#budget.write(text.length);
    this.buffer += text;
  }
}

/** Charges everything that is rendered, including what `capture` stores. */
function limitRenderer(liquid: Liquid): void {
  const { renderer } = liquid;
  const render = renderer.renderTemplates.bind(renderer);
  renderer.renderTemplates = (templates, context, emitter) =>
    render(templates, context, emitter ?? new LimitedEmitter((context as MailContext).report.budget));
}

/** Records a list that is missing in a loop, which then runs zero times. Liquid loops over an object as a list of its members. */
function* checkCollection(collection: ForTag['collection'], context: Context): Generator<unknown, void, unknown> {
  if (!TypeGuards.isPropertyAccessToken(collection)) return;
  const value = yield evalToken(collection, context, true);
  if (isAbsent(value)) recordMissing((context as MailContext).report, collection);
  else if (typeof value === 'object' && !Array.isArray(value)) {
    (context as MailContext).report.budget.checkTime();
    checkItems(Object.keys(value).length, 'loops over an object of');
  }
}

/** Applies `default` in `{% assign x = name | … | default: "…" %}` as in outputs. */
class MailAssign extends AssignTag {
  constructor(...args: ConstructorParameters<typeof AssignTag>) {
    super(...args);
    const { value } = this as unknown as { value: Value };
    value.value = function* (context) {
      let result = yield this.initial.evaluate(context, true);
      for (const filter of filtersFor(toValue(result), this.filters) ?? this.filters)
        result = yield filter.render(result, context);
      return result;
    };
  }
}

class MailFor extends ForTag {
  override *render(context: Context, emitter: Emitter): ReturnType<ForTag['render']> {
    yield checkCollection(this.collection, context);
    return yield* super.render(context, emitter);
  }
}

class MailTablerow extends TablerowTag {
  constructor(...args: ConstructorParameters<typeof TablerowTag>) {
    super(...args);
    // Liquid converts `cols` to a number several times for each cell, which takes milliseconds for a long text or the items of a list.
    const render = this.args.render.bind(this.args);
    this.args.render = function* (context) {
      const values = yield* render(context);
      values.cols = typeof values.cols === 'object' ? undefined : Number(values.cols);
      return values;
    };
  }

  override *render(context: Context, emitter: Emitter): ReturnType<TablerowTag['render']> {
    yield checkCollection(this.collection, context);
    yield* super.render(context, emitter);
  }
}

limitRanges();
keepDigitsOfNumbers();

export function createLiquid(kind: Kind): Liquid {
  const liquid = new Liquid({
    ownPropertyOnly: true,
    strictFilters: true,
    operators: limitOperators(),
    templates: {},
    timezoneOffset: 0,
    // By default month names are in the language of the machine, which also takes 20 ms to determine.
    locale: 'en-US',
  });
  for (const name of REFUSED_TAGS) delete liquid.tags[name];
  liquid.registerTag('assign', MailAssign);
  liquid.registerTag('for', MailFor);
  liquid.registerTag('tablerow', MailTablerow);
  liquid.registerTag('echo', echoTag(kind));
  liquid.registerTag('cycle', cycleTag(kind));
  registerOwnFilters(liquid, kind);
  limitFilters(liquid);
  limitRenderer(liquid);
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
      const source = { input, begin, end, contentRange, getText: () => token.getText() } as unknown as RangedToken;
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
    constructor(token: TagToken, rest: TopLevelToken[], liquid: Liquid) {
      // Checked before parsing: a cycle parses its values again each time it is rendered.
      if (token.args.split(',', MAX_CYCLE + 1).length > MAX_CYCLE) throw new Error(`more than ${MAX_CYCLE} values`);
      super(token, rest, liquid);
    }

    override *render(context: Context, emitter: Emitter): ReturnType<CycleTag['render']> {
      const { budget } = (context as MailContext).report;
      budget.checkTime();
      const text = printable(toValue(yield* super.render(context, emitter)), budget) ?? '';
      return kind === 'html' ? escapeWithin(text, budget) : text;
    }
  };
}

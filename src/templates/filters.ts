/**
 * Limits and costs of filters: no object where it would be converted to text, nothing too long, and no call that runs for longer than the
 * clock may go unchecked. Exceeding a limit ends the rendering with a message that names the filter.
 *
 * Every filter has a row with how its work grows and what it accepts. A Liquid filter without a row is not registered, and a test reports
 * it, so that a new version adds none unreviewed.
 *
 * Weights are measured with hostile values of each kind: a unit (a character, times the weight) takes at most 0.1 µs, so one call of a
 * filter, which cannot be interrupted, takes at most 20 ms.
 *
 * Own filters replace Liquid's if those process their value without yielding, or would convert lists to text for every comparison: sorting,
 * summing, and escaping of any length. Operators and ranges are limited too: comparing lists item by item yields, and each step is charged
 * (render.ts); native code is charged here by length, and refused if it may take too long. A Liquid operator without a row does not parse.
 */
import {
  type Context,
  defaultOperators,
  evalTokenValue,
  type Liquid,
  type NumberToken,
  type Operators,
  type RangeToken,
  Tokenizer,
  TokenKind,
  TypeGuards,
} from 'liquidjs';
import { exactInteger } from '../base/exact-json.ts';
import {
  type Budget,
  checkItems,
  escapeWithin,
  isTooNested,
  type Kind,
  type MailContext,
  measureText,
  OverLimit,
  printable,
  readProperty,
} from './context.ts';

/**
 * How the work of a filter grows:
 * - `none`: constant.
 * - `text`: native code processes the characters of all arguments, including lists.
 * - `list`: native code processes the items of a list, or the characters of a text.
 * - `steps`: a generator that yields at each item; each step is charged. The list is limited like that of `list`.
 */
type Growth = 'none' | 'text' | 'list' | 'steps';

interface FilterRow {
  growth: Growth;
  /** Units of work per character or item. */
  weight: number;
  /** How many arguments, from the first, are a name, a number, an expression, or a search text. */
  short: number;
  /** Whether it accepts objects and lists of objects other than as text. All other filters would print them. */
  takesObjects: boolean;
  /** It calculates with doubles: an integer above 2^53 loses digits. */
  isArithmetic: boolean;
}

function rows(growth: Growth, names: string, more: Partial<FilterRow> = {}): [string, FilterRow][] {
  const row = {
    growth,
    weight: 1,
    short: 0,
    takesObjects: growth === 'list' || growth === 'steps',
    isArithmetic: false,
    ...more,
  };
  return names.split(/\s+/).map((name) => [name, row]);
}

export const FILTERS: ReadonlyMap<string, FilterRow> = new Map([
  ...rows('none', 'default first last size raw', { takesObjects: true }),
  ...rows('none', 'escape xml_escape newline_to_br append prepend'),

  ...rows('text', 'abs at_least at_most ceil divided_by floor minus plus modulo times to_integer', {
    isArithmetic: true,
  }),
  ...rows('text', 'round', { short: 1, isArithmetic: true }),
  ...rows('text', 'truncate truncatewords', { short: 1 }),
  ...rows(
    'text',
    'lstrip rstrip strip downcase upcase capitalize squish strip_newlines normalize_whitespace strip_html',
  ),
  ...rows('text', 'join array_to_sentence_string unescape url_decode base64_encode base64_decode sha256 hmac_sha256'),
  ...rows('text', 'split remove remove_first replace replace_first', { short: 1 }),
  // These search backwards, comparing up to 200 characters at each position.
  ...rows('text', 'remove_last replace_last', { short: 1, weight: 8 }),
  ...rows('text', 'escape_once url_encode cgi_escape uri_escape slugify number_of_words', { weight: 2 }),
  ...rows('text', 'json jsonify inspect', { takesObjects: true }),
  // Formats that are not literal numbers make Intl look them up.
  ...rows('text', 'date date_to_xmlschema date_to_rfc822 date_to_string date_to_long_string', { short: 2, weight: 20 }),

  ...rows('list', 'reverse compact concat push unshift pop shift uniq'),
  ...rows('list', 'slice', { short: 2 }),
  ...rows('list', 'sort sort_natural sum', { short: 1 }),
  ...rows('list', 'sample', { short: 1, weight: 16 }),

  ...rows('steps', 'map group_by find find_index has where reject', { short: 1 }),
  ...rows('steps', 'where_exp reject_exp group_by_exp has_exp find_exp find_index_exp', { short: 2 }),
]);

/** Maximum units of work per call. */
const MAX_UNITS = 200_000;
/** Maximum length of a name or number as an argument. */
const MAX_SHORT_LENGTH = 200;

type Filter = Extract<Liquid['filters'][string], (...values: never[]) => unknown>;
type FilterThis = ThisParameterType<Filter>;

/** Returns whether the text of the value would show an object, which must not be shown to readers. */
function printsObject(value: unknown, budget: Budget): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (!Array.isArray(value)) return true;
  for (const item of value) {
    budget.step();
    if (printsObject(item, budget)) return true;
  }
  return false;
}

/** Returns whether this filter argument would become `[object Object]`. */
function isUnprintable(name: string, row: FilterRow, { value, index }: Argument, budget: Budget): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (!row.takesObjects) return printsObject(value, budget);
  // A slice of anything but a list is a slice of its text.
  return name === 'slice' && index === 0 && !Array.isArray(value);
}

interface Argument {
  value: unknown;
  index: number;
}

/** Returns the number of members of an object, or of items of a list. */
function itemsOf(value: object): number {
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

/** Charges an argument; throws if it is too long. */
function charge(name: string, row: FilterRow, { value, index }: Argument, budget: Budget): void {
  const isText = typeof value === 'string';
  if (!isText && (typeof value !== 'object' || value === null)) return;
  if (index > 0 && index <= row.short) {
    if (isText && value.length <= MAX_SHORT_LENGTH) return;
    throw new OverLimit(
      `gives the filter ${name} ${isText ? `more than ${MAX_SHORT_LENGTH} characters` : 'a list'} but it accepts only a name, a number, or a short text`,
    );
  }
  if (row.growth === 'none' && isText) return;
  if (row.growth === 'text' || row.growth === 'none' || isText) {
    const most = MAX_UNITS / row.weight;
    if (row.growth === 'none' && row.takesObjects) return;
    const length = isText ? value.length : measureText(value, most, budget);
    if (length > most) {
      throw new OverLimit(`gives the filter ${name} more than ${most} characters; shorten the value before the send`);
    }
    budget.work(length * row.weight);
    return;
  }
  const items = itemsOf(value);
  checkItems(items, `gives the filter ${name}`);
  budget.work(items * row.weight);
}

/** Wraps every filter that has a row, and removes the others. */
export function boundFilters(liquid: Liquid): void {
  for (const [name, filter] of Object.entries(liquid.filters)) {
    const row = FILTERS.get(name);
    if (row === undefined) delete liquid.filters[name];
    else if (typeof filter === 'function') liquid.registerFilter(name, bounded(name, row, filter));
  }
}

function bounded(name: string, row: FilterRow, filter: Filter): Filter {
  const runs = filter as (this: FilterThis, ...values: unknown[]) => unknown;
  return function (this: FilterThis, ...values: unknown[]): unknown {
    const context = this.context as MailContext;
    const { budget } = context.report;
    budget.step();
    for (let index = 0; index < values.length; index += 1) {
      const argument = { value: values[index], index };
      if (isUnprintable(name, row, argument, budget)) {
        throw new OverLimit(`gives the filter ${name} an object, which cannot be printed; use json for it`);
      }
      charge(name, row, argument, budget);
      if (row.isArithmetic && typeof argument.value === 'bigint') values[index] = Number(argument.value);
    }
    if (row.growth === 'steps') return checkedSteps(name, runs.apply(this, values), budget);
    const made = runs.apply({ ...this, context: context.ofFilters as unknown as FilterThis['context'] }, values);
    if (made !== values[0]) checkMade(name, made, budget);
    return made;
  };
}

function* checkedSteps(name: string, steps: unknown, budget: Budget): Generator<unknown, unknown, unknown> {
  const made = yield steps;
  checkMade(name, made, budget);
  return made;
}

function checkMade(name: string, made: unknown, budget: Budget): void {
  if (!Array.isArray(made)) return;
  checkItems(made.length, `makes with the filter ${name} a list of`);
  if (isTooNested(made, budget)) throw new OverLimit(`makes with the filter ${name} a list of too many lists or texts`);
}

const budgetOf = (filter: FilterThis): Budget => (filter.context as MailContext).report.budget;

const listOf = (value: unknown): readonly unknown[] => {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
};

/** Returns the item's value at a path; without one the item itself. */
function valueAt(item: unknown, property: unknown): unknown {
  if (!property) return item;
  let value = item;
  for (const name of String(property).split('.')) value = readProperty(value, name);
  return value;
}

type SortKey = string | number | boolean | undefined;

/** Returns the sort key of an item; lists, objects, and absent values come last. */
function sortKey(value: unknown, isNatural: boolean): SortKey {
  if (value === null || value === undefined || typeof value === 'object') return undefined;
  return isNatural ? String(value).toLowerCase() : (value as SortKey);
}

function compare(a: SortKey, b: SortKey, budget: Budget): number {
  // Only long texts can differ late.
  budget.work(typeof a === 'string' && typeof b === 'string' ? 16 + Math.min(a.length, b.length) / 16 : 16);
  if (a === b) return 0;
  if (a === undefined) return 1;
  if (b === undefined) return -1;
  if (a < b) return -1;
  return a > b ? 1 : 0;
}

function sorter(isNatural: boolean): Filter {
  return function sort(this: FilterThis, value: unknown, property: unknown): unknown {
    const budget = budgetOf(this);
    const keyed = listOf(value).map((item) => {
      const key = sortKey(valueAt(item, property), isNatural);
      budget.work(typeof key === 'string' ? 64 + key.length : 64);
      return { item, key };
    });
    return keyed.sort((a, b) => compare(a.key, b.key, budget)).map(({ item }) => item);
  };
}

function sum(this: FilterThis, value: unknown, property: unknown): number {
  let total = 0;
  for (const item of listOf(value)) {
    const one = valueAt(item, property);
    budgetOf(this).work(typeof one === 'string' ? 64 + one.length : 64);
    const number = typeof one === 'object' ? 0 : Number(one);
    if (!Number.isNaN(number)) total += number;
  }
  return total;
}

function escapeText(this: FilterThis, value: unknown): string {
  const budget = budgetOf(this);
  return escapeWithin(printable(value, budget) ?? '', budget);
}

/** Call this before the filters are limited. */
export function registerOwnFilters(liquid: Liquid, kind: Kind): void {
  liquid.registerFilter('sort', sorter(false));
  liquid.registerFilter('sort_natural', sorter(true));
  liquid.registerFilter('sum', sum);
  liquid.registerFilter('escape', escapeText);
  liquid.registerFilter('xml_escape', escapeText);
  liquid.registerFilter('newline_to_br', function (this: FilterThis, value: unknown) {
    return kind === 'html' ? escapeText.call(this, value).replace(/\r?\n/g, '<br>\n') : value;
  });
}

/** Maximum length of a text to search, and of a list's text to compare. */
const MAX_SEARCHED_LENGTH = 200_000;
/** Maximum length of a search text. */
const MAX_SOUGHT_LENGTH = 2_000;

type Comparison = (l: unknown, r: unknown, context: Context) => unknown;
type Charge = (l: unknown, r: unknown, budget: Budget) => void;

/** Texts of different lengths are not compared. */
function chargeEqual(l: unknown, r: unknown, budget: Budget): void {
  if (typeof l === 'string' && typeof r === 'string') budget.work(Math.min(l.length, r.length) / 16);
}

function chargeOrder(l: unknown, r: unknown, budget: Budget): void {
  chargeEqual(l, r, budget);
  for (const value of [l, r]) {
    if (typeof value !== 'object' || measureText(value, MAX_SEARCHED_LENGTH, budget) <= MAX_SEARCHED_LENGTH) continue;
    throw new OverLimit(`compares a list of more than ${MAX_SEARCHED_LENGTH} characters; compare its size`);
  }
}

function chargeContains(l: unknown, r: unknown, budget: Budget): void {
  if (typeof l !== 'string') return;
  if (l.length > MAX_SEARCHED_LENGTH || measureText(r, MAX_SOUGHT_LENGTH, budget) > MAX_SOUGHT_LENGTH) {
    const most = `more than ${MAX_SEARCHED_LENGTH} characters, or for more than ${MAX_SOUGHT_LENGTH}`;
    throw new OverLimit(`searches with contains in ${most}; shorten the value before the send`);
  }
  budget.work(l.length);
}

const CHARGES: ReadonlyMap<string, Charge | undefined> = new Map([
  ...['==', '!='].map((name): [string, Charge] => [name, chargeEqual]),
  ...['<', '>', '<=', '>='].map((name): [string, Charge] => [name, chargeOrder]),
  ['contains', chargeContains],
  ...['and', 'or', 'not'].map((name): [string, undefined] => [name, undefined]),
]);

function charged(compare: Comparison, charge: Charge): Comparison {
  return function* (l, r, context): Generator<unknown, unknown, unknown> {
    charge(l, r, (context as MailContext).report.budget);
    return yield compare(l, r, context);
  };
}

/** Replaces Liquid's operators. */
export function boundOperators(): Operators {
  const operators: Record<string, unknown> = {};
  for (const [name, operator] of Object.entries(defaultOperators)) {
    const charge = CHARGES.get(name);
    if (CHARGES.has(name)) operators[name] = charge === undefined ? operator : charged(operator as Comparison, charge);
  }
  return operators as Operators;
}

type Read = (this: Tokenizer) => unknown;

/** Returns the end of a range: a number, or text that is one; 0 otherwise. */
function endOf(value: unknown): number {
  return ['number', 'bigint', 'string'].includes(typeof value) ? Math.trunc(Number(value)) : Number.NaN;
}

function* evaluate({ lhs, rhs }: RangeToken, context: Context): Generator<unknown, number[], unknown> {
  const low = endOf(yield evalTokenValue(lhs, context));
  const high = endOf(yield evalTokenValue(rhs, context));
  const count = high - low + 1;
  if (!(count > 0)) return [];
  checkItems(count, 'makes a range of');
  (context as MailContext).report?.budget.make(count);
  return Array.from({ length: count }, (_, index) => low + index);
}

/**
 * Makes every tokenizer read ranges such as `(1..9)` as values that are evaluated here. Liquid's loop never ends if the end is above 2^53,
 * and converts list ends to text first.
 */
export function boundRanges(): void {
  const prototype = Tokenizer.prototype as unknown as { readGroupOrRange: Read };
  const read = prototype.readGroupOrRange;
  prototype.readGroupOrRange = function (this: Tokenizer): unknown {
    const token = read.call(this) as RangeToken | undefined;
    if (token === undefined || !TypeGuards.isRangeToken(token)) return token;
    const initial = { evaluate: (context: Context) => evaluate(token, context) };
    return Object.assign(token, { kind: TokenKind.FilteredValue, filters: [], initial });
  };
}

/**
 * Makes every tokenizer read an integer above 2^53 as a bigint, like values: `{% if id == 7615917337495251231 %}` compares all digits.
 * Filters that calculate convert it to a double.
 */
export function keepDigitsOfNumbers(): void {
  const prototype = Tokenizer.prototype as unknown as { readNumber: Read };
  const read = prototype.readNumber;
  prototype.readNumber = function (this: Tokenizer): unknown {
    const token = read.call(this) as NumberToken | undefined;
    // Liquid passes the content on as a value, without inspecting it.
    if (token !== undefined) token.content = exactInteger(token.getText(), token.content) as number;
    return token;
  };
}

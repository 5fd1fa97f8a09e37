/**
 * Limits what Liquid's filters accept, and charges their work to the budget of the rendering. A filter gets no object that it would convert
 * to text and no value that is too long, and no call runs so long that the time limit is checked too late. Exceeding a limit ends the
 * rendering with a message that names the filter.
 *
 * Every filter has a row that states how its work grows and what it accepts. A Liquid filter without a row is not registered, and a test
 * reports it, so a new version of Liquid cannot add an unreviewed filter.
 *
 * Weights are measured with hostile values of each kind: a unit (a character, times the weight) takes at most 0.1 µs, so one call of a
 * filter, which cannot be interrupted, takes at most 20 ms.
 *
 * Postrider's own filters replace those of Liquid that process a value of any length without yielding, or that convert lists to text for
 * every comparison: filters that sort, sum, and escape. Other replacements prevent half characters, division by zero, and errors of
 * JavaScript for dates.
 *
 * Operators and ranges are limited too. Comparing lists item by item yields, and each step is charged (render.ts). Comparisons by native
 * code are charged here by length, and refused if they may take too long. A template with a Liquid operator that has no row does not parse.
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
  toValue,
} from 'liquidjs';
import { exactInteger } from '../base/exact-json.ts';
import {
  type Budget,
  checkItems,
  escapeWithin,
  isTooNested,
  type Kind,
  MAX_NAME_LENGTH,
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
  /** Number of leading arguments that must be short: a name, a number, an expression, or a search text. */
  short: number;
  /** Whether it accepts objects and lists of objects as values. All other filters would convert them to text. */
  takesObjects: boolean;
  /** Whether it calculates with doubles, which lose digits of an integer above 2^53. */
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
  ...rows('text', 'join array_to_sentence_string url_decode base64_encode base64_decode sha256 hmac_sha256'),
  ...rows('text', 'split remove remove_first replace replace_first', { short: 1 }),
  // These search backwards, comparing up to 200 characters at each position.
  ...rows('text', 'remove_last replace_last', { short: 1, weight: 8 }),
  ...rows('text', 'escape_once url_encode cgi_escape uri_escape slugify number_of_words', { weight: 2 }),
  ...rows('text', 'json jsonify inspect', { takesObjects: true }),
  // Intl looks up the names of months, days, and time zones, which is slow.
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
/** Maximum number of characters of a short argument. */
const MAX_SHORT_LENGTH = 200;

type Filter = Extract<Liquid['filters'][string], (...values: never[]) => unknown>;
type FilterThis = ThisParameterType<Filter>;
type AnyFilter = (this: FilterThis, ...values: unknown[]) => unknown;

/** Returns whether the value as text would contain an object, which recipients must not see. */
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

/** Charges the work for an argument; throws if the argument is too long. */
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
    const maximum = MAX_UNITS / row.weight;
    if (row.growth === 'none' && row.takesObjects) return;
    const length = isText ? value.length : measureText(value, maximum, budget);
    if (length > maximum) {
      throw new OverLimit(
        `gives the filter ${name} more than ${maximum} characters; shorten the value before the send`,
      );
    }
    budget.work(length * row.weight);
    return;
  }
  const items = itemsOf(value);
  checkItems(items, `gives the filter ${name}`);
  budget.work(items * row.weight);
}

/** Wraps every filter that has a row, and removes the others. */
export function limitFilters(liquid: Liquid): void {
  for (const [name, filter] of Object.entries(liquid.filters)) {
    const row = FILTERS.get(name);
    if (row === undefined) delete liquid.filters[name];
    else if (typeof filter === 'function') liquid.registerFilter(name, limitFilter(name, row, filter));
  }
}

function limitFilter(name: string, row: FilterRow, filter: Filter): Filter {
  const run = filter as AnyFilter;
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
    if (row.growth === 'steps') return checkedSteps(name, run.apply(this, values), budget);
    const result = run.apply({ ...this, context: context.forFilters as unknown as FilterThis['context'] }, values);
    // Without this, `to_integer` of a text that is not a number would print NaN. A result of an absent value is absent too.
    if (row.isArithmetic && Number.isNaN(result))
      return values.some((value) => toValue(value) === undefined || toValue(value) === null) ? undefined : '';
    if (result !== values[0]) checkResult(name, result, budget);
    return result;
  };
}

function* checkedSteps(name: string, steps: unknown, budget: Budget): Generator<unknown, unknown, unknown> {
  const result = yield steps;
  checkResult(name, result, budget);
  return result;
}

function checkResult(name: string, result: unknown, budget: Budget): void {
  if (!Array.isArray(result)) return;
  checkItems(result.length, `creates with the filter ${name} a list of`);
  if (isTooNested(result, budget)) throw new OverLimit(`creates with the filter ${name} a list whose text is too long`);
}

const budgetOf = (filter: FilterThis): Budget => (filter.context as MailContext).report.budget;

const listOf = (value: unknown): readonly unknown[] => {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
};

/** Returns the value at a path of the item, or the item itself if there is no path. */
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
  // Comparing long texts takes longer, because they may differ only near the end.
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

/** Splits a text into its characters, without dividing any into two surrogates; otherwise uses Liquid's filter. */
function splitWith(split: AnyFilter): AnyFilter {
  return function (value, separator) {
    if ((printable(toValue(separator), budgetOf(this)) ?? '') !== '') return split.call(this, value, separator);
    const text = printable(toValue(value), budgetOf(this)) ?? '';
    checkItems(Math.ceil(text.length / 2), 'creates with the filter split a list of');
    return Array.from(text);
  };
}

/** Uses `ofText` for texts, whose first or last character may have two UTF-16 units; otherwise Liquid's filter. */
function endWith(filter: AnyFilter, ofText: (text: string) => string): AnyFilter {
  return function (value) {
    return typeof value === 'string' ? ofText(value) : filter.call(this, value);
  };
}

/** Refuses a division by zero. A result without a divisor has no value, because the divisor is reported as missing. */
function divideWith(name: string, divide: AnyFilter): AnyFilter {
  return function (value, divisor, ...more) {
    const given = toValue(divisor);
    if (given === undefined || given === null) return undefined;
    // As in all filters that calculate, a value that is not a number is zero.
    if (!Number(given)) throw new OverLimit(`divides by zero with the filter ${name}; test the divisor with {% if %}`);
    return divide.call(this, value, divisor, ...more);
  };
}

/** Returns an integer above 2^53 unchanged, as Liquid returns any other value that is not a date. */
function dateWith(format: AnyFilter): AnyFilter {
  return function (value, ...more) {
    return typeof value === 'bigint' ? value : format.call(this, value, ...more);
  };
}

/** Refuses an unknown time zone, for which Intl throws a RangeError. */
function zonedWith(format: AnyFilter): AnyFilter {
  return function (value, pattern, timeZone) {
    try {
      // A number is an offset in minutes.
      return format.call(this, value, pattern, typeof timeZone === 'bigint' ? String(timeZone) : timeZone);
    } catch (error) {
      if (!(error instanceof RangeError) || isTimeZone(timeZone)) throw error;
      const given = String(timeZone).slice(0, MAX_NAME_LENGTH).toWellFormed();
      throw new OverLimit(
        `gives the filter date "${given}", which is not a time zone; write a name such as "Europe/Berlin"`,
      );
    }
  };
}

function isTimeZone(name: unknown): boolean {
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: String(name) });
    return true;
  } catch {
    return false;
  }
}

/** Replaces filters that print half characters or infinity, or throw errors of JavaScript. */
function replaceFilters(liquid: Liquid): void {
  const replace = (name: string, create: (filter: AnyFilter) => AnyFilter): void => {
    liquid.registerFilter(name, create(liquid.filters[name] as AnyFilter) as Filter);
  };
  replace('split', splitWith);
  replace('first', (first) => endWith(first, (text) => Array.from(text.slice(0, 2))[0] ?? ''));
  replace('last', (last) => endWith(last, (text) => Array.from(text.slice(-2)).at(-1) ?? ''));
  for (const name of ['divided_by', 'modulo']) replace(name, (divide) => divideWith(name, divide));
  replace('date', zonedWith);
  for (const name of ['date', 'date_to_xmlschema', 'date_to_rfc822', 'date_to_string', 'date_to_long_string'])
    replace(name, dateWith);
}

/** Registers Postrider's own filters. Call this before limitFilters(). */
export function registerOwnFilters(liquid: Liquid, kind: Kind): void {
  liquid.registerFilter('sort', sorter(false));
  liquid.registerFilter('sort_natural', sorter(true));
  liquid.registerFilter('sum', sum);
  liquid.registerFilter('escape', escapeText);
  liquid.registerFilter('xml_escape', escapeText);
  liquid.registerFilter('newline_to_br', function (this: FilterThis, value: unknown) {
    return kind === 'html' ? escapeText.call(this, value).replace(/\r?\n/g, '<br>\n') : value;
  });
  replaceFilters(liquid);
}

/** Maximum length of a text to search, and of a list's text to compare. */
const MAX_SEARCHED_LENGTH = 200_000;
/** Maximum length of a search text. */
const MAX_SEARCH_TEXT_LENGTH = 2_000;

type Comparison = (l: unknown, r: unknown, context: Context) => unknown;
type Charge = (l: unknown, r: unknown, budget: Budget) => void;

/** Charges a comparison for equality. Texts of different lengths are not compared character by character. */
function chargeEqual(l: unknown, r: unknown, budget: Budget): void {
  if (typeof l === 'string' && typeof r === 'string') budget.work(Math.min(l.length, r.length) / 16);
}

/** Charges a comparison with < or >. Throws if a list would be converted to a text that is too long. */
function chargeOrder(l: unknown, r: unknown, budget: Budget): void {
  chargeEqual(l, r, budget);
  for (const value of [l, r]) {
    if (typeof value !== 'object' || measureText(value, MAX_SEARCHED_LENGTH, budget) <= MAX_SEARCHED_LENGTH) continue;
    throw new OverLimit(`compares a list of more than ${MAX_SEARCHED_LENGTH} characters; compare its size`);
  }
}

/** Charges a search. Throws if the text or the search text is too long. */
function chargeContains(l: unknown, r: unknown, budget: Budget): void {
  if (typeof l !== 'string') return;
  if (l.length > MAX_SEARCHED_LENGTH || measureText(r, MAX_SEARCH_TEXT_LENGTH, budget) > MAX_SEARCH_TEXT_LENGTH) {
    const limits = `more than ${MAX_SEARCHED_LENGTH} characters, or for more than ${MAX_SEARCH_TEXT_LENGTH}`;
    throw new OverLimit(`searches with contains in ${limits}; shorten the value before the send`);
  }
  budget.work(l.length);
}

const CHARGES: ReadonlyMap<string, Charge | undefined> = new Map([
  ...['==', '!='].map((name): [string, Charge] => [name, chargeEqual]),
  ...['<', '>', '<=', '>='].map((name): [string, Charge] => [name, chargeOrder]),
  ['contains', chargeContains],
  ...['and', 'or', 'not'].map((name): [string, undefined] => [name, undefined]),
]);

function withCharge(compare: Comparison, charge: Charge): Comparison {
  return function* (l, r, context): Generator<unknown, unknown, unknown> {
    charge(l, r, (context as MailContext).report.budget);
    return yield compare(l, r, context);
  };
}

/** Returns Liquid's operators, with charges for their work. */
export function limitOperators(): Operators {
  const operators: Record<string, unknown> = {};
  for (const [name, operator] of Object.entries(defaultOperators)) {
    const charge = CHARGES.get(name);
    if (CHARGES.has(name))
      operators[name] = charge === undefined ? operator : withCharge(operator as Comparison, charge);
  }
  return operators as Operators;
}

type Read = (this: Tokenizer) => unknown;

/** Returns the first or last number of a range, from a number or a text that is a number; NaN otherwise. */
function endOf(value: unknown): number {
  return ['number', 'bigint', 'string'].includes(typeof value) ? Math.trunc(Number(value)) : Number.NaN;
}

function* evaluateRange({ lhs, rhs }: RangeToken, context: Context): Generator<unknown, number[], unknown> {
  const low = endOf(yield evalTokenValue(lhs, context));
  const high = endOf(yield evalTokenValue(rhs, context));
  const count = high - low + 1;
  if (!(count > 0)) return [];
  checkItems(count, 'makes a range of');
  (context as MailContext).report?.budget.addIntermediate(count);
  return Array.from({ length: count }, (_, index) => low + index);
}

/**
 * Makes every tokenizer read ranges such as `(1..9)` as values that are evaluated here. Liquid's own loop never ends if the last number is
 * above 2^53, and Liquid converts a list at either end of a range to text first.
 */
export function limitRanges(): void {
  const prototype = Tokenizer.prototype as unknown as { readGroupOrRange: Read };
  const read = prototype.readGroupOrRange;
  prototype.readGroupOrRange = function (this: Tokenizer): unknown {
    const token = read.call(this) as RangeToken | undefined;
    if (token === undefined || !TypeGuards.isRangeToken(token)) return token;
    const initial = { evaluate: (context: Context) => evaluateRange(token, context) };
    return Object.assign(token, { kind: TokenKind.FilteredValue, filters: [], initial });
  };
}

/**
 * Makes every tokenizer read an integer above 2^53 as a bigint, as in variables: `{% if id == 7615917337495251231 %}` compares all digits.
 * Filters that calculate convert it to a double.
 */
export function keepDigitsOfNumbers(): void {
  const prototype = Tokenizer.prototype as unknown as { readNumber: Read };
  const read = prototype.readNumber;
  prototype.readNumber = function (this: Tokenizer): unknown {
    const token = read.call(this) as NumberToken | undefined;
    // Liquid uses the content as a value and does not inspect it.
    if (token !== undefined) token.content = exactInteger(token.getText(), token.content) as number;
    return token;
  };
}

/**
 * Bounds on what filters are given: no object where they would make text of it, and nothing too long. Liquid's own limits
 * count what a filter makes and look at the time between two tags, not within one: a filter that searches a long text
 * again and again, or sorts by a list, would hold the whole service up. Measured with every filter on hostile values: 147 s
 * for `sort: list` of 90,000 without these bounds, 0.2 s at most with them.
 */
import type { Liquid } from 'liquidjs';

/** Longest text that a filter takes. */
const MAX_TEXT_LENGTH = 200_000;
/** Longest name or number as an argument. */
const MAX_NAME_LENGTH = 200;

/** Filters that take one look at their text and may be given any. */
const UNBOUNDED = new Set(['default', 'escape', 'newline_to_br', 'append', 'prepend', 'first', 'last', 'size', 'json']);

/** Filters for which an object, or a list of objects, is something else than text. All others would print it. */
const OF_OBJECTS = new Set(
  `compact concat default find find_exp find_index find_index_exp first group_by group_by_exp has has_exp inspect json jsonify
  last map pop push raw reject reject_exp reverse sample shift size slice sort sort_natural sum uniq unshift where
  where_exp`.split(/\s+/),
);

/** How many arguments from the first are a name of a property, an expression, or a number. */
const SHORT_ARGUMENTS = new Map<string, number>([
  ['slice', 2],
  ...'sort sort_natural map sum group_by uniq find find_index has where reject sample round truncate truncatewords'
    .split(' ')
    .map((name): [string, number] => [name, 1]),
  ...'where_exp reject_exp group_by_exp has_exp find_exp find_index_exp'
    .split(' ')
    .map((name): [string, number] => [name, 2]),
]);

type FilterThis = ThisParameterType<Extract<Liquid['filters'][string], (...values: never[]) => unknown>>;

/** Characters that a filter would see if it made text of the value; objects have none. */
function textLength(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (!Array.isArray(value)) return 0;
  let length = 0;
  for (const item of value) length += textLength(item);
  return length;
}

function isTooLong(value: unknown, isShort: boolean): boolean {
  if (typeof value !== 'object' && typeof value !== 'string') return false;
  return isShort ? typeof value === 'object' || value.length > MAX_NAME_LENGTH : textLength(value) > MAX_TEXT_LENGTH;
}

/** Whether text made of the value would show an object, which no reader of a mail should see. */
function printsObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return !Array.isArray(value) || value.some(printsObject);
}

/** Whether this argument of a filter would end up as `[object Object]`. */
function isUnprintable(name: string, value: unknown, index: number): boolean {
  if (!OF_OBJECTS.has(name)) return printsObject(value);
  // A slice of anything but a list is one of its text.
  return name === 'slice' && index === 0 && !Array.isArray(value) && printsObject(value);
}

/** Wraps every filter; what is too long ends the rendering with a sentence that names the filter. */
export function boundFilters(liquid: Liquid): void {
  for (const [name, filter] of Object.entries(liquid.filters)) {
    if (typeof filter !== 'function') continue;
    const short = SHORT_ARGUMENTS.get(name) ?? 0;
    const isBounded = !UNBOUNDED.has(name);
    liquid.registerFilter(name, function (this: FilterThis, ...values: unknown[]): unknown {
      for (let i = 0; i < values.length; i += 1) {
        const value = values[i];
        if (isUnprintable(name, value, i)) {
          throw new Error(`the filter ${name} is given an object, which cannot be printed; use json for it`);
        }
        if (isBounded && value !== null && isTooLong(value, i > 0 && i <= short)) {
          throw new Error(`the filter ${name} is given too long a text, or a list in the place of a name`);
        }
      }
      return filter.apply(this, values as [unknown, ...unknown[]]);
    });
  }
}

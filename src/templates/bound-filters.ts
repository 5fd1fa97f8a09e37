/**
 * Bounds on what filters are given and make, and what they are charged for it, by the rows of filter-table.ts: no object where
 * they would make text of it, nothing too long, and no call that works longer than the clock may stay unasked. What goes
 * beyond ends the rendering with a sentence that names the filter.
 */
import type { Liquid } from 'liquidjs';
import { type Budget, checkItems, OverLimit } from './budget.ts';
import type { MailContext } from './context.ts';
import { FILTERS, type FilterRow } from './filter-table.ts';
import { isTooNested, measureText } from './value.ts';

/** Most units of work of one call. */
const MAX_UNITS = 200_000;
/** Longest name or number as an argument. */
const MAX_NAME_LENGTH = 200;

type Filter = Extract<Liquid['filters'][string], (...values: never[]) => unknown>;
type FilterThis = ThisParameterType<Filter>;

/** Whether text made of the value would show an object, which no reader of a mail should see. */
function printsObject(value: unknown, budget: Budget): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (!Array.isArray(value)) return true;
  for (const item of value) {
    budget.step();
    if (printsObject(item, budget)) return true;
  }
  return false;
}

/** Whether this argument of a filter would end up as `[object Object]`. */
function isUnprintable(name: string, row: FilterRow, { value, index }: Argument, budget: Budget): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (!row.takesObjects) return printsObject(value, budget);
  // A slice of anything but a list is one of its text.
  return name === 'slice' && index === 0 && !Array.isArray(value);
}

interface Argument {
  value: unknown;
  index: number;
}

/** Members of an object, or items of a list. */
function itemsOf(value: object): number {
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

/** Charges an argument; throws when it is too long. */
function charge(name: string, row: FilterRow, { value, index }: Argument, budget: Budget): void {
  const isText = typeof value === 'string';
  if (!isText && (typeof value !== 'object' || value === null)) return;
  if (index > 0 && index <= row.short) {
    if (isText && value.length <= MAX_NAME_LENGTH) return;
    throw new OverLimit(
      `gives the filter ${name} ${isText ? `more than ${MAX_NAME_LENGTH} characters` : 'a list'} where it takes a name, a number or a short text`,
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

/** Wraps every filter that has a row, and takes the others away. */
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

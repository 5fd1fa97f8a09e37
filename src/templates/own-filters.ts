/**
 * Filters in place of Liquid's own that go through their value without yielding, or would make text of lists for every comparison:
 * sorting, adding up, and escaping of any length. Each charges its loop to the budget of the rendering.
 */
import type { Liquid } from 'liquidjs';
import type { Budget } from './budget.ts';
import type { MailContext } from './context.ts';
import type { Kind } from './output.ts';
import { escapeWithin, printable, readProperty } from './value.ts';

type Filter = Extract<Liquid['filters'][string], (...values: never[]) => unknown>;
type FilterThis = ThisParameterType<Filter>;

const budgetOf = (filter: FilterThis): Budget => (filter.context as MailContext).report.budget;

const listOf = (value: unknown): readonly unknown[] => {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
};

/** The item's value at a path; without one the item itself. */
function valueAt(item: unknown, property: unknown): unknown {
  if (!property) return item;
  let value = item;
  for (const name of String(property).split('.')) value = readProperty(value, name);
  return value;
}

type SortKey = string | number | boolean | undefined;

/** What an item is sorted by; lists, objects and absent values come last. */
function sortKey(value: unknown, isNatural: boolean): SortKey {
  if (value === null || value === undefined || typeof value === 'object') return undefined;
  return isNatural ? String(value).toLowerCase() : (value as SortKey);
}

function compare(a: SortKey, b: SortKey, budget: Budget): number {
  // Texts differ late only if both are long.
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

/** To be put in place before the filters are bounded. */
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

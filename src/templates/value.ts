/**
 * What a template may read and print. Only own properties of plain data are visible: no prototype, no method, nothing that
 * a caller did not put into templateVariables. Absent and null are "without a value"; objects are never printed.
 */
import type { Budget } from './budget.ts';

/** The value at `key` of a value that came from JSON, or undefined; knows Liquid's size, first and last. */
export function readProperty(of: unknown, key: string | number): unknown {
  if (of === null || of === undefined) return undefined;
  if (typeof of === 'string') return key === 'size' ? of.length : undefined;
  if (typeof of !== 'object') return undefined;
  if (Array.isArray(of)) {
    if (typeof key === 'number') return of[key < 0 ? of.length + key : key];
    if (key === 'size') return of.length;
    if (key === 'first') return of[0];
    return key === 'last' ? of[of.length - 1] : undefined;
  }
  if (Object.hasOwn(of, key)) return (of as Record<string, unknown>)[key];
  return key === 'size' ? Object.keys(of).length : undefined;
}

/** What a piece of a list or object costs beside its characters. */
const ITEM_LENGTH = 8;

const ESCAPABLE = /[&<>"']/;
const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };

/** Text made safe for element content and for quoted attributes. */
export function escapeHtml(text: string): string {
  return ESCAPABLE.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPES[character]!) : text;
}

/** What is longer is escaped in pieces, between which the budget asks the clock. */
const PIECE_LENGTH = 16_384;

/** `escapeHtml` of a text that may be long. */
export function escapeWithin(text: string, budget: Budget): string {
  if (text.length <= PIECE_LENGTH) return escapeHtml(text);
  let escaped = '';
  for (let at = 0; at < text.length; at += PIECE_LENGTH) {
    const piece = text.slice(at, at + PIECE_LENGTH);
    budget.work(piece.length);
    escaped += escapeHtml(piece);
  }
  return escaped;
}

/**
 * The value as text, or undefined when it is (or holds) an object, which no reader of a mail should see. A list may hold itself
 * many times over and be endless work: each item is charged.
 */
export function printable(value: unknown, budget: Budget): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (!Array.isArray(value)) return undefined;
  let text = '';
  for (const item of value) {
    budget.step();
    const part = item === null || item === undefined ? '' : printable(item, budget);
    if (part === undefined) return undefined;
    text += part;
    budget.check(text.length);
  }
  return text;
}

/**
 * Characters of a value made into text, an item or member counted as `itemLength`; more than `most` when it is that long, however
 * long it is. Charges what it looks at.
 */
export function measureText(value: unknown, most: number, budget: Budget, itemLength = ITEM_LENGTH): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let length = 0;
  const add = (item: unknown, more: number): boolean => {
    budget.work(ITEM_LENGTH);
    length += itemLength + more + measureText(item, most - length, budget, itemLength);
    return length <= most;
  };
  if (Array.isArray(value)) {
    for (const item of value) if (!add(item, 0)) break;
  } else {
    for (const name in value) if (!add((value as Record<string, unknown>)[name], name.length)) break;
  }
  return length;
}

/** What a list within a list counts: text made of nested lists costs far more for each than for a character. */
const NESTED_LENGTH = 100;
const MAX_NESTED_LENGTH = 2_000_000;

/**
 * Whether text made of a list would be too long to be made by native code, which does that in places that cannot be asked. A list
 * may hold another twice, and that one another: a few lines make what has no end.
 */
export function isTooNested(list: readonly unknown[], budget: Budget): boolean {
  let length = 0;
  for (const item of list) {
    if (typeof item === 'string') length += item.length;
    else if (Array.isArray(item)) length += measureText(item, MAX_NESTED_LENGTH - length, budget, NESTED_LENGTH);
    if (length > MAX_NESTED_LENGTH) return true;
  }
  budget.work(list.length);
  return false;
}

/**
 * Liquid's operators and ranges within the budget of a rendering. Comparing lists item by item yields, and each step is charged (render.ts); what is done
 * by native code (texts compared or searched, lists made into text to be compared by size) is charged here by its length, and
 * refused where it may take too long. An operator of Liquid that has no row here does not parse.
 */
import {
  type Context,
  defaultOperators,
  evalTokenValue,
  type Operators,
  type RangeToken,
  Tokenizer,
  TokenKind,
  TypeGuards,
} from 'liquidjs';
import { type Budget, checkItems, OverLimit } from './budget.ts';
import type { MailContext } from './context.ts';
import { measureText } from './value.ts';

/** Longest text that is searched, and that a list may become to be compared. */
const MAX_LENGTH = 200_000;
/** Longest text to search for. */
const MAX_SOUGHT_LENGTH = 2_000;

type Comparison = (l: unknown, r: unknown, context: Context) => unknown;
type Charge = (l: unknown, r: unknown, budget: Budget) => void;

/** Texts of different lengths are not looked into. */
function chargeEqual(l: unknown, r: unknown, budget: Budget): void {
  if (typeof l === 'string' && typeof r === 'string') budget.work(Math.min(l.length, r.length) / 16);
}

function chargeOrder(l: unknown, r: unknown, budget: Budget): void {
  chargeEqual(l, r, budget);
  for (const value of [l, r]) {
    if (typeof value !== 'object' || measureText(value, MAX_LENGTH, budget) <= MAX_LENGTH) continue;
    throw new OverLimit(`compares a list of more than ${MAX_LENGTH} characters; compare its size`);
  }
}

function chargeContains(l: unknown, r: unknown, budget: Budget): void {
  if (typeof l !== 'string') return;
  if (l.length > MAX_LENGTH || measureText(r, MAX_SOUGHT_LENGTH, budget) > MAX_SOUGHT_LENGTH) {
    const most = `more than ${MAX_LENGTH} characters, or for more than ${MAX_SOUGHT_LENGTH}`;
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

/** In the place of Liquid's own. */
export function boundOperators(): Operators {
  const operators: Record<string, unknown> = {};
  for (const [name, operator] of Object.entries(defaultOperators)) {
    const charge = CHARGES.get(name);
    if (CHARGES.has(name)) operators[name] = charge === undefined ? operator : charged(operator as Comparison, charge);
  }
  return operators as Operators;
}

type Read = (this: Tokenizer) => unknown;

/** The end of a range: a number, or text that is one; anything else is none. */
function endOf(value: unknown): number {
  return typeof value === 'number' || typeof value === 'string' ? Math.trunc(Number(value)) : Number.NaN;
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
 * Has every tokenizer read ranges such as `(1..9)` as values that are evaluated here. Liquid's own are made by a loop that ends
 * when the end is reached, which beyond 2^53 it never is, and its ends may be lists, of which it makes text first.
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

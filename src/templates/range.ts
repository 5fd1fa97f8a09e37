/**
 * Ranges such as `(1..9)` within bounds. Liquid's own are made by a loop that ends when the end is reached, which beyond 2^53 it
 * never is, and its ends may be lists, of which it makes text first. So each range that is read gets an evaluation of its own.
 */
import { type Context, evalTokenValue, type RangeToken, Tokenizer, TokenKind, TypeGuards } from 'liquidjs';
import { checkItems } from './budget.ts';
import type { MailContext } from './context.ts';

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

/** Has every tokenizer read ranges as values that are evaluated here. */
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

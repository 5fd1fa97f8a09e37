/**
 * JSON with exact integers. Order and account numbers of other systems are often 64-bit integers, but a double holds only 53 bits:
 * `7615917337495251231` would become `7615917337495251000`. Such integers are bigints in memory, and `JSON.stringify` writes them as
 * numbers.
 */

/** The third argument of a reviver of `JSON.parse`, for a primitive value (ECMAScript 2026). */
interface ReviverContext {
  source?: string;
}

const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };

/** An extension point of JSON.stringify: without it, a bigint anywhere in a value throws. */
Object.defineProperty(BigInt.prototype, 'toJSON', {
  value: function toJSON(this: bigint): unknown {
    return rawJSON(this.toString());
  },
  configurable: true,
  writable: true,
});

const INTEGER = /^[+-]?\d+$/;

/** Returns the number that `source` spells: `value`, or a bigint if a double cannot hold the integer exactly. */
export function exactInteger(source: string, value: number): number | bigint {
  return Number.isSafeInteger(value) || !INTEGER.test(source) ? value : BigInt(source);
}

/** Parses like `JSON.parse`, but an integer without fraction and exponent that a double cannot hold exactly becomes a bigint. */
export function parseExactJson(text: string): unknown {
  return JSON.parse(text, (_key: string, value: unknown, context?: ReviverContext) =>
    typeof value === 'number' && context?.source !== undefined ? exactInteger(context.source, value) : value,
  );
}

/**
 * Generates values for a JSON schema, for tests that call an API by its document: valid values, at the limits as often as between them, and
 * nearly valid ones. Supports the keywords that /openapi.json uses.
 */
import fc from 'fast-check';

export type Schema = Record<string, unknown>;

/** Resolves `#/components/…`. */
export type Resolve = (schema: Schema) => Schema;

/** Longer texts and lists add nothing. */
const LONGEST_TEXT = 1_200;
const LONGEST_LIST = 12;

const HOSTILE = [
  '',
  ' ',
  '\0',
  'a\r\nBcc: x@example.com',
  '{{ x }}',
  '{% for %}',
  '../..',
  '\ud800',
  '🙂é',
  "' OR 1=1 --",
  '%00',
  '-1',
  'null',
];

function textOf(schema: Schema): fc.Arbitrary<string> {
  if (schema.format === 'date-time') {
    const times = fc.date({ min: new Date('2020-01-01'), max: new Date('2030-01-01'), noInvalidDate: true });
    return fc.oneof(
      times.map((one) => one.toISOString()),
      fc.constant('2026-12-31T23:59:60Z'),
      fc.constant('2026-06-01T00:00+02:00'),
    );
  }
  const min = Number(schema.minLength ?? 0);
  const max = Math.min(Number(schema.maxLength ?? LONGEST_TEXT), Math.max(LONGEST_TEXT, min));
  const fixed = [...HOSTILE, 'a'.repeat(min), 'a'.repeat(max), 'ann@example.com', '4@shop.example'];
  return fc.oneof(
    fc.string({ minLength: min, maxLength: Math.min(max, min + 20) }),
    fc.string({ minLength: min, maxLength: Math.min(max, min + 20), unit: 'grapheme' }),
    { weight: 2, arbitrary: fc.constantFrom(...fixed.filter((one) => one.length >= min && one.length <= max)) },
  );
}

function numberOf(schema: Schema): fc.Arbitrary<number> {
  const min = Number(schema.minimum ?? -1_000_000);
  const max = Number(schema.maximum ?? 1_000_000_000);
  const between = schema.type === 'number' ? fc.double({ min, max, noNaN: true }) : fc.integer({ min, max });
  return fc.oneof(between, fc.constantFrom(min, max));
}

function objectOf(schema: Schema, resolve: Resolve): fc.Arbitrary<Record<string, unknown>> {
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  const fields = Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, fittingOf(one, resolve)]));
  const known = fc.record(fields, { requiredKeys: (schema.required ?? []) as string[] });
  const further = schema.additionalProperties;
  if (further === false || further === undefined) return known;
  const names = fc.oneof(
    fc.string({ minLength: 1, maxLength: 10 }),
    fc.constantFrom('__proto__', 'constructor', 'X-Order', 'name'),
  );
  const free = fc.dictionary(names, fittingOf(further === true ? {} : (further as Schema), resolve), { maxKeys: 4 });
  return fc.tuple(free, known).map(([some, all]) => ({ ...some, ...all }));
}

export function fittingOf(given: Schema, resolve: Resolve): fc.Arbitrary<unknown> {
  const schema = resolve(given);
  const examples = (schema.examples ?? []) as unknown[];
  const made = madeOf(schema, resolve);
  return examples.length === 0 ? made : fc.oneof(made, fc.constantFrom(...examples));
}

function madeOf(schema: Schema, resolve: Resolve): fc.Arbitrary<unknown> {
  if ('const' in schema) return fc.constant(schema.const);
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum);
  for (const union of [schema.anyOf, schema.oneOf]) {
    if (Array.isArray(union)) return fc.oneof(...union.map((one) => fittingOf(one, resolve)));
  }
  if (Array.isArray(schema.type)) return fc.oneof(...schema.type.map((type) => madeOf({ ...schema, type }, resolve)));
  switch (schema.type) {
    case 'string':
      return textOf(schema);
    case 'integer':
    case 'number':
      return numberOf(schema);
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array': {
      const minLength = Number(schema.minItems ?? 0);
      const maxLength = Math.min(Number(schema.maxItems ?? LONGEST_LIST), LONGEST_LIST);
      return fc.array(fittingOf(schema.items as Schema, resolve), { minLength, maxLength });
    }
    case 'object':
      return objectOf(schema, resolve);
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

const STRANGE = fc.oneof(
  fc.constantFrom<unknown>(null, true, 0, -1, 1.5, 1e300, [], {}, [[]], '', 'a'.repeat(5_000), {
    __proto__: null,
    a: 1,
  }),
  fc.constantFrom<unknown>(...HOSTILE),
  fc.jsonValue({ maxDepth: 3 }),
);

/** Changes a part of the value, selected by these numbers. */
function changed(value: unknown, choices: readonly number[], change: unknown): unknown {
  const [choice, ...rest] = choices;
  if (choice === undefined || typeof value !== 'object' || value === null) return change;
  if (Array.isArray(value)) {
    if (value.length === 0) return [change];
    const at = choice % value.length;
    return value.map((one, index) => (index === at ? changed(one, rest, change) : one));
  }
  const keys = Object.keys(value);
  // Sometimes an unknown field.
  const key = choice % (keys.length + 1) === keys.length ? 'unknown' : keys[choice % (keys.length + 1)]!;
  const inner = (value as Record<string, unknown>)[key];
  const next = changed(inner, rest, change);
  const { [key]: _, ...others } = value as Record<string, unknown>;
  return next === undefined ? others : { ...others, [key]: next };
}

/** Generates values that usually have one invalid part: of another type, beyond its limits, missing, or unknown. */
export function nearlyOf(schema: Schema, resolve: Resolve): fc.Arbitrary<unknown> {
  const path = fc.array(fc.nat(30), { minLength: 1, maxLength: 3 });
  return fc
    .tuple(fittingOf(schema, resolve), path, fc.oneof(STRANGE, fc.constant(undefined)))
    .map(([value, choices, change]) => changed(value, choices, change) ?? null);
}

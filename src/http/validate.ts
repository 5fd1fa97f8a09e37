/**
 * Validates requests with one schema per body, query, and set of parameters. The schema validates the input (with Ajv, strictly, reporting
 * all issues) and describes the call in /openapi.json. Nothing is coerced, removed, or filled in: input is accepted unchanged or refused
 * with one sentence per field. Every string and array in a schema needs a length limit.
 */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import type { Static, TObject, TProperties, TSchema, TUnsafe } from 'typebox';
import { type Failure, type Issue, type IssueCode, invalid, ok, refuse } from '../base/failure.ts';
import { Type } from './schema-type.ts';
import { fieldPath } from './strict-json.ts';

const ISO_TIME = /^((\d{4}-\d{2}-\d{2})T\d{2}:\d{2})(?::(\d{2})(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;

/**
 * Returns the Unix ms of an ISO 8601 time with a zone whose date exists (RFC 3339, seconds optional); NaN for any other text. A leap second
 * can end any month in UTC (RFC 3339 §5.7) and is read as the following second, as in POSIX time.
 */
export function isoTimeMs(text: string): number {
  const [, minute, date, second, fraction = '', zone] = ISO_TIME.exec(text) ?? [];
  if (minute === undefined) return Number.NaN;
  // Date.parse reads 31 February as 3 March; a date that exists survives the round trip.
  const day = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(day.getTime()) || !day.toISOString().startsWith(date!)) return Number.NaN;
  if (second !== '60') return Date.parse(text);
  const next = new Date(Date.parse(`${minute}:59${fraction}${zone}`) + 1_000);
  const isStartOfMonth =
    next.getUTCDate() === 1 && next.getUTCHours() + next.getUTCMinutes() + next.getUTCSeconds() === 0;
  return isStartOfMonth ? next.getTime() : Number.NaN;
}

/** Returns whether `isoTimeMs` can read `text`. */
export function isIsoTime(text: string): boolean {
  return !Number.isNaN(isoTimeMs(text));
}

const ajv = new Ajv({
  strict: true,
  allErrors: true,
  verbose: true,
  coerceTypes: false,
  removeAdditional: false,
  useDefaults: false,
  // The API describes one or many values as "string or array of strings".
  allowUnionTypes: true,
  formats: { 'date-time': isIsoTime },
});
// These annotations do not affect validation. shownAs replaces the schema of a value that is validated elsewhere; phrase is the message for
// text that does not match the pattern.
ajv.addVocabulary(['example', 'shownAs', 'phrase']);

/**
 * Replaces a length keyword of Ajv, which counts the code points of every string: 2 µs for a typical send. A string has at most as many
 * code points as UTF-16 code units, and at least half as many, so its `length` is nearly always enough to decide.
 */
function replaceLengthKeyword(keyword: string, isWithin: (text: string, limit: number) => boolean): void {
  const compile = (limit: number) => (text: string) => isWithin(text, limit);
  ajv.removeKeyword(keyword);
  ajv.addKeyword({ keyword, type: 'string', schemaType: 'number', compile });
}
replaceLengthKeyword(
  'maxLength',
  (text, limit) => text.length <= limit || (text.length <= 2 * limit && [...text].length <= limit),
);
replaceLengthKeyword(
  'minLength',
  (text, limit) => text.length >= 2 * limit || (text.length >= limit && [...text].length >= limit),
);

/** Returns a schema for an object with exactly these fields. Any other field is refused with its name. */
export function closed<P extends TProperties>(properties: P, options: Record<string, unknown> = {}): TObject<P> {
  return Type.Object(properties, { additionalProperties: false, ...options });
}

/** Returns a closed schema with a name: /openapi.json describes it once, and generated clients create a type for it. */
export function named<P extends TProperties>(title: string, properties: P): TObject<P> {
  return closed(properties, { title });
}

export const confirmationSchema = named('Confirmation', { message: Type.String() });

/**
 * Returns a schema for an object with arbitrary names and values of one kind. Type.Record is not used: its pattern does not match names
 * with a line break, so the values of such names would not be validated.
 */
export function mapOf<S extends TSchema>(
  schema: S,
  options: { maxProperties: number } & Record<string, unknown>,
): TUnsafe<Record<string, Static<S>>> {
  return Type.Unsafe<Record<string, Static<S>>>({ type: 'object', additionalProperties: schema, ...options });
}

/** Returns a schema for one of the given strings. */
export function oneOf<const T extends string[]>(values: T, options: Record<string, unknown> = {}): TUnsafe<T[number]> {
  return Type.Unsafe<T[number]>({ type: 'string', enum: values, ...options });
}

const TYPE_NAMES: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'an array',
  null: 'null',
};

function listOf(words: readonly string[]): string {
  if (words.length < 2) return words.join('');
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

function typeNames(type: unknown): string {
  const types = Array.isArray(type) ? type : [type];
  return listOf(types.map((name) => TYPE_NAMES[String(name)] ?? String(name)));
}

type Schema = Record<string, unknown>;

/** Describes the branches of a union as a phrase: `a string or an array`, or `one of: a, b`. */
function unionPhrase(branches: readonly Schema[]): string {
  if (branches.every((branch) => 'const' in branch)) {
    return `one of: ${branches.map((branch) => String(branch.const)).join(', ')}`;
  }
  const phrases = branches.flatMap((branch) => {
    if (typeof branch.description === 'string') return branch.description;
    if (branch.type === 'array' && typeof branch.items === 'object' && branch.items !== null) {
      const items = (branch.items as Schema).type;
      return items === undefined ? 'an array' : `an array of ${String(items)}s`;
    }
    if ('const' in branch) return JSON.stringify(branch.const);
    if (Array.isArray(branch.enum)) return listOf(branch.enum.map(String));
    if (branch.type === 'boolean') return ['true', 'false'];
    return typeNames(branch.type);
  });
  return listOf([...new Set(phrases)]);
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Returns the message for one Ajv error. */
function sentence(error: ErrorObject): string {
  const params = error.params as Record<string, unknown>;
  const schema = (error.parentSchema ?? {}) as Schema;
  const limit = Number(error.schema);
  switch (error.keyword) {
    case 'type':
      return `must be ${typeNames(params.type)}`;
    case 'enum':
      return `must be one of: ${(params.allowedValues as unknown[]).map(String).join(', ')}`;
    case 'const':
      return `must be ${JSON.stringify(params.allowedValue)}`;
    case 'anyOf':
    case 'oneOf':
      return `must be ${unionPhrase((error.schema ?? []) as Schema[])}`;
    case 'minLength':
      return limit === 1 ? 'must not be empty' : `must be at least ${plural(limit, 'character')} long`;
    case 'maxLength':
      return `must be at most ${plural(limit, 'character')} long`;
    case 'minItems':
      return limit === 1 ? 'must not be empty' : `must have at least ${limit} elements`;
    case 'maxItems':
      return `must have at most ${plural(limit, 'element')}`;
    case 'minProperties':
      return limit === 1 ? 'must not be empty' : `must have at least ${limit} entries`;
    case 'maxProperties':
      return `must have at most ${limit} entries`;
    case 'minimum':
      return `must be at least ${limit}`;
    case 'maximum':
      return `must be at most ${limit}`;
    case 'format':
      return params.format === 'date-time'
        ? 'must be an ISO 8601 time such as 2026-11-20T09:44:00.000Z'
        : `must be a ${params.format}`;
    case 'pattern':
      return typeof schema.phrase === 'string' ? schema.phrase : `must match ${schema.pattern}`;
    case 'uniqueItems':
      return 'must not repeat an element';
    case 'additionalProperties':
      return 'is not a known field';
    case 'required':
      return 'is required';
    default:
      return error.message ?? 'is not valid';
  }
}

/**
 * Removes redundant errors of unions. An error inside a branch is kept if the client clearly meant that branch (its type matches), as in
 * `to[3]`. Otherwise only the error that describes the entire union is kept.
 */
function withoutUnionNoise(errors: readonly ErrorObject[]): ErrorObject[] {
  const unions = errors.filter((error) => error.keyword === 'anyOf' || error.keyword === 'oneOf');
  let kept = [...errors];
  for (const union of unions) {
    const inside = kept.filter(
      (error) =>
        error.schemaPath.startsWith(`${union.schemaPath}/`) && error.instancePath.startsWith(union.instancePath),
    );
    const specific = inside.filter(
      (error) => error.instancePath !== union.instancePath || !['type', 'const', 'enum'].includes(error.keyword),
    );
    const dropped = new Set<ErrorObject>(
      specific.length > 0 ? [union, ...inside.filter((error) => !specific.includes(error))] : inside,
    );
    kept = kept.filter((error) => !dropped.has(error));
  }
  return kept;
}

/** Removes the type error of a value that also has an enum error: the list of allowed values already implies the type. */
function withoutImpliedTypes(errors: readonly ErrorObject[]): ErrorObject[] {
  const enumPaths = new Set(errors.filter((error) => error.keyword === 'enum').map((error) => error.instancePath));
  return errors.filter((error) => error.keyword !== 'type' || !enumPaths.has(error.instancePath));
}

/** Path in a value: keys of objects and indexes of arrays. */
type Path = (string | number)[];

/**
 * Converts a JSON pointer such as `/attachments/0` into a path and appends the name of an unknown or missing field. Whether 0 is an index
 * depends on the value.
 */
function pathOf({ instancePath, params }: ErrorObject, root: unknown): Path {
  const path: Path = [];
  let value = root;
  for (const raw of instancePath.split('/').slice(1)) {
    const key = raw.replaceAll('~1', '/').replaceAll('~0', '~');
    path.push(Array.isArray(value) ? Number(key) : key);
    value = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined;
  }
  const field = params.additionalProperty ?? params.missingProperty;
  return field === undefined ? path : [...path, String(field)];
}

const CODE_OF_KEYWORD: Readonly<Record<string, IssueCode>> = {
  type: 'WRONG_TYPE',
  enum: 'NOT_ALLOWED',
  const: 'NOT_ALLOWED',
  minLength: 'TOO_SHORT',
  minItems: 'TOO_SHORT',
  minProperties: 'TOO_SHORT',
  maxLength: 'TOO_LONG',
  maxItems: 'TOO_LONG',
  maxProperties: 'TOO_LONG',
  minimum: 'TOO_SMALL',
  maximum: 'TOO_LARGE',
  format: 'WRONG_FORMAT',
  pattern: 'WRONG_FORMAT',
  uniqueItems: 'DUPLICATE',
  additionalProperties: 'UNKNOWN_FIELD',
  required: 'REQUIRED',
};

/** Returns the code for one Ajv error. */
function codeOf({ keyword, schema }: ErrorObject): IssueCode {
  if (keyword !== 'anyOf' && keyword !== 'oneOf') return CODE_OF_KEYWORD[keyword] ?? 'INVALID_VALUE';
  const branches = (schema ?? []) as Schema[];
  return branches.some((branch) => 'const' in branch || 'enum' in branch) ? 'NOT_ALLOWED' : 'WRONG_TYPE';
}

interface Mismatch {
  path: Path;
  issue: Issue;
  /** Whether only the number of members is invalid. */
  isCount: boolean;
}

const COUNTS = new Set(['minItems', 'maxItems', 'minProperties', 'maxProperties']);

function mismatchOf(error: ErrorObject, root: unknown): Mismatch {
  const path = pathOf(error, root);
  const issue = {
    field: path.reduce<string>(fieldPath, ''),
    code: codeOf(error),
    message: sentence(error),
  };
  return { path, issue, isCount: COUNTS.has(error.keyword) };
}

/** A set of paths as a tree of their parts; a path ends at a node without branches. */
type Paths = Map<string | number, Paths>;

/** Returns a copy of a value without these paths. Object members are removed; array elements become undefined. */
function withoutPaths(value: unknown, paths: Paths | undefined, isListed: boolean): unknown {
  if (paths === undefined) return value;
  if (paths.size === 0 || typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value)) return value.map((element, index) => withoutPaths(element, paths.get(index), true));
  const members = Object.entries(value).map(
    ([key, member]) => [key, withoutPaths(member, paths.get(key), isListed)] as const,
  );
  return Object.fromEntries(members.filter(([, member]) => isListed || member !== undefined));
}

function fittingOf(root: unknown, mismatches: readonly Mismatch[]): Record<string, unknown> | undefined {
  if (typeof root !== 'object' || root === null || Array.isArray(root)) return undefined;
  const paths: Paths = new Map();
  for (const { path, isCount } of mismatches) {
    if (isCount) continue;
    let within = paths;
    for (const part of path) {
      const next = within.get(part) ?? new Map();
      within.set(part, next);
      within = next;
    }
  }
  return (paths.size === 0 ? root : withoutPaths(root, paths, false)) as Record<string, unknown>;
}

/** Maximum number of errors that are reported. If there are more, `fitting` returns undefined. */
const MAX_ERRORS = 500;

type ValidationResult<T> = { ok: true; value: T } | ValidationFailure;

interface ValidationFailure {
  ok: false;
  failure: Failure;
  /** Returns the object without its invalid values; undefined if the value is not an object or has too many errors. */
  fitting(): Record<string, unknown> | undefined;
}

/** Validates a value. A successful result contains the same value, unchanged. */
export type Validator<T = unknown> = (value: unknown) => ValidationResult<T>;

/**
 * Returns a validator that compiles its schema on first use, so that unused routes do not slow down the start. The first call throws if the
 * schema is invalid; `test/house/openapi.test.ts` compiles all schemas.
 */
export function compile<S extends TSchema>(schema: S): Validator<Static<S>> {
  let validate: ValidateFunction | undefined;
  return (value) => {
    validate ??= ajv.compile(schema);
    if (validate(value)) return ok(value as Static<S>);
    const errors = validate.errors ?? [];
    const relevant = withoutImpliedTypes(withoutUnionNoise(errors.slice(0, MAX_ERRORS)));
    const mismatches = relevant.map((error) => mismatchOf(error, value));
    return {
      ...refuse(invalid(mismatches.map(({ issue }) => issue))),
      fitting: () => (errors.length > MAX_ERRORS ? undefined : fittingOf(value, mismatches)),
    };
  };
}

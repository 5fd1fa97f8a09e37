/**
 * Bodies whose form is wrong, validated further: what does fit the schema is validated by what a schema cannot say, so that one
 * refusal names every issue. Of a field that is malformed only the members that fit have a meaning to validate.
 */
import { type Failure, type Issue, invalid } from '../base/failure.ts';
import { type Result, refuse } from '../base/result.ts';
import type { ParsedJson } from './strict-json.ts';
import { fieldPath } from './strict-json-explain.ts';
import { isOfCount, type Validator } from './validate.ts';

const MAX_ISSUES = 100;
const NO_ISSUES: readonly Issue[] = [];

/** A body apart from what a schema finds wrong in it. */
export interface Fitting {
  fields: Record<string, unknown>;
  /** Fields that are given and do not fit. */
  malformed: ReadonlySet<string>;
  /**
   * What is left of malformed fields that hold members: maps without those at fault, lists with undefined in the place of such
   * an element; an element keeps the names of its members at fault, with undefined as their values.
   */
  rest: Record<string, unknown>;
}

/** Whether `place` lies within `around`. */
function isWithin(place: string, around: string): boolean {
  return place.length > around.length && place.startsWith(around) && /[.[]/.test(place[around.length]!);
}

/** Members of a map or list with too many of them that are validated. */
const MAX_MEMBERS = 1_000;

/** The issues of one field, and every place that holds one of them. */
interface Faulty {
  issues: readonly Issue[];
  places: ReadonlySet<string>;
}

function faultyOf(issues: readonly Issue[]): Faulty {
  const places = new Set<string>();
  for (const { field } of issues) {
    places.add(field);
    for (let at = 1; at < field.length; at += 1)
      if (field[at] === '.' || field[at] === '[') places.add(field.slice(0, at));
  }
  return { issues, places };
}

/** Undefined when nothing of the value can be validated. */
function fittingPart(value: unknown, place: string, faulty: Faulty): unknown {
  // Most of a long list has nothing to do with the few issues that are told.
  if (!faulty.places.has(place)) return value;
  const { issues } = faulty;
  const own = issues.filter((issue) => issue.field === place);
  if (own.some((issue) => !isOfCount(issue))) return undefined;
  if (typeof value !== 'object' || value === null) return value;
  const most = own.length === 0 ? Number.POSITIVE_INFINITY : MAX_MEMBERS;
  if (Array.isArray(value)) {
    return value.slice(0, most).map((element, index) => fittingElement(element, fieldPath(place, index), faulty));
  }
  const members = fittingMembers(value, place, { faulty, most });
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

/** In an element the names of members that are at fault stay, without a value: they are not missing. */
function fittingElement(element: unknown, place: string, faulty: Faulty): unknown {
  if (!faulty.places.has(place)) return element;
  const isObject = typeof element === 'object' && element !== null && !Array.isArray(element);
  if (!isObject || faulty.issues.some((issue) => issue.field === place)) return fittingPart(element, place, faulty);
  return Object.fromEntries(fittingMembers(element, place, { faulty, most: Number.POSITIVE_INFINITY }));
}

function fittingMembers(
  value: object,
  place: string,
  { faulty, most }: { faulty: Faulty; most: number },
): [string, unknown][] {
  const members = Object.entries(value).slice(0, most);
  return members.map(([key, member]) => [key, fittingPart(member, fieldPath(place, key), faulty)]);
}

/** Whether nothing is wrong with an object but some of its entries: it is one of free names, and fits without them. */
function isEntriesOnly(name: string, value: unknown, issues: readonly Issue[]): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const entries = new Set(Object.keys(value).map((key) => fieldPath(name, key)));
  return issues.every((issue) => entries.has(issue.field));
}

/**
 * Undefined when the body is no object: it has no fields then. And when it has so many issues that not all are named: what fits is
 * not known then.
 */
export function fittingFields(value: unknown, issues: readonly Issue[]): Fitting | undefined {
  if (issues.length >= MAX_ISSUES) return undefined;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const fields: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  const malformed = new Set<string>();
  const add = (to: Record<string, unknown>, name: string, part: unknown): void => {
    Object.defineProperty(to, name, { value: part, enumerable: true });
  };
  for (const [name, member] of Object.entries(value)) {
    const place = fieldPath('', name);
    const faulty = issues.filter((issue) => issue.field === place || isWithin(issue.field, place));
    const part = faulty.length === 0 ? member : fittingPart(member, place, faultyOf(faulty));
    if (faulty.length === 0 || isEntriesOnly(place, member, faulty)) add(fields, name, part);
    else {
      malformed.add(name);
      if (part !== undefined) add(rest, name, part);
    }
  }
  return { fields, malformed, rest };
}

/** INVALID_REQUEST with the issues of the schema and then those of the fields that fit it, one place named once. */
export function withFurtherIssues(issues: readonly Issue[], further: readonly Issue[]): Failure {
  const isTold = ({ field }: Issue): boolean =>
    issues.some((one) => one.field === field || (!isOfCount(one) && isWithin(field, one.field)));
  return invalid([...issues, ...further.filter((issue) => !isTold(issue))].slice(0, MAX_ISSUES));
}

/** The refusal for issues found elsewhere (query, headers), and for those of what was validated after: their places are others. */
export function refuseWith(before: readonly Issue[], validated: Result<unknown>): { ok: false; failure: Failure } {
  return refuse(invalid([...before, ...(validated.ok ? [] : validated.failure.details)].slice(0, MAX_ISSUES)));
}

/** What was validated, unless there were issues elsewhere before. */
export function withIssuesBefore<T>(before: readonly Issue[], validated: Result<T>): Result<T> {
  return before.length === 0 ? validated : refuseWith(before, validated);
}

/** Validates a value of which some issues are known already; they are told with its own. */
export type BodyCheck<T> = (value: unknown, before: readonly Issue[]) => Result<T>;

/** Validates a body as far as there is one: what is JSON, but not as it must be, is validated all the same, and refused in any case. */
export function validateParsed<T>(parsed: ParsedJson, validate: BodyCheck<T>): Result<T> {
  if (parsed.ok) return validate(parsed.value, NO_ISSUES);
  if (!('value' in parsed)) return parsed;
  const validated = validate(parsed.value, parsed.failure.details);
  return validated.ok ? parsed : validated;
}

/**
 * All that is wrong with a value: what was found `before`, what its schema finds (`formed`), and what `checkRest` finds in
 * the rest.
 */
export function allIssues(
  value: unknown,
  formed: Result<unknown>,
  { before, checkRest }: { before: readonly Issue[]; checkRest: (fitting: Fitting) => readonly Issue[] },
): Issue[] {
  const ofSchema = formed.ok ? NO_ISSUES : formed.failure.details;
  const found = ofSchema.length === 0 ? [...before] : withFurtherIssues(before, ofSchema).details;
  // Of so many not all are named, also where some were told before: what fits is not known then.
  const fitting = ofSchema.length >= MAX_ISSUES ? undefined : fittingFields(value, found);
  return fitting === undefined ? found : withFurtherIssues(found, checkRest(fitting)).details;
}

/** Validates by a schema, and what fits it by `checkRest` where anything is at fault, or with `everything` in any case. */
export function validateFully<T>(options: {
  validate: Validator<T>;
  checkRest: (fitting: Fitting) => readonly Issue[];
  everything: boolean;
}): BodyCheck<T> {
  const { validate, checkRest, everything } = options;
  return (value, before) => {
    const formed = validate(value);
    if (formed.ok && before.length === 0 && !everything) return formed;
    const issues = allIssues(value, formed, { before, checkRest });
    return formed.ok && issues.length === 0 ? formed : refuse(invalid(issues));
  };
}

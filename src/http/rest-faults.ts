/**
 * Bodies whose form is wrong, judged further: what does fit the schema is judged by what a schema cannot say, so that one
 * refusal names every fault. Of a field that is malformed only the members that fit have a meaning to judge.
 */
import { type Failure, type Fault, invalid } from '../base/failure.ts';
import { type Result, refuse } from '../base/result.ts';
import type { ParsedJson } from './strict-json.ts';
import { fieldPath } from './strict-json-explain.ts';
import { isOfCount, type Validator } from './validate.ts';

const MAX_FAULTS = 100;
const NO_FAULTS: readonly Fault[] = [];

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

/** Members of a map or list with too many of them that are judged. */
const MAX_MEMBERS = 1_000;

/** The faults of one field, and every place that holds one of them. */
interface Faulty {
  faults: readonly Fault[];
  places: ReadonlySet<string>;
}

function faultyOf(faults: readonly Fault[]): Faulty {
  const places = new Set<string>();
  for (const { field } of faults) {
    places.add(field);
    for (let at = 1; at < field.length; at += 1)
      if (field[at] === '.' || field[at] === '[') places.add(field.slice(0, at));
  }
  return { faults, places };
}

/** Undefined when nothing of the value can be judged. */
function fittingPart(value: unknown, place: string, faulty: Faulty): unknown {
  // Most of a long list has nothing to do with the few faults that are told.
  if (!faulty.places.has(place)) return value;
  const { faults } = faulty;
  const own = faults.filter((fault) => fault.field === place);
  if (own.some((fault) => !isOfCount(fault))) return undefined;
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
  if (!isObject || faulty.faults.some((fault) => fault.field === place)) return fittingPart(element, place, faulty);
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
function isEntriesOnly(name: string, value: unknown, faults: readonly Fault[]): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const entries = new Set(Object.keys(value).map((key) => fieldPath(name, key)));
  return faults.every((fault) => entries.has(fault.field));
}

/**
 * Undefined when the body is no object: it has no fields then. And when it has so many faults that not all are named: what fits is
 * not known then.
 */
export function fittingFields(value: unknown, faults: readonly Fault[]): Fitting | undefined {
  if (faults.length >= MAX_FAULTS) return undefined;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const fields: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  const malformed = new Set<string>();
  const add = (to: Record<string, unknown>, name: string, part: unknown): void => {
    Object.defineProperty(to, name, { value: part, enumerable: true });
  };
  for (const [name, member] of Object.entries(value)) {
    const place = fieldPath('', name);
    const faulty = faults.filter((fault) => fault.field === place || isWithin(fault.field, place));
    const part = faulty.length === 0 ? member : fittingPart(member, place, faultyOf(faulty));
    if (faulty.length === 0 || isEntriesOnly(place, member, faulty)) add(fields, name, part);
    else {
      malformed.add(name);
      if (part !== undefined) add(rest, name, part);
    }
  }
  return { fields, malformed, rest };
}

/** INVALID_REQUEST with the faults of the schema and then those of the fields that fit it, one place named once. */
export function withFurtherFaults(faults: readonly Fault[], further: readonly Fault[]): Failure {
  const isTold = ({ field }: Fault): boolean =>
    faults.some((one) => one.field === field || (!isOfCount(one) && isWithin(field, one.field)));
  return invalid([...faults, ...further.filter((fault) => !isTold(fault))].slice(0, MAX_FAULTS));
}

/** The refusal for faults found elsewhere (query, headers), and for those of what was judged after: their places are others. */
export function refuseWith(before: readonly Fault[], judged: Result<unknown>): { ok: false; failure: Failure } {
  return refuse(invalid([...before, ...(judged.ok ? [] : judged.failure.details)].slice(0, MAX_FAULTS)));
}

/** What was judged, unless there were faults elsewhere before. */
export function withFaultsBefore<T>(before: readonly Fault[], judged: Result<T>): Result<T> {
  return before.length === 0 ? judged : refuseWith(before, judged);
}

/** Judges a value of which some faults are known already; they are told with its own. */
export type Judge<T> = (value: unknown, before: readonly Fault[]) => Result<T>;

/** Judges a body as far as there is one: what is JSON, but not as it must be, is judged all the same, and refused in any case. */
export function judgeParsed<T>(parsed: ParsedJson, judge: Judge<T>): Result<T> {
  if (parsed.ok) return judge(parsed.value, NO_FAULTS);
  if (!('value' in parsed)) return parsed;
  const judged = judge(parsed.value, parsed.failure.details);
  return judged.ok ? parsed : judged;
}

/**
 * All that is wrong with a value: what was found `before`, what its schema finds (`formed`), and what `judgeRest` finds in
 * the rest.
 */
export function allFaults(
  value: unknown,
  formed: Result<unknown>,
  { before, judgeRest }: { before: readonly Fault[]; judgeRest: (fitting: Fitting) => readonly Fault[] },
): Fault[] {
  const ofSchema = formed.ok ? NO_FAULTS : formed.failure.details;
  const found = ofSchema.length === 0 ? [...before] : withFurtherFaults(before, ofSchema).details;
  // Of so many not all are named, also where some were told before: what fits is not known then.
  const fitting = ofSchema.length >= MAX_FAULTS ? undefined : fittingFields(value, found);
  return fitting === undefined ? found : withFurtherFaults(found, judgeRest(fitting)).details;
}

/** Judges by a schema, and what fits it by `judgeRest` where anything is at fault, or with `everything` in any case. */
export function judgeFully<T>(options: {
  validate: Validator<T>;
  judgeRest: (fitting: Fitting) => readonly Fault[];
  everything: boolean;
}): Judge<T> {
  const { validate, judgeRest, everything } = options;
  return (value, before) => {
    const formed = validate(value);
    if (formed.ok && before.length === 0 && !everything) return formed;
    const faults = allFaults(value, formed, { before, judgeRest });
    return formed.ok && faults.length === 0 ? formed : refuse(invalid(faults));
  };
}

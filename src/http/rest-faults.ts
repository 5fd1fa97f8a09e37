/**
 * Bodies whose form is wrong, judged further: the fields that do fit the schema are judged by what a schema cannot say, so
 * that one refusal names every fault. A field that is malformed has no meaning to judge.
 */
import { type Failure, type Fault, invalid } from '../base/failure.ts';
import { fieldPath } from './strict-json-explain.ts';

const MAX_FAULTS = 100;

/** A body apart from what a schema finds wrong in it. */
export interface Fitting {
  fields: Record<string, unknown>;
  /** Fields that are given and do not fit. */
  malformed: ReadonlySet<string>;
}

function topField(fault: Fault): string {
  return fault.field.split(/[.[]/, 1)[0]!;
}

/** Whether one of the two places is the other, or lies within it. */
function overlap(a: string, b: string): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  return long.startsWith(short) && (long.length === short.length || /[.[]/.test(long[short.length]!));
}

/** A map of free names without the entries that are at fault; undefined when something else is wrong with it. */
function fittingEntries(name: string, value: unknown, faulty: readonly Fault[]): Record<string, unknown> | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const wrong = new Set(faulty.map((fault) => fault.field));
  const entries = Object.entries(value);
  const fitting = entries.filter(([key]) => !wrong.delete(fieldPath(name, key)));
  return wrong.size === 0 ? Object.fromEntries(fitting) : undefined;
}

/** Undefined when the body is no object: it has no fields then. */
export function fittingFields(value: unknown, faults: readonly Fault[]): Fitting | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const fields: Record<string, unknown> = {};
  const malformed = new Set<string>();
  for (const [name, member] of Object.entries(value)) {
    const faulty = faults.filter((fault) => topField(fault) === name);
    const fitting = faulty.length === 0 ? member : fittingEntries(name, member, faulty);
    if (fitting === undefined) malformed.add(name);
    else Object.defineProperty(fields, name, { value: fitting, enumerable: true });
  }
  return { fields, malformed };
}

/** INVALID_REQUEST with the faults of the schema and then those of the fields that fit it, one place named once. */
export function withFurtherFaults(faults: readonly Fault[], further: readonly Fault[]): Failure {
  const unnamed = further.filter((fault) => !faults.some((one) => overlap(one.field, fault.field)));
  return invalid([...faults, ...unnamed].slice(0, MAX_FAULTS));
}

/**
 * Bodies whose form is wrong, judged further: the fields that do fit the schema are judged by what a schema cannot say, so
 * that one refusal names every fault. A field that is malformed has no meaning to judge.
 */
import { type Failure, type Fault, invalid } from '../base/failure.ts';

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

/** Undefined when the body is no object: it has no fields then. */
export function fittingFields(value: unknown, faults: readonly Fault[]): Fitting | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const faulty = new Set(faults.map(topField));
  const entries = Object.entries(value);
  return {
    fields: Object.fromEntries(entries.filter(([name]) => !faulty.has(name))),
    malformed: new Set(entries.map(([name]) => name).filter((name) => faulty.has(name))),
  };
}

/** INVALID_REQUEST with the faults of the schema and then those of the fields that fit it, one place named once. */
export function withFurtherFaults(faults: readonly Fault[], further: readonly Fault[]): Failure {
  const named = new Set(faults.map(topField));
  return invalid([...faults, ...further.filter((fault) => !named.has(topField(fault)))].slice(0, MAX_FAULTS));
}

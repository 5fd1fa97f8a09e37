/**
 * All that is wrong with a body, in one refusal: what JSON allows and we do not, what its schema says, and what a schema cannot say.
 * The last is asked of what fits the schema, and only where something is wrong already: a body without issues is its handler's to
 * check, which may have more to say (404, 409) and an order of its own to say it in.
 */
import { type Issue, invalid, MAX_ISSUES } from '../base/failure.ts';
import { type Result, refuse } from '../base/result.ts';
import type { ParsedJson } from './strict-json.ts';
import type { Validator } from './validate.ts';

/**
 * Issues of fields that fit the schema. Lists have undefined in place of what does not; `malformed` names the fields that are given and
 * have an issue, which are not missing.
 */
export type FurtherIssues = (fields: Record<string, unknown>, malformed: ReadonlySet<string>) => readonly Issue[];

export interface BodyChecks<T> {
  validate: Validator<T>;
  furtherIssues?: FurtherIssues | undefined;
}

/** Adds issues of another check; a field that has one already is not named again, nor what lies within a field of `unread`. */
function add(issues: Issue[], further: readonly Issue[], unread: readonly Issue[]): void {
  const named = new Set(issues.map((issue) => issue.field));
  const isUnread = (field: string): boolean =>
    unread.some((one) => field.startsWith(`${one.field}.`) || field.startsWith(`${one.field}[`));
  issues.push(...further.filter(({ field }) => !named.has(field) && !isUnread(field)));
}

/** The body, or INVALID_REQUEST with every issue; those found `elsewhere` (query, headers) come first. */
export function checkBody<T>(json: ParsedJson, checks: BodyChecks<T>, elsewhere: readonly Issue[] = []): Result<T> {
  /** Fields of which JSON allows more than we do: what they hold is not known. */
  const unread = json.ok ? [] : json.failure.details;
  const issues = [...unread];
  if ('value' in json) {
    const formed = checks.validate(json.value);
    if (formed.ok && issues.length === 0 && elsewhere.length === 0) return formed;
    if (!formed.ok) add(issues, formed.failure.details, unread);
    const fields = formed.ok ? (formed.value as Record<string, unknown>) : formed.fitting();
    if (checks.furtherIssues !== undefined && fields !== undefined && issues.length < MAX_ISSUES) {
      const named = issues.map(({ field }) => field.split(/[.[]/, 1)[0]!);
      const malformed = new Set(named.filter((name) => Object.hasOwn(json.value as object, name)));
      add(issues, checks.furtherIssues(fields, malformed), unread);
    }
  }
  return refuse(invalid([...elsewhere, ...issues]));
}

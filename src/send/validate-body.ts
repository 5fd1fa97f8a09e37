/**
 * Judges a body as a whole: its form by the schema, its meaning by the checks, and every issue of both at once. Of a field
 * whose form is wrong only what fits has a meaning to check.
 */
import { type Issue, invalid } from '../base/failure.ts';
import { type Result, refuse } from '../base/result.ts';
import { allIssues, type Fitting } from '../http/rest-issues.ts';
import type { Validator } from '../http/validate.ts';
import { type CheckContext, type CheckedMail, checkMail } from './check.ts';
import type { SendBody } from './request.ts';

const NO_ISSUES: readonly Issue[] = [];

/**
 * The checked mail, or INVALID_REQUEST (UNSUPPORTED_FILE_TYPE when nothing else is wrong) with every issue, those that were found
 * `before` in the JSON among them.
 */
export function validateBody(
  value: unknown,
  validate: Validator<SendBody>,
  context: CheckContext,
  before: readonly Issue[] = NO_ISSUES,
): Result<CheckedMail> {
  const formed = validate(value);
  if (formed.ok && before.length === 0) return checkMail(formed.value, context);
  const checkRest = (fitting: Fitting): readonly Issue[] => issuesOfRest(fitting, context);
  return refuse(invalid(allIssues(value, formed, { before, checkRest })));
}

function issuesOfRest({ fields, malformed, rest }: Fitting, context: CheckContext): readonly Issue[] {
  const checked = checkMail({ ...rest, ...fields } as unknown as SendBody, context);
  const issues = checked.ok ? NO_ISSUES : checked.failure.details;
  return issues.filter((issue) => !issue.message.startsWith('is required') || !isMissingFor(issue.field, malformed));
}

/** Whether a field may only seem to be missing because it, or another one which could stand in for it, is malformed. */
function isMissingFor(field: string, malformed: ReadonlySet<string>): boolean {
  if (malformed.has(field)) return true;
  if (field === 'html') return malformed.has('text') || malformed.has('templateId');
  if (field === 'subject') return malformed.has('templateId');
  return field === 'to' && (malformed.has('cc') || malformed.has('bcc'));
}

/**
 * Validates a body as a whole: its form by the schema, its meaning by the checks, and every issue of both at once. Of a field
 * whose form is wrong only what fits has a meaning to check.
 */
import type { Issue } from '../base/failure.ts';
import type { Result } from '../base/result.ts';
import { checkBody, type FurtherIssues } from '../http/check-body.ts';
import type { ParsedJson } from '../http/strict-json.ts';
import type { Validator } from '../http/validate.ts';
import { type CheckContext, type CheckedMail, checkMail } from './check.ts';
import type { SendBody } from './request.ts';

/**
 * The checked mail, or INVALID_REQUEST (UNSUPPORTED_FILE_TYPE when nothing else is wrong) with every issue, those that were found
 * `elsewhere` (query, headers) among them.
 */
export function validateBody(
  json: ParsedJson,
  validate: Validator<SendBody>,
  context: CheckContext,
  elsewhere?: readonly Issue[],
): Result<CheckedMail> {
  const furtherIssues: FurtherIssues = (fields, malformed) => {
    const checked = checkMail(fields as unknown as SendBody, context);
    const issues = checked.ok ? [] : checked.failure.details;
    return issues.filter((issue) => !issue.message.startsWith('is required') || !isMissingFor(issue.field, malformed));
  };
  const formed = checkBody(json, { validate, furtherIssues }, elsewhere);
  return formed.ok ? checkMail(formed.value, context) : formed;
}

/** Whether a field may only seem to be missing because it, or another one which could stand in for it, is malformed. */
function isMissingFor(field: string, malformed: ReadonlySet<string>): boolean {
  if (malformed.has(field)) return true;
  if (field === 'html') return malformed.has('text') || malformed.has('templateId');
  if (field === 'subject') return malformed.has('templateId');
  return field === 'to' && (malformed.has('cc') || malformed.has('bcc'));
}

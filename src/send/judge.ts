/**
 * Judges a body as a whole: its form by the schema, its meaning by the checks, and every fault of both at once. A field
 * whose form is wrong has no meaning to check; the others are checked without it.
 */
import { type Result, refuse } from '../base/result.ts';
import { fittingFields, withFurtherFaults } from '../http/rest-faults.ts';
import type { Validator } from '../http/validate.ts';
import { type CheckContext, type CheckedMail, checkMail } from './check.ts';
import type { SendBody } from './request.ts';

/** The checked mail, or INVALID_REQUEST (UNSUPPORTED_FILE_TYPE when nothing else is wrong) with every fault. */
export function judgeBody(value: unknown, validate: Validator<SendBody>, context: CheckContext): Result<CheckedMail> {
  const formed = validate(value);
  if (formed.ok) return checkMail(formed.value, context);
  const { details } = formed.failure;
  const fitting = fittingFields(value, details);
  if (fitting === undefined) return formed;
  const { fields, malformed } = fitting;
  const checked = checkMail(fields as unknown as SendBody, context);
  const further = checked.ok ? [] : checked.failure.details;
  return refuse(
    withFurtherFaults(
      details,
      further.filter((fault) => Object.hasOwn(fields, fault.field) || !isMissingFor(fault.field, malformed)),
    ),
  );
}

/** Whether a field may only seem to be missing because another one, which could stand in for it, is malformed. */
function isMissingFor(field: string, malformed: ReadonlySet<string>): boolean {
  if (field === 'html') return malformed.has('text') || malformed.has('templateId');
  if (field === 'subject') return malformed.has('templateId');
  return field === 'to' && (malformed.has('cc') || malformed.has('bcc'));
}

/**
 * Judges a body as a whole: its form by the schema, its meaning by the checks, and every fault of both at once. A field
 * whose form is wrong has no meaning to check; the others are checked without it.
 */
import { type Fault, invalid } from '../base/failure.ts';
import { type Result, refuse } from '../base/result.ts';
import type { Validator } from '../http/validate.ts';
import { type CheckContext, type CheckedMail, checkMail } from './check.ts';
import type { SendBody } from './request.ts';

/** The checked mail, or INVALID_REQUEST (UNSUPPORTED_FILE_TYPE when nothing else is wrong) with every fault. */
export function judgeBody(value: unknown, validate: Validator<SendBody>, context: CheckContext): Result<CheckedMail> {
  const formed = validate(value);
  if (formed.ok) return checkMail(formed.value, context);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return formed;
  const malformed = new Set(formed.failure.details.map(topField));
  const rest = Object.fromEntries(Object.entries(value).filter(([name]) => !malformed.has(name)));
  const checked = checkMail(rest as unknown as SendBody, context);
  const more = checked.ok ? [] : checked.failure.details.filter((fault) => !speaksOf(fault, malformed));
  return refuse(invalid([...formed.failure.details, ...more]));
}

function topField(fault: Fault): string {
  return fault.field.split(/[.[]/, 1)[0]!;
}

/** Whether the fault may only be there because a malformed field was left out. */
function speaksOf(fault: Fault, malformed: ReadonlySet<string>): boolean {
  const field = topField(fault);
  if (malformed.has(field)) return true;
  if (field === 'html') return malformed.has('text') || malformed.has('templateId');
  if (field === 'subject') return malformed.has('templateId');
  return field === 'to' && (malformed.has('cc') || malformed.has('bcc'));
}

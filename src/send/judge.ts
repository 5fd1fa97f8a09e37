/**
 * Judges a body as a whole: its form by the schema, its meaning by the checks, and every fault of both at once. Of a field
 * whose form is wrong only what fits has a meaning to check.
 */
import { type Fault, invalid } from '../base/failure.ts';
import { type Result, refuse } from '../base/result.ts';
import { allFaults, type Fitting } from '../http/rest-faults.ts';
import type { Validator } from '../http/validate.ts';
import { type CheckContext, type CheckedMail, checkMail } from './check.ts';
import type { SendBody } from './request.ts';

const NO_FAULTS: readonly Fault[] = [];

/**
 * The checked mail, or INVALID_REQUEST (UNSUPPORTED_FILE_TYPE when nothing else is wrong) with every fault, those that were found
 * `before` in the JSON among them.
 */
export function judgeBody(
  value: unknown,
  validate: Validator<SendBody>,
  context: CheckContext,
  before: readonly Fault[] = NO_FAULTS,
): Result<CheckedMail> {
  const formed = validate(value);
  if (formed.ok && before.length === 0) return checkMail(formed.value, context);
  const judgeRest = (fitting: Fitting): readonly Fault[] => faultsOfRest(fitting, context);
  return refuse(invalid(allFaults(value, formed, { before, judgeRest })));
}

function faultsOfRest({ fields, malformed, rest }: Fitting, context: CheckContext): readonly Fault[] {
  const checked = checkMail({ ...rest, ...fields } as unknown as SendBody, context);
  const faults = checked.ok ? NO_FAULTS : checked.failure.details;
  return faults.filter((fault) => !fault.message.startsWith('is required') || !isMissingFor(fault.field, malformed));
}

/** Whether a field may only seem to be missing because it, or another one which could stand in for it, is malformed. */
function isMissingFor(field: string, malformed: ReadonlySet<string>): boolean {
  if (malformed.has(field)) return true;
  if (field === 'html') return malformed.has('text') || malformed.has('templateId');
  if (field === 'subject') return malformed.has('templateId');
  return field === 'to' && (malformed.has('cc') || malformed.has('bcc'));
}

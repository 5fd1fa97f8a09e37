/**
 * Judges what somebody wants to save as a template: that there is something to send, that the subject may become a header,
 * that every part parses, and that variables are declared as they have to be. All faults are told at once.
 */
import { type Fault, failure, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { hasForbiddenControl } from '../mail/header.ts';
import { declarationFaults } from './declared.ts';
import type { Sources } from './layout.ts';
import { isTemplate, parseUnremembered } from './parse.ts';
import { type DeclaredVariable, isTemplateId } from './template.ts';

const MAX_SUBJECT_LENGTH = 998;

/** `named` is what is to be saved, a preview has no name. INVALID_REQUEST with every fault of form, or else TEMPLATE_INVALID with every part that does not parse. */
export function judgeContent(
  content: Sources & { variables: readonly DeclaredVariable[] },
  named?: { name: string },
): Result<undefined> {
  const fault = named && nameFault(named.name);
  const faults = [
    ...(fault ? [fault] : []),
    ...formFaults(content, named !== undefined),
    ...declarationFaults(content.variables),
  ];
  if (faults.length > 0) return refuse(invalid(faults));
  return judgeSources(content, 'as a template');
}

/** What is wrong with the name of a template, or undefined. A name is told from an id by how it begins. */
function nameFault(name: string): Fault | undefined {
  if (isTemplateId(name)) return { field: 'name', message: 'must not begin with tpl_, as ids do' };
  return name.trim() === name ? undefined : { field: 'name', message: 'must not begin or end with a space' };
}

/** TEMPLATE_INVALID with the place of the first error of each part; `as` ends the sentence. */
export function judgeSources(sources: Sources, as: string): Result<undefined> {
  const faults: Fault[] = [];
  for (const part of ['subject', 'html', 'text'] as const) {
    const source = sources[part];
    if (source === null || !isTemplate(source)) continue;
    const parsed = parseUnremembered(source, part === 'html' ? 'html' : 'text');
    if (!parsed.ok) faults.push({ field: part, ...parsed.fault });
  }
  if (faults.length === 0) return ok(undefined);
  const names = faults.map((fault) => fault.field).join(', ');
  return refuse(
    failure('TEMPLATE_INVALID', {
      details: faults,
      message: `The ${names} cannot be used ${as}; mend it at the line and column that details names.`,
    }),
  );
}

function formFaults({ subject, html, text }: Sources, isSaved: boolean): Fault[] {
  const faults: Fault[] = [];
  if (isSaved && !html && !text) {
    faults.push({ field: 'html', message: 'is required unless text is given, and must not be empty' });
  }
  if (subject === null) return faults;
  if (hasForbiddenControl(subject)) {
    faults.push({ field: 'subject', message: 'has a line break or another control character' });
  } else if (!isTemplate(subject) && [...subject].length > MAX_SUBJECT_LENGTH) {
    faults.push({ field: 'subject', message: `must be at most ${MAX_SUBJECT_LENGTH} characters long` });
  }
  return faults;
}

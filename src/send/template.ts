/**
 * The stored template of a send: its parts stand in for those that the request does not give, and the variables that it
 * declares are settled with the values of the request. One version is looked up once, so that all copies of a mail are
 * made of it, whatever is edited meanwhile.
 *
 * A part given by the request stands alone: neither the template's own part nor its layout is around it.
 */
import { failure, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { accountVariables, settleDeclared, type TemplateSource, UNSUBSCRIBE_VARIABLE } from '../templates/templates.ts';
import type { AppliedTemplate, CheckedMail } from './check.ts';
import type { Sender } from './sender.ts';

/**
 * The mail with its template applied; NOT_FOUND when the account has no such template, INVALID_REQUEST when nobody gives a
 * subject or a value is not of its declared type, TEMPLATE_INVALID when it has outgrown the limits together with its layout.
 */
export async function applyTemplate(
  mail: CheckedMail,
  sender: Sender,
  { templates }: { templates: TemplateSource },
): Promise<Result<CheckedMail>> {
  const found = await templates.find({ accountId: sender.account.id, mode: sender.mode }, mail.templateId!);
  if (found === undefined) return refuse(unknownTemplate());
  if ('unusable' in found) return refuse(found.unusable);
  const ownSubject = mail.subject === '';
  if (ownSubject && found.subject === null) {
    return refuse(invalid([{ field: 'subject', message: 'is required: the template has none' }]));
  }
  const parsed = { ...found.parsed };
  if (!ownSubject) delete parsed.subject;
  if (mail.html !== undefined) delete parsed.html;
  if (mail.text !== undefined) delete parsed.text;
  const whole: CheckedMail = {
    ...mail,
    subject: ownSubject ? found.subject! : mail.subject,
    html: mail.html ?? found.html ?? undefined,
    text: mail.text ?? found.text ?? undefined,
  };
  const template: AppliedTemplate = {
    ...{ id: found.id, version: found.version, parsed },
    ...{ optional: new Set(), missing: [] },
  };
  if (!mail.render) return ok({ ...whole, template });
  const others = accountVariables(sender.account.settings.variables);
  others[UNSUBSCRIBE_VARIABLE] = '';
  const { variables, optional, missing, issues } = settleDeclared(found.declared, mail.variables, others);
  if (issues.length > 0) return refuse(invalid(issues));
  return ok({ ...whole, variables, template: { ...template, optional, missing } });
}

function unknownTemplate(): ReturnType<typeof failure> {
  return failure('NOT_FOUND', {
    message: 'The templateId matches no template of this account; give the id or the name of one.',
    details: [{ field: 'templateId', message: 'matches no template of this account' }],
  });
}

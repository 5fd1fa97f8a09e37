/**
 * What a template would say with these values, without sending anything: variables without a value are listed and left
 * empty, as a dry run does. The unsubscribe link is one that leads nowhere, since there is no recipient.
 */
import { failure, firstIssue, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import type { Sources } from './layout.ts';
import { UNSUBSCRIBE_VARIABLE } from './output.ts';
import type { ParsedParts, Rendered, ToRender } from './render.ts';
import type { DeclaredVariable } from './template.ts';
import { filledSubjectIssue } from './validate.ts';
import { accountVariables, settleDeclared } from './variables.ts';

export interface Preview {
  subject: string | null;
  html: string | null;
  text: string | null;
  missingVariables: string[];
}

export interface ToPreview extends Sources {
  declared: readonly DeclaredVariable[];
  parsed?: ParsedParts;
}

/**
 * INVALID_REQUEST for values of another type than declared and for a subject that no mail may have, TEMPLATE_INVALID when
 * filling in exceeds the limits.
 */
export function preview(
  template: ToPreview,
  given: Readonly<Record<string, unknown>>,
  deps: {
    render(mail: ToRender): Result<Rendered>;
    /** The account's own variables. */
    ownVariables: Readonly<Record<string, string>>;
    unsubscribeUrl: string;
  },
): Result<Preview> {
  const variables = accountVariables(deps.ownVariables);
  variables[UNSUBSCRIBE_VARIABLE] = `<a href="${deps.unsubscribeUrl}">Unsubscribe</a>`;
  const settled = settleDeclared(template.declared, given, variables);
  if (settled.issues.length > 0) return refuse(invalid(settled.issues));
  const { subject, html, text, parsed } = template;
  const rendered = deps.render({
    subject: subject ?? undefined,
    html: html ?? undefined,
    text: text ?? undefined,
    variables: settled.variables,
    accountVariables: variables,
    optional: settled.optional,
    parsed,
    keepMissing: false,
    deriveText: true,
  });
  if (!rendered.ok) {
    if (rendered.failure.code !== 'TEMPLATE_INVALID') return rendered;
    const { details } = rendered.failure;
    const message = `The template cannot be filled in with these values: ${firstIssue(details)}.`;
    return refuse(failure('TEMPLATE_INVALID', { details, message }));
  }
  const { value } = rendered;
  const issue = value.subject === undefined ? undefined : filledSubjectIssue(value.subject);
  if (issue !== undefined) {
    return refuse(invalid([{ field: 'subject', message: `${issue}, with its variables filled in` }]));
  }
  return ok({
    subject: value.subject ?? null,
    html: value.html ?? null,
    text: value.text ?? null,
    missingVariables: [...new Set([...settled.missing, ...value.missing])],
  });
}

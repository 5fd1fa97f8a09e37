/**
 * Validates a template to be saved: it has content, the subject can be a header, every part parses, and declarations are valid. Returns all
 * issues.
 *
 * Also renders a preview without sending: variables without a value are listed and left empty, like in a dry run. The unsubscribe link has
 * no effect, since there is no recipient.
 */
import { failure, firstIssue, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { hasForbiddenControl } from '../mail/compose/header.ts';
import { UNSUBSCRIBE_VARIABLE } from './language.ts';
import { compileMjml } from './mjml.ts';
import { isTemplate, parseUncached } from './parse.ts';
import {
  accountVariables,
  applyDeclarations,
  type Declaration,
  declarationIssues,
  type MailToRender,
  type ParsedParts,
  type RenderedMail,
} from './render.ts';
import { type DeclaredVariable, isTemplateId, type Sources, type TemplateContent } from './template.ts';

const MAX_SUBJECT_LENGTH = 998;

/** `mjml` takes the place of `html`, which is generated from it later. */
type SourcesToSave = Sources & Partial<Pick<TemplateContent, 'mjml'>>;

/**
 * `named` is a template to save; a preview has no name. Fails with INVALID_REQUEST and every issue of form and every part that does not
 * parse, or TEMPLATE_INVALID if only parts do not parse.
 */
export function validateContent(
  content: SourcesToSave & { variables: readonly DeclaredVariable[] },
  named?: { name: string },
): Result<undefined> {
  const issues = [
    ...(named ? nameIssues(named.name) : []),
    ...(named ? emptyIssues(content) : []),
    ...formIssues(content),
  ];
  if (issues.length === 0) return validateSources(content, 'as a template');
  return refuse(invalid([...issues, ...sourceIssues(content)]));
}

/** Checks the name of a template. It must not look like an id. */
export function nameIssues(name: string): Issue[] {
  if (isTemplateId(name))
    return [{ field: 'name', message: 'must not start with tpl_, which is the prefix of template ids' }];
  return name.trim() === name ? [] : [{ field: 'name', message: 'must not start or end with a space' }];
}

/** Checks that there is content to send. */
export function emptyIssues({ mjml, html, text }: Pick<SourcesToSave, 'mjml' | 'html' | 'text'>): Issue[] {
  if (mjml || html || text) return [];
  return [{ field: 'html', code: 'REQUIRED', message: 'is required if text is not given, and must not be empty' }];
}

/** Returns TEMPLATE_INVALID with the position of the first error of each part; `as` ends the sentence. */
export function validateSources(sources: SourcesToSave, as: string): Result<undefined> {
  const issues = sourceIssues(sources);
  if (issues.length === 0) return ok(undefined);
  const names = issues.map((issue) => issue.field).join(', ');
  return refuse(
    failure('TEMPLATE_INVALID', {
      details: issues,
      message: `The ${names} cannot be used ${as}: ${firstIssue(issues)}.`,
    }),
  );
}

const BUSY = 'Too many templates are compiled from MJML at this time. Retry in a second.';

/** Returns valid content with the html that its MJML generates. TEMPLATE_INVALID has the position of the first error. */
export async function withGeneratedHtml(content: TemplateContent, accountId: string): Promise<Result<TemplateContent>> {
  if (content.mjml === null) return ok(content);
  const compiled = await compileMjml(content.mjml, accountId);
  if (compiled === undefined) return refuse(failure('OVERLOADED', { message: BUSY, retryAfterSeconds: 1 }));
  const issue = 'issue' in compiled ? compiled.issue : generatedIssue(compiled.html);
  if ('html' in compiled && !issue) return ok({ ...content, html: compiled.html });
  const details = [{ field: 'mjml', ...issue! }];
  return refuse(
    failure('TEMPLATE_INVALID', { details, message: `The mjml cannot be used as a template: ${firstIssue(details)}.` }),
  );
}

/** Positions in generated html mean nothing to the author of the MJML. */
function generatedIssue(html: string): { message: string } | undefined {
  const [issue] = sourceIssues({ subject: null, html, text: null });
  return issue && { message: `generates html that is not a valid template: ${issue.message}` };
}

/** Returns the first error of each part that does not parse, with its position. */
function sourceIssues(sources: SourcesToSave): Issue[] {
  const issues: Issue[] = [];
  for (const part of ['subject', 'mjml', 'html', 'text'] as const) {
    const source = sources[part];
    if (!source || !isTemplate(source)) continue;
    const parsed = parseUncached(source, part === 'mjml' || part === 'html' ? 'html' : 'text');
    if (!parsed.ok) issues.push({ field: part, ...parsed.issue });
  }
  return issues;
}

/** Returns all issues of a subject, of declarations, and of parts as templates. */
export function contentIssues(content: SourcesToSave & { variables: readonly Declaration[] }): Issue[] {
  return [...formIssues(content), ...sourceIssues(content)];
}

/** Checks the form of a subject and of declarations, without parsing them as templates. */
function formIssues(content: Pick<Sources, 'subject'> & { variables: readonly Declaration[] }): Issue[] {
  const message = content.subject === null ? undefined : subjectIssue(content.subject);
  return [...(message ? [{ field: 'subject', message }] : []), ...declarationIssues(content.variables)];
}

/** Returns what is wrong with a rendered subject, or undefined. */
function filledSubjectIssue(subject: string): string | undefined {
  if (hasForbiddenControl(subject)) return 'has a line break or another control character';
  const isTooLong = subject.length > MAX_SUBJECT_LENGTH && [...subject].length > MAX_SUBJECT_LENGTH;
  return isTooLong ? `must be at most ${MAX_SUBJECT_LENGTH} characters long` : undefined;
}

function subjectIssue(subject: string): string | undefined {
  if (!isTemplate(subject)) return filledSubjectIssue(subject);
  return hasForbiddenControl(subject) ? 'has a line break or another control character' : undefined;
}

export interface Preview {
  subject: string | null;
  html: string | null;
  text: string | null;
  missingVariables: string[];
}

interface ToPreview extends Sources {
  declared: readonly DeclaredVariable[];
  parsed?: ParsedParts;
}

/**
 * Fails with INVALID_REQUEST for values of another type than declared and for an invalid subject, and TEMPLATE_INVALID if rendering exceeds
 * the limits.
 */
export function preview(
  template: ToPreview,
  given: Readonly<Record<string, unknown>>,
  deps: {
    render(mail: MailToRender): Result<RenderedMail>;
    /** The account's own variables. */
    ownVariables: Readonly<Record<string, string>>;
    unsubscribeUrl: string;
  },
): Result<Preview> {
  const variables = accountVariables(deps.ownVariables);
  variables[UNSUBSCRIBE_VARIABLE] = `<a href="${deps.unsubscribeUrl}">Unsubscribe</a>`;
  const settled = applyDeclarations(template.declared, given, variables);
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
    const message = `The template cannot be rendered with these values: ${firstIssue(details)}.`;
    return refuse(failure('TEMPLATE_INVALID', { details, message }));
  }
  const { value } = rendered;
  const issue = value.subject === undefined ? undefined : filledSubjectIssue(value.subject);
  if (issue !== undefined) {
    return refuse(invalid([{ field: 'subject', message: `${issue}, after its variables were filled in` }]));
  }
  return ok({
    subject: value.subject ?? null,
    html: value.html ?? null,
    text: value.text ?? null,
    missingVariables: [...new Set([...settled.missing, ...value.missing])],
  });
}

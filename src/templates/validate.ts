/**
 * Validates what somebody wants to save as a template: that there is something to send, that the subject may become a header,
 * that every part parses, and that variables are declared as they have to be. All issues are answered at once.
 */
import { failure, firstIssue, type Issue, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { hasForbiddenControl } from '../mail/compose/header.ts';
import type { Sources } from './layout.ts';
import { isTemplate, parseUnremembered } from './parse.ts';
import { type DeclaredVariable, isTemplateId } from './template.ts';
import { type Declaration, declarationIssues } from './variables.ts';

const MAX_SUBJECT_LENGTH = 998;

/**
 * `named` is what is to be saved, a preview has no name. INVALID_REQUEST with every issue of form and every part that does not
 * parse, or TEMPLATE_INVALID where only parts do not parse.
 */
export function validateContent(
  content: Sources & { variables: readonly DeclaredVariable[] },
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

/** What is wrong with the name of a template. A name is distinguished from an id by how it begins. */
export function nameIssues(name: string): Issue[] {
  if (isTemplateId(name)) return [{ field: 'name', message: 'must not begin with tpl_, as ids do' }];
  return name.trim() === name ? [] : [{ field: 'name', message: 'must not begin or end with a space' }];
}

/** That there is nothing to send. */
export function emptyIssues({ html, text }: Pick<Sources, 'html' | 'text'>): Issue[] {
  if (html || text) return [];
  return [{ field: 'html', message: 'is required unless text is given, and must not be empty' }];
}

/** TEMPLATE_INVALID with the place of the first error of each part; `as` ends the sentence. */
export function validateSources(sources: Sources, as: string): Result<undefined> {
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

/** The first error of each part that does not parse, with its place. */
function sourceIssues(sources: Sources): Issue[] {
  const issues: Issue[] = [];
  for (const part of ['subject', 'html', 'text'] as const) {
    const source = sources[part];
    if (source === null || !isTemplate(source)) continue;
    const parsed = parseUnremembered(source, part === 'html' ? 'html' : 'text');
    if (!parsed.ok) issues.push({ field: part, ...parsed.issue });
  }
  return issues;
}

/** All that is wrong with a subject, with declarations, and with parts as templates. */
export function contentIssues(content: Sources & { variables: readonly Declaration[] }): Issue[] {
  return [...formIssues(content), ...sourceIssues(content)];
}

/** What is wrong with the form of a subject and with declarations; neither is looked into as a template. */
function formIssues(content: Pick<Sources, 'subject'> & { variables: readonly Declaration[] }): Issue[] {
  const message = content.subject === null ? undefined : subjectIssue(content.subject);
  return [...(message ? [{ field: 'subject', message }] : []), ...declarationIssues(content.variables)];
}

/** What is wrong with a subject whose variables have values, or undefined. */
export function filledSubjectIssue(subject: string): string | undefined {
  if (hasForbiddenControl(subject)) return 'has a line break or another control character';
  const isTooLong = subject.length > MAX_SUBJECT_LENGTH && [...subject].length > MAX_SUBJECT_LENGTH;
  return isTooLong ? `must be at most ${MAX_SUBJECT_LENGTH} characters long` : undefined;
}

function subjectIssue(subject: string): string | undefined {
  if (!isTemplate(subject)) return filledSubjectIssue(subject);
  return hasForbiddenControl(subject) ? 'has a line break or another control character' : undefined;
}

/**
 * The variables of templates: those that an account gives to all of them, and those that a template declares. Declarations are
 * checked when the template is saved (names, doubles, defaults of the declared type) and settled with the values of a send. A
 * value of another type is refused; a default stands in where none is given; a required one without a value is missing
 * whatever `missingVariables` says; any other may be without a value and prints nothing.
 */
import type { Issue } from '../base/failure.ts';
import type { DeclaredVariable, VariableType } from './template.ts';

const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,99}$/;
const MAX_DEFAULT_LENGTH = 100_000;

const ARTICLES: Record<VariableType, string> = {
  string: 'a string',
  number: 'a number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
};

function isOfType(value: unknown, type: VariableType): boolean {
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value);
  return typeof value === type;
}

/** A declaration, or what is left of one that does not fit its schema; undefined when nothing is. */
export type Declaration = Partial<DeclaredVariable> | undefined;

/** What is wrong with declarations besides what their schema says. */
export function declarationIssues(declared: readonly Declaration[]): Issue[] {
  const issues: Issue[] = [];
  const seen = new Set<string>();
  let defaults = 0;
  for (const [index, one] of declared.entries()) {
    if (one === undefined) continue;
    const field = `variables[${index}]`;
    const message = one.name === undefined ? undefined : nameIssue(one.name, seen);
    if (message !== undefined) issues.push({ field: `${field}.name`, message });
    if (one.default === undefined) continue;
    if (one.type !== undefined && !isOfType(one.default, one.type)) {
      issues.push({ field: `${field}.default`, message: `must be ${ARTICLES[one.type]}, as its type says` });
    }
    defaults += JSON.stringify(one.default).length;
  }
  if (defaults > MAX_DEFAULT_LENGTH) {
    issues.push({
      field: 'variables',
      message: `have defaults of more than ${MAX_DEFAULT_LENGTH} characters together`,
    });
  }
  return issues;
}

/** Notes the name as seen. */
function nameIssue(name: string, seen: Set<string>): string | undefined {
  if (!NAME.test(name) || name === '__proto__')
    return 'must be letters, digits, _ and -, not beginning with a digit or -, at most 100';
  if (seen.has(name)) return 'is declared twice';
  seen.add(name);
  return undefined;
}

/** The values of a send with the declarations applied to them. */
export interface Settled {
  /** With defaults for what was not given. */
  variables: Readonly<Record<string, unknown>>;
  /** Names that may be without a value, and are. */
  optional: ReadonlySet<string>;
  /** Names that are required and have no value. */
  missing: string[];
  /** Values of another type than the declared one. */
  issues: Issue[];
}

const NONE: ReadonlySet<string> = new Set();

/** Applies declarations to the values given; `accountVariables` are values too, behind those given and before defaults. */
export function settleDeclared(
  declared: readonly DeclaredVariable[],
  given: Readonly<Record<string, unknown>>,
  accountVariables: Readonly<Record<string, unknown>>,
): Settled {
  if (declared.length === 0) return { variables: given, optional: NONE, missing: [], issues: [] };
  const variables: Record<string, unknown> = { ...given };
  const optional = new Set<string>();
  const missing: string[] = [];
  const issues: Issue[] = [];
  for (const one of declared) {
    const value = Object.hasOwn(given, one.name) ? given[one.name] : undefined;
    if (value !== undefined && value !== null) {
      if (isOfType(value, one.type)) continue;
      const message = `must be ${ARTICLES[one.type]}, as the template declares it`;
      issues.push({ field: `templateVariables.${one.name}`, message });
      continue;
    }
    if (Object.hasOwn(accountVariables, one.name)) {
      // A null from the caller would hide the account's value.
      delete variables[one.name];
    } else if (one.default !== undefined) variables[one.name] = one.default;
    else if (one.required) missing.push(one.name);
    else optional.add(one.name);
  }
  return { variables, optional, missing, issues };
}

/** Exist before the account has set them. The unsubscribe link is each recipient's own and made with the mail. */
const ALWAYS: Readonly<Record<string, string>> = { company_address_html: '', report_abuse_email_html: '' };

/** A new object with the account's variables, to which the caller may add. */
export function accountVariables(own: Readonly<Record<string, string>>): Record<string, string> {
  return { ...ALWAYS, ...own };
}

/**
 * Renders subject, html, and text with variables. Content with neither `{{` nor `{%` is not changed. The same source and values always give
 * the same result, and values are never rendered as templates. Every issue of all three parts is reported. A missing text part is derived
 * from the rendered html.
 *
 * Variables come from the send, from the account (for all templates), and from the defaults that a template declares. Declarations are
 * checked when the template is saved (names, duplicates, types of defaults). In a send they apply as follows: a value of another type is
 * refused. Without a value, the default is used. A required variable without a value is missing, whatever `missingVariables` says. An
 * optional variable without a value prints nothing.
 */
import { type Failure, failure, firstIssue, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { Budget, MailContext, type Report } from './context.ts';
import { isTemplate, liquidFor, type MailTemplate, parseIssue, parseTemplate } from './parse.ts';
import type { DeclaredVariable, VariableType } from './template.ts';

export interface MailToRender {
  subject?: string | undefined;
  html?: string | undefined;
  text?: string | undefined;
  /** The caller's values, from JSON. They take precedence over the account's. */
  variables: Readonly<Record<string, unknown>>;
  accountVariables: Readonly<Record<string, unknown>>;
  /** Whether an output without a value is written as its source (`keep`) or as nothing. */
  keepMissing: boolean;
  /** Whether to derive a text from html without text. */
  deriveText: boolean;
  /** Names of optional variables. Without a value they print nothing and are not missing. */
  optional?: ReadonlySet<string> | undefined;
  /** Templates that the caller parsed from these sources and cached. */
  parsed?: ParsedParts | undefined;
}

export interface ParsedParts {
  subject?: MailTemplate;
  html?: MailTemplate;
  text?: MailTemplate;
}

export interface RenderedMail {
  subject?: string | undefined;
  html?: string | undefined;
  text?: string | undefined;
  /** Names of variables without a value, in order of occurrence. */
  missing: string[];
}

/** The maximum number of names in an error message, and in its details. */
const MAX_NAMES = 20;
const MAX_DETAILS = 100;

/**
 * Returns TEMPLATE_VARIABLE_MISSING with the missing variables; if there are many, only the first are listed. `required` are those that the
 * template requires, whatever `missingVariables` says.
 */
export function missingFailure(missing: readonly string[], required: readonly string[]): Failure {
  const names = missing.slice(0, MAX_NAMES).join(', ');
  const more = missing.length > MAX_NAMES ? ` and ${missing.length - MAX_NAMES} more` : '';
  const [variable, has, it] = missing.length === 1 ? ['variable', 'has', 'it'] : ['variables', 'have', 'them'];
  const requirement = required.length === missing.length ? ', and the template requires one' : '';
  const setting = required.length === 0 ? 'set missingVariables to empty or keep, ' : '';
  return failure('TEMPLATE_VARIABLE_MISSING', {
    message:
      `The ${variable} ${names}${more} ${has} no value${requirement}. ` +
      `Add ${it} to templateVariables, ${setting}or send the content literally with render: false.`,
    details: missing.slice(0, MAX_DETAILS).map((name) => ({
      field: `templateVariables.${name}`,
      message: required.includes(name) ? 'is required by the template' : `has no value for {{${name}}}`,
    })),
  });
}

const NO_NAMES: ReadonlySet<string> = new Set();

/** Holds the state and costs of one rendering. Its collections are created on demand, because most mail needs none. */
class OneRendering implements Report {
  missing: Set<string> | undefined = undefined;
  objects: Set<string> | undefined = undefined;
  readonly optional: ReadonlySet<string>;
  readonly keepMissing: boolean;
  readonly budget = new Budget();
  readonly #htmlToText: (html: string) => string;
  /** The text of each converted html value, because a value may be printed many times. */
  #reduced: Map<string, string> | undefined = undefined;

  constructor(mail: MailToRender, htmlToText: (html: string) => string) {
    this.optional = mail.optional ?? NO_NAMES;
    this.keepMissing = mail.keepMissing;
    this.#htmlToText = htmlToText;
  }

  addMissing(name: string): void {
    this.missing ??= new Set();
    this.missing.add(name);
  }

  addObject(name: string): void {
    this.objects ??= new Set();
    this.objects.add(name);
  }

  htmlToText(html: string): string {
    if (!/[<&]/.test(html)) return html;
    this.#reduced ??= new Map();
    let text = this.#reduced.get(html);
    if (text === undefined) {
      this.budget.checkTime();
      text = this.#htmlToText(html);
      this.#reduced.set(html, text);
    }
    return text;
  }
}

/** Returns the render function; `htmlToText` converts html to text without side effects. */
export function createRender(htmlToText: (html: string) => string): (mail: MailToRender) => Result<RenderedMail> {
  return (mail) => {
    const report = new OneRendering(mail, htmlToText);
    const issues: Issue[] = [];
    /** Returns the rendered part; records an issue if it fails to render or exceeds a limit. */
    const fill = (field: keyof ParsedParts, make: () => string): string => {
      try {
        return make();
      } catch (error) {
        issues.push({ field, ...parseIssue(error) });
        return '';
      }
    };
    const part = (field: keyof ParsedParts): string | undefined => {
      const source = mail[field];
      if (source === undefined || !isTemplate(source)) return source;
      const parsed = mail.parsed?.[field];
      const found = parsed ? ok(parsed) : parseTemplate(source, field === 'html' ? 'html' : 'text');
      if (found.ok) return fill(field, () => fillTemplate(found.value, mail, report));
      issues.push({ field, ...found.issue });
      return '';
    };
    const rendered: RenderedMail = { subject: part('subject'), html: part('html'), text: part('text'), missing: [] };
    const { html } = rendered;
    if (html !== undefined && mail.text === undefined && mail.deriveText && issues.length === 0) {
      // Html without any words, such as a single image, has no text part.
      rendered.text = fill('html', () => report.htmlToText(html)) || undefined;
    }
    if (issues.length > 0)
      return refuse(failure('TEMPLATE_INVALID', { details: issues, message: templateMessage(issues) }));
    if (report.objects !== undefined) return refuse(objectFailure(report.objects));
    const withNul = nulIssues(mail, rendered);
    if (withNul.length > 0) return refuse(invalid(withNul));
    if (report.missing !== undefined) rendered.missing = [...report.missing];
    return ok(rendered);
  };
}

/** Returns the parts with NUL, which filters such as base64_decode can create. The caller checks the subject for control characters. */
function nulIssues(source: MailToRender, rendered: RenderedMail): Issue[] {
  return (['html', 'text'] as const)
    .filter((field) => source[field] !== undefined && rendered[field]?.includes('\0'))
    .map((field) => ({ field, message: 'contains the NUL character after its variables are replaced' }));
}

function fillTemplate(template: MailTemplate, values: MailToRender, report: Report): string {
  const liquid = liquidFor(template.kind);
  const context = new MailContext(liquid, { variables: values.variables, globals: values.accountVariables }, report);
  return runGenerators(liquid.renderer.renderTemplates(template.templates, context), report.budget) as string;
}

type Steps = Generator<unknown, unknown, unknown>;

function isSteps(value: unknown): value is Steps {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as Steps).next === 'function' &&
    typeof (value as Steps).throw === 'function'
  );
}

/**
 * Runs the generators of a rendering. Tags, expressions, operators, and all filters that read list items are nested generators that yield
 * at each step. Each step is charged to the budget of the rendering, which checks the clock, so every loop of a template or filter is
 * limited. Liquid's own runner would not stop.
 *
 * Returns the result of a generator; a value that is not a generator is returned unchanged. Errors of the generator and of the budget are
 * thrown.
 */
function runGenerators(value: unknown, budget: Budget): unknown {
  if (!isSteps(value)) return value;
  let input: unknown;
  let failed = false;
  for (;;) {
    budget.step();
    const state: IteratorResult<unknown> = failed ? value.throw(input) : value.next(input);
    failed = false;
    input = state.value;
    if (!isSteps(input)) {
      if (state.done) return input;
      continue;
    }
    if (state.done) return runGenerators(input, budget);
    try {
      input = runGenerators(input, budget);
    } catch (error) {
      // The generator may add the position in the source to the error.
      input = error;
      failed = true;
    }
  }
}

function templateMessage(issues: readonly Issue[]): string {
  return `The ${issues.map((issue) => issue.field).join(', ')} cannot be used as a template: ${firstIssue(issues)}. Fix it, or send it literally with render: false.`;
}

function objectFailure(names: ReadonlySet<string>): Failure {
  return invalid(
    [...names].map((name) => ({
      field: `templateVariables.${name}`,
      message: `is an object, which cannot be printed; print one of its properties, or use {{ ${name} | json }}`,
    })),
  );
}

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
  if (type === 'number' && typeof value === 'bigint') return true;
  return typeof value === type;
}

/** A declaration, or only its valid fields if it does not match the schema; undefined if no field is valid. */
export type Declaration = Partial<DeclaredVariable> | undefined;

/** Returns the issues of declarations that the schema cannot detect. */
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
      issues.push({ field: `${field}.default`, message: `must be ${ARTICLES[one.type]}, as declared in type` });
    }
    defaults += JSON.stringify(one.default).length;
  }
  if (defaults > MAX_DEFAULT_LENGTH) {
    issues.push({
      field: 'variables',
      message: `must have defaults of at most ${MAX_DEFAULT_LENGTH} characters in total`,
    });
  }
  return issues;
}

/** Checks a name and adds it to `seen`; returns an issue if it is invalid or a duplicate. */
function nameIssue(name: string, seen: Set<string>): string | undefined {
  if (!NAME.test(name) || name === '__proto__')
    return 'must have at most 100 letters, digits, _, and -, and must not start with a digit or -';
  if (seen.has(name)) return 'is the name of an earlier variable; names must be unique';
  seen.add(name);
  return undefined;
}

/** The values of a send after applying the declarations. */
interface DeclaredValues {
  /** The values that were given, and defaults for the others. */
  variables: Readonly<Record<string, unknown>>;
  /** Names of optional variables without a value. */
  optional: ReadonlySet<string>;
  /** Names of required variables without a value. */
  missing: string[];
  /** Values of another type than declared. */
  issues: Issue[];
}

const NONE: ReadonlySet<string> = new Set();

/** Applies declarations to the given values. The given values take precedence over `accountVariables`, and these over defaults. */
export function applyDeclarations(
  declared: readonly DeclaredVariable[],
  given: Readonly<Record<string, unknown>>,
  accountVariables: Readonly<Record<string, unknown>>,
): DeclaredValues {
  if (declared.length === 0) return { variables: given, optional: NONE, missing: [], issues: [] };
  const variables: Record<string, unknown> = { ...given };
  const optional = new Set<string>();
  const missing: string[] = [];
  const issues: Issue[] = [];
  for (const one of declared) {
    const value = Object.hasOwn(given, one.name) ? given[one.name] : undefined;
    if (value !== undefined && value !== null) {
      if (isOfType(value, one.type)) continue;
      const message = `must be ${ARTICLES[one.type]}, as declared in the template`;
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

/** These variables are defined even if the account does not set them. The unsubscribe link is created for each recipient of a message. */
const DEFAULT_VARIABLES: Readonly<Record<string, string>> = { company_address_html: '', report_abuse_email_html: '' };

/** Returns a new object with the account's variables, to which the caller can add others. */
export function accountVariables(own: Readonly<Record<string, string>>): Record<string, string> {
  return { ...DEFAULT_VARIABLES, ...own };
}

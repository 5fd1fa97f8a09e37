/**
 * Fills subject, html and text with variables. Content with neither `{{` nor `{%` passes untouched. The same names and values
 * always give the same result; values are never expanded again. Every issue of all three parts is reported, not the first. Text
 * that is missing beside html is made of the rendered html.
 *
 * The variables of templates: those that an account gives to all of them, and those that a template declares. Declarations are
 * checked when the template is saved (names, doubles, defaults of the declared type) and settled with the values of a send. A
 * value of another type is refused; a default stands in where none is given; a required one without a value is missing whatever
 * `missingVariables` says; any other may be without a value and prints nothing.
 */
import { type Failure, failure, firstIssue, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { Budget, MailContext, type Report } from './context.ts';
import { isTemplate, liquidFor, type MailTemplate, parseIssue, parseTemplate } from './parse.ts';
import type { DeclaredVariable, VariableType } from './template.ts';

export interface ToRender {
  subject?: string | undefined;
  html?: string | undefined;
  text?: string | undefined;
  /** The caller's values, from JSON. They win over the account's. */
  variables: Readonly<Record<string, unknown>>;
  accountVariables: Readonly<Record<string, unknown>>;
  /** Whether an output without a value is written back as its source (`keep`) or as nothing. */
  keepMissing: boolean;
  /** Whether html without text gets a text derived from it. */
  deriveText: boolean;
  /** Names of variables that may be without a value: they print nothing and are not missing. */
  optional?: ReadonlySet<string> | undefined;
  /** What was parsed from these very sources, by somebody who keeps it. */
  parsed?: ParsedParts | undefined;
}

export interface ParsedParts {
  subject?: MailTemplate;
  html?: MailTemplate;
  text?: MailTemplate;
}

export interface Rendered {
  subject?: string | undefined;
  html?: string | undefined;
  text?: string | undefined;
  /** Names of variables without a value, in the order met. */
  missing: string[];
}

/** Names in the sentence of a refusal, and in its details. */
const NAMES_LISTED = 20;
const DETAILS_LISTED = 100;

/**
 * TEMPLATE_VARIABLE_MISSING naming each variable, of a great many the first. `required` are those without which the template is
 * not sent, whatever `missingVariables` says.
 */
export function missingFailure(missing: readonly string[], required: readonly string[]): Failure {
  const names = missing.slice(0, NAMES_LISTED).join(', ');
  const more = missing.length > NAMES_LISTED ? ` and ${missing.length - NAMES_LISTED} more` : '';
  const [variable, has, it] = missing.length === 1 ? ['variable', 'has', 'it'] : ['variables', 'have', 'them'];
  const requirement = required.length === missing.length ? ', and the template requires one' : '';
  const setting = required.length === 0 ? 'set missingVariables to empty or keep, ' : '';
  return failure('TEMPLATE_VARIABLE_MISSING', {
    message:
      `The ${variable} ${names}${more} ${has} no value${requirement}. ` +
      `Add ${it} to templateVariables, ${setting}or send the content literally with render: false.`,
    details: missing.slice(0, DETAILS_LISTED).map((name) => ({
      field: `templateVariables.${name}`,
      message: required.includes(name) ? 'is required by the template' : `has no value for {{${name}}}`,
    })),
  });
}

const NO_NAMES: ReadonlySet<string> = new Set();

/** What one rendering met, and may cost. Its collections are made when they are needed: most mail needs none. */
class OneRendering implements Report {
  missing: Set<string> | undefined = undefined;
  objects: Set<string> | undefined = undefined;
  readonly optional: ReadonlySet<string>;
  readonly keepMissing: boolean;
  readonly budget = new Budget();
  readonly #htmlToText: (html: string) => string;
  /** Text by its html: a value may be printed many times. */
  #reduced: Map<string, string> | undefined = undefined;

  constructor(mail: ToRender, htmlToText: (html: string) => string) {
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

  reduce(html: string): string {
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

/** Fills in; `htmlToText` reduces html to text and is pure. */
export function createRender(htmlToText: (html: string) => string): (mail: ToRender) => Result<Rendered> {
  return (mail) => {
    const report = new OneRendering(mail, htmlToText);
    const issues: Issue[] = [];
    /** The part filled in; an issue when it does not parse, or goes beyond what a rendering may cost. */
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
    const rendered: Rendered = { subject: part('subject'), html: part('html'), text: part('text'), missing: [] };
    const { html } = rendered;
    if (html !== undefined && mail.text === undefined && mail.deriveText && issues.length === 0) {
      // Html without any words, such as a single picture, goes without a text part.
      rendered.text = fill('html', () => report.reduce(html)) || undefined;
    }
    if (issues.length > 0)
      return refuse(failure('TEMPLATE_INVALID', { details: issues, message: templateMessage(issues) }));
    if (report.objects !== undefined) return refuse(objectFailure(report.objects));
    if (report.missing !== undefined) rendered.missing = [...report.missing];
    return ok(rendered);
  };
}

function fillTemplate(template: MailTemplate, values: ToRender, report: Report): string {
  const liquid = liquidFor(template.kind);
  const context = new MailContext(liquid, { variables: values.variables, globals: values.accountVariables }, report);
  return drive(liquid.renderer.renderTemplates(template.templates, context), report.budget) as string;
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
 * Runs what Liquid renders with. Tags, expressions, operators and all filters that look into the items of a list are generators
 * that yield at each piece of their work, nested in each other. Each step is charged to the budget of the rendering, which asks
 * the clock, so that no loop of a template or of a filter goes on behind its back. Liquid's own runner would go to the end.
 *
 * Answers the value that the steps come to; anything else is its own value. Throws what they throw, and what the budget does.
 */
function drive(value: unknown, budget: Budget): unknown {
  if (!isSteps(value)) return value;
  let given: unknown;
  let failed = false;
  for (;;) {
    budget.step();
    const state: IteratorResult<unknown> = failed ? value.throw(given) : value.next(given);
    failed = false;
    given = state.value;
    if (!isSteps(given)) {
      if (state.done) return given;
      continue;
    }
    if (state.done) return drive(given, budget);
    try {
      given = drive(given, budget);
    } catch (error) {
      // Its caller may have something to say about it: where in the source it happened.
      given = error;
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

/** Notes the name as seen. */
function nameIssue(name: string, seen: Set<string>): string | undefined {
  if (!NAME.test(name) || name === '__proto__')
    return 'must have at most 100 letters, digits, _ and -, and must not start with a digit or -';
  if (seen.has(name)) return 'is a duplicate variable';
  seen.add(name);
  return undefined;
}

/** The values of a send with the declarations applied to them. */
interface Settled {
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

/** Exist before the account has set them. The unsubscribe link is each recipient's own and made with the mail. */
const ALWAYS: Readonly<Record<string, string>> = { company_address_html: '', report_abuse_email_html: '' };

/** A new object with the account's variables, to which the caller may add. */
export function accountVariables(own: Readonly<Record<string, string>>): Record<string, string> {
  return { ...ALWAYS, ...own };
}

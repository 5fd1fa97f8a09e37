/**
 * Fills subject, html and text with variables. Content with neither `{{` nor `{%` passes untouched. The same names and values
 * always give the same result; values are never expanded again. Every issue of all three parts is reported, not the first.
 *
 * Text that is missing beside html is derived from it. Where the html only prints variables, its source is turned into a
 * text template once, with marks in the place of the variables, and then filled in like any other: turning html into text
 * costs a hundred times what filling in does. Otherwise the text is made from the rendered html.
 */
import { type Failure, failure, firstIssue, type Issue, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { Budget } from './budget.ts';
import { MailContext, type Report } from './context.ts';
import { drive } from './drive.ts';
import { parseIssue } from './issue.ts';
import type { Kind, MailOutput } from './output.ts';
import { isTemplate, liquidFor, type MailTemplate, type ParseResult, parseTemplate } from './parse.ts';
import { createRecent, type Recent } from './recent.ts';

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
const NAMES_TOLD = 20;
const DETAILS_TOLD = 100;

/**
 * TEMPLATE_VARIABLE_MISSING naming each variable, of a great many the first. `required` are those without which the template is
 * not sent, whatever `missingVariables` says.
 */
export function missingFailure(missing: readonly string[], required: readonly string[]): Failure {
  const names = missing.slice(0, NAMES_TOLD).join(', ');
  const more = missing.length > NAMES_TOLD ? ` and ${missing.length - NAMES_TOLD} more` : '';
  const [variable, has, it] = missing.length === 1 ? ['variable', 'has', 'it'] : ['variables', 'have', 'them'];
  const requirement = required.length === missing.length ? ', and the template requires one' : '';
  const setting = required.length === 0 ? 'set missingVariables to empty or keep, ' : '';
  return failure('TEMPLATE_VARIABLE_MISSING', {
    message:
      `The ${variable} ${names}${more} ${has} no value${requirement}. ` +
      `Give ${it} in templateVariables, ${setting}or send the content literally with render: false.`,
    details: missing.slice(0, DETAILS_TOLD).map((name) => ({
      field: `templateVariables.${name}`,
      message: required.includes(name) ? 'is required by the template' : `has no value for {{${name}}}`,
    })),
  });
}

type Values = Pick<ToRender, 'variables' | 'accountVariables' | 'parsed'>;

const NO_NAMES: ReadonlySet<string> = new Set();

/** Longest html of which the text is remembered between renderings. */
const MAX_REMEMBERED_LENGTH = 100_000;

/** What one rendering met, and may cost. Its collections are made when they are needed: most mail needs none. */
class OneRendering implements Report {
  missing: Set<string> | undefined = undefined;
  objects: Set<string> | undefined = undefined;
  readonly optional: ReadonlySet<string>;
  readonly keepMissing: boolean;
  readonly budget = new Budget();
  readonly #reduced: Recent<string>;
  readonly #htmlToText: (html: string) => string;
  /** What is too long to be remembered between renderings is remembered within one: a value may be printed many times. */
  #own: Map<string, string> | undefined = undefined;

  constructor(mail: ToRender, reduced: Recent<string>, htmlToText: (html: string) => string) {
    this.optional = mail.optional ?? NO_NAMES;
    this.keepMissing = mail.keepMissing;
    this.#reduced = reduced;
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
    const found = this.#reduced.get(html) ?? this.#own?.get(html);
    if (found !== undefined) return found;
    this.budget.checkTime();
    const text = this.#htmlToText(html);
    if (html.length > MAX_REMEMBERED_LENGTH) {
      this.#own ??= new Map();
      this.#own.set(html, text);
    } else this.#reduced.set(html, text);
    return text;
  }
}

/** Fills in; `htmlToText` reduces html to text and is pure. */
export function createRender(htmlToText: (html: string) => string): (mail: ToRender) => Result<Rendered> {
  const reduced = createRecent<string>({
    entries: 500,
    weight: 8_000_000,
    weigh: (html, text) =>
      html.length > MAX_REMEMBERED_LENGTH ? Number.POSITIVE_INFINITY : 2 * (html.length + text.length),
  });

  return (mail) => {
    const report = new OneRendering(mail, reduced, htmlToText);
    const filling: Filling = { mail, report, issues: [] };
    const { issues } = filling;
    const rendered: Rendered = { subject: undefined, html: undefined, text: undefined, missing: [] };
    if (mail.subject !== undefined) rendered.subject = fillSource(mail.subject, 'subject', filling);
    if (mail.html !== undefined) rendered.html = fillSource(mail.html, 'html', filling);
    if (mail.text !== undefined) rendered.text = fillSource(mail.text, 'text', filling);
    else if (mail.html !== undefined && mail.deriveText && issues.length === 0) {
      // Html without any words, such as a single picture, goes without a text part.
      rendered.text = derivedText(mail.html, rendered.html!, filling) || undefined;
    }
    if (issues.length > 0)
      return refuse(failure('TEMPLATE_INVALID', { details: issues, message: templateMessage(issues) }));
    if (report.objects !== undefined) return refuse(objectFailure(report.objects));
    if (report.missing !== undefined) rendered.missing = [...report.missing];
    return ok(rendered);
  };
}

/** One rendering under way. */
interface Filling {
  mail: Values;
  report: Report;
  issues: Issue[];
}

function fillSource(source: string, field: keyof ParsedParts, filling: Filling): string {
  if (!isTemplate(source)) return source;
  const parsed = parsedOf(source, field === 'html' ? 'html' : 'text', filling.mail.parsed?.[field]);
  if (parsed.ok) return fillTemplate(field, { template: parsed.value, pieces: parsed.value.pieces }, filling);
  filling.issues.push({ field, ...parsed.issue });
  return '';
}

type Pieces = readonly (string | MailOutput)[];

/** The text of a part, or an issue when it goes beyond what a rendering may cost. */
function fillTemplate(
  field: keyof ParsedParts,
  { template, pieces }: { template: MailTemplate; pieces: Pieces | undefined },
  { mail, report, issues }: Filling,
): string {
  try {
    return pieces === undefined ? fillWithLiquid(template, mail, report) : fillPieces(pieces, mail, report);
  } catch (error) {
    issues.push({ field, ...parseIssue(error) });
    return '';
  }
}

function parsedOf(source: string, kind: Kind, parsed: MailTemplate | undefined): ParseResult {
  return parsed === undefined ? parseTemplate(source, kind) : { ok: true, value: parsed };
}

function fillWithLiquid(template: MailTemplate, values: Values, report: Report): string {
  const liquid = liquidFor(template.kind);
  const context = new MailContext(liquid, { variables: values.variables, globals: values.accountVariables }, report);
  return drive(liquid.renderer.renderTemplates(template.templates, context), report.budget) as string;
}

/** The caller's value wins over the account's. */
function givenValue(name: string, { variables, accountVariables }: Values): unknown {
  if (Object.hasOwn(variables, name)) return variables[name];
  return Object.hasOwn(accountVariables, name) ? accountVariables[name] : undefined;
}

function fillPieces(pieces: Pieces, values: Values, report: Report): string {
  let text = '';
  for (const piece of pieces) {
    let part = piece;
    if (typeof part !== 'string') {
      part = part.print(givenValue(part.path![0] as string, values), report);
      report.budget.write(part.length);
    }
    text += part;
  }
  return text;
}

/** Marks in the place of variables while html is turned into text: two characters of private use around a number. */
const MARK = /\ue000(\d+)\ue001/;

/** Empty with an issue when the rendering has taken its time already. */
function derivedText(source: string, html: string, filling: Filling): string {
  try {
    return deriveText(source, html, filling);
  } catch (error) {
    filling.issues.push({ field: 'html', ...parseIssue(error) });
    return '';
  }
}

function deriveText(source: string, html: string, filling: Filling): string {
  const { mail, report } = filling;
  if (!isTemplate(source)) return report.reduce(source);
  const parsed = parsedOf(source, 'html', mail.parsed?.html);
  if (!parsed.ok || parsed.value.pieces === undefined) return report.reduce(html);
  const { value: template } = parsed;
  template.derived ??= derivePieces(template.pieces!, report);
  if (template.derived === null) return report.reduce(html);
  const { derived } = template;
  const text = fillTemplate('html', { template, pieces: derived }, filling);
  // A variable without a value leaves an empty place, as it would between the tags of the html.
  return text.replace(/\n{3,}/g, '\n\n').trim();
}

function derivePieces(pieces: Pieces, report: Report): (string | MailOutput)[] | null {
  const marked = pieces.map((piece, index) => (typeof piece === 'string' ? piece : `\ue000${index}\ue001`)).join('');
  if (pieces.some((piece) => typeof piece === 'string' && /[\ue000\ue001]/.test(piece))) return null;
  const derived: (string | MailOutput)[] = [];
  for (const [index, part] of report.reduce(marked).split(MARK).entries()) {
    if (index % 2 === 0) {
      if (/[\ue000\ue001]/.test(part)) return null;
      derived.push(part);
    } else derived.push((pieces[Number(part)] as MailOutput).inText());
  }
  return derived;
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

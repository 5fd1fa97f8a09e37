/**
 * Reads templates that another service exported, converts them to Liquid, and decides what to do with each. A template
 * with a construct that cannot be converted becomes a draft, which sends do not use, and a draft of the service stays one. A template that
 * is inactive at the service, that cannot be read, or that Postrider would refuse, is not imported.
 */
import {
  type Check,
  ConversionError,
  convertTemplate,
  type Dialect,
  type TemplateContent,
  validateContent,
} from '../templates/templates.ts';

/** A template as the other service wrote it. */
export interface ExportedTemplate {
  name: string;
  dialect: Dialect;
  subject: string | null;
  html: string | null;
  text: string | null;
  /** The name of the template's layout. */
  layout: string | null;
  variables: TemplateContent['variables'];
  /** The default sender and reply address of sends with the template, which Postrider's templates do not have. */
  from: string | null;
  replyTo: string | null;
  /** Whether the service reports that the template is in another language. */
  isForeign: boolean;
  /** Whether the template is not published at the service. */
  isDraft: boolean;
}

type Members = Readonly<Record<string, unknown>>;

/** A row of an export: a template, a row that is not imported with the reason, or an invalid field. */
type Reading = { template: ExportedTemplate } | { skip: string } | { field: string; problem: string };

const membersOf = (value: unknown): Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : {};
const nameOf = (...values: unknown[]): string => String(values.find((one) => textIn(one) !== null) ?? '').trim();
const textIn = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);
const listIn = (value: unknown): string | null => textIn(Array.isArray(value) ? value.join(', ') : value);

function meaningOf(dialect: Dialect, name: string, found: Partial<ExportedTemplate>): Reading {
  if (name === '') return { field: 'name', problem: 'is empty; every template must have a name' };
  if (!found.html && !found.text) {
    return { skip: 'templates without content (lists omit it; export each template by its id or name)' };
  }
  const template: ExportedTemplate = {
    name,
    dialect,
    subject: found.subject ?? null,
    html: found.html ?? null,
    text: found.text ?? null,
    layout: found.layout ?? null,
    variables: found.variables ?? [],
    from: found.from ?? null,
    replyTo: found.replyTo ?? null,
    isForeign: found.isForeign ?? false,
    isDraft: found.isDraft ?? false,
  };
  return { template };
}

/** Reads a response of `GET /v3/templates/{id}` of SendGrid; uses the active version. */
export function sendgridTemplate(row: Members): Reading {
  const versions = Array.isArray(row.versions) ? row.versions.map(membersOf) : [];
  const active = versions.find((version) => Number(version.active) === 1) ?? {};
  if (versions.length > 0 && Object.keys(active).length === 0) return { skip: 'templates without an active version' };
  return meaningOf('sendgrid', nameOf(row.name), {
    subject: textIn(active.subject),
    html: textIn(active.html_content),
    text: active.generate_plain_content === true ? null : textIn(active.plain_content),
    isForeign: row.generation === 'legacy',
  });
}

/** Reads a response of `GET /templates/{id}` of Postmark. */
export function postmarkTemplate(row: Members): Reading {
  if (row.active === false) return { skip: 'templates that are not active' };
  return meaningOf('postmark', nameOf(row.alias, row.name), {
    subject: textIn(row.subject),
    html: textIn(row.htmlbody),
    text: textIn(row.textbody),
    layout: textIn(row.layouttemplate),
  });
}

/** Reads a response of `GetTemplate` (SES version 1) or `GetEmailTemplate` (version 2). */
export function sesTemplate(row: Members): Reading {
  const content = membersOf(row.templatecontent);
  return meaningOf('ses', nameOf(row.templatename, row.name), {
    subject: textIn(row.subjectpart) ?? textIn(content.Subject),
    html: textIn(row.htmlpart) ?? textIn(content.Html),
    text: textIn(row.textpart) ?? textIn(content.Text),
  });
}

/** Reads a template in a response of `GET /v3/{domain}/templates?active=yes` of Mailgun. */
export function mailgunTemplate(row: Members): Reading {
  const version = membersOf(row.version);
  if (version.active === false) return { skip: 'template versions that are not active' };
  const headers = membersOf(version.headers);
  const header = (name: string): string | null =>
    textIn(Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1]);
  const engine = textIn(version.engine);
  return meaningOf('mailgun', nameOf(row.name), {
    subject: header('subject'),
    html: textIn(version.template),
    from: header('from'),
    replyTo: header('reply-to'),
    isForeign: engine !== null && engine !== 'handlebars',
  });
}

/** Reads a response of `GET /templates/{id}` of Resend. */
export function resendTemplate(row: Members): Reading {
  const variables = (Array.isArray(row.variables) ? row.variables : []).map(membersOf).map((one) => {
    const fallback = one.fallback_value ?? undefined;
    return {
      name: String(one.key),
      type: one.type === 'number' ? ('number' as const) : ('string' as const),
      required: fallback === undefined,
      ...(fallback !== undefined && { default: fallback }),
    };
  });
  return meaningOf('resend', nameOf(row.alias, row.name), {
    subject: textIn(row.subject),
    html: textIn(row.html),
    text: textIn(row.text),
    variables,
    from: textIn(row.from),
    replyTo: listIn(row.replyto),
    isDraft: row.status === 'draft',
  });
}

/** A construct in a part of a template, or an address that is not imported, that a person must check. */
export interface TemplateCheck extends Omit<Check, 'line'> {
  template: string;
  part: 'subject' | 'html' | 'text' | 'from' | 'replyTo';
  /** Null for an address. */
  line: number | null;
}

/** The action that an import takes for a template, and its conversion. */
export interface TemplatePlan {
  name: string;
  layout: string | null;
  content: Pick<TemplateContent, 'subject' | 'html' | 'text' | 'variables'>;
  checks: TemplateCheck[];
  action: 'add' | 'replace' | 'keep' | 'refuse';
  isDraft: boolean;
  /** Why the template is not imported. */
  problem: string | undefined;
  /** The id of the existing template of this name. */
  templateId: string | undefined;
}

/** Returns what to do with each template, layouts first. `existing` are the ids of the account's templates by name. */
export function planTemplates(
  templates: readonly ExportedTemplate[],
  existing: ReadonlyMap<string, string>,
  isReplacing: boolean,
): TemplatePlan[] {
  const isLayout = new Set(templates.map(({ layout }) => layout));
  const ordered = [...templates].sort((a, b) => Number(isLayout.has(b.name)) - Number(isLayout.has(a.name)));
  const plans = new Map<string, TemplatePlan>();
  for (const template of ordered) {
    const plan = converted(template);
    plan.templateId = existing.get(template.name);
    const layout = template.layout === null ? undefined : plans.get(template.layout);
    const isReady = template.layout === null || existing.has(template.layout) || (layout && layout.action !== 'refuse');
    if (plan.templateId !== undefined && !isReplacing) plan.action = 'keep';
    else if (plan.problem !== undefined) plan.action = 'refuse';
    else if (!isReady) {
      plan.action = 'refuse';
      plan.problem = `needs the layout "${template.layout}", which is neither in the files nor in the account; export the layout too`;
    } else plan.action = plan.templateId === undefined ? 'add' : 'replace';
    if (layout?.isDraft && layout.action !== 'keep') plan.isDraft = true;
    plans.set(template.name, plan);
  }
  return [...plans.values()];
}

const SENDERS = [
  ['from', 'default sender'],
  ['replyTo', 'default reply address'],
] as const;

function converted(template: ExportedTemplate): TemplatePlan {
  const { name, dialect, layout, variables } = template;
  const checks: TemplateCheck[] = [];
  const content: TemplatePlan['content'] = { subject: null, html: null, text: null, variables };
  const plan: TemplatePlan = {
    name,
    layout,
    content,
    checks,
    action: 'add',
    isDraft: false,
    problem: undefined,
    templateId: undefined,
  };
  for (const part of ['subject', 'html', 'text'] as const) {
    const source = template[part];
    if (source === null) continue;
    try {
      const conversion = convertTemplate(source, dialect, part === 'html' ? 'html' : 'text');
      content[part] = conversion.source;
      checks.push(...conversion.checks.map((check) => ({ template: name, part, ...check })));
    } catch (error) {
      if (!(error instanceof ConversionError)) throw error;
      plan.problem = `${part} ${error.message}`;
      return plan;
    }
  }
  if (template.isForeign) {
    const why =
      'it uses an older template language of the service, which cannot be converted; write its variables in Liquid';
    checks.push({ template: name, part: 'html', line: 1, what: 'the template', why, isConverted: false });
  }
  for (const [part, title] of SENDERS) {
    const what = template[part];
    if (what === null) continue;
    const why = `the ${title} is not imported; set ${part} in each send`;
    checks.push({ template: name, part, line: null, what, why, isConverted: true });
  }
  const valid = validateContent({ ...content, variables }, { name });
  if (!valid.ok) {
    const [issue] = valid.failure.details;
    plan.problem = issue === undefined ? valid.failure.message : `${issue.field} ${issue.message}`;
  }
  plan.isDraft = template.isDraft || checks.some((check) => !check.isConverted);
  return plan;
}

/** Returns the body of `POST /templates`. */
export function templateRequestOf(plan: TemplatePlan, layoutTemplateId: string | undefined): string {
  const { subject, html, text, variables } = plan.content;
  return JSON.stringify({ name: plan.name, subject, html, text, variables, layoutTemplateId });
}

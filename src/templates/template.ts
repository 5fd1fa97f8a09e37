/**
 * Stored templates: shapes, and how the API shows them. What a template says stands in its versions, which never change; the
 * template itself is a name and the number of its present version.
 *
 * Layouts: a template whose html (and text, if it has one) holds `{{ content }}` once or more, where other templates put
 * theirs. The two sources become one before anything is parsed or filled in, so that both see the same variables and no value
 * is ever expanded again. A layout has no layout of its own; its subject is not used. A layout may repeat its place: what would
 * be longer than a source may be is refused by its length, and never made.
 */
import { iso } from '../base/clock.ts';
import { failure, type Issue, ok, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';

/** Largest html or text of a template in characters; a mail may have no more bytes. */
export const MAX_SOURCE_LENGTH = 2_000_000;

export const TEMPLATE_TYPES = ['transactional', 'marketing'] as const;
type TemplateType = (typeof TEMPLATE_TYPES)[number];

export const VARIABLE_TYPES = ['string', 'number', 'boolean', 'array', 'object'] as const;
export type VariableType = (typeof VARIABLE_TYPES)[number];

/** A variable that a template says it needs or takes. */
export interface DeclaredVariable {
  name: string;
  type: VariableType;
  required: boolean;
  /** Used where a send gives no value; absent when there is none. */
  default?: unknown;
}

/** What a version holds, as it was written. */
export interface TemplateContent {
  type: TemplateType;
  subject: string | null;
  html: string | null;
  text: string | null;
  layoutId: string | null;
  variables: DeclaredVariable[];
}

/** One version, with what its template is called. */
export interface TemplateVersion extends TemplateContent {
  id: string;
  name: string;
  version: number;
  /** Of the version, Unix ms. */
  versionAt: number;
}

/** A template with its present version. */
export interface Template extends TemplateVersion {
  /** Of the key that made it; of the sandbox it exists there only. */
  mode: Mode;
  /** The version that sends use: 0 for none, null for the present one. */
  publishedVersion: number | null;
  createdAt: number;
  updatedAt: number;
}

/** Whether a text that names a template is an id; names never look like one. */
export function isTemplateId(reference: string): boolean {
  return reference.startsWith('tpl_');
}

function contentBody(version: TemplateVersion): Record<string, unknown> {
  const { id, name, type, subject, html, text, layoutId, variables } = version;
  const body: Record<string, unknown> = { templateId: id, name, type, subject, html, text };
  if (layoutId !== null) body.layoutTemplateId = layoutId;
  return { ...body, variables, version: version.version };
}

/** As `GET /templates/{id}` shows it. */
export function templateBody(template: Template): Record<string, unknown> {
  const { publishedVersion, createdAt, updatedAt } = template;
  return {
    ...contentBody(template),
    ...(publishedVersion !== null && { publishedVersion }),
    ...{ createdAt: iso(createdAt), updatedAt: iso(updatedAt) },
  };
}

/** As `GET /templates/{id}/versions` lists it. */
export function versionBody(version: TemplateVersion): Record<string, unknown> {
  return { ...contentBody(version), createdAt: iso(version.versionAt) };
}

const SLOT = /\{\{-?\s*content(?:_html)?\s*(?:\|\s*raw\s*)?-?\}\}/g;

/** Whether the source has a place for content. */
export function hasSlot(source: string | null): boolean {
  return source !== null && source.search(SLOT) !== -1;
}

/** What the layout's part becomes around the content's; undefined when it would be too long. */
function fillSlot(layout: string, content: string): string | undefined {
  let length = layout.length;
  for (const [slot] of layout.matchAll(SLOT)) {
    length += content.length - slot.length;
  }
  if (length > MAX_SOURCE_LENGTH) return undefined;
  // As a function: a text would have its `$&` and the like expanded.
  return layout.replace(SLOT, () => content);
}

export type Sources = Pick<TemplateContent, 'subject' | 'html' | 'text'>;

/**
 * What a template says within its layout. Text of its own goes into the layout's text where that has a place for it, and
 * stands alone otherwise; without text of its own the text is derived from the whole html. TEMPLATE_INVALID names each part
 * that would be too long.
 */
export function inLayout(content: Sources, layout: Sources): Result<Sources> {
  const issues: Issue[] = [];
  const within = (part: 'html' | 'text'): string | null => {
    const [own, around] = [content[part], layout[part]];
    if (own === null || !hasSlot(around)) return own;
    const filled = fillSlot(around!, own);
    const message = `has more than ${MAX_SOURCE_LENGTH} characters inside its layout`;
    if (filled === undefined) issues.push({ field: part, message });
    return filled ?? null;
  };
  const sources = { subject: content.subject, html: within('html'), text: within('text') };
  if (issues.length === 0) return ok(sources);
  const names = issues.map((issue) => issue.field).join(', ');
  const message = `The ${names} cannot be used inside the layout. Shorten the template or the layout.`;
  return refuse(failure('TEMPLATE_INVALID', { details: issues, message }));
}

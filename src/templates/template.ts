/**
 * Stored templates: types and their API view. The content is in versions, which never change; the template itself is a name and the number
 * of its current version.
 *
 * A layout is a template whose html (and text, if it has one) contains `{{ content }}` once or more, which other templates replace. The two
 * sources are combined before parsing and rendering, so that both see the same variables and no value is expanded again. A layout cannot
 * have a layout itself; its subject is not used. A combined source over the maximum length is refused without being built.
 */
import { iso } from '../base/clock.ts';
import { failure, type Issue, ok, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';

/** Maximum html or text of a template in characters; a message has no more bytes. */
export const MAX_SOURCE_LENGTH = 2_000_000;

export const TEMPLATE_TYPES = ['transactional', 'marketing'] as const;
type TemplateType = (typeof TEMPLATE_TYPES)[number];

export const VARIABLE_TYPES = ['string', 'number', 'boolean', 'array', 'object'] as const;
export type VariableType = (typeof VARIABLE_TYPES)[number];

/** A variable that a template requires or accepts. */
export interface DeclaredVariable {
  name: string;
  type: VariableType;
  required: boolean;
  /** Used if a send gives no value; absent if there is none. */
  default?: unknown;
}

/** The content of a version, as written. */
export interface TemplateContent {
  type: TemplateType;
  subject: string | null;
  /** The source that `html` is generated from; null if `html` is written by hand. */
  mjml: string | null;
  html: string | null;
  text: string | null;
  layoutId: string | null;
  variables: DeclaredVariable[];
}

/** One version, with the name of its template. */
export interface TemplateVersion extends TemplateContent {
  id: string;
  name: string;
  version: number;
  /** Time of the version, Unix ms. */
  versionAt: number;
}

/** A named set of variable values for previews and tests. */
export interface TemplateSample {
  name: string;
  values: Record<string, unknown>;
}

/** A template with its current version. */
export interface Template extends TemplateVersion {
  /** They belong to the template, not to a version. */
  samples: TemplateSample[];
  /** Mode of the key that created it; a sandbox template exists only there. */
  mode: Mode;
  /** The version that sends use: 0 for none, null for the present one. */
  publishedVersion: number | null;
  createdAt: number;
  updatedAt: number;
}

/** Returns whether a reference to a template is an id; names never look like one. */
export function isTemplateId(reference: string): boolean {
  return reference.startsWith('tpl_');
}

function contentBody(version: TemplateVersion): Record<string, unknown> {
  const { id, name, type, subject, mjml, html, text, layoutId, variables } = version;
  const body: Record<string, unknown> = { templateId: id, name, type, subject, html, text };
  if (mjml !== null) body.mjml = mjml;
  if (layoutId !== null) body.layoutTemplateId = layoutId;
  return { ...body, variables, version: version.version };
}

/** Returns the view of `GET /templates/{id}`. */
export function templateBody(template: Template): Record<string, unknown> {
  const { publishedVersion, samples, createdAt, updatedAt } = template;
  return {
    ...contentBody(template),
    samples,
    ...(publishedVersion !== null && { publishedVersion }),
    createdAt: iso(createdAt),
    updatedAt: iso(updatedAt),
  };
}

/** Returns the view of `GET /templates/{id}/versions`. */
export function versionBody(version: TemplateVersion): Record<string, unknown> {
  return { ...contentBody(version), createdAt: iso(version.versionAt) };
}

const SLOT = /\{\{-?\s*content(?:_html)?\s*(?:\|\s*raw\s*)?-?\}\}/g;

/** Returns whether the source has a place for content. */
export function hasSlot(source: string | null): boolean {
  return source !== null && source.search(SLOT) !== -1;
}

/** Inserts the content into the layout's part; undefined if the result would be too long. */
function fillSlot(layout: string, content: string): string | undefined {
  let length = layout.length;
  for (const [slot] of layout.matchAll(SLOT)) {
    length += content.length - slot.length;
  }
  if (length > MAX_SOURCE_LENGTH) return undefined;
  // As a function: a string would have its `$&` and the like expanded.
  return layout.replace(SLOT, () => content);
}

export type Sources = Pick<TemplateContent, 'subject' | 'html' | 'text'>;

/**
 * Combines content with its layout. A text part goes into the layout's text if that has a place for it, and stays alone otherwise; without
 * a text part, the text is derived from the complete html. TEMPLATE_INVALID lists each part that would be too long.
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

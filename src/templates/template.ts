/**
 * Stored templates: shapes, and how the API shows them. What a template says stands in its versions, which never change;
 * the template itself is a name and the number of its present version.
 */
import { iso } from '../base/clock.ts';
import type { Mode } from '../base/mode.ts';

/** Largest html or text of a template in characters; a mail may have no more bytes. */
export const MAX_SOURCE_LENGTH = 2_000_000;

export const TEMPLATE_TYPES = ['transactional', 'marketing'] as const;
export type TemplateType = (typeof TEMPLATE_TYPES)[number];

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
  return { ...contentBody(template), createdAt: iso(template.createdAt), updatedAt: iso(template.updatedAt) };
}

/** As `GET /templates/{id}/versions` lists it. */
export function versionBody(version: TemplateVersion): Record<string, unknown> {
  return { ...contentBody(version), createdAt: iso(version.versionAt) };
}

/**
 * The content of a template as its page edits it: empty texts instead of null, because fields hold texts, and the conversion back for the
 * API.
 */
import type { Answer, Body } from '../../../../clients/typescript/src/call.ts';
import type { parts } from '../../texts/templates.ts';

export type Template = Answer<'getTemplate'>;
export type TemplateVersion = Answer<'listTemplateVersions'>[number];
export type Variable = Template['variables'][number];
export type VariableType = Variable['type'];
export type Part = keyof typeof parts;

export const PARTS: readonly Part[] = ['subject', 'mjml', 'html', 'text'];
export const VARIABLE_TYPES: readonly VariableType[] = ['string', 'number', 'boolean', 'array', 'object'];

export interface Content {
  name: string;
  type: Template['type'];
  subject: string;
  /** Null if the HTML is written directly. */
  mjml: string | null;
  html: string;
  text: string;
  /** Empty without a layout. */
  layoutTemplateId: string;
  variables: readonly Variable[];
}

export function contentOf(template: Template | TemplateVersion): Content {
  const { name, type, subject, mjml = null, html, text, layoutTemplateId = '', variables } = template;
  return { name, type, subject: subject ?? '', mjml, html: html ?? '', text: text ?? '', layoutTemplateId, variables };
}

/** Without name and type, which a preview does not accept. */
export function sourcesOf(content: Content): Omit<Body<'renderTemplateSources'>, 'templateVariables'> {
  const { subject, mjml, html, text, layoutTemplateId, variables } = content;
  return {
    subject: subject || null,
    mjml,
    html: mjml === null ? html || null : null,
    text: text || null,
    layoutTemplateId: layoutTemplateId || null,
    variables: variables.filter(({ name }) => name.trim() !== ''),
  };
}

export function bodyOf(content: Content): Body<'createTemplate'> {
  return { name: content.name, type: content.type, ...sourcesOf(content) };
}

export const isSame = (one: Content, other: Content): boolean =>
  JSON.stringify(bodyOf(one)) === JSON.stringify(bodyOf(other));

/** Whether other templates can use it as their layout: its HTML has a place for theirs, and it has no layout itself. */
export const isLayout = ({ html, layoutTemplateId }: Pick<Template, 'html' | 'layoutTemplateId'>): boolean =>
  !layoutTemplateId && /\{\{-?\s*content(?:_html)?\s*(?:\|\s*raw\s*)?-?\}\}/.test(html ?? '');

/** Returns the names of the fields that differ between two versions. */
export function changesOf(before: Content, after: Content): (keyof Content)[] {
  const fields = Object.keys(after) as (keyof Content)[];
  return fields.filter((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]));
}

/** Schemas of templates: saved and shown, and the request and response of a preview. */
import type { Static } from 'typebox';
import { changeOf } from '../http/patch.ts';
import { Type } from '../http/schema-type.ts';
import { closed, mapOf, named, oneOf } from '../http/validate.ts';
import type { Declaration } from './render.ts';
import {
  type DeclaredVariable,
  MAX_SOURCE_LENGTH,
  TEMPLATE_TYPES,
  type TemplateContent,
  VARIABLE_TYPES,
} from './template.ts';

/** Maximum body size of a template: html and text with their escapes. */
export const MAX_TEMPLATE_BYTES = 8_000_000;
const MAX_VARIABLES = 500;

const nullable = (maxLength: number, description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength, description });

const declared = named('TemplateVariable', {
  name: Type.String({ minLength: 1, maxLength: 200 }),
  type: oneOf([...VARIABLE_TYPES]),
  required: Type.Boolean({ description: 'true: an email without a value is rejected.' }),
  default: Type.Optional(Type.Unknown({ description: 'Used if an email gives no value.' })),
});

const declarable = named('TemplateVariableRequest', {
  name: Type.String({ minLength: 1, maxLength: 200 }),
  type: Type.Optional(oneOf([...VARIABLE_TYPES], { description: '`string` by default.' })),
  required: Type.Optional(Type.Boolean({ description: 'false by default.' })),
  default: Type.Optional(Type.Unknown({ description: 'Must have the declared type.' })),
});

/** Fields of the content of a template. */
export const sources = {
  subject: Type.Optional(nullable(100_000, 'Can contain variables; at most 998 characters after rendering.')),
  mjml: Type.Optional(
    nullable(
      MAX_SOURCE_LENGTH,
      'MJML source of an email. The html is generated from it, and html in the request is ignored.',
    ),
  ),
  html: Type.Optional(nullable(MAX_SOURCE_LENGTH, 'At least one of mjml, html, and text is required.')),
  text: Type.Optional(nullable(MAX_SOURCE_LENGTH, 'Derived from html if absent.')),
  layoutTemplateId: Type.Optional(nullable(64, 'ID of a template whose {{ content }} this one fills.')),
  variables: Type.Optional(Type.Array(declarable, { maxItems: MAX_VARIABLES })),
};

export const writeQuery = closed({
  publish: Type.Optional(
    Type.Boolean({
      description:
        'false: emails keep using the current version, and a new template cannot be used until a version is published.',
    }),
  ),
});

export const templateRequest = named('TemplateRequest', {
  name: Type.String({
    minLength: 1,
    maxLength: 200,
    pattern: '^[^\\u0000-\\u001f\\u007f]*$',
    phrase: 'must not have control characters',
    description: 'Unique. POST /send accepts it as templateId.',
  }),
  type: Type.Optional(oneOf([...TEMPLATE_TYPES])),
  ...sources,
});
export type TemplateRequest = Static<typeof templateRequest>;
export const templateChange = changeOf('TemplateChange', templateRequest);
export type TemplateChange = Static<typeof templateChange>;

const shown = {
  templateId: Type.String(),
  name: Type.String(),
  type: oneOf([...TEMPLATE_TYPES]),
  subject: nullable(100_000, 'null: required in POST /send.'),
  mjml: Type.Optional(Type.String({ description: 'Source of the html; absent if the html is written by hand.' })),
  html: nullable(MAX_SOURCE_LENGTH, 'null: text only.'),
  text: nullable(MAX_SOURCE_LENGTH, 'null: derived from html.'),
  layoutTemplateId: Type.Optional(Type.String()),
  variables: Type.Array(declared),
  version: Type.Integer(),
  createdAt: Type.String({ format: 'date-time' }),
};
const MAX_SAMPLES = 20;

const sample = named('TemplateSample', {
  name: Type.String({
    minLength: 1,
    maxLength: 60,
    pattern: '^[^\\u0000-\\u001f\\u007f]*$',
    phrase: 'must not have control characters',
  }),
  values: mapOf(Type.Unknown(), { maxProperties: 10_000, description: 'Values of the variables.' }),
});

/** Maximum body size of the samples of a template. */
export const MAX_SAMPLES_BYTES = 200_000;
export const samplesRequest = named('TemplateSamplesRequest', {
  samples: Type.Array(sample, { maxItems: MAX_SAMPLES, description: 'Replaces all samples; [] removes them.' }),
});

export const templateSchema = named('Template', {
  ...shown,
  samples: Type.Array(sample, { description: 'Sets of values for previews and tests. Emails do not use them.' }),
  publishedVersion: Type.Optional(
    Type.Integer({ description: 'The version that sends use, if it was chosen; 0 while none is published.' }),
  ),
  updatedAt: Type.String({ format: 'date-time' }),
});
export const versionSchema = closed(shown, {
  title: 'TemplateVersion',
  description: 'createdAt and name are those of the version.',
});

export const templateVariables = Type.Optional(
  mapOf(Type.Unknown(), { maxProperties: 10_000, description: 'Values of the variables.' }),
);
export const renderRequest = named('RenderRequest', { templateVariables });
export const renderSourcesRequest = named('RenderSourcesRequest', { ...sources, templateVariables });
export type RenderSourcesRequest = Static<typeof renderSourcesRequest>;

/** A rendered part; null if the template has none. */
export const renderedPart = Type.Unsafe<string | null>({ type: ['string', 'null'] });
export const renderResponse = named('RenderedTemplate', {
  subject: renderedPart,
  html: renderedPart,
  text: renderedPart,
  missingVariables: Type.Array(Type.String(), {
    description: 'Variables that need a value when the template is used.',
  }),
});

/** Returns the content that a body describes; an empty part is treated as absent. The html of MJML is not yet generated. */
export function contentOf(body: RenderSourcesRequest & Pick<TemplateRequest, 'type'>): TemplateContent {
  return {
    type: body.type ?? 'transactional',
    subject: body.subject ?? null,
    mjml: body.mjml || null,
    html: body.mjml ? null : body.html || null,
    text: body.text || null,
    layoutId: body.layoutTemplateId ?? null,
    variables: (body.variables ?? []).map(({ name, type = 'string', required = false, default: value }) => ({
      name,
      type,
      required,
      ...(value !== undefined && value !== null && { default: value }),
    })),
  };
}

/** Returns declarations without the fields that do not fit the schema. An invalid type is treated as absent. */
export function declarationsLeft(variables: readonly unknown[]): Declaration[] {
  return variables.slice(0, MAX_VARIABLES).map((one) => {
    if (one === undefined) return undefined;
    const { default: value, ...given } = one as Partial<DeclaredVariable>;
    return {
      ...('type' in given ? given : { ...given, type: 'string' as const }),
      ...(value !== undefined && value !== null && { default: value }),
    };
  });
}

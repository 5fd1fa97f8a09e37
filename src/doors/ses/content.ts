/**
 * The content of an email in version 2 of the API, as schemas, and its conversion into the fields of POST /send. Simple content is sent
 * literally. Templates are stored ones by name, or inline ones in Handlebars, which are converted to Liquid.
 */
import type { Static } from 'typebox';
import { ok, type Result } from '../../base/failure.ts';
import { Type } from '../../http/schema-type.ts';
import { oneOf } from '../../http/validate.ts';
import { ConversionError, convertTemplate, MAX_SOURCE_LENGTH } from '../../templates/templates.ts';
import { typeOfFile } from '../file-types.ts';
import { invalidField, open } from './endpoint.ts';

const CONTENT_CHARACTERS = 16_000_000;
const MOST_RECIPIENTS = 1_000;

const addresses = Type.Optional(Type.Array(Type.String({ maxLength: 1_000 }), { maxItems: MOST_RECIPIENTS }));

export const destination = open({ ToAddresses: addresses, CcAddresses: addresses, BccAddresses: addresses });
export type Destination = Static<typeof destination>;

const text = open({
  Data: Type.String({ maxLength: CONTENT_CHARACTERS }),
  Charset: Type.Optional(Type.String({ maxLength: 64, description: 'Has no effect: email is sent in UTF-8.' })),
});

export const headers = Type.Optional(
  Type.Array(open({ Name: Type.String({ maxLength: 1_000 }), Value: Type.String({ maxLength: 10_000 }) }), {
    maxItems: 100,
  }),
);

const attachments = Type.Optional(
  Type.Array(
    open({
      RawContent: Type.String({ maxLength: CONTENT_CHARACTERS, description: 'The bytes in Base64.' }),
      FileName: Type.String({ minLength: 1, maxLength: 255 }),
      ContentType: Type.Optional(Type.String({ maxLength: 255 })),
      ContentDisposition: Type.Optional(oneOf(['ATTACHMENT', 'INLINE'])),
      ContentId: Type.Optional(Type.String({ maxLength: 255 })),
      ContentDescription: Type.Optional(Type.String({ maxLength: 1_000 })),
      ContentTransferEncoding: Type.Optional(oneOf(['BASE64', 'QUOTED_PRINTABLE', 'SEVEN_BIT'])),
    }),
    { maxItems: 100 },
  ),
);

export const tags = Type.Optional(
  Type.Array(open({ Name: Type.String({ maxLength: 256 }), Value: Type.String({ maxLength: 256 }) }), {
    maxItems: 50,
  }),
);
export type Tags = Static<typeof tags> | undefined;

const simple = open({
  Subject: text,
  Body: open({ Text: Type.Optional(text), Html: Type.Optional(text) }),
  Headers: headers,
  Attachments: attachments,
});
export type Simple = Static<typeof simple>;

export const template = open({
  TemplateName: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  TemplateArn: Type.Optional(Type.String({ maxLength: 2_048 })),
  TemplateContent: Type.Optional(
    open({
      Subject: Type.Optional(Type.String({ maxLength: 100_000 })),
      Text: Type.Optional(Type.String({ maxLength: CONTENT_CHARACTERS })),
      Html: Type.Optional(Type.String({ maxLength: CONTENT_CHARACTERS })),
    }),
  ),
  TemplateData: Type.Optional(Type.String({ maxLength: 262_144, description: 'A JSON object as text.' })),
  Headers: headers,
  Attachments: attachments,
});
export type Template = Static<typeof template>;

export const content = open({
  Simple: Type.Optional(simple),
  Raw: Type.Optional(open({ Data: Type.String({ maxLength: CONTENT_CHARACTERS, description: 'MIME in Base64.' }) })),
  Template: Type.Optional(template),
});

/** Fields of POST /send. */
export type SendFields = Record<string, unknown>;

/** Returns the recipients; empty lists count as absent. */
export function recipientFields({ ToAddresses, CcAddresses, BccAddresses }: Destination = {}): SendFields {
  const given = (list: string[] | undefined) => (list === undefined || list.length === 0 ? undefined : list);
  return { to: given(ToAddresses), cc: given(CcAddresses), bcc: given(BccAddresses) };
}

/** Returns tags as metadata. */
export function metadataOf(given: Tags, field = 'EmailTags'): Result<Record<string, string> | undefined> {
  if (given === undefined || given.length === 0) return ok(undefined);
  const metadata = new Map(given.map(({ Name, Value }) => [Name, Value]));
  if (metadata.size < given.length) return invalidField(field, 'has two tags with the same name');
  return ok(Object.fromEntries(metadata));
}

function headerFields(given: Static<typeof headers> | undefined): Result<Record<string, string> | undefined> {
  if (given === undefined || given.length === 0) return ok(undefined);
  const byName = new Map(given.map(({ Name, Value }) => [Name, Value]));
  if (byName.size < given.length) return invalidField('Headers', 'has two headers with the same name');
  return ok(Object.fromEntries(byName));
}

function attachmentFields(given: Static<typeof attachments> | undefined): SendFields[] | undefined {
  if (given === undefined || given.length === 0) return undefined;
  return given.map(({ RawContent, FileName, ContentType, ContentDisposition, ContentId }) => {
    const inlineId = ContentId?.replace(/^<(.*)>$/, '$1') ?? (ContentDisposition === 'INLINE' ? FileName : undefined);
    // A file with a Content-ID is sent inline.
    const contentId = ContentDisposition === 'ATTACHMENT' ? undefined : inlineId;
    return {
      name: FileName,
      contentType: ContentType ?? typeOfFile(FileName),
      content: RawContent,
      ...(contentId !== undefined && { contentId }),
    };
  });
}

function sharedFields({ Headers, Attachments }: Pick<Simple, 'Headers' | 'Attachments'>): Result<SendFields> {
  const given = headerFields(Headers);
  return given.ok ? ok({ headers: given.value, attachments: attachmentFields(Attachments) }) : given;
}

export function simpleFields(given: Simple): Result<SendFields> {
  const shared = sharedFields(given);
  if (!shared.ok) return shared;
  const { Subject, Body } = given;
  return ok({ ...shared.value, subject: Subject.Data, html: Body.Html?.Data, text: Body.Text?.Data, render: false });
}

/** Returns a part of an inline template in Liquid. A construct without a counterpart is refused, since no one would see a draft. */
function inLiquid(part: 'Subject' | 'Text' | 'Html', source: string | undefined): Result<string | undefined> {
  // A longer one is refused by the send, and converting it would block other requests.
  if (source === undefined || source.length > MAX_SOURCE_LENGTH) return ok(source);
  const field = `Content.Template.TemplateContent.${part}`;
  try {
    const { source: liquid, checks } = convertTemplate(source, 'ses', part === 'Html' ? 'unescaped html' : 'text');
    const left = checks.find((check) => !check.isConverted);
    if (left === undefined) return ok(liquid);
    return invalidField(field, `has ${left.what} in line ${left.line}, which is not supported: ${left.why}`);
  } catch (error) {
    if (error instanceof ConversionError) return invalidField(field, error.message);
    throw error;
  }
}

/** Returns the template of an email as fields of POST /send: the name of a stored one, or the content of an inline one. */
export function templateSource({ TemplateName, TemplateContent, TemplateArn }: Template): Result<SendFields> {
  if (TemplateArn !== undefined && TemplateName === undefined)
    return invalidField('TemplateArn', 'is not supported; name a stored template in TemplateName');
  if ((TemplateName === undefined) === (TemplateContent === undefined))
    return invalidField('Content.Template', 'needs either TemplateName or TemplateContent');
  if (TemplateContent === undefined) return ok({ templateId: TemplateName });
  const subject = inLiquid('Subject', TemplateContent.Subject);
  if (!subject.ok) return subject;
  const text = inLiquid('Text', TemplateContent.Text);
  if (!text.ok) return text;
  const html = inLiquid('Html', TemplateContent.Html);
  return html.ok ? ok({ subject: subject.value, text: text.value, html: html.value }) : html;
}

/** Parses the variables of a template: a JSON object as text. */
export function templateVariables(data: string | undefined, field: string): Result<Record<string, unknown>> {
  if (data === undefined || data === '') return ok({});
  try {
    const value: unknown = JSON.parse(data);
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return ok(value as Record<string, unknown>);
  } catch {
    // Reported below.
  }
  return invalidField(field, 'must be a JSON object as text, such as {"name":"Ann"}');
}

/** `source` is the template as `templateSource` returns it. */
export function templateFields(
  given: Pick<Template, 'Headers' | 'Attachments'>,
  source: SendFields,
  variables: Record<string, unknown>,
): Result<SendFields> {
  const shared = sharedFields(given);
  return shared.ok ? ok({ ...shared.value, ...source, templateVariables: variables }) : shared;
}

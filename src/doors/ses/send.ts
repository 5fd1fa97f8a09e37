/**
 * Implements SendEmail and SendBulkEmail of the SES API. Converts their requests into requests of POST /send and POST /send/batch, which do
 * everything else. An SDK sends the same invocation id with every attempt of a call, so retries create one email.
 */
import { setTimeout } from 'node:timers/promises';
import type { Static } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { type Failure, failure, ok, type Result, refuse } from '../../base/failure.ts';
import type { InnerAnswer } from '../../http/inner-calls.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import {
  content,
  destination,
  headers,
  metadataOf,
  recipientFields,
  type SendFields,
  simpleFields,
  tags,
  template,
  templateFields,
  templateSource,
  templateVariables,
} from './content.ts';
import {
  defined,
  invalidField,
  type Operated,
  open,
  operation,
  repeatKey,
  type SesContext,
  type SesDoorDeps,
} from './endpoint.ts';
import { awsErrorOf, templateMissing } from './errors.ts';
import { sendRaw } from './raw.ts';

const text = (maxLength: number) => Type.Optional(Type.String({ maxLength }));
const IGNORED = 'Has no effect.';

/** Fields that have no effect on the email, or that Postrider refuses. */
const SENDING_OPTIONS = {
  ConfigurationSetName: Type.Optional(Type.String({ maxLength: 256, description: IGNORED })),
  EndpointId: Type.Optional(Type.String({ maxLength: 256, description: IGNORED })),
  TenantName: Type.Optional(Type.String({ maxLength: 256, description: IGNORED })),
  FromEmailAddressIdentityArn: Type.Optional(Type.String({ maxLength: 2_048, description: IGNORED })),
  FeedbackForwardingEmailAddress: Type.Optional(Type.String({ maxLength: 1_000, description: IGNORED })),
  FeedbackForwardingEmailAddressIdentityArn: Type.Optional(Type.String({ maxLength: 2_048, description: IGNORED })),
  ListManagementOptions: Type.Optional(Type.Unknown({ description: 'Refused: Postrider has no contact lists.' })),
} as const;

const addresses = Type.Optional(Type.Array(Type.String({ maxLength: 1_000 }), { maxItems: 50 }));

const emailBody = open({
  FromEmailAddress: text(1_000),
  Destination: Type.Optional(destination),
  ReplyToAddresses: addresses,
  Content: content,
  EmailTags: tags,
  ...SENDING_OPTIONS,
});
type EmailBody = Static<typeof emailBody>;

const RETRY_EVERY_MS = 50;
/** A repeat waits for at most this long for the first attempt, which is still being stored. */
const WAIT_FOR_FIRST_MS = 5_000;

/** Makes a call with the idempotency key of the request. Waits while an earlier attempt of the same call is in progress. */
async function callOnce(context: SesContext, path: '/send' | '/send/batch', body: object): Promise<InnerAnswer> {
  const key = repeatKey(context);
  const call = () =>
    context.call('POST', path, { body, ...(key !== undefined && { headers: { 'idempotency-key': key } }) });
  let answer = await call();
  for (let waitedMs = 0; waitedMs < WAIT_FOR_FIRST_MS; waitedMs += RETRY_EVERY_MS) {
    if (answer.ok || answer.failure.code !== 'DUPLICATE_REQUEST_IN_PROGRESS') break;
    await setTimeout(RETRY_EVERY_MS);
    answer = await call();
  }
  return answer;
}

/** Replaces a NOT_FOUND failure with the SES error for a missing template, because POST /send returns NOT_FOUND only for a template. */
function withTemplateName(refusal: Failure, { templateId }: SendFields): Failure {
  return refusal.code === 'NOT_FOUND' && typeof templateId === 'string' ? templateMissing(templateId) : refusal;
}

/** Sends an email with the fields of POST /send. */
export async function sendFields(context: SesContext, fields: SendFields): Promise<Operated> {
  const sent = await callOnce(context, '/send', defined(fields));
  return sent.ok ? ok({ MessageId: sent.body.data.messageId }) : refuse(withTemplateName(sent.failure, fields));
}

function nonEmpty<T>(list: T[] | undefined): T[] | undefined {
  return list === undefined || list.length === 0 ? undefined : list;
}

function contentFields({ Simple, Template }: EmailBody['Content']): Result<SendFields> {
  if (Simple !== undefined) return simpleFields(Simple);
  const variables = templateVariables(Template?.TemplateData, 'TemplateData');
  if (!variables.ok) return variables;
  const source = templateSource(Template ?? {});
  return source.ok ? templateFields(Template ?? {}, source.value, variables.value) : source;
}

const NO_LISTS = 'is not supported: Postrider has no contact lists';

async function sendEmail(deps: SesDoorDeps, context: SesContext, body: EmailBody): Promise<Operated> {
  const { Content, FromEmailAddress: from, Destination, ReplyToAddresses, EmailTags } = body;
  if (body.ListManagementOptions !== undefined) return invalidField('ListManagementOptions', NO_LISTS);
  if ([Content.Simple, Content.Raw, Content.Template].filter((one) => one !== undefined).length !== 1)
    return invalidField('Content', 'needs exactly one of Simple, Raw, and Template');
  const metadata = metadataOf(EmailTags);
  if (!metadata.ok) return metadata;
  if (Content.Raw !== undefined) {
    const { ToAddresses = [], CcAddresses = [], BccAddresses = [] } = Destination ?? {};
    return sendRaw(deps, context, {
      data: Content.Raw.Data,
      field: 'Content.Raw.Data',
      from,
      recipients: [...ToAddresses, ...CcAddresses, ...BccAddresses],
      metadata: metadata.value,
    });
  }
  const fields = contentFields(Content);
  if (!fields.ok) return fields;
  return sendFields(context, {
    from,
    ...recipientFields(Destination),
    replyTo: nonEmpty(ReplyToAddresses),
    ...fields.value,
    metadata: metadata.value,
  });
}

const MAX_ENTRIES = 50;

const bulkBody = open({
  FromEmailAddress: text(1_000),
  ReplyToAddresses: addresses,
  DefaultContent: open({ Template: Type.Optional(template) }),
  DefaultEmailTags: tags,
  BulkEmailEntries: Type.Array(
    open({
      Destination: destination,
      ReplacementTags: tags,
      ReplacementHeaders: headers,
      ReplacementEmailContent: Type.Optional(
        open({ ReplacementTemplate: Type.Optional(open({ ReplacementTemplateData: text(262_144) })) }),
      ),
    }),
    { minItems: 1, maxItems: MAX_ENTRIES },
  ),
  ...SENDING_OPTIONS,
});
export type BulkBody = Static<typeof bulkBody>;
type BulkEntry = BulkBody['BulkEmailEntries'][number];

/** Merges two lists. An entry of the second list replaces the entry of the first list with the same name. */
function merged<T extends { Name: string }>(defaults: T[] | undefined, others: T[] | undefined): T[] {
  return [...new Map([...(defaults ?? []), ...(others ?? [])].map((one) => [one.Name, one])).values()];
}

/** The template and variables that all entries of a bulk email share. */
interface BulkDefaults {
  /** The template, as `templateSource` returns it. */
  source: SendFields;
  variables: Record<string, unknown>;
}

/** Returns the defaults; a failure is that of the request, not of an entry. */
function bulkDefaults({ DefaultContent: { Template = {} } }: BulkBody): Result<BulkDefaults> {
  const source = templateSource(Template);
  if (!source.ok) return source;
  const variables = templateVariables(Template.TemplateData, 'DefaultContent.Template.TemplateData');
  return variables.ok ? ok({ source: source.value, variables: variables.value }) : variables;
}

/** Returns the fields of one entry's email, or the failure of the entry. */
function bulkEmail(body: BulkBody, { source, variables }: BulkDefaults, index: number): Result<SendFields> {
  const entry = body.BulkEmailEntries[index] as BulkEntry;
  const { Template = {} } = body.DefaultContent;
  const data = entry.ReplacementEmailContent?.ReplacementTemplate?.ReplacementTemplateData;
  const own = templateVariables(data, `BulkEmailEntries[${index}].ReplacementTemplateData`);
  if (!own.ok) return own;
  const Headers = merged(Template.Headers, entry.ReplacementHeaders);
  const fields = templateFields({ ...Template, Headers }, source, { ...variables, ...own.value });
  if (!fields.ok) return fields;
  const metadata = metadataOf(merged(body.DefaultEmailTags, entry.ReplacementTags));
  if (!metadata.ok) return metadata;
  return ok({
    from: body.FromEmailAddress,
    ...recipientFields(entry.Destination),
    replyTo: nonEmpty(body.ReplyToAddresses),
    ...fields.value,
    metadata: metadata.value,
  });
}

/** Status of a bulk entry by the error code of Postrider; FAILED for all other codes. */
const STATUSES: Readonly<Record<string, string>> = {
  INVALID_REQUEST: 'INVALID_PARAMETER',
  TEMPLATE_VARIABLE_MISSING: 'INVALID_PARAMETER',
  TEMPLATE_INVALID: 'INVALID_PARAMETER',
  UNSUPPORTED_FILE_TYPE: 'MESSAGE_REJECTED',
  EMAIL_SIZE_EXCEEDED: 'MESSAGE_REJECTED',
  SENDER_NOT_VERIFIED: 'MAIL_FROM_DOMAIN_NOT_VERIFIED',
  NOT_FOUND: 'TEMPLATE_NOT_FOUND',
  ACCOUNT_SUSPENDED: 'ACCOUNT_SUSPENDED',
  RATE_LIMITED: 'ACCOUNT_THROTTLED',
  QUOTA_EXCEEDED: 'ACCOUNT_DAILY_QUOTA_EXCEEDED',
  OVERLOADED: 'TRANSIENT_FAILURE',
  UNAVAILABLE: 'TRANSIENT_FAILURE',
};

export interface BulkResult {
  Status: string;
  Error?: string;
  MessageId?: string;
}

type BatchResult =
  | { data: { messageId: string } }
  | { error: { code: Parameters<typeof failure>[0]; message: string; details: Failure['details'] } };

function rejected(refusal: Failure): BulkResult {
  return { Status: STATUSES[refusal.code] ?? 'FAILED', Error: awsErrorOf(refusal).message };
}

/** Sends one email per entry. Returns a result for each entry, in order. Fails if the request itself is not valid. */
export async function sendBulk(context: SesContext, body: BulkBody): Promise<Result<BulkResult[]>> {
  if (body.ListManagementOptions !== undefined) return invalidField('ListManagementOptions', NO_LISTS);
  const defaults = bulkDefaults(body);
  if (!defaults.ok) return defaults;
  const read = body.BulkEmailEntries.map((_, index) => bulkEmail(body, defaults.value, index));
  const emails = read.flatMap((fields) => (fields.ok ? [defined(fields.value)] : []));
  const sent = emails.length === 0 ? undefined : await callOnce(context, '/send/batch', { messages: emails });
  if (sent?.ok === false) return sent;
  // The results of the emails that were sent, in order; an entry that is not valid has none.
  const results = (sent?.body.results ?? []) as BatchResult[];
  const answers = results.map((result, at): BulkResult => {
    if ('data' in result) return { Status: 'SUCCESS', MessageId: result.data.messageId };
    const { code, ...rest } = result.error;
    return rejected(withTemplateName(failure(code, rest), emails[at]!));
  });
  return ok(read.map((fields) => (fields.ok ? answers.shift()! : rejected(fields.failure))));
}

export function sendOperations(deps: SesDoorDeps): RouteDefinition<Caller>[] {
  const shared = { method: 'POST', scope: 'send', acceptsMail: true } as const;
  return [
    operation(deps, {
      ...shared,
      path: '/outbound-emails',
      summary: 'SendEmail',
      body: emailBody,
      handle: (context, body) => sendEmail(deps, context, body),
    }),
    operation(deps, {
      ...shared,
      path: '/outbound-bulk-emails',
      summary: 'SendBulkEmail',
      body: bulkBody,
      handle: async (context, body) => {
        const sent = await sendBulk(context, body);
        return sent.ok ? ok({ BulkEmailEntryResults: sent.value }) : sent;
      },
    }),
  ];
}

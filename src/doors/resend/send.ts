/**
 * Implements POST /emails and POST /emails/batch of the Resend API. Converts their bodies into bodies of POST /send, which does everything
 * else. HTML is sent unchanged; `template` refers to a stored template. Requests that repeat an Idempotency-Key are compared by the body
 * that the client sent, so a relative time or a fetched file does not make a repeat a different request.
 */
import { hash } from 'node:crypto';
import type { Static } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { type Failure, type FailureCode, failure, type Issue, ok, type Result, refuse } from '../../base/failure.ts';
import { uuidOf } from '../../base/uuid-id.ts';
import { compileBody } from '../../http/absent-fields.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import { mapOf } from '../../http/validate.ts';
import { storedAnswerOperation } from '../../idempotency/idempotency.ts';
import { type DryRun, refusalAfter } from '../../send/send.ts';
import { attachment, readAttachments } from './attachment-content.ts';
import { batchQuotaFailure, quotaRetrySeconds } from './batch-quota.ts';
import {
  type EndpointAnswer,
  type EndpointContext,
  endpoint,
  invalidField,
  open,
  type ResendDoorDeps,
  success,
} from './endpoint.ts';
import { withResendNames } from './errors.ts';
import { TIME_ALLOWED, timeMs } from './scheduled.ts';
import { sendersOf, templateReference } from './templates.ts';

const addresses = Type.Union([
  Type.String({ maxLength: 64_000 }),
  Type.Array(Type.String({ maxLength: 1_000 }), { maxItems: 50 }),
]);
const text = (maxLength: number) => Type.Optional(Type.String({ maxLength }));
const CONTENT_CHARACTERS = 16_000_000;

export const emailBody = open({
  from: text(1_000),
  to: Type.Optional(addresses),
  cc: Type.Optional(addresses),
  bcc: Type.Optional(addresses),
  reply_to: Type.Optional(addresses),
  subject: text(100_000),
  html: text(CONTENT_CHARACTERS),
  text: text(CONTENT_CHARACTERS),
  headers: Type.Optional(mapOf(Type.String({ maxLength: 10_000 }), { maxProperties: 100 })),
  tags: Type.Optional(
    // A name of metadata has at most 255 characters.
    Type.Array(open({ name: Type.String({ maxLength: 255 }), value: Type.String({ maxLength: 256 }) }), {
      maxItems: 20,
    }),
  ),
  attachments: Type.Optional(Type.Array(attachment, { maxItems: 100 })),
  scheduled_at: text(64),
  template: Type.Optional(
    open({
      id: Type.String({ minLength: 1, maxLength: 255 }),
      variables: Type.Optional(mapOf(Type.Unknown(), { maxProperties: 1_000 })),
    }),
  ),
  topic_id: text(64),
});
type EmailBody = Static<typeof emailBody>;

const TEST_DOMAIN = /@resend\.dev>?\s*$/i;

function addressList(value: EmailBody['to']): string[] {
  return value === undefined ? [] : typeof value === 'string' ? value.split(',') : value;
}

/** Removes optional fields that are empty: clients send an empty string or array for an unset field. */
function withoutEmpty(body: EmailBody): EmailBody {
  const optional = ['cc', 'bcc', 'reply_to', 'html', 'text', 'scheduled_at', 'topic_id', 'from', 'subject'] as const;
  const isUnset = (name: (typeof optional)[number]): boolean => body[name]?.length === 0;
  // An empty text without HTML means an email without a body, and an empty subject means an email without a subject.
  const isBare = body.html === undefined || body.html === '';
  const unset = optional.filter((name) => isUnset(name) && !(name === 'text' && isBare) && name !== 'subject');
  return unset.length === 0 ? body : { ...body, ...Object.fromEntries(unset.map((name) => [name, undefined])) };
}

/** Returns the failure of a missing or unsupported field, if there is one. */
function checkFields(body: EmailBody, { caller }: EndpointContext): Result<undefined> {
  const isTemplated = body.template !== undefined;
  for (const field of isTemplated ? (['to'] as const) : (['from', 'to', 'subject'] as const))
    if (body[field] === undefined || (field !== 'subject' && body[field].length === 0))
      return invalidField(field, 'is required');
  if (!isTemplated && body.html === undefined && body.text === undefined) return invalidField('html', 'is required');
  if (isTemplated && (body.html !== undefined || body.text !== undefined))
    return invalidField('template', 'cannot be combined with html or text');
  if (body.topic_id !== undefined) return invalidField('topic_id', 'is not supported: Postrider has no topics');
  const all = [body.to, body.cc, body.bcc].flatMap(addressList);
  if (caller.mode === 'live' && all.some((address) => TEST_DOMAIN.test(address)))
    return invalidField(
      'to',
      'has a test address at resend.dev; send to it with a sandbox key (pr_test_…), which simulates the outcome',
    );
  const names = (body.tags ?? []).map((tag) => tag.name);
  if (new Set(names).size < names.length) return invalidField('tags', 'has two tags with the same name');
  return ok(undefined);
}

/** Converts an email into the body of POST /send. */
async function toSend(
  deps: ResendDoorDeps,
  context: EndpointContext,
  given: EmailBody,
): Promise<Result<Record<string, unknown>>> {
  const body = withoutEmpty(given);
  const refused = checkFields(body, context);
  if (!refused.ok) return refused;
  const attachments = await readAttachments(deps.http, body.attachments ?? []);
  if (!attachments.ok) return attachments;
  const sendAtMs = body.scheduled_at === undefined ? undefined : timeMs(body.scheduled_at, deps.clock.now());
  if (body.scheduled_at !== undefined && sendAtMs === undefined) return invalidField('scheduled_at', TIME_ALLOWED);
  const { template, html, text: plain, subject, cc, bcc, headers, to } = body;
  const sender = template === undefined ? undefined : await sendersOf(deps, context, templateReference(template.id));
  const from = body.from ?? sender?.from;
  if (from === undefined) return invalidField('from', 'is required');
  const replyTo = body.reply_to ?? sender?.replyTo;
  return ok({
    from,
    to,
    cc,
    bcc,
    replyTo,
    subject,
    html,
    text: plain,
    headers,
    ...(attachments.value.length > 0 && { attachments: attachments.value }),
    ...(body.tags !== undefined && { metadata: Object.fromEntries(body.tags.map(({ name, value }) => [name, value])) }),
    ...(sendAtMs !== undefined && { sendAt: new Date(sendAtMs).toISOString() }),
    ...(template === undefined
      ? { render: false }
      : { templateId: templateReference(template.id), templateVariables: template.variables ?? {} }),
  });
}

const MAX_KEY_LENGTH = 256;

/**
 * Returns the Idempotency-Key header for POST /send. A key of this API can be one character longer than a key of Postrider; a key of that
 * length is replaced by its digest.
 */
function idempotencyHeader({ request }: EndpointContext): { 'idempotency-key'?: string } {
  const key = request.headerValues('idempotency-key').join(', ');
  if (request.headers['idempotency-key'] === undefined) return {};
  return { 'idempotency-key': key.length === MAX_KEY_LENGTH ? `sha256:${hash('sha256', key)}` : key };
}

/** Removes members whose value is undefined, as JSON.stringify does. */
function withoutUndefined(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined));
}

async function send(deps: ResendDoorDeps, context: EndpointContext<EmailBody>): Promise<EndpointAnswer> {
  const mail = await toSend(deps, context, context.body);
  if (!mail.ok) return mail;
  const sent = await context.call('POST', '/send', {
    body: withoutUndefined(mail.value),
    headers: idempotencyHeader(context),
    submitted: context.request.json(),
  });
  return sent.ok ? success({ id: uuidOf(sent.body.data.messageId) }) : sent;
}

const MAX_EMAILS = 100;
/** The emails are validated one by one, so that a permissive batch can report the invalid ones. */
const batchBody = Type.Array(Type.Unknown({ shownAs: emailBody }), { minItems: 1, maxItems: MAX_EMAILS });
const validateEmail = compileBody(emailBody);

interface BatchError {
  index: number;
  message: string;
}

/** Returns the bodies that can be sent and the failures of the others, with their indexes. */
async function readBatch(deps: ResendDoorDeps, context: EndpointContext<unknown[]>) {
  const mails: { index: number; body: Record<string, unknown> }[] = [];
  const refused: { index: number; failure: ReturnType<typeof failure> }[] = [];
  for (const [index, given] of context.body.entries()) {
    const mail = await toSendInBatch(deps, context, given);
    if (mail.ok) mails.push({ index, body: withoutUndefined(mail.value) });
    else refused.push({ index, failure: mail.failure });
  }
  return { mails, refused };
}

async function toSendInBatch(deps: ResendDoorDeps, context: EndpointContext<unknown[]>, given: unknown) {
  const valid = validateEmail(given);
  if (!valid.ok) return refuse(valid.failure);
  if ((valid.value.attachments ?? []).length > 0)
    return invalidField('attachments', 'is not supported in a batch; send this email with POST /emails');
  return toSend(deps, context, valid.value);
}

/** Checks with dry runs that every email would be accepted. Returns the failure of the first email that would not. */
async function checkAll(
  context: EndpointContext,
  mails: readonly { index: number; body: object }[],
): Promise<Result<undefined>> {
  for (const { index, body } of mails) {
    const preview = await context.call('POST', '/send', { query: { dryRun: true }, body });
    if (!preview.ok) return refuse({ ...preview.failure, message: `Email ${index}: ${preview.failure.message}` });
    const refusal = refusalAfter(preview.body as DryRun);
    if (refusal !== undefined) return refuse(refusal);
  }
  return ok(undefined);
}

interface BatchItemError {
  code: FailureCode;
  message: string;
  details: Issue[];
}

interface BatchItemResult {
  index: number;
  result: { data: { messageId: string } } | { error: BatchItemError };
}

/** Calls POST /send/batch. Returns its results, each with the index of its email in the request. */
async function sendAll(
  context: EndpointContext,
  mails: readonly { index: number; body: object }[],
): Promise<Result<BatchItemResult[]>> {
  const json = context.request.json();
  const submitted =
    json.ok && Array.isArray(json.value) ? ok(mails.map(({ index }) => (json.value as unknown[])[index])) : json;
  const sent = await context.call('POST', '/send/batch', {
    body: { messages: mails.map(({ body }) => body) },
    headers: idempotencyHeader(context),
    submitted,
  });
  if (!sent.ok) return sent;
  const results = sent.body.results as BatchItemResult['result'][];
  return ok(results.map((result, at) => ({ index: mails[at]!.index, result })));
}

/**
 * Returns whether a response to this batch is already stored. Such a repeat is not checked again, because a template or a domain may have
 * changed.
 */
async function isRepeat({ database, clock }: ResendDoorDeps, context: EndpointContext): Promise<boolean> {
  const { 'idempotency-key': key } = idempotencyHeader(context);
  if (key === undefined) return false;
  const { account, mode } = context.caller;
  const lookup = { accountId: account.id, mode, endpoint: '/send/batch', key, nowMs: clock.now() };
  return (await database.execute(storedAnswerOperation, lookup)) !== null;
}

interface BatchItem {
  index: number;
  body: Record<string, unknown>;
}

/** Checks that all emails of a batch would be accepted and that the quotas of the account allow all of them. */
async function checkStrictly(
  deps: ResendDoorDeps,
  context: EndpointContext,
  mails: readonly BatchItem[],
): Promise<Result<undefined>> {
  if (await isRepeat(deps, context)) return ok(undefined);
  const checked = await checkAll(context, mails);
  if (!checked.ok) return checked;
  const { 'idempotency-key': key } = idempotencyHeader(context);
  const exceeded = await batchQuotaFailure(deps, context, { bodies: mails.map(({ body }) => body), key });
  return exceeded === undefined ? ok(undefined) : refuse(exceeded);
}

/** Returns the seconds after which an email that was refused can be repeated; undefined if waiting does not help. */
function retrySeconds(deps: Pick<ResendDoorDeps, 'clock'>, { code, message }: BatchItemError): number | undefined {
  if (code === 'QUOTA_EXCEEDED') return quotaRetrySeconds(deps, message);
  return code === 'OVERLOADED' || code === 'UNAVAILABLE' ? 1 : undefined;
}

/** Maximum length of the reason in the message of a partly sent batch, which has a list of the sent emails after it. */
const MAX_REASON_LENGTH = 1_000;

/**
 * Returns the failure of a strict batch of which at least one email was refused. If others were sent, clients must not repeat the request
 * automatically, so its code is not that of the refused email, which can mean that nothing was accepted.
 */
export function strictFailure(deps: Pick<ResendDoorDeps, 'clock'>, results: readonly BatchItemResult[]): Failure {
  const sent: number[] = [];
  const refused: { index: number; error: BatchItemError }[] = [];
  for (const { index, result } of results) {
    if ('data' in result) sent.push(index);
    else refused.push({ index, error: result.error });
  }
  // An email with an unknown outcome decides, because other codes state that nothing was accepted.
  const { index, error } = refused.find((one) => one.error.code === 'INTERNAL_ERROR') ?? refused[0]!;
  if (sent.length === 0) {
    const retryAfterSeconds = retrySeconds(deps, error);
    return failure(error.code, { ...error, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) });
  }
  const reason = error.message.slice(0, MAX_REASON_LENGTH).toWellFormed();
  const advice = `These emails of the batch were sent: ${sent.join(', ')}. Send only the others again. If the request had an Idempotency-Key, repeat it with the same key instead.`;
  return failure('CONFLICT', { message: `Email ${index}: ${reason} ${advice}` });
}

/**
 * Sends all emails or none, as far as that can be checked before: the emails are stored one by one, so parallel sends that use up a quota
 * after the check can still make it refuse some of them. The response then lists the emails that were sent.
 */
async function sendStrictly(
  deps: ResendDoorDeps,
  context: EndpointContext,
  mails: readonly BatchItem[],
): Promise<EndpointAnswer> {
  const checked = await checkStrictly(deps, context, mails);
  if (!checked.ok) return checked;
  const sent = await sendAll(context, mails);
  if (!sent.ok) return sent;
  const ids: { id: string }[] = [];
  for (const { result } of sent.value) {
    if ('error' in result) return refuse(strictFailure(deps, sent.value));
    ids.push({ id: uuidOf(result.data.messageId) });
  }
  return success({ data: ids });
}

async function sendPermissively(
  context: EndpointContext,
  { mails, refused }: Awaited<ReturnType<typeof readBatch>>,
): Promise<EndpointAnswer> {
  const errors: BatchError[] = refused.map(({ index, failure: { message } }) => ({
    index,
    message: withResendNames(message),
  }));
  const sent = mails.length === 0 ? ok([]) : await sendAll(context, mails);
  if (!sent.ok) return sent;
  const ids: { id: string }[] = [];
  for (const { index, result } of sent.value) {
    if ('error' in result) errors.push({ index, message: withResendNames(result.error.message) });
    else ids.push({ id: uuidOf(result.data.messageId) });
  }
  return success({ data: ids, errors: errors.sort((a, b) => a.index - b.index) });
}

async function sendBatch(deps: ResendDoorDeps, context: EndpointContext<unknown[]>): Promise<EndpointAnswer> {
  const validation = context.request.headers['x-batch-validation'] ?? 'strict';
  if (validation !== 'strict' && validation !== 'permissive')
    return invalidField('x-batch-validation', 'must be strict or permissive');
  const batch = await readBatch(deps, context);
  if (validation === 'permissive') return sendPermissively(context, batch);
  const [first] = batch.refused;
  return first === undefined ? sendStrictly(deps, context, batch.mails) : refuse(first.failure);
}

const MAX_BODY_BYTES = 16_000_000;
/** Allows a file of 2 MB as a JSON array of its bytes, in addition to the other fields. */
const MAX_JSON_VALUES = 2_200_000;

export function sendEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  const shared = { method: 'POST', scope: 'send', acceptsMail: true, maxBodyBytes: MAX_BODY_BYTES } as const;
  return [
    endpoint(deps, {
      ...shared,
      path: '/emails',
      summary: 'Send an email',
      maxJsonValues: MAX_JSON_VALUES,
      body: emailBody,
      handle: (context) => send(deps, context),
    }),
    endpoint(deps, {
      ...shared,
      path: '/emails/batch',
      summary: 'Send up to 100 emails',
      body: batchBody,
      handle: (context) => sendBatch(deps, context),
    }),
  ];
}

/**
 * POST /emails and POST /emails/batch: bodies of this interface become bodies of our POST /send, which does everything else. HTML is
 * sent literally; `template` names a stored template. Repeats under an Idempotency-Key are compared by what the client sent, so that a
 * relative time or a fetched file does not make them another request.
 */
import { hash } from 'node:crypto';
import { type Static, Type } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { failure, ok, type Result, refuse } from '../../base/failure.ts';
import { idOfUuid, isUuid, uuidOf } from '../../base/uuid-id.ts';
import { compileBody } from '../../http/absent-fields.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { mapOf } from '../../http/validate.ts';
import { storedAnswerOperation } from '../../idempotency/idempotency.ts';
import { attachment, readAttachments } from './attachment-content.ts';
import { type Asked, endpoint, fault, open, type ResendDoorDeps, type Said, said } from './endpoint.ts';
import { theirWords } from './errors.ts';
import { TIME_ALLOWED, timeMs } from './scheduled.ts';
import { sendersOf } from './templates.ts';

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
    Type.Array(open({ name: Type.String({ maxLength: 256 }), value: Type.String({ maxLength: 256 }) }), {
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

/** Clients write an empty text or list for what is not set. */
function withoutEmpty(body: EmailBody): EmailBody {
  const optional = ['cc', 'bcc', 'reply_to', 'html', 'text', 'scheduled_at', 'topic_id', 'from', 'subject'] as const;
  const isUnset = (name: (typeof optional)[number]): boolean => body[name]?.length === 0;
  // An empty text by itself is an email without a body, and an empty subject one without a subject.
  const isBare = body.html === undefined || body.html === '';
  const unset = optional.filter((name) => isUnset(name) && !(name === 'text' && isBare) && name !== 'subject');
  return unset.length === 0 ? body : { ...body, ...Object.fromEntries(unset.map((name) => [name, undefined])) };
}

/** What is missing, or not to be had here; undefined where the body can be sent. */
function refusalOf(body: EmailBody, { caller }: Asked): Result<undefined> {
  const isTemplated = body.template !== undefined;
  for (const field of isTemplated ? (['to'] as const) : (['from', 'to', 'subject'] as const))
    if (body[field] === undefined || (field !== 'subject' && body[field].length === 0))
      return fault(field, 'is required');
  if (!isTemplated && body.html === undefined && body.text === undefined) return fault('html', 'is required');
  if (isTemplated && (body.html !== undefined || body.text !== undefined))
    return fault('template', 'cannot be combined with html or text');
  if (body.topic_id !== undefined) return fault('topic_id', 'is not supported: Postrider has no topics');
  const all = [body.to, body.cc, body.bcc].flatMap(addressList);
  if (caller.mode === 'live' && all.some((address) => TEST_DOMAIN.test(address)))
    return fault(
      'to',
      'has a test address at resend.dev; send to it with a sandbox key (pr_test_…), which simulates the outcome',
    );
  const names = (body.tags ?? []).map((tag) => tag.name);
  if (new Set(names).size < names.length) return fault('tags', 'has two tags of the same name');
  return ok(undefined);
}

/** The body of our POST /send. */
async function toSend(deps: ResendDoorDeps, asked: Asked, given: EmailBody): Promise<Result<Record<string, unknown>>> {
  const body = withoutEmpty(given);
  const refused = refusalOf(body, asked);
  if (!refused.ok) return refused;
  const attachments = await readAttachments(deps.http, body.attachments ?? []);
  if (!attachments.ok) return attachments;
  const sendAtMs = body.scheduled_at === undefined ? undefined : timeMs(body.scheduled_at, deps.clock.now());
  if (body.scheduled_at !== undefined && sendAtMs === undefined) return fault('scheduled_at', TIME_ALLOWED);
  const { template, html, text: plain, subject, cc, bcc, headers, to } = body;
  const sender = template === undefined ? undefined : await sendersOf(deps, asked, templateReference(template.id));
  const from = body.from ?? sender?.from;
  if (from === undefined) return fault('from', 'is required');
  const replyTo = body.reply_to ?? sender?.replyTo;
  return ok({
    ...{ from, to, cc, bcc, replyTo, subject, html, text: plain, headers },
    ...(attachments.value.length > 0 && { attachments: attachments.value }),
    ...(body.tags !== undefined && { metadata: Object.fromEntries(body.tags.map(({ name, value }) => [name, value])) }),
    ...(sendAtMs !== undefined && { sendAt: new Date(sendAtMs).toISOString() }),
    ...(template === undefined
      ? { render: false }
      : { templateId: templateReference(template.id), templateVariables: template.variables ?? {} }),
  });
}

/** Our id of a template, or the alias as it is. */
function templateReference(id: string): string {
  return (isUuid(id) ? idOfUuid('tpl', id) : undefined) ?? id;
}

const LONGEST_KEY = 256;

/** Keys here have one character more than ours: the longest one is replaced by its digest. */
function idempotencyHeader({ request }: Asked): { 'idempotency-key'?: string } {
  const key = request.headerValues('idempotency-key').join(', ');
  if (request.headers['idempotency-key'] === undefined) return {};
  return { 'idempotency-key': key.length === LONGEST_KEY ? `sha256:${hash('sha256', key)}` : key };
}

/** Members without a value are left out, as JSON does. */
function defined(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined));
}

async function send(deps: ResendDoorDeps, asked: Asked<EmailBody>): Promise<Said> {
  const mail = await toSend(deps, asked, asked.body);
  if (!mail.ok) return mail;
  const sent = await asked.call('POST', '/send', {
    ...{ body: defined(mail.value), headers: idempotencyHeader(asked), submitted: asked.request.json() },
  });
  return sent.ok ? said({ id: uuidOf(sent.body.data.messageId) }) : sent;
}

const MOST_EMAILS = 100;
/** Each email is checked by itself, so that a permissive batch can name the ones that are not valid. */
const batchBody = Type.Array(Type.Unknown({ shownAs: emailBody }), { minItems: 1, maxItems: MOST_EMAILS });
const validateEmail = compileBody(emailBody);

interface ItemFault {
  index: number;
  message: string;
}

/** Bodies that can be sent, by their index, and what is wrong with the others. */
async function readBatch(deps: ResendDoorDeps, asked: Asked<unknown[]>) {
  const mails: { index: number; body: Record<string, unknown> }[] = [];
  const refused: { index: number; failure: ReturnType<typeof failure> }[] = [];
  for (const [index, given] of asked.body.entries()) {
    const mail = await toSendInBatch(deps, asked, given);
    if (mail.ok) mails.push({ index, body: defined(mail.value) });
    else refused.push({ index, failure: mail.failure });
  }
  return { mails, refused };
}

async function toSendInBatch(deps: ResendDoorDeps, asked: Asked<unknown[]>, given: unknown) {
  const valid = validateEmail(given);
  if (!valid.ok) return refuse(valid.failure);
  if ((valid.value.attachments ?? []).length > 0)
    return fault('attachments', 'is not supported in a batch; send this email by itself');
  return toSend(deps, asked, valid.value);
}

/** Whether every email would be accepted, by dry runs; the refusal of the first that would not. */
async function checkAll(asked: Asked, mails: readonly { index: number; body: object }[]): Promise<Result<undefined>> {
  for (const { index, body } of mails) {
    const shown = await asked.call('POST', '/send', { query: { dryRun: true }, body });
    if (!shown.ok) return refuse({ ...shown.failure, message: `Email ${index}: ${shown.failure.message}` });
    for (const { code, message } of shown.body.warnings as { code: string; message: string }[]) {
      if (code === 'SENDER_NOT_VERIFIED' || code === 'EMAIL_SIZE_EXCEEDED' || code === 'TEMPLATE_VARIABLE_MISSING')
        return refuse(failure(code, { message }));
    }
  }
  return ok(undefined);
}

/** The answer of our POST /send/batch by the index of the email in the request. */
async function sendAll(asked: Asked, mails: readonly { index: number; body: object }[]) {
  const json = asked.request.json();
  const submitted =
    json.ok && Array.isArray(json.value) ? ok(mails.map(({ index }) => (json.value as unknown[])[index])) : json;
  const sent = await asked.call('POST', '/send/batch', {
    ...{ body: { messages: mails.map(({ body }) => body) }, headers: idempotencyHeader(asked), submitted },
  });
  if (!sent.ok) return sent;
  const results = sent.body.results as (
    | { data: { messageId: string } }
    | { error: { code: Parameters<typeof failure>[0]; message: string; details: [] } }
  )[];
  return ok(results.map((result, at) => ({ index: mails[at]!.index, result })));
}

/** Whether the batch has its answer: it is not checked anew then, because a template or a domain may have changed since. */
async function isRepeat({ database, clock }: ResendDoorDeps, asked: Asked): Promise<boolean> {
  const { 'idempotency-key': key } = idempotencyHeader(asked);
  if (key === undefined) return false;
  const { account, mode } = asked.caller;
  const of = { accountId: account.id, mode, endpoint: '/send/batch', key, nowMs: clock.now() };
  return (await database.execute(storedAnswerOperation, of)) !== null;
}

async function sendStrictly(
  deps: ResendDoorDeps,
  asked: Asked,
  mails: readonly { index: number; body: object }[],
): Promise<Said> {
  const checked = (await isRepeat(deps, asked)) ? ok(undefined) : await checkAll(asked, mails);
  if (!checked.ok) return checked;
  const sent = await sendAll(asked, mails);
  if (!sent.ok) return sent;
  const ids: { id: string }[] = [];
  for (const { result } of sent.value) {
    if ('error' in result) return refuse(failure(result.error.code, result.error));
    ids.push({ id: uuidOf(result.data.messageId) });
  }
  return said({ data: ids });
}

async function sendPermissively(
  asked: Asked,
  { mails, refused }: Awaited<ReturnType<typeof readBatch>>,
): Promise<Said> {
  const errors: ItemFault[] = refused.map(({ index, failure: { message } }) => ({
    index,
    message: theirWords(message),
  }));
  const sent = mails.length === 0 ? ok([]) : await sendAll(asked, mails);
  if (!sent.ok) return sent;
  const ids: { id: string }[] = [];
  for (const { index, result } of sent.value) {
    if ('error' in result) errors.push({ index, message: theirWords(result.error.message) });
    else ids.push({ id: uuidOf(result.data.messageId) });
  }
  return said({ data: ids, errors: errors.sort((a, b) => a.index - b.index) });
}

async function sendBatch(deps: ResendDoorDeps, asked: Asked<unknown[]>): Promise<Said> {
  const validation = asked.request.headers['x-batch-validation'] ?? 'strict';
  if (validation !== 'strict' && validation !== 'permissive')
    return fault('x-batch-validation', 'must be strict or permissive');
  const batch = await readBatch(deps, asked);
  if (validation === 'permissive') return sendPermissively(asked, batch);
  const [first] = batch.refused;
  return first === undefined ? sendStrictly(deps, asked, batch.mails) : refuse(first.failure);
}

const MAX_BODY_BYTES = 16_000_000;
/** A file of two megabytes as a JSON array of its bytes, and the rest of the body. */
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
      handle: (asked) => send(deps, asked),
    }),
    endpoint(deps, {
      ...shared,
      path: '/emails/batch',
      summary: 'Send up to 100 emails',
      body: batchBody,
      handle: (asked) => sendBatch(deps, asked),
    }),
  ];
}

/**
 * The /emails endpoints: sent emails, with one entry for each email, not for each recipient. The last event of an email is the worst event
 * of its recipients. A list does not distinguish failed from bounced emails, which would need a read for each of them.
 * HTML, text, and files are read from the stored content, as long as it is retained.
 */
import { hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { type Caller, ownerOf } from '../../accounts/accounts.ts';
import { iso, isoOrNull } from '../../base/clock.ts';
import { type Failure, failure, ok, type Result, refuse } from '../../base/failure.ts';
import { timeOfId } from '../../base/ids.ts';
import { idOfUuid, uuidAt, uuidOf } from '../../base/uuid-id.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import { type MailFile, type ParsedMail, readMail } from '../../mail/inbound/read-mail.ts';
import {
  type EmailCopy,
  findEmailOperation,
  listEmailsOperation,
  type MessageStatus,
  shownStatus,
} from '../../messages/messages.ts';
import { addressesOf } from '../../webhooks/webhooks.ts';
import {
  type EndpointAnswer,
  type EndpointContext,
  endpoint,
  invalidField,
  NOT_FOUND,
  open,
  type ResendDoorDeps,
  success,
} from './endpoint.ts';
import { bytesOf, createFileLinks } from './file-links.ts';
import { listBody, readListQuery } from './lists.ts';
import { durationSeconds, TIME_ALLOWED, timeMs } from './scheduled.ts';

const NO_EMAIL = NOT_FOUND('Email');

/** Events from worst to best. An email shows the first one that applies to any of its copies. */
const EVENTS = [
  'bounced',
  'failed',
  'complained',
  'suppressed',
  'canceled',
  'delivery_delayed',
  'scheduled',
  'queued',
  'sent',
  'delivered',
  'opened',
  'clicked',
] as const;
type LastEvent = (typeof EVENTS)[number];

const EVENT_OF: Readonly<Record<MessageStatus, LastEvent>> = {
  scheduled: 'scheduled',
  queued: 'queued',
  sending: 'sent',
  delayed: 'delivery_delayed',
  delivered: 'delivered',
  bounced: 'bounced',
  complained: 'complained',
  suppressed: 'suppressed',
  cancelled: 'canceled',
};

function lastEventOf(copy: EmailCopy): LastEvent {
  if (copy.status === 'delivered' && copy.engagement !== null) return copy.engagement === 2 ? 'clicked' : 'opened';
  return EVENT_OF[shownStatus(copy)];
}

/** Returns whether a copy bounced because of Postrider itself, which the webhook reports as `email.failed`. */
async function isInternalBounce({ call }: Pick<EndpointContext, 'call'>, messageId: string): Promise<boolean> {
  const found = await call('GET', '/events', { query: { messageId, eventType: 'Bounce' } });
  const events = found.ok ? (found.body as { bounce?: { category: string } }[]) : [];
  return events.length > 0 && events.every(({ bounce }) => bounce?.category === 'internal');
}

/** Returns the worst event of the copies; `bounced` also for an email that failed. */
function worstEvent(copies: readonly EmailCopy[]): LastEvent {
  const all = new Set(copies.map(lastEventOf));
  return EVENTS.find((one) => all.has(one))!;
}

/** Returns the worst event of the copies. An email failed if all its bounces are internal. */
export async function foldEvents(
  context: Pick<EndpointContext, 'call'>,
  copies: readonly EmailCopy[],
): Promise<LastEvent> {
  const worst = worstEvent(copies);
  if (worst !== 'bounced') return worst;
  for (const copy of copies)
    if (lastEventOf(copy) === 'bounced' && !(await isInternalBounce(context, copy.id))) return 'bounced';
  return 'failed';
}

function recipients(copies: readonly EmailCopy[], role: EmailCopy['role']): string[] {
  return copies.filter((copy) => copy.role === role).map((copy) => copy.recipient);
}

function summary(copies: readonly EmailCopy[]): Record<string, unknown> {
  const first = copies[0]!;
  return {
    id: uuidOf(first.id),
    message_id: first.header_message_id,
    to: recipients(copies, 'to'),
    from: first.header_from,
    created_at: iso(first.created_at),
    subject: first.subject,
    bcc: recipients(copies, 'bcc'),
    cc: recipients(copies, 'cc'),
    reply_to: [],
    last_event: worstEvent(copies),
    scheduled_at: isoOrNull(first.send_at),
  };
}

/** Finds the copies of the email in the path. */
async function copiesIn({ database }: ResendDoorDeps, context: EndpointContext): Promise<Result<EmailCopy[]>> {
  const id = context.id('msg');
  if (!id.ok) return id;
  const { account, mode } = context.caller;
  const copies = await database.execute(findEmailOperation, { accountId: account.id, mode, messageId: id.value });
  return copies.length === 0 ? NO_EMAIL : ok(copies);
}

/** Text limits that are larger than any email without uploaded files. */
const TEXT_LIMITS = { text: 2_000_000, html: 2_000_000 };

/** Reads the email as it was accepted. Returns undefined if its content is no longer stored. */
async function readContent(context: EndpointContext, messageId: string): Promise<ParsedMail | undefined> {
  const answer = await context.call('GET', `/messages/${messageId}/content`);
  return answer.ok ? readMail(await bytesOf(answer.content as Buffer | Readable), TEXT_LIMITS) : undefined;
}

async function show(deps: ResendDoorDeps, context: EndpointContext): Promise<EndpointAnswer> {
  const copies = await copiesIn(deps, context);
  if (!copies.ok) return copies;
  const first = copies.value[0]!;
  const content = await readContent(context, first.id);
  const tags = Object.entries(JSON.parse(first.metadata) as Record<string, string>);
  return success({
    object: 'email',
    ...summary(copies.value),
    last_event: await foldEvents(context, copies.value),
    reply_to: content === undefined ? [] : addressesOf(content.headers, 'reply-to'),
    html: content?.html ?? null,
    text: content === undefined || content.textFromHtml ? null : content.text,
    tags: tags.map(([name, value]) => ({ name, value })),
  });
}

export async function listEmails(
  { database }: Pick<ResendDoorDeps, 'database'>,
  { query, caller }: Pick<EndpointContext, 'query' | 'caller'>,
): Promise<EndpointAnswer> {
  const parsed = readListQuery(query);
  if (!parsed.ok) return parsed;
  const { limit, after, before } = parsed.value;
  const [older, newer] = [after, before].map((uuid) => (uuid === undefined ? null : idOfUuid('msg', uuid)));
  if (older === undefined) return invalidField('after', 'must be the id of an email');
  if (newer === undefined) return invalidField('before', 'must be the id of an email');
  const page = { ...ownerOf({ caller }), before: older, after: newer, limit: limit + 1 };
  const emails = await database.execute(listEmailsOperation, page);
  const hasMore = emails.length > limit;
  const shown = newer === null ? emails.slice(0, limit) : emails.slice(-limit);
  return listBody(shown.map(summary), hasMore);
}

/** Applies the same change to every copy, and stops at the first failure. */
async function changeAll(
  deps: ResendDoorDeps,
  context: EndpointContext,
  { path, method, body, possible }: { path: string; method: 'PATCH' | 'POST'; body: object; possible: MessageStatus[] },
): Promise<EndpointAnswer> {
  const copies = await copiesIn(deps, context);
  if (!copies.ok) return copies;
  const open = copies.value.filter((copy) => possible.includes(copy.status));
  if (open.length === 0) return refuse(tooLate(await foldEvents(context, copies.value)));
  for (const { id } of open) {
    const changed = await context.call(method, `/messages/${id}${path}`, { body });
    if (!changed.ok) return changed;
  }
  return success({ object: 'email', id: uuidOf(copies.value[0]!.id) });
}

function tooLate(event: string): Failure {
  return failure('CONFLICT', { message: `The email cannot be changed: its last event is ${event}.` });
}

async function reschedule(
  deps: ResendDoorDeps,
  context: EndpointContext<{ scheduled_at: string }>,
): Promise<EndpointAnswer> {
  const sendAtMs = timeMs(context.body.scheduled_at, deps.clock.now());
  if (sendAtMs === undefined) return invalidField('scheduled_at', TIME_ALLOWED);
  const body = { sendAt: new Date(sendAtMs).toISOString() };
  return changeAll(deps, context, { method: 'PATCH', path: '', body, possible: ['scheduled'] });
}

async function share(deps: ResendDoorDeps, context: EndpointContext<{ expires_in?: string }>): Promise<EndpointAnswer> {
  const copies = await copiesIn(deps, context);
  if (!copies.ok) return copies;
  const duration = context.body.expires_in;
  const expiresInSeconds = duration === undefined ? undefined : durationSeconds(duration);
  if (duration !== undefined && expiresInSeconds === undefined)
    return invalidField('expires_in', 'must be a duration such as "7d", "12h" or "30 minutes"');
  const body = expiresInSeconds === undefined ? {} : { expiresInSeconds };
  const { id } = copies.value[0]!;
  const link = await context.call('POST', `/messages/${id}/share`, { body });
  return link.ok ? success({ object: 'email', id: uuidOf(id), url: link.body.url }) : link;
}

const LINK_MS = 3_600_000;

function fileId(messageId: string, index: number): string {
  return uuidAt(timeOfId(messageId) ?? 0, hash('sha256', `${messageId}/${index}`, 'buffer'));
}

/** Returns the attachments of the email in the path, in the format of the Resend API. */
async function filesIn(deps: ResendDoorDeps, context: EndpointContext): Promise<Result<Record<string, unknown>[]>> {
  const copies = await copiesIn(deps, context);
  if (!copies.ok) return copies;
  const { id: messageId } = copies.value[0]!;
  const content = await readContent(context, messageId);
  if (content === undefined)
    return refuse(failure('NOT_FOUND', { message: 'The content of this email is no longer kept.' }));
  const expiresAtMs = deps.clock.now() + LINK_MS;
  const links = createFileLinks(deps.linkBase);
  const { account, mode } = context.caller;
  const toBody = ({ name, contentType, sizeBytes, contentId }: MailFile, index: number): Record<string, unknown> => ({
    id: fileId(messageId, index),
    filename: name,
    size: sizeBytes,
    content_type: contentType,
    content_disposition: contentId === null ? 'attachment' : 'inline',
    ...(contentId !== null && { content_id: contentId }),
    download_url: links.url({ accountId: account.id, mode, messageId, index, expiresAtMs }),
    expires_at: iso(expiresAtMs),
  });
  return ok(content.files.map(toBody));
}

async function listFiles(deps: ResendDoorDeps, context: EndpointContext): Promise<EndpointAnswer> {
  const files = await filesIn(deps, context);
  return files.ok ? listBody(files.value, false) : files;
}

async function showFile(deps: ResendDoorDeps, context: EndpointContext): Promise<EndpointAnswer> {
  const files = await filesIn(deps, context);
  if (!files.ok) return files;
  const file = files.value.find((one) => one.id === context.request.params.file?.toLowerCase());
  return file === undefined ? NOT_FOUND('Attachment') : success({ object: 'attachment', ...file });
}

export function emailEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      method: 'GET',
      path: '/emails',
      summary: 'List sent emails, newest first',
      handle: (context) => listEmails(deps, context),
    }),
    endpoint(deps, {
      method: 'GET',
      path: '/emails/:id',
      summary: 'Show an email',
      handle: (context) => show(deps, context),
    }),
    endpoint(deps, {
      method: 'PATCH',
      path: '/emails/:id',
      summary: 'Reschedule an email',
      body: open({ scheduled_at: Type.String({ maxLength: 64 }) }),
      handle: (context) => reschedule(deps, context),
    }),
    endpoint(deps, {
      method: 'POST',
      path: '/emails/:id/cancel',
      summary: 'Cancel an email that has not been sent',
      handle: (context) =>
        changeAll(deps, context, {
          method: 'POST',
          path: '/cancel',
          body: {},
          possible: ['scheduled', 'queued', 'delayed'],
        }),
    }),
    endpoint(deps, {
      method: 'POST',
      path: '/emails/:id/share',
      summary: 'Create a link that shows an email',
      body: open({ expires_in: Type.Optional(Type.String({ maxLength: 64 })) }),
      handle: (context) => share(deps, context),
    }),
    endpoint(deps, {
      method: 'GET',
      path: '/emails/:id/attachments',
      summary: 'List the attachments of an email',
      handle: (context) => listFiles(deps, context),
    }),
    endpoint(deps, {
      method: 'GET',
      path: '/emails/:id/attachments/:file',
      summary: 'Show an attachment',
      handle: (context) => showFile(deps, context),
    }),
  ];
}

/**
 * /emails: sent emails, one entry for each email whatever the number of its recipients. What happened to an email is the worst that
 * happened to one of its recipients. HTML, text, and files are read from the content while it is kept.
 */
import { hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { Type } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { iso } from '../../base/clock.ts';
import { type Failure, failure, ok, type Result, refuse } from '../../base/failure.ts';
import { timeOfId } from '../../base/ids.ts';
import { idOfUuid, uuidAt, uuidOf } from '../../base/uuid-id.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { type MailFile, type ReadMail, readMail } from '../../mail/inbound/read-mail.ts';
import {
  type EmailCopy,
  findEmailOperation,
  listEmailsOperation,
  type MessageStatus,
  shownStatus,
} from '../../messages/messages.ts';
import { addressesOf } from '../../webhooks/webhooks.ts';
import { type Asked, endpoint, fault, NOT_FOUND, open, type ResendDoorDeps, type Said, said } from './endpoint.ts';
import { createFileLinks } from './file-links.ts';
import { listBody, readWish } from './lists.ts';
import { durationSeconds, TIME_ALLOWED, timeMs } from './scheduled.ts';

const NO_EMAIL = NOT_FOUND('Email');

/** From the worst to the best; an email has the first that applies to one of its copies. */
const EVENTS = [
  'bounced',
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

/** The worst of the copies. */
export function foldEvents(copies: readonly EmailCopy[]): LastEvent {
  const all = new Set(copies.map(lastEventOf));
  return EVENTS.find((one) => all.has(one))!;
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
    last_event: foldEvents(copies),
    scheduled_at: first.send_at === null ? null : iso(first.send_at),
  };
}

/** The copies of the email in the path. */
async function copiesIn({ database }: ResendDoorDeps, asked: Asked): Promise<Result<EmailCopy[]>> {
  const id = asked.id('msg');
  if (!id.ok) return id;
  const { account, mode } = asked.caller;
  const copies = await database.execute(findEmailOperation, { accountId: account.id, mode, messageId: id.value });
  return copies.length === 0 ? NO_EMAIL : ok(copies);
}

async function wholeBytes(content: unknown): Promise<Buffer> {
  if (Buffer.isBuffer(content)) return content;
  const chunks: Buffer[] = [];
  for await (const chunk of content as Readable) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** An email without uploaded files has no more bytes. */
const WHOLE = { text: 2_000_000, html: 2_000_000 };

/** The mail as it was accepted; undefined once its content is not kept. */
async function readContent(asked: Asked, messageId: string): Promise<ReadMail | undefined> {
  const answer = await asked.call('GET', `/messages/${messageId}/content`);
  return answer.ok ? readMail(await wholeBytes(answer.content), WHOLE) : undefined;
}

async function show(deps: ResendDoorDeps, asked: Asked): Promise<Said> {
  const copies = await copiesIn(deps, asked);
  if (!copies.ok) return copies;
  const first = copies.value[0]!;
  const content = await readContent(asked, first.id);
  const tags = Object.entries(JSON.parse(first.metadata) as Record<string, string>);
  return said({
    object: 'email',
    ...summary(copies.value),
    reply_to: content === undefined ? [] : addressesOf(content.headers, 'reply-to'),
    html: content?.html ?? null,
    text: content === undefined || content.textFromHtml ? null : content.text,
    tags: tags.map(([name, value]) => ({ name, value })),
  });
}

async function listEmails({ database }: ResendDoorDeps, { query, caller }: Asked): Promise<Said> {
  const wish = readWish(query);
  if (!wish.ok) return wish;
  const { limit, after, before } = wish.value;
  const [older, newer] = [after, before].map((uuid) => (uuid === undefined ? null : idOfUuid('msg', uuid)));
  if (older === undefined) return fault('after', 'must be the id of an email');
  if (newer === undefined) return fault('before', 'must be the id of an email');
  const page = { accountId: caller.account.id, mode: caller.mode, before: older, after: newer, limit: limit + 1 };
  const emails = await database.execute(listEmailsOperation, page);
  const hasMore = emails.length > limit;
  const shown = newer === null ? emails.slice(0, limit) : emails.slice(-limit);
  return listBody(shown.map(summary), hasMore);
}

/** Makes the same change to every copy; the first refusal ends it. */
async function changeAll(
  deps: ResendDoorDeps,
  asked: Asked,
  { path, method, body, possible }: { path: string; method: 'PATCH' | 'POST'; body: object; possible: MessageStatus[] },
): Promise<Said> {
  const copies = await copiesIn(deps, asked);
  if (!copies.ok) return copies;
  const open = copies.value.filter((copy) => possible.includes(copy.status));
  if (open.length === 0) return refuse(tooLate(foldEvents(copies.value)));
  for (const { id } of open) {
    const changed = await asked.call(method, `/messages/${id}${path}`, { body });
    if (!changed.ok) return changed;
  }
  return said({ object: 'email', id: uuidOf(copies.value[0]!.id) });
}

function tooLate(event: string): Failure {
  return failure('CONFLICT', { message: `The email cannot be changed: its last event is ${event}.` });
}

async function move(deps: ResendDoorDeps, asked: Asked<{ scheduled_at: string }>): Promise<Said> {
  const sendAtMs = timeMs(asked.body.scheduled_at, deps.clock.now());
  if (sendAtMs === undefined) return fault('scheduled_at', TIME_ALLOWED);
  const body = { sendAt: new Date(sendAtMs).toISOString() };
  return changeAll(deps, asked, { method: 'PATCH', path: '', body, possible: ['scheduled'] });
}

async function share(deps: ResendDoorDeps, asked: Asked<{ expires_in?: string }>): Promise<Said> {
  const copies = await copiesIn(deps, asked);
  if (!copies.ok) return copies;
  const wish = asked.body.expires_in;
  const expiresInSeconds = wish === undefined ? undefined : durationSeconds(wish);
  if (wish !== undefined && expiresInSeconds === undefined)
    return fault('expires_in', 'must be a duration such as "7d", "12h" or "30 minutes"');
  const body = expiresInSeconds === undefined ? {} : { expiresInSeconds };
  const { id } = copies.value[0]!;
  const link = await asked.call('POST', `/messages/${id}/share`, { body });
  return link.ok ? said({ object: 'email', id: uuidOf(id), url: link.body.url }) : link;
}

const LINK_MS = 3_600_000;

function fileId(messageId: string, index: number): string {
  return uuidAt(timeOfId(messageId) ?? 0, hash('sha256', `${messageId}/${index}`, 'buffer'));
}

/** Files of the email in the path, as they are shown. */
async function filesIn(deps: ResendDoorDeps, asked: Asked): Promise<Result<Record<string, unknown>[]>> {
  const copies = await copiesIn(deps, asked);
  if (!copies.ok) return copies;
  const { id: messageId } = copies.value[0]!;
  const content = await readContent(asked, messageId);
  if (content === undefined)
    return refuse(failure('NOT_FOUND', { message: 'The content of this email is no longer kept.' }));
  const expiresAtMs = deps.clock.now() + LINK_MS;
  const links = createFileLinks(deps.linkBase);
  const { account, mode } = asked.caller;
  const shown = ({ name, contentType, sizeBytes, contentId }: MailFile, index: number): Record<string, unknown> => ({
    id: fileId(messageId, index),
    filename: name,
    size: sizeBytes,
    content_type: contentType,
    content_disposition: contentId === null ? 'attachment' : 'inline',
    ...(contentId !== null && { content_id: contentId }),
    download_url: links.url({ accountId: account.id, mode, messageId, index, expiresAtMs }),
    expires_at: iso(expiresAtMs),
  });
  return ok(content.files.map(shown));
}

async function listFiles(deps: ResendDoorDeps, asked: Asked): Promise<Said> {
  const files = await filesIn(deps, asked);
  return files.ok ? listBody(files.value, false) : files;
}

async function showFile(deps: ResendDoorDeps, asked: Asked): Promise<Said> {
  const files = await filesIn(deps, asked);
  if (!files.ok) return files;
  const file = files.value.find((one) => one.id === asked.request.params.file?.toLowerCase());
  return file === undefined ? NOT_FOUND('Attachment') : said({ object: 'attachment', ...file });
}

export function emailEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      ...{ method: 'GET', path: '/emails', summary: 'List sent emails, newest first' },
      handle: (asked) => listEmails(deps, asked),
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: '/emails/:id', summary: 'Show an email' },
      handle: (asked) => show(deps, asked),
    }),
    endpoint(deps, {
      ...{ method: 'PATCH', path: '/emails/:id', summary: 'Reschedule an email' },
      body: open({ scheduled_at: Type.String({ maxLength: 64 }) }),
      handle: (asked) => move(deps, asked),
    }),
    endpoint(deps, {
      ...{ method: 'POST', path: '/emails/:id/cancel', summary: 'Cancel an email that has not been sent' },
      handle: (asked) =>
        changeAll(deps, asked, {
          ...{ method: 'POST', path: '/cancel', body: {} },
          possible: ['scheduled', 'queued', 'delayed'],
        }),
    }),
    endpoint(deps, {
      ...{ method: 'POST', path: '/emails/:id/share', summary: 'Create a link that shows an email' },
      body: open({ expires_in: Type.Optional(Type.String({ maxLength: 64 })) }),
      handle: (asked) => share(deps, asked),
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: '/emails/:id/attachments', summary: 'List the attachments of an email' },
      handle: (asked) => listFiles(deps, asked),
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: '/emails/:id/attachments/:file', summary: 'Show an attachment' },
      handle: (asked) => showFile(deps, asked),
    }),
  ];
}

/** /emails/receiving: inbound mail of the account, with download links that work without a key for seven days. */
import type { Caller } from '../../accounts/accounts.ts';
import { ok, type Result } from '../../base/failure.ts';
import { idOfUuid, uuidOf } from '../../base/uuid-id.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { addressesOf, inboundFileUuid } from '../../webhooks/webhooks.ts';
import {
  type EndpointAnswer,
  type EndpointContext,
  endpoint,
  NOT_FOUND,
  type ResendDoorDeps,
  success,
} from './endpoint.ts';
import { keyOf, list, listBody } from './lists.ts';

interface Summary {
  inboundId: string;
  recipient: string;
  from: string;
  subject: string;
  receivedAt: string;
}

interface InboundFile {
  name: string;
  contentType: string;
  sizeBytes: number;
  contentId: string | null;
  url: string;
}

interface Whole extends Summary {
  content: {
    headers: { name: string; value: string }[];
    headerMessageId: string | null;
    text: string | null;
    html: string | null;
    attachments: InboundFile[];
    rawUrl: string;
    linksExpireAt: string;
  };
}

async function findMail(context: EndpointContext): Promise<Result<Whole>> {
  const id = context.id('inb');
  if (!id.ok) return id;
  const found = await context.call('GET', `/inbound/${id.value}`);
  return found.ok ? ok(found.body as Whole) : found;
}

function fileBody({ inboundId, receivedAt }: Summary, file: InboundFile, index: number): Record<string, unknown> {
  return {
    id: inboundFileUuid(inboundId, Date.parse(receivedAt), index),
    filename: file.name,
    size: file.sizeBytes,
    content_type: file.contentType,
    content_id: file.contentId,
    content_disposition: file.contentId === null ? 'attachment' : 'inline',
  };
}

function headersOf({ content }: Whole): Record<string, string> {
  const headers: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const { name, value } of content.headers) {
    const key = name.toLowerCase();
    headers[key] = key in headers ? `${headers[key]}\n${value}` : value;
  }
  return headers;
}

/** The fields that are also in lists. */
function summary(mail: Whole): Record<string, unknown> {
  const { content } = mail;
  return {
    id: uuidOf(mail.inboundId),
    to: addressesOf(content.headers, 'to'),
    from: mail.from,
    created_at: mail.receivedAt,
    subject: mail.subject,
    bcc: addressesOf(content.headers, 'bcc'),
    cc: addressesOf(content.headers, 'cc'),
    reply_to: addressesOf(content.headers, 'reply-to'),
    received_for: [mail.recipient],
    message_id: content.headerMessageId ?? '',
    attachments: content.attachments.map((file, index) => fileBody(mail, file, index)),
  };
}

/** Returns one page of inbound mail, each message with its headers and files. */
async function listMail(context: EndpointContext): Promise<EndpointAnswer> {
  const page = await list<Summary>(context, {
    path: '/inbound',
    keyOf: (id) => keyOf(idOfUuid('inb', id)),
    idOf: ({ inboundId }) => uuidOf(inboundId),
    show: (row) => row,
  });
  if (!page.ok) return page;
  const { has_more: hasMore, data } = page.body as { has_more: boolean; data: Summary[] };
  const mails: unknown[] = [];
  for (const { inboundId } of data) {
    const found = await context.call('GET', `/inbound/${inboundId}`);
    if (found.ok) mails.push(summary(found.body));
  }
  return listBody(mails, hasMore);
}

async function show(context: EndpointContext): Promise<EndpointAnswer> {
  const found = await findMail(context);
  if (!found.ok) return found;
  const { content } = found.value;
  return success({
    object: 'email',
    ...summary(found.value),
    html: content.html,
    text: content.text,
    headers: headersOf(found.value),
    raw: { download_url: content.rawUrl, expires_at: content.linksExpireAt },
  });
}

async function filesOf(context: EndpointContext): Promise<Result<Record<string, unknown>[]>> {
  const found = await findMail(context);
  if (!found.ok) return found;
  const { content } = found.value;
  return ok(
    content.attachments.map((file, index) => ({
      ...fileBody(found.value, file, index),
      download_url: file.url,
      expires_at: content.linksExpireAt,
    })),
  );
}

export function receivingEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  const path = '/emails/receiving';
  return [
    endpoint(deps, { method: 'GET', path, summary: 'List inbound mail, newest first', handle: listMail }),
    endpoint(deps, { method: 'GET', path: `${path}/:id`, summary: 'Show an inbound email', handle: show }),
    endpoint(deps, {
      method: 'GET',
      path: `${path}/:id/attachments`,
      summary: 'List the attachments of an inbound email',
      handle: async (context) => {
        const files = await filesOf(context);
        return files.ok ? listBody(files.value, false) : files;
      },
    }),
    endpoint(deps, {
      method: 'GET',
      path: `${path}/:id/attachments/:file`,
      summary: 'Show an attachment of an inbound email',
      handle: async (context) => {
        const files = await filesOf(context);
        if (!files.ok) return files;
        const file = files.value.find((one) => one.id === context.request.params.file?.toLowerCase());
        return file === undefined ? NOT_FOUND('Attachment') : success({ object: 'attachment', ...file });
      },
    }),
  ];
}

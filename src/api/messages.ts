/**
 * HTTP routes of `/messages` and `/emails`: list messages, read their status, attempts, and content, and reschedule, cancel, or resend
 * them. Calls see only messages of the caller's account and mode; for any other id they return NOT_FOUND.
 */
import type { Readable } from 'node:stream';
import type { Static } from 'typebox';
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import { type Clock, iso } from '../base/clock.ts';
import { type Failure, failure, invalid, ok, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { eventSchema } from '../events/event-schema.ts';
import { eventBody } from '../events/events.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, type ContentAnswer, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, isoTimeMs, named, oneOf } from '../http/validate.ts';
import type { KeyedCalls } from '../idempotency/idempotency.ts';
import {
  cancelMessageOperation,
  findContentOperation,
  findMessageOperation,
  listMessagesOperation,
  type MessageKey,
  type MessagePage,
  moveMessageOperation,
  searchMessagesOperation,
} from '../messages/api-store.ts';
import { readContent } from '../messages/content.ts';
import { findEmailOperation } from '../messages/email-store.ts';
import {
  MESSAGE_STATUSES,
  type MessageRow,
  type MessageStatus,
  messageBody,
  shownStatus,
} from '../messages/message.ts';
import { createSandboxClock } from '../sandbox/sandbox.ts';
import { sendResponse } from '../send/answer-schema.ts';
import { originOf, resendMessage } from '../send/send.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { removeBlobs } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import type { Searches } from '../storage/searches.ts';
import type { AddressHash } from '../suppressions/suppressions.ts';

interface MessageRouteDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  addressHash: AddressHash;
  /** Checks whether this caller may still send from this header's address; called before a message is resent. */
  checkSender(caller: Caller, headerFrom: string): Promise<Failure | undefined>;
  /** Runs a send once per Idempotency-Key. */
  once: KeyedCalls;
  searches: Searches;
  /** Wakes delivery and webhooks because there is new work. */
  nudge(): void;
}

type Request<B = undefined, Q = unknown> = RouteRequest<Caller, B, Q>;

const DAY_MS = 86_400_000;
const MAX_AHEAD_DAYS = 30;
/** How far the time in an id may differ from the recorded time of its message. */
const ID_SLACK_MS = 3_600_000;

const METADATA = 'metadata.';
const text = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description }));
const time = (description: string) => Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description }));

const listFields = {
  status: Type.Optional(
    Type.Array(oneOf([...MESSAGE_STATUSES]), {
      maxItems: MESSAGE_STATUSES.length,
      description: 'The current status. If given several times, or several with commas, any of them matches.',
    }),
  ),
  to: text(320, 'Part of the address (case-insensitive), or the complete address in any spelling.'),
  from: text(998, 'Part of the From header (case-insensitive).'),
  subject: text(998, 'Part of the subject (case-insensitive).'),
  tag: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      maxItems: 10,
      description: 'The exact tag. If given several times, all must match.',
    }),
  ),
  messageId: text(64, 'The id of one message.'),
  template: text(64, 'The id of the template that the message was created from.'),
  q: text(998, 'Part of the address or of the subject (case-insensitive).'),
  since: time('Accepted at or after this time.'),
  until: time('Accepted at or before this time.'),
  ...pageFields,
};
/** The name of a metadata filter contains the name of the pair: `metadata.NAME`. */
const listQuery = closed(listFields, {
  patternProperties: {
    '^metadata\\.': { type: 'string', maxLength: 998, description: 'Pairs of the metadata: metadata.NAME=value.' },
  },
  maxProperties: 40,
});

/** Shared by the account's view of a message and the view of shared links. */
export const sharedMessageShape = {
  messageId: Type.String(),
  status: oneOf([...MESSAGE_STATUSES]),
  mode: oneOf(['live', 'sandbox']),
  from: Type.String(),
  to: Type.String(),
  role: oneOf(['to', 'cc', 'bcc']),
  subject: Type.String(),
  sizeBytes: Type.Integer(),
  headerMessageId: Type.String(),
  createdAt: Type.String({ format: 'date-time' }),
  sendAt: Type.Optional(Type.String({ format: 'date-time' })),
  nextAttemptAt: Type.Optional(Type.String({ format: 'date-time' })),
  expiresAt: Type.String({ format: 'date-time' }),
};
const messageShape = {
  ...sharedMessageShape,
  tags: Type.Array(Type.String()),
  metadata: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
  templateId: Type.Optional(Type.String()),
  templateVersion: Type.Optional(Type.Integer()),
};
const messageSchema = named('Message', messageShape);
const nullableText = Type.Unsafe<string | null>({ type: ['string', 'null'] });
export const attemptSchema = named('Attempt', {
  time: Type.String({ format: 'date-time' }),
  durationMs: Type.Integer(),
  host: nullableText,
  address: nullableText,
  sourceAddress: Type.Optional(
    Type.String({ description: 'The source address, if POSTRIDER_SOURCE_ADDRESSES is set.' }),
  ),
  tls: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'For example TLSv1.3; null if unencrypted.',
  }),
  tlsFallback: Type.Optional(
    Type.String({ description: 'Why the connection was unencrypted although the server offered TLS.' }),
  ),
  tlsPolicy: Type.Optional(
    oneOf(['requireTls', 'dane', 'mta-sts', 'mta-sts-testing', 'opportunistic'], {
      description:
        'The TLS policy that applied to the connection, set by the email (`requireTls`) or by the domain of the recipient.',
    }),
  ),
  tlsCipher: Type.Optional(Type.String({ description: 'For example TLS_AES_256_GCM_SHA384.' })),
  tlsKeyExchange: Type.Optional(
    Type.String({ description: 'The group of the key exchange, for example X25519MLKEM768 (post-quantum) or X25519.' }),
  ),
  tlsPeerName: Type.Optional(Type.String({ description: 'The name in the certificate of the server.' })),
  dialogue: Type.Array(
    closed({
      atMs: Type.Integer({ description: 'Milliseconds since the start of the attempt.' }),
      direction: oneOf(['C', 'S'], { description: 'C: Postrider. S: the server.' }),
      text: Type.String(),
    }),
  ),
  reply: nullableText,
  outcome: oneOf(['delivered', 'delayed', 'bounced']),
});
const detailSchema = named('MessageDetail', {
  ...messageShape,
  attempts: Type.Array(attemptSchema),
  timeline: Type.Array(eventSchema),
});

const emailSchema = named('Email', {
  emailId: Type.String({ description: "The first recipient's messageId." }),
  mode: messageShape.mode,
  from: messageShape.from,
  subject: messageShape.subject,
  tags: messageShape.tags,
  metadata: messageShape.metadata,
  headerMessageId: messageShape.headerMessageId,
  createdAt: messageShape.createdAt,
  recipients: Type.Array(
    closed({
      messageId: messageShape.messageId,
      email: Type.String(),
      role: messageShape.role,
      status: messageShape.status,
    }),
  ),
});

function emailBody(copies: readonly MessageRow[]): Record<string, unknown> {
  const first = copies[0]!;
  return {
    emailId: first.id,
    mode: first.mode,
    from: first.header_from,
    subject: first.subject,
    tags: JSON.parse(first.tags),
    metadata: JSON.parse(first.metadata),
    headerMessageId: first.header_message_id,
    createdAt: iso(first.created_at),
    recipients: copies.map((copy) => ({
      messageId: copy.id,
      email: copy.recipient,
      role: copy.role,
      status: shownStatus(copy),
    })),
  };
}

export const noSuchMessage = refuse(failure('NOT_FOUND', { message: 'No message has this id.' }));

export function keyOf(request: Request<unknown>): MessageKey {
  return { ...ownerOf(request), messageId: request.params.id ?? '' };
}

function conflict(status: MessageStatus, required: string) {
  const why = status === 'sending' ? 'it is being sent right now' : `its status is ${status}, but must be ${required}`;
  return refuse(failure('CONFLICT', { message: `The message cannot be changed: ${why}.` }));
}

/** Returns the routes of /messages and /emails. */
export function messageRoutes(deps: MessageRouteDeps): RouteDefinition<Caller>[] {
  return [...readRoutes(deps), ...changeRoutes(deps)];
}

function readRoutes(deps: MessageRouteDeps): RouteDefinition<Caller>[] {
  const { database, blobs } = deps;
  return [
    defineRoute({
      method: 'GET',
      path: '/messages',
      tag: 'messages',
      access: { auth: 'key' },
      operationId: 'listMessages',
      summary: 'List messages, newest first',
      description:
        'A message must match all filters; parts of addresses and subjects are case-insensitive. `metadata.NAME=value` matches messages whose metadata has this pair, and can be repeated. A search through very many messages stops after 0.3 seconds and returns what it has found, so a page can have fewer entries than limit, or none. Follow the Link header until a page has none.',
      query: listQuery,
      response: { status: 200, schema: Type.Array(messageSchema) },
      async handle(request: Request<undefined, Static<typeof listQuery>>) {
        const page = readPage(request.query, ['msg_']);
        if (!page.ok) return page;
        const { after, limit } = page.value;
        const requested = {
          ...filtersOf(request),
          before: after === undefined ? null : String(after[0]),
          limit: limit + 1,
        };
        // With the signal, a search is skipped if the client disconnects before the search starts.
        const { rows, stoppedAt } = isSearch(requested)
          ? await search(deps, requested, request.signal)
          : { rows: await database.execute(listMessagesOperation, requested), stoppedAt: null };
        return pageAnswer(request, {
          page: page.value,
          rows,
          show: messageBody,
          keyOf: (row: MessageRow) => [row.id],
          stoppedAt: stoppedAt === null ? null : [stoppedAt],
        });
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/messages/:id',
      tag: 'messages',
      access: { auth: 'key' },
      operationId: 'getMessage',
      summary: 'Get a message with its attempts and timeline',
      description:
        '`attempts` has the complete SMTP dialogue of each attempt; `timeline` has every event, oldest first.',
      response: { status: 200, schema: detailSchema },
      async handle(request: Request) {
        const found = await database.execute(findMessageOperation, keyOf(request));
        if (!found) return noSuchMessage;
        return answer({
          ...messageBody(found.row),
          attempts: found.attempts.map((record) => JSON.parse(record) as unknown),
          timeline: found.timeline.map(eventBody),
        });
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/emails/:id',
      tag: 'messages',
      access: { auth: 'key' },
      operationId: 'getEmail',
      summary: 'Get an email with its recipients',
      description: 'The id is the emailId, or the messageId of any recipient.',
      response: { status: 200, schema: emailSchema },
      async handle(request: Request) {
        const copies = await database.execute(findEmailOperation, keyOf(request));
        return copies.length === 0 ? noSuchMessage : answer(emailBody(copies));
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/messages/:id/content',
      tag: 'messages',
      access: { auth: 'key' },
      operationId: 'getMessageContent',
      summary: 'Download the MIME message as it was accepted',
      description:
        'Returns the message byte for byte, before Received and DKIM-Signature are added. Returns 404 if the content has been deleted.',
      response: { status: 200, contentType: 'message/rfc822' },
      async handle(request: Request) {
        const found = await database.execute(findContentOperation, keyOf(request));
        if (!found) return noSuchMessage;
        const content = await readContent(found, blobs);
        if (content === undefined) {
          return refuse(failure('NOT_FOUND', { message: 'The content of this message has been deleted.' }));
        }
        return mailAnswer(content);
      },
    }),
  ];
}

/** Returns a message as untrusted content: the Content-Security-Policy stops a browser from running scripts in it. */
export function mailAnswer(content: Buffer | Readable): ContentAnswer {
  const headers = { 'Content-Security-Policy': "default-src 'none'; sandbox" };
  return { ok: true, contentType: 'message/rfc822', content, headers };
}

/** Returns whether the filter may have to scan all messages of the account. */
function isSearch(page: MessagePage): boolean {
  if (page.messageId !== null) return false;
  const { statuses, to, from, subject, any, templateId, tags, metadata } = page;
  if (statuses.length > 0 || tags.length > 0 || metadata.length > 0) return true;
  // In the sandbox, ids do not follow time, so a filter by time has to scan too.
  const isTimed = page.mode === 'sandbox' && (page.sinceMs !== null || page.untilMs !== null);
  return isTimed || [to, from, subject, any, templateId].some((one) => one !== null);
}

function search({ database, searches }: MessageRouteDeps, page: MessagePage, signal: AbortSignal) {
  return searches.run<MessageRow, string>({
    accountId: page.accountId,
    limit: page.limit,
    from: page.before,
    signal,
    read: ({ from, rows, limit }) =>
      database.execute(searchMessagesOperation, { page: { ...page, before: from, limit }, rows }),
  });
}

function filtersOf(request: Request<undefined, Static<typeof listQuery>>) {
  const { query, caller } = request;
  const sinceMs = query.since === undefined ? null : isoTimeMs(query.since);
  const untilMs = query.until === undefined ? null : isoTimeMs(query.until);
  // The sandbox has its own clock, which ids do not follow.
  const idsFollowTime = caller.mode === 'live';
  return {
    accountId: caller.account.id,
    mode: caller.mode,
    statuses: query.status ?? [],
    messageId: query.messageId ?? null,
    to: query.to ?? null,
    from: query.from ?? null,
    subject: query.subject ?? null,
    any: query.q ?? null,
    templateId: query.template ?? null,
    tags: query.tag ?? [],
    metadata: Object.entries(query).flatMap(([name, value]) =>
      name.startsWith(METADATA) ? [[name.slice(METADATA.length), String(value)] as const] : [],
    ),
    sinceMs,
    untilMs,
    lowestId: idsFollowTime && sinceMs !== null ? idPrefix(sinceMs - ID_SLACK_MS) : null,
    highestId: idsFollowTime && untilMs !== null ? `${idPrefix(untilMs + ID_SLACK_MS)}~` : null,
  };
}

/** Returns the part of an id that encodes its time; times before 1970 are treated as 1970. */
function idPrefix(ms: number): string {
  return newId('msg', Math.max(0, ms)).slice(0, 12);
}

const moveBody = named('MoveMessageRequest', { sendAt: Type.String({ format: 'date-time', maxLength: 40 }) });

function changeRoutes(deps: MessageRouteDeps): RouteDefinition<Caller>[] {
  const { database, blobs, clock } = deps;
  const sandboxClock = createSandboxClock(deps);
  const timeOf = async ({ caller }: Request<unknown>): Promise<{ nowMs: number; clockOffsetMs: number }> => {
    const clockOffsetMs = caller.mode === 'live' ? 0 : await sandboxClock.clockOffsetMs(caller.account.id);
    return { nowMs: clock.now() + clockOffsetMs, clockOffsetMs };
  };
  return [
    defineRoute({
      method: 'PATCH',
      path: '/messages/:id',
      tag: 'messages',
      access: { auth: 'key' },
      operationId: 'rescheduleMessage',
      summary: 'Reschedule a message',
      description: 'A time in the past sends it immediately, as with POST /send.',
      body: { schema: moveBody },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: messageSchema },
      async handle(request: Request<Static<typeof moveBody>>) {
        const { nowMs } = await timeOf(request);
        const sendAtMs = isoTimeMs(request.body.sendAt);
        if (sendAtMs > nowMs + MAX_AHEAD_DAYS * DAY_MS) {
          const message = `must be at most ${MAX_AHEAD_DAYS} days ahead`;
          return refuse(invalid([{ field: 'sendAt', message }]));
        }
        const moved = await requestedChanges(database, request, clock.now()).execute(moveMessageOperation, {
          ...keyOf(request),
          sendAtMs,
          nowMs,
        });
        if (moved.changed) {
          if (sendAtMs <= nowMs) deps.nudge();
          return answer(messageBody(moved.row));
        }
        return moved.reason === 'not-found' ? noSuchMessage : conflict(moved.status, 'scheduled');
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/messages/:id/cancel',
      tag: 'messages',
      access: { auth: 'key' },
      operationId: 'cancelMessage',
      summary: 'Cancel a message that has not been sent',
      description:
        'Allowed while the message is scheduled, queued, or delayed; records a Reject event. Returns 409 CONFLICT after it has been sent.',
      body: { schema: closed({}), optional: true },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: messageSchema },
      async handle(request: Request<object>) {
        const { nowMs } = await timeOf(request);
        const cancellation = { ...keyOf(request), eventId: newId('evt', nowMs), nowMs };
        const cancelled = await requestedChanges(database, request, clock.now()).execute(
          cancelMessageOperation,
          cancellation,
        );
        if (!cancelled.changed) {
          if (cancelled.reason === 'not-found') return noSuchMessage;
          return conflict(cancelled.status, 'scheduled, queued, or delayed');
        }
        deps.nudge();
        await removeBlobs({ blobs, log: request.log }, cancelled.blobKeys);
        return answer(messageBody(cancelled.row));
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/messages/:id/resend',
      tag: 'messages',
      access: { auth: 'key' },
      operationId: 'resendMessage',
      idempotencyKey: true,
      summary: 'Resend a message to the same recipient, as a new message',
      description:
        'Resends a message whose status is delivered, bounced, suppressed, or cancelled. Mail that was submitted over HTTP gets a new Message-ID. Accepts an Idempotency-Key.',
      body: { schema: closed({}), optional: true },
      load: { acceptsMail: true },
      refusals: ['CONFLICT', 'SENDER_NOT_VERIFIED', 'DUPLICATE_REQUEST_IN_PROGRESS', 'IDEMPOTENCY_KEY_REUSED'],
      response: { status: 200, schema: sendResponse, description: 'The response of POST /send.' },
      async handle(request: Request<object>) {
        const key = keyOf(request);
        const call = {
          accountId: key.accountId,
          mode: key.mode,
          endpoint: `/messages/${key.messageId}/resend`,
          keys: request.headerValues('idempotency-key'),
          body: '',
          status: 200,
        };
        const sent = await deps.once(call, async (idempotency) => {
          if (request.backPressure) return refuse(request.backPressure);
          const found = await database.execute(findMessageOperation, key);
          if (!found) return noSuchMessage;
          const refused = await deps.checkSender(request.caller, found.row.header_from);
          if (refused) return refuse(refused);
          const origin = originOf(request);
          const changes = requestedChanges(database, request, clock.now());
          const resent = await resendMessage(
            { ...deps, database: changes },
            { ...key, ...(await timeOf(request)), origin, idempotency },
          );
          if (!resent?.ok) return resent;
          deps.nudge();
          return ok({ status: 200, json: resent.value, replayed: false });
        });
        if (!sent.ok) return sent;
        const { json, replayed } = sent.value;
        return { ok: true, json, ...(replayed && { headers: { 'Idempotent-Replayed': 'true' } }) };
      },
    }),
  ];
}

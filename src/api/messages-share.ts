/**
 * Links that show one message to anyone who has them: creating, listing, and revoking links, and reading the message with one. The view
 * includes the message's status, without hidden parts and without anything about other recipients, and is read-only. A link is answered as
 * nonexistent if it was revoked, has expired, or is forged, or if its message, content, or account was deleted or suspended. Each request
 * reads the link's row, so revoking takes effect immediately on all nodes.
 */
import type { Static } from 'typebox';
import { accountOperation, type Caller, ownerOf } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { sharedEventSchema } from '../events/event-schema.ts';
import { answer, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import {
  expiresInSeconds,
  manageShareRoutes,
  NO_LINK,
  newShareTimes,
  READ_WITH_LINK,
  shareIdShape,
  shareLinkSchema,
  shareShape,
  shareTimesBody,
  shareTokenOf,
} from '../http/share-links.ts';
import { named } from '../http/validate.ts';
import { findContentOperation, findMessageOperation } from '../messages/api-store.ts';
import { readContent } from '../messages/content.ts';
import {
  createShareOperation,
  isSharedOperation,
  listSharesOperation,
  revokeShareOperation,
  type ShareRow,
} from '../messages/share-store.ts';
import { createShareTokens, type ShareGrant, type ShareTokens } from '../messages/share-token.ts';
import { isContentHidden, sharedBody } from '../messages/shared-view.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import { attemptSchema, keyOf, mailAnswer, noSuchMessage, sharedMessageShape } from './messages.ts';

interface ShareRouteDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  /** The key that signs links, and their address, which is read at each use. */
  linkBase: { readonly secretKey: Uint8Array; readonly baseUrl: string };
}

const SMALL_BODY = 20_000;
/** Maximum number of valid links of a message. */
const MOST_SHARES = 100;
const shareBody = named('ShareMessageRequest', {
  expiresInSeconds,
  hideSubject: Type.Optional(Type.Boolean({ description: 'Hides the content too, because it contains the subject.' })),
  hideContent: Type.Optional(Type.Boolean()),
});
const shareSchema = named('Share', {
  shareId: shareIdShape,
  messageId: Type.String(),
  hideSubject: Type.Boolean({ description: 'If true, the content is hidden too.' }),
  hideContent: Type.Boolean(),
  ...shareShape,
});
const sharedSchema = named('SharedMessage', {
  ...sharedMessageShape,
  validUntil: Type.String({ format: 'date-time', description: 'Time at which the link expires.' }),
  subjectHidden: Type.Boolean({ description: 'If true, the subject is empty.' }),
  contentHidden: Type.Boolean(),
  attempts: Type.Array(attemptSchema),
  timeline: Type.Array(sharedEventSchema),
});

const TOO_MANY = refuse(
  failure('LIMIT_REACHED', {
    message: `This message already has ${MOST_SHARES} valid links. Revoke one with DELETE /shares/{id}, or wait until one expires.`,
  }),
);
const GONE = refuse(
  failure('NOT_FOUND', { message: 'The content of this message is not shared or has been deleted.' }),
);

function shareBodyOf(row: ShareRow): Static<typeof shareSchema> {
  return {
    shareId: row.id,
    messageId: row.messageId,
    hideSubject: row.hideSubject === 1,
    hideContent: row.hideContent === 1,
    ...shareTimesBody(row),
  };
}

export function shareRoutes(deps: ShareRouteDeps): RouteDefinition<Caller>[] {
  const tokens = createShareTokens(deps.linkBase.secretKey);
  return [createRoute(deps, tokens), ...manageRoutes(deps), ...readRoutes(deps, tokens)];
}

function createRoute({ database, clock, linkBase }: ShareRouteDeps, tokens: ShareTokens): RouteDefinition<Caller> {
  return defineRoute({
    method: 'POST',
    path: '/messages/:id/share',
    tag: 'messages',
    access: { auth: 'key' },
    body: { schema: shareBody, optional: true, maxBytes: SMALL_BODY },
    operationId: 'shareMessage',
    summary: 'Create a link that shows the status of a message',
    description: `Anyone who has the link can view the message without logging in: status, attempts, timeline, and content, without tags, metadata, opens, clicks, and other recipients. The link is read-only. A message has up to ${MOST_SHARES} valid links.`,
    refusals: ['LIMIT_REACHED'],
    response: { status: 201, schema: shareLinkSchema },
    async handle(request: RouteRequest<Caller, Static<typeof shareBody>>) {
      const key = keyOf(request);
      const { hideSubject = false, hideContent = false } = request.body;
      const nowMs = clock.now();
      const shareId = newId('shr', nowMs);
      const times = newShareTimes(request.caller.actor, nowMs, request.body.expiresInSeconds);
      const outcome = await requestedChanges(database, request, nowMs).execute(createShareOperation, {
        share: {
          ...key,
          id: shareId,
          hideSubject: Number(hideSubject),
          hideContent: Number(hideContent),
          ...times,
        },
        most: MOST_SHARES,
      });
      if (outcome === 'no-message') return noSuchMessage;
      if (outcome === 'limit') return TOO_MANY;
      const token = tokens.seal({ ...key, shareId, expiresAtMs: times.expiresAt, hideSubject, hideContent });
      return answer({ shareId, url: `${linkBase.baseUrl}/shared#token=${token}`, expiresAt: iso(times.expiresAt) });
    },
  });
}

function manageRoutes({ database, clock }: ShareRouteDeps): RouteDefinition<Caller>[] {
  return manageShareRoutes<Caller, ShareRow>({
    tag: 'messages',
    schema: shareSchema,
    show: shareBodyOf,
    listOfItem: {
      path: '/messages/:id/shares',
      operationId: 'listMessageShares',
      summary: 'List the valid links to a message, newest first',
    },
    list: {
      path: '/shares',
      operationId: 'listShares',
      summary: 'List the valid links to all messages, newest first',
    },
    revoke: {
      path: '/shares/:id',
      operationId: 'revokeShare',
      summary: 'Revoke a link to a message',
      description: 'The link stops working immediately, on all nodes.',
    },
    async missingItem(request, messageId) {
      const found = await database.execute(findMessageOperation, { ...ownerOf(request), messageId });
      return found === undefined ? noSuchMessage : undefined;
    },
    read: (request, { itemId: messageId, ...page }) =>
      database.execute(listSharesOperation, { ...ownerOf(request), ...page, messageId, nowMs: clock.now() }),
    async remove(request, id) {
      const nowMs = clock.now();
      const changes = requestedChanges(database, request, nowMs);
      return (await changes.execute(revokeShareOperation, { ...ownerOf(request), id, nowMs })) !== undefined;
    },
  });
}

function readRoutes({ database, blobs, clock }: ShareRouteDeps, tokens: ShareTokens): RouteDefinition<Caller>[] {
  const grantOf = async (request: Pick<RouteRequest, 'headerValues'>): Promise<ShareGrant | undefined> => {
    const grant = tokens.open(shareTokenOf(request), clock.now());
    if (grant === undefined) return undefined;
    const { shareId: id } = grant;
    if (id !== undefined && !(await database.execute(isSharedOperation, { ...grant, id }))) return undefined;
    const account = await database.execute(accountOperation, grant.accountId);
    return account?.status === 'active' ? grant : undefined;
  };
  return [
    defineRoute<Caller>({
      ...READ_WITH_LINK,
      tag: 'messages',
      path: '/shared/message',
      operationId: 'getSharedMessage',
      summary: 'Get the message of a shared link',
      description:
        'Uses the token of the link instead of an API key. Returns 404 once the link has expired or was revoked, or the message was deleted.',
      response: { status: 200, schema: sharedSchema },
      refusals: ['NOT_FOUND'],
      async handle(request) {
        const grant = await grantOf(request);
        const found = grant && (await database.execute(findMessageOperation, grant));
        return grant && found ? answer(sharedBody(grant, found)) : NO_LINK;
      },
    }),
    defineRoute<Caller>({
      ...READ_WITH_LINK,
      tag: 'messages',
      path: '/shared/message/content',
      operationId: 'getSharedMessageContent',
      summary: 'Get the message content of a shared link',
      description:
        'Like GET /messages/{id}/content. Also returns 404 if the content was hidden when the link was created.',
      response: { status: 200, contentType: 'message/rfc822' },
      refusals: ['NOT_FOUND'],
      async handle(request) {
        const grant = await grantOf(request);
        if (grant === undefined) return NO_LINK;
        if (isContentHidden(grant)) return GONE;
        const found = await database.execute(findContentOperation, grant);
        const content = found && (await readContent(found, blobs));
        return content === undefined ? GONE : mailAnswer(content);
      },
    }),
  ];
}

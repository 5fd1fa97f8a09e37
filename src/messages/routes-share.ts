/**
 * Links that show one message to anyone who has them: creating a link, and reading the message with it. The view includes the message's
 * status, without hidden parts and without anything about other recipients, and is read-only. A link is answered as nonexistent if it has
 * expired or is forged, or if its message, content, or account was deleted or suspended.
 */
import { type Static, Type } from 'typebox';
import { accountOperation, type Caller } from '../accounts/accounts.ts';
import { recordChangeOperation, requestedChanges } from '../audit/audit.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { sharedEventSchema } from '../events/event-schema.ts';
import { answer, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { named } from '../http/validate.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import { findContentOperation, findMessageOperation } from './api-store.ts';
import { readContent } from './content.ts';
import { attemptSchema, keyOf, mailAnswer, noSuchMessage, outcomeShape } from './routes.ts';
import { createShareTokens, type ShareGrant } from './share-token.ts';
import { isContentHidden, sharedBody } from './shared-view.ts';

interface ShareRouteDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  /** What links are made of; the address is read at each use. */
  linkBase: { readonly secretKey: Uint8Array; readonly baseUrl: string };
}

const HOUR_SECONDS = 3_600;
const SECONDS = { least: 60, most: 720 * HOUR_SECONDS, standard: 168 * HOUR_SECONDS };
const SMALL_BODY = 20_000;
/** Maximum number of concurrent requests with links. */
const READERS_AT_ONCE = 50;

const shareBody = named('ShareMessageRequest', {
  expiresInSeconds: Type.Optional(
    Type.Integer({ minimum: SECONDS.least, maximum: SECONDS.most, description: 'A week by default.' }),
  ),
  hideSubject: Type.Optional(Type.Boolean({ description: 'Hides the content too, because it contains the subject.' })),
  hideContent: Type.Optional(Type.Boolean()),
});
const linkSchema = named('ShareLink', {
  url: Type.String({ description: 'Anyone who has the URL can view the message until expiresAt.' }),
  expiresAt: Type.String({ format: 'date-time' }),
});
const sharedSchema = named('SharedMessage', {
  ...outcomeShape,
  validUntil: Type.String({ format: 'date-time', description: 'Time at which the link expires.' }),
  subjectHidden: Type.Boolean({ description: 'If true, the subject is empty.' }),
  contentHidden: Type.Boolean(),
  attempts: Type.Array(attemptSchema),
  timeline: Type.Array(sharedEventSchema),
});

const NO_LINK = refuse(failure('NOT_FOUND', { message: 'This link is not valid or has expired.' }));
const GONE = refuse(
  failure('NOT_FOUND', { message: 'The content of this message is not shared or has been deleted.' }),
);

export function shareRoutes({ database, blobs, clock, linkBase }: ShareRouteDeps): RouteDefinition<Caller>[] {
  const tokens = createShareTokens(linkBase.secretKey);
  const grantOf = async (request: Pick<RouteRequest, 'headerValues'>): Promise<ShareGrant | undefined> => {
    const [token = '', ...others] = request.headerValues('x-share-token');
    const grant = others.length === 0 ? tokens.open(token, clock.now()) : undefined;
    if (grant === undefined) return undefined;
    const account = await database.execute(accountOperation, grant.accountId);
    return account?.status === 'active' ? grant : undefined;
  };
  const open = { method: 'GET', tag: 'messages', auth: 'none', shareToken: true, atOnce: READERS_AT_ONCE } as const;
  return [
    defineRoute({
      method: 'POST',
      path: '/messages/:id/share',
      tag: 'messages',
      auth: 'key',
      maxBodyBytes: SMALL_BODY,
      operationId: 'shareMessage',
      summary: 'Create a link that shows the status of a message',
      description:
        'Anyone who has the link can view the message without logging in: status, attempts, timeline, and content, without tags, metadata, opens, clicks, and other recipients. The link is read-only and cannot be revoked before it expires.',
      body: shareBody,
      bodyOptional: true,
      response: { status: 201, schema: linkSchema },
      async handle(request: RouteRequest<Caller, Static<typeof shareBody>>) {
        const key = keyOf(request);
        if ((await database.execute(findMessageOperation, key)) === undefined) return noSuchMessage;
        const { expiresInSeconds = SECONDS.standard, hideSubject = false, hideContent = false } = request.body;
        const nowMs = clock.now();
        const expiresAtMs = nowMs + expiresInSeconds * 1_000;
        const expiresAt = iso(expiresAtMs);
        await requestedChanges(database, request, nowMs).execute(recordChangeOperation, {
          action: 'message.share',
          resourceId: key.messageId,
          requested: { expiresAt, hideSubject, hideContent },
        });
        const token = tokens.seal({ ...key, expiresAtMs, hideSubject, hideContent });
        return answer({ url: `${linkBase.baseUrl}/shared#token=${token}`, expiresAt });
      },
    }),
    defineRoute<Caller>({
      ...open,
      path: '/shared/message',
      operationId: 'getSharedMessage',
      summary: 'Get the message of a shared link',
      description:
        'Uses the token of the link instead of an API key. Returns 404 once the link has expired or the message was deleted.',
      response: { status: 200, schema: sharedSchema },
      refusals: ['NOT_FOUND'],
      async handle(request) {
        const grant = await grantOf(request);
        const found = grant && (await database.execute(findMessageOperation, grant));
        return grant && found ? answer(sharedBody(grant, found)) : NO_LINK;
      },
    }),
    defineRoute<Caller>({
      ...open,
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

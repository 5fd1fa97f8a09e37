/**
 * `/inbound`: messages of the account's inbound routes with their event content and bytes, by API key or by the signed links in events.
 * Messages of other accounts return the same error as unknown ones.
 */
import { Readable } from 'node:stream';
import type { Static } from 'typebox';
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { inboundContentSchema } from '../events/event-schema.ts';
import { listById, pageFields } from '../http/paging.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import { fileAnswer, rawAnswer } from '../inbound-routes/files.ts';
import { FILES_PATH, type InboundLinks, LINK_MS } from '../inbound-routes/links.ts';
import {
  findInboundMessageOperation,
  type InboundMessage,
  listInboundOperation,
} from '../inbound-routes/message-store.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';

export interface InboundMailDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  links: InboundLinks;
}

type Request<Q = unknown> = RouteRequest<Caller, undefined, Q>;

const OUTCOMES = ['event', 'auto-reply', 'own-mail', 'too-many-hops'];
/** Maximum simultaneous readers with links. */
const READERS_AT_ONCE = 50;
/** Maximum simultaneous readers per account, so that slow readers do not block other accounts. */
const READERS_OF_AN_ACCOUNT = 10;

const summary = {
  inboundId: Type.String(),
  inboundRouteId: Type.String(),
  outcome: oneOf(OUTCOMES, {
    description:
      'event: the message has an Inbound event. The other values have no event, which prevents mail loops: auto-reply (an automatic reply), own-mail (a message of this account that came back), and too-many-hops (more than 30 servers).',
  }),
  from: Type.String({ description: 'The From header.' }),
  recipient: Type.String(),
  envelopeFrom: Type.String(),
  subject: Type.String(),
  sizeBytes: Type.Integer(),
  attachments: Type.Integer({ description: 'Number of attachments.' }),
  inReplyTo: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  receivedAt: Type.String({ format: 'date-time' }),
};
const summarySchema = named('InboundMail', summary);
const wholeSchema = named('InboundMailWithContent', {
  ...summary,
  eventId: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  contentKept: Type.Boolean({ description: 'false: the content has expired and was deleted.' }),
  content: inboundContentSchema,
});
const query = closed({
  ...pageFields,
  inboundRouteId: Type.Optional(
    Type.String({ minLength: 1, maxLength: 64, description: 'Messages that this route received.' }),
  ),
  outcome: Type.Optional(oneOf(OUTCOMES, { description: 'Result of processing the message.' })),
});

const noSuchMail = refuse(failure('NOT_FOUND', { message: 'No inbound message has this id.' }));
const tooManyReaders = refuse(
  failure('RATE_LIMITED', {
    message: `${READERS_OF_AN_ACCOUNT} downloads of this account are in progress. Wait for one of them to end.`,
    limit: READERS_OF_AN_ACCOUNT,
    retryAfterSeconds: 1,
  }),
);
const noSuchLink = refuse(failure('NOT_FOUND', { message: 'This link is not valid or has expired.' }));

function body(mail: InboundMessage): Record<string, unknown> {
  return {
    inboundId: mail.id,
    inboundRouteId: mail.routeId,
    outcome: mail.outcome,
    from: mail.headerFrom,
    recipient: mail.recipient,
    envelopeFrom: mail.envelopeFrom,
    subject: mail.subject,
    sizeBytes: mail.sizeBytes,
    attachments: (JSON.parse(mail.files) as unknown[]).length,
    inReplyTo: mail.inReplyTo,
    receivedAt: iso(mail.receivedAt),
  };
}

/** Returns the event content with new links. */
function contentOf(detail: string, { links, clock }: InboundMailDeps): Record<string, unknown> {
  const { inbound } = JSON.parse(detail) as { inbound: { inboundId: string; attachments: object[] } };
  const expiresAtMs = clock.now() + LINK_MS;
  const { inboundId, attachments } = inbound;
  const url = (file: number | 'raw'): string => links.url({ inboundId, file, expiresAtMs });
  const fresh = attachments.map((file, index) => ({ ...file, url: url(index) }));
  return { ...inbound, attachments: fresh, rawUrl: url('raw'), linksExpireAt: iso(expiresAtMs) };
}

export function inboundMailRoutes(deps: InboundMailDeps): RouteDefinition<Caller>[] {
  return [...listRoutes(deps), ...byteRoutes(deps), linkRoute(deps)];
}

const readOwn = async ({ database }: InboundMailDeps, { caller, params }: Request) => {
  const found = await database.execute(findInboundMessageOperation, params.id ?? '');
  return found?.accountId === caller.account.id && found.mode === caller.mode ? found : undefined;
};

function listRoutes(deps: InboundMailDeps): RouteDefinition<Caller>[] {
  const { database } = deps;
  return [
    defineRoute({
      method: 'GET',
      path: '/inbound',
      tag: 'inbound',
      access: { auth: 'key' },
      operationId: 'listInboundMail',
      summary: 'List inbound messages, newest first',
      description: 'Lists the inbound messages in the mode of the key, including those without an event.',
      query,
      response: { status: 200, schema: Type.Array(summarySchema) },
      handle(request: Request<Static<typeof query>>) {
        const { inboundRouteId: routeId = null, outcome = null } = request.query;
        return listById(request, {
          prefix: 'inb_',
          read: (page) => database.execute(listInboundOperation, { ...ownerOf(request), ...page, routeId, outcome }),
          show: body,
        });
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/inbound/:id',
      tag: 'inbound',
      access: { auth: 'key' },
      operationId: 'getInboundMail',
      summary: 'Get an inbound message',
      description: 'Includes the content of its event, with new links.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: wholeSchema },
      async handle(request: Request) {
        const found = await readOwn(deps, request);
        if (!found) return noSuchMail;
        const { eventId, hasContent, detail } = found;
        return answer({ ...body(found), eventId, contentKept: hasContent === 1, content: contentOf(detail, deps) });
      },
    }),
  ];
}

function byteRoutes(deps: InboundMailDeps): RouteDefinition<Caller>[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/inbound/:id/content',
      tag: 'inbound',
      access: { auth: 'key' },
      operationId: 'getInboundMailContent',
      summary: 'Download an inbound message',
      description: 'Returns the message as received. 404 once it is no longer kept.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, contentType: 'message/rfc822' },
      async handle(request: Request) {
        const found = await readOwn(deps, request);
        return found ? rawAnswer(deps, found) : noSuchMail;
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/inbound/:id/attachments/:number',
      tag: 'inbound',
      access: { auth: 'key' },
      operationId: 'getInboundAttachment',
      summary: 'Download an attachment of an inbound message',
      description: 'Returns the decoded attachment. Numbers are positions in the list of attachments, from 0.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, contentType: '*/*' },
      async handle(request: Request) {
        const found = await readOwn(deps, request);
        const number = /^(?:0|[1-9]\d{0,3})$/.test(request.params.number ?? '') ? Number(request.params.number) : -1;
        return found ? fileAnswer(deps, found, number) : noSuchMail;
      },
    }),
  ];
}

/** Counts downloads with links per account in this process, until they end. */
function createReaders() {
  const open = new Map<string, number>();
  return async (accountId: string, read: () => Promise<RouteAnswer>): Promise<RouteAnswer> => {
    const others = open.get(accountId) ?? 0;
    if (others >= READERS_OF_AN_ACCOUNT) return tooManyReaders;
    open.set(accountId, others + 1);
    const release = (): void => {
      const left = (open.get(accountId) ?? 1) - 1;
      if (left > 0) open.set(accountId, left);
      else open.delete(accountId);
    };
    const answered = await read().catch((error: unknown) => {
      release();
      throw error;
    });
    if ('content' in answered && answered.content instanceof Readable) answered.content.once('close', release);
    else release();
    return answered;
  };
}

function linkRoute(deps: InboundMailDeps): RouteDefinition<Caller> {
  const counted = createReaders();
  return defineRoute<Caller>({
    method: 'GET',
    path: `${FILES_PATH}:token`,
    tag: 'inbound',
    access: { auth: 'none' },
    load: { atOnce: READERS_AT_ONCE },
    operationId: 'getInboundFile',
    summary: 'Download a file that an event links to',
    description: `Returns a message or one of its attachments without a key, until linksExpireAt. Up to ${READERS_OF_AN_ACCOUNT} downloads per account at the same time.`,
    refusals: ['NOT_FOUND', 'RATE_LIMITED'],
    response: { status: 200, contentType: '*/*' },
    async handle({ params }) {
      const grant = deps.links.open(params.token ?? '', deps.clock.now());
      const found = grant && (await deps.database.execute(findInboundMessageOperation, grant.inboundId));
      if (!grant || !found) return noSuchLink;
      const { file } = grant;
      return counted(found.accountId, () => (file === 'raw' ? rawAnswer(deps, found) : fileAnswer(deps, found, file)));
    },
  });
}

/**
 * The common parts of links that show something to anyone who has them, without a login: their schemas, limits, refusals, the header that
 * carries a link's token, and the routes that list and revoke links. Each feature has its own rows and tokens, and its own routes to create
 * a link and to read with one.
 */
import type { TSchema } from 'typebox';
import type { Actor } from '../base/actor.ts';
import { iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { type IdPage, listById, type PageQuery, pageFields } from './paging.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from './route.ts';
import { Type } from './schema-type.ts';
import { closed, confirmationSchema, named, oneOf } from './validate.ts';

const HOUR_SECONDS = 3_600;
const SECONDS = { least: 60, most: 720 * HOUR_SECONDS };
/** Validity of a link unless its creator chooses another. */
export const STANDARD_SECONDS = 168 * HOUR_SECONDS;
/** Maximum number of concurrent requests with links, per route. */
const READERS_AT_ONCE = 50;

/** The refusal of a request whose link cannot be opened, whatever the reason. */
export const NO_LINK = refuse(failure('NOT_FOUND', { message: 'This link is not valid or has expired.' }));
const NO_SHARE = refuse(failure('NOT_FOUND', { message: 'No valid link has this shareId.' }));

/** The access and limits of a route that reads with a link. */
export const READ_WITH_LINK = {
  method: 'GET',
  access: { auth: 'none' },
  shareToken: true,
  load: { atOnce: READERS_AT_ONCE },
} as const;

export const expiresInSeconds = Type.Optional(
  Type.Integer({ minimum: SECONDS.least, maximum: SECONDS.most, description: 'A week by default.' }),
);

export const shareIdShape = Type.String({
  description: 'The id of the link, to revoke it. It does not open the link.',
});

export const shareLinkSchema = named('ShareLink', {
  shareId: shareIdShape,
  url: Type.String({ description: 'Anyone who has the URL can open it until expiresAt. Returned only once.' }),
  expiresAt: Type.String({ format: 'date-time' }),
});

const nullableText = Type.Unsafe<string | null>({ type: ['string', 'null'] });

/** Fields of a link in a list. */
export const shareShape = {
  createdAt: Type.String({ format: 'date-time' }),
  expiresAt: Type.String({ format: 'date-time' }),
  createdBy: closed(
    {
      kind: oneOf(['user', 'key', 'credential', 'command-line', 'system']),
      id: nullableText,
      name: nullableText,
    },
    { description: 'The actor, as in the audit log.' },
  ),
};

/** Columns of a link's row that `shareShape` shows. */
export interface ShareTimes {
  createdAt: number;
  expiresAt: number;
  createdByKind: Actor['kind'];
  createdById: string | null;
  createdByName: string | null;
}

/** Returns the values of `shareShape`. */
export function shareTimesBody({ createdAt, expiresAt, createdByKind, createdById, createdByName }: ShareTimes) {
  return {
    createdAt: iso(createdAt),
    expiresAt: iso(expiresAt),
    createdBy: { kind: createdByKind, id: createdById, name: createdByName },
  };
}

/** Returns the columns of a new link. */
export function newShareTimes(actor: Actor, nowMs: number, seconds = STANDARD_SECONDS): ShareTimes {
  return {
    createdAt: nowMs,
    expiresAt: nowMs + seconds * 1_000,
    createdByKind: actor.kind,
    createdById: actor.id || null,
    createdByName: actor.name || null,
  };
}

/** Returns the token of the link that a request opens; empty without one, or if the header is repeated. */
export function shareTokenOf(request: Pick<RouteRequest, 'headerValues'>): string {
  const [token = '', ...others] = request.headerValues('x-share-token');
  return others.length === 0 ? token : '';
}

/** The parts of a route that differ between features. */
interface ShareRoute {
  path: string;
  operationId: string;
  summary: string;
}

/** The links of a feature, each of which shows one item. */
export interface ManagedShares<C, Row extends { id: string }> {
  tag: string;
  /** Schema of a link in a list. */
  schema: TSchema;
  show(row: Row): unknown;
  /** Lists the links to one item, whose id is in the path. */
  listOfItem: ShareRoute;
  /** Lists the links to all items. */
  list: ShareRoute;
  revoke: ShareRoute & { description: string };
  /** Returns the refusal if the item of the request does not exist. */
  missingItem(request: RouteRequest<C, undefined, PageQuery>, itemId: string): Promise<RouteAnswer | undefined>;
  /** Reads valid links, newest first; `itemId` is null for the links to all items. */
  read(
    request: RouteRequest<C, undefined, PageQuery>,
    page: IdPage & { itemId: string | null },
  ): Promise<readonly Row[]>;
  /** Returns false if there is no valid link with this id. */
  remove(request: RouteRequest<C>, shareId: string): Promise<boolean>;
}

/** Returns the routes that list and revoke the links of a feature. */
export function manageShareRoutes<C, Row extends { id: string }>(shares: ManagedShares<C, Row>): RouteDefinition<C>[] {
  const common = { tag: shares.tag, access: { auth: 'key' } } as const;
  const list = {
    ...common,
    method: 'GET',
    query: closed(pageFields),
    response: { status: 200, schema: Type.Array(shares.schema) },
  } as const;
  const listed = (request: RouteRequest<C, undefined, PageQuery>, itemId: string | null) =>
    listById(request, {
      prefix: 'shr_',
      read: (page) => shares.read(request, { ...page, itemId }),
      show: shares.show,
    });
  return [
    defineRoute({
      ...list,
      ...shares.listOfItem,
      description: 'Links that have expired or were revoked are not listed. Their URLs are not stored.',
      refusals: ['NOT_FOUND'],
      async handle(request: RouteRequest<C, undefined, PageQuery>) {
        const itemId = request.params.id ?? '';
        return (await shares.missingItem(request, itemId)) ?? listed(request, itemId);
      },
    }),
    defineRoute({
      ...list,
      ...shares.list,
      description: 'In the mode of the key. Links that have expired or were revoked are not listed.',
      handle: (request: RouteRequest<C, undefined, PageQuery>) => listed(request, null),
    }),
    defineRoute({
      ...common,
      ...shares.revoke,
      method: 'DELETE',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: confirmationSchema },
      async handle(request: RouteRequest<C>) {
        const isRevoked = await shares.remove(request, request.params.id ?? '');
        return isRevoked ? answer({ message: 'Link revoked.' }) : NO_SHARE;
      },
    }),
  ];
}

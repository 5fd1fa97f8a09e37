/**
 * The common parts of links that show something to anyone who has them, without a login: their schemas, limits, and the header that carries
 * a link's token. Each feature defines its own routes, rows, and tokens.
 */
import type { Actor } from '../base/actor.ts';
import { iso } from '../base/clock.ts';
import type { RouteRequest } from './route.ts';
import { Type } from './schema-type.ts';
import { closed, named, oneOf } from './validate.ts';

const HOUR_SECONDS = 3_600;
const SECONDS = { least: 60, most: 720 * HOUR_SECONDS };
/** Validity of a link unless its creator chooses another. */
export const STANDARD_SECONDS = 168 * HOUR_SECONDS;
/** Maximum number of concurrent requests with links, per route. */
export const READERS_AT_ONCE = 50;

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

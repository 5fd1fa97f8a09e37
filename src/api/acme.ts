/**
 * Responds to http-01 challenges of a certificate authority (RFC 8555 §8.3), on every node, even under overload and while it stops. Tokens
 * without an order in progress return 404.
 */

import { challengeOperation } from '../acme/store.ts';
import { failure } from '../base/failure.ts';
import { defineRoute, type RouteDefinition } from '../http/route.ts';
import type { Database } from '../storage/database.ts';

/** Certificate authorities use tokens of 22 or more characters. */
const TOKEN = /^[\w-]{16,200}$/;
const MAX_CONCURRENT = 20;

export function challengeRoutes<C>({ database }: { database: Database }): RouteDefinition<C>[] {
  return [
    defineRoute<C>({
      method: 'GET',
      path: '/.well-known/acme-challenge/:token',
      tag: 'service',
      access: { auth: 'none' },
      hidden: true,
      load: { always: true, atOnce: MAX_CONCURRENT },
      ownQuery: true,
      summary: 'Answer the challenge of a certificate authority',
      response: { status: 200, contentType: 'application/octet-stream' },
      async handle({ params: { token = '' } }) {
        const content = TOKEN.test(token) ? await database.execute(challengeOperation, token) : null;
        if (content === null) return { ok: false, failure: failure('NOT_FOUND') };
        return { ok: true, contentType: 'application/octet-stream', content };
      },
    }),
  ];
}

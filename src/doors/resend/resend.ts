/**
 * The Resend interface: its official SDKs work with Postrider after a change of the base URL. It is a table of endpoints that translate to
 * routes of Postrider's API: the same keys, checks, transactions, events, and audit log. All other paths return 404 in Resend's form.
 *
 * Requests use the prefix `/resend`, or the root with `Authorization: Bearer` and without `X-Api-Key`, because some clients use absolute
 * paths. The key determines the account and the mode.
 */
import type { Authenticator, Caller } from '../../accounts/accounts.ts';
import { failure, type Result, refuse } from '../../base/failure.ts';
import { bearerToken } from '../../http/bearer.ts';
import type { Door } from '../../http/door.ts';
import { createIdentify } from '../../http/identify.ts';
import { isOperatorKey } from '../../http/operator-key.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { type DoorDocument, documentRoute } from '../document.ts';
import { apiKeyEndpoints } from './api-keys.ts';
import { domainEndpoints } from './domains.ts';
import { emailEndpoints } from './emails.ts';
import { PREFIX, type ResendDoorDeps } from './endpoint.ts';
import { shape } from './errors.ts';
import { fileRoute } from './file-links.ts';
import { metricsEndpoint } from './metrics.ts';
import { receivingEndpoints } from './receiving.ts';
import { sendEndpoints } from './send.ts';
import { suppressionEndpoints } from './suppressions.ts';
import { templateEndpoints } from './templates.ts';
import { webhookEndpoints } from './webhooks.ts';

export type { ResendDoorDeps };

interface ResendDoor {
  door: Door;
  routes: RouteDefinition<Caller>[];
}

const text = { type: 'string' };
const DOCUMENT: DoorDocument = {
  name: 'resend',
  title: 'Postrider: Resend interface',
  prefix: PREFIX,
  error: {
    type: 'object',
    required: ['statusCode', 'name', 'message'],
    properties: { statusCode: { type: 'integer' }, name: text, message: text },
  },
  securityScheme: { type: 'http', scheme: 'bearer', description: 'A Postrider API key.' },
  listParameters: [
    { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 } },
    { name: 'after', in: 'query', schema: text, description: 'ID of the last entry of the previous page.' },
    { name: 'before', in: 'query', schema: text, description: 'ID of the first entry of the next page.' },
  ],
  mailParameters: [{ name: 'Idempotency-Key', in: 'header', schema: { type: 'string', maxLength: 256 } }],
  tagOf: (path) => path.split('/')[1] ?? '',
};

const UNAUTHORIZED = refuse(failure('UNAUTHORIZED'));
/** Postrider's own paths that may be requested with another bearer token: by probes, uploading clients, pages, and operators. */
const OURS =
  /^\/(?:metrics|health|ready|mcp|operator|openapi|openapi\.json|llms\.txt|llms-full\.txt|docs|uploads|inbound-files|shared|unsubscribe|t|\.well-known)(?:[/?]|$)/;

export function createResendDoor(deps: ResendDoorDeps & { callers: Authenticator }): ResendDoor {
  const identify = createIdentify<Caller>({
    authenticate: (headers): Result<Caller> | Promise<Result<Caller>> => {
      const token = bearerToken(headers.authorization);
      return token === undefined ? UNAUTHORIZED : deps.callers.ofKey(token);
    },
  });
  const door: Door = {
    prefix: PREFIX,
    takes: ({ headers, url = '/' }) => {
      const token = bearerToken(headers.authorization);
      if (token === undefined || isOperatorKey(token)) return false;
      return headers['x-api-key'] === undefined && !OURS.test(url);
    },
    identify,
    shape,
  };
  const routes = [
    ...sendEndpoints(deps),
    metricsEndpoint(deps),
    ...receivingEndpoints(deps),
    ...emailEndpoints(deps),
    ...domainEndpoints(deps),
    ...apiKeyEndpoints(deps),
    ...webhookEndpoints(deps),
    ...suppressionEndpoints(deps),
    ...templateEndpoints(deps),
    fileRoute(deps),
  ];
  return { door, routes: [...routes, documentRoute(routes, DOCUMENT, deps.linkBase)] };
}

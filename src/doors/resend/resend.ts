/**
 * The Resend interface: its official SDKs work against this service with another base URL. A table of endpoints that translate to our
 * own routes, nothing else: the same keys, checks, transactions, events, and audit log. What is not in the table is answered 404 in
 * its shape.
 *
 * Requests come below `/resend`, or at the root with `Authorization: Bearer` and without `X-Api-Key`, because some of its clients have
 * absolute paths. The key names the account and the mode.
 */
import type { Authenticator, Caller } from '../../accounts/accounts.ts';
import { failure, type Result, refuse } from '../../base/failure.ts';
import type { Door } from '../../http/door.ts';
import { createIdentify } from '../../http/identify.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { apiKeyEndpoints } from './api-keys.ts';
import { documentRoute } from './document.ts';
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

const BEARER = /^Bearer +(\S+) *$/i;
const UNAUTHORIZED = refuse(failure('UNAUTHORIZED'));
/** Paths of our own that are requested without an API key, and sometimes with a bearer token: by probes, clients that upload, and pages. */
const OURS =
  /^\/(?:metrics|health|ready|mcp|openapi|openapi\.json|docs|uploads|inbound-files|shared|unsubscribe|t|\.well-known)(?:[/?]|$)/;

function tokenOf(authorization: string | undefined): string | undefined {
  return BEARER.exec(authorization ?? '')?.[1];
}

export function createResendDoor(deps: ResendDoorDeps & { callers: Authenticator }): ResendDoor {
  const identify = createIdentify<Caller>({
    authenticate: (headers): Result<Caller> | Promise<Result<Caller>> => {
      const token = tokenOf(headers.authorization);
      return token === undefined ? UNAUTHORIZED : deps.callers.ofKey(token);
    },
  });
  const door: Door = {
    prefix: PREFIX,
    takes: ({ headers, url = '/' }) =>
      tokenOf(headers.authorization) !== undefined && headers['x-api-key'] === undefined && !OURS.test(url),
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
  return { door, routes: [...routes, documentRoute(routes, deps.linkBase)] };
}

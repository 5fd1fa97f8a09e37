/**
 * The interface for AI agents: `POST /mcp`, the Model Context Protocol over HTTP, with an API key as bearer token. Its tools translate to
 * routes of Postrider's API: the same keys, checks, transactions, events, and audit log. No tool creates keys or credentials.
 */
import type { Authenticator, Caller } from '../accounts/accounts.ts';
import { failure, type Result, refuse } from '../base/failure.ts';
import { bearerToken } from '../http/bearer.ts';
import type { Door } from '../http/door.ts';
import { createIdentify, type IdentifiedRequest } from '../http/identify.ts';
import { defineRoute, type HttpAnswer, type RouteDefinition } from '../http/route.ts';
import { createDocs, searchDocs } from './docs.ts';
import { createEndpoint, type EndpointDeps } from './endpoint.ts';
import { CODES } from './protocol.ts';
import { ACCOUNT_TOOLS } from './tools-account.ts';
import { MAIL_TOOLS } from './tools-mail.ts';

export type { ChangeDeps } from './changes.ts';
export { createDocs, type DocsIndex, docsTextRoutes, llmsFullText, llmsText, readDocs } from './docs.ts';

const PREFIX = '/mcp';
/** It names the header of MCP clients instead of those of the API. */
const UNAUTHORIZED = refuse(
  failure('UNAUTHORIZED', { message: 'Authentication failed. Send a valid API key as Authorization: Bearer.' }),
);
const FOREIGN_ORIGIN = refuse(
  failure('FORBIDDEN', { message: 'The Origin header must be the origin of this service. Correct or omit it.' }),
);

/**
 * Returns whether a page of this origin may call the endpoint. The Host header is not sufficient: with DNS rebinding it names the page's
 * own host.
 */
function isAllowedOrigin({ headers: { origin, host } }: IdentifiedRequest, baseUrl: string): boolean {
  if (origin === undefined) return true;
  if (origin === new URL(baseUrl).origin) return true;
  return /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/.test(origin) && origin.endsWith(`//${host}`);
}

function single(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Converts a refusal of the HTTP pipeline to a JSON-RPC error with the same status and headers. */
function shape(answer: HttpAnswer): HttpAnswer {
  const { refusal } = answer;
  if (refusal === undefined) return answer;
  const { code, message, details } = refusal;
  const error = { code: CODES.refused, message, data: { code, details } };
  const challenge = answer.status === 401 ? { 'WWW-Authenticate': 'Bearer realm="postrider"' } : {};
  return {
    ...answer,
    content: JSON.stringify({ jsonrpc: '2.0', id: null, error }),
    headers: { ...answer.headers, ...challenge },
  };
}

export type McpDeps = Omit<EndpointDeps, 'tools'> & { callers: Authenticator };

export interface Mcp {
  door: Door;
  routes: RouteDefinition<Caller>[];
}

export function createMcp(deps: McpDeps): Mcp {
  const tools = [...MAIL_TOOLS, ...ACCOUNT_TOOLS, searchDocs(createDocs())];
  const endpoint = createEndpoint({
    ...deps,
    get baseUrl() {
      return deps.baseUrl;
    },
    tools,
  });
  const identify = createIdentify<Caller>({
    authenticate: async ({ authorization, 'x-api-key': apiKey }): Promise<Result<Caller>> => {
      const key = bearerToken(authorization) ?? single(apiKey);
      if (key === undefined) return UNAUTHORIZED;
      const caller = await deps.callers.ofKey(key);
      return !caller.ok && caller.failure.code === 'UNAUTHORIZED' ? UNAUTHORIZED : caller;
    },
  });
  return {
    door: {
      prefix: PREFIX,
      takes: () => false,
      identify: async (request, access) =>
        isAllowedOrigin(request, deps.baseUrl) ? identify(request, access) : FOREIGN_ORIGIN,
      shape,
    },
    routes: [
      defineRoute<Caller>({
        method: 'POST',
        path: PREFIX,
        tag: 'mcp',
        access: { auth: 'key', scope: 'send' },
        hidden: true,
        ownQuery: true,
        body: { rawFirst: true },
        summary: 'Call the tools for AI agents (Model Context Protocol)',
        response: { status: 200 },
        handle: (request) => endpoint.handle(request as Parameters<typeof endpoint.handle>[0]),
      }),
    ],
  };
}

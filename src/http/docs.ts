/**
 * /docs: the API's documentation in a browser, Swagger UI over the generated document, from this machine alone. Fastify
 * and its plugins are loaded with the first visit: a service that nobody reads about starts without them.
 */
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { type Failure, failure, invalid } from '../base/failure.ts';
import { refusalAnswer } from './answer.ts';
import type { Pages } from './app.ts';

/** No inline script, nothing from elsewhere; Swagger UI sets styles on its elements. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The one shape, with the request id that the shell has set. */
function refuse(response: ServerResponse, refusal: Failure): void {
  const answer = refusalAnswer({ failure: refusal }, String(response.getHeader('X-Request-Id') ?? ''));
  response.writeHead(answer.status, {
    ...answer.headers,
    'Content-Type': answer.contentType,
    'X-Content-Type-Options': 'nosniff',
  });
  response.end(answer.content);
}

async function load(openapi: () => unknown): Promise<RequestListener> {
  const [{ fastify }, { default: helmet }, { default: swagger }, { default: swaggerUi }] = await Promise.all([
    import('fastify'),
    import('@fastify/helmet'),
    import('@fastify/swagger'),
    import('@fastify/swagger-ui'),
  ]);
  let listener: RequestListener | undefined;
  const app = fastify({
    serverFactory: (handler) => {
      listener = handler as RequestListener;
      return createServer();
    },
  });
  app.setNotFoundHandler((_request, reply) => {
    reply.hijack();
    refuse(reply.raw, failure('NOT_FOUND'));
  });
  app.setErrorHandler((error, _request, reply) => {
    reply.hijack();
    const status = (error as { statusCode?: number }).statusCode ?? 500;
    refuse(reply.raw, status < 500 ? invalid([]) : failure('INTERNAL_ERROR'));
  });
  await app.register(helmet, { contentSecurityPolicy: false, hsts: false });
  await app.register(swagger, { mode: 'static', specification: { document: openapi() as never } });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: CONTENT_SECURITY_POLICY,
    uiConfig: { validatorUrl: null, tryItOutEnabled: true } as object,
  });
  await app.ready();
  if (listener === undefined) throw new Error('fastify made no listener');
  return listener;
}

/** Pages below /docs over this document, which is asked for once. */
export function docsPages(openapi: () => unknown): Pages {
  let loading: Promise<RequestListener> | undefined;
  return {
    prefixes: ['/docs'],
    handle: async (request: IncomingMessage, response: ServerResponse) => {
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        refuse(response, failure('METHOD_NOT_ALLOWED', { allow: ['GET', 'HEAD'] }));
        return;
      }
      loading ??= load(openapi).catch((error: unknown) => {
        loading = undefined;
        throw error;
      });
      const listener = await loading;
      await new Promise<void>((resolve) => {
        response.once('close', resolve);
        listener(request, response);
      });
    },
  };
}

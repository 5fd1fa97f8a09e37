/**
 * /docs: the API's documentation in a browser, Swagger UI over the generated document, from this machine alone. Fastify
 * and its plugins are loaded with the first visit: a service that nobody reads about starts without them.
 */

import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
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

const COMPRESSIBLE = /^(?:text\/|application\/(?:javascript|json|x-yaml)|image\/svg)/;
/** A release brings its own: files of the last one may be shown for an hour after it. */
const CACHE_SECONDS = 3_600;
const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#2f5d8a" d="M1 3h14v10H1z"/><path fill="none" stroke="#fff" d="m2 4 6 5 6-5"/></svg>';

/** Compresses what is text, and lets browsers keep the files. */
function deliver(request: FastifyRequest, reply: FastifyReply, payload: unknown): unknown {
  if (reply.statusCode !== 200) return payload;
  if (request.url.includes('/static/')) reply.header('cache-control', `public, max-age=${CACHE_SECONDS}`);
  reply.header('vary', 'accept-encoding');
  const takesGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const isStream = payload instanceof Readable;
  if (!takesGzip || !COMPRESSIBLE.test(String(reply.getHeader('content-type'))) || request.method === 'HEAD')
    return payload;
  if (!isStream && typeof payload !== 'string' && !Buffer.isBuffer(payload)) return payload;
  reply.header('content-encoding', 'gzip').removeHeader('content-length');
  const source = isStream ? payload : Readable.from([payload]);
  return pipeline(source, createGzip(), () => undefined);
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
  app.addHook('onSend', async (request, reply, payload) => deliver(request, reply, payload));
  await app.register(helmet, { contentSecurityPolicy: false, hsts: false });
  await app.register(swagger, { mode: 'static', specification: { document: openapi() as never } });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: CONTENT_SECURITY_POLICY,
    theme: {
      title: 'Postrider API',
      favicon: [{ filename: 'icon.svg', rel: 'icon', sizes: 'any', type: 'image/svg+xml', content: ICON }],
    },
    // Without the bar on top, which shows the framework's logo.
    uiConfig: { layout: 'BaseLayout', validatorUrl: null, tryItOutEnabled: true } as object,
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

/**
 * Routes for operators and their tools: /health (the process responds), /ready (with all reasons against receiving traffic), /metrics, and
 * /openapi.json. None requires an API key; /metrics requires a loopback socket or the token. They respond even under overload and while the
 * service stops.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { failure } from '../base/failure.ts';
import type { Metrics } from '../base/metrics.ts';
import { bearerToken } from './bearer.ts';
import { defineRoute, type RouteDefinition } from './route.ts';
import { Type } from './schema-type.ts';
import { named } from './validate.ts';

export interface NotReady {
  /** The component that is not ready: storage, disk, queue, draining… */
  field: string;
  /** The reason and the fix; never a path or SQL. */
  message: string;
}

export interface ServiceOptions {
  metrics: Metrics;
  metricsToken?: string;
  /** Returns all reasons not to send traffic here; empty if ready. A thrown error counts as a reason. */
  notReady: () => NotReady[] | Promise<NotReady[]>;
  /** Called once, on the first request; absent if the API is not served. */
  openapi?: () => unknown;
}

/** Header fields that proxies add in their various configurations. */
const PROXIED = /^(?:x-forwarded(?:-.*)?|forwarded|x-real-ip|via)$/;

/** Names of this machine to itself, with any port. */
const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i;

function isLoopback(request: { remoteAddress: string; headers: IncomingHttpHeaders }): boolean {
  // A reverse proxy on this machine connects from loopback on behalf of remote clients, and adds one of these fields.
  if (Object.keys(request.headers).some((name) => PROXIED.test(name))) return false;
  // With DNS rebinding, a page in a local browser reaches this service under the page's own host name.
  if (!LOOPBACK_HOST.test(request.headers.host ?? '')) return false;
  const address = request.remoteAddress.replace(/^::ffff:/, '');
  return address === '::1' || address.startsWith('127.');
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function bearsToken(authorization: string | undefined, token: string | undefined): boolean {
  const presented = bearerToken(authorization);
  return token !== undefined && presented !== undefined && timingSafeEqual(digest(presented), digest(token));
}

async function reasonsOf(options: ServiceOptions): Promise<NotReady[]> {
  try {
    return await options.notReady();
  } catch {
    return [{ field: 'service', message: 'its state is unknown at the moment' }];
  }
}

export function serviceRoutes<C>(options: ServiceOptions): RouteDefinition<C>[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/health',
      tag: 'service',
      access: { auth: 'none' },
      load: { always: true },
      ownQuery: true,
      operationId: 'getHealth',
      summary: 'Check whether the process is alive',
      description: 'Confirms only that the process responds. Use /ready for traffic decisions.',
      response: { status: 200, schema: named('Health', { status: Type.Literal('ok') }) },
      handle: () => ({ ok: true, body: { status: 'ok' } }),
    }),
    defineRoute({
      method: 'GET',
      path: '/ready',
      tag: 'service',
      access: { auth: 'none' },
      load: { always: true },
      ownQuery: true,
      operationId: 'getReady',
      summary: 'Check whether the service accepts traffic',
      description:
        'A 200 has `status: "ready"` and no reasons. A 503 has `status: "not ready"` and the reasons (storage, disk, queue, or a service that is stopping) besides the members of every error.',
      response: {
        status: 200,
        schema: named('Readiness', {
          status: Type.Literal('ready'),
          reasons: Type.Array(Type.String(), {
            maxItems: 0,
            description: 'Empty with 200. The 503 response lists the components that are not ready.',
          }),
        }),
      },
      async handle() {
        const reasons = await reasonsOf(options);
        if (reasons.length === 0) return { ok: true, body: { status: 'ready', reasons: [] } };
        const [first] = reasons;
        const message = `The service is not ready: ${first!.field}: ${first!.message}.`;
        return {
          ok: false,
          failure: failure(first!.field === 'storage' ? 'UNAVAILABLE' : 'OVERLOADED', { message, details: reasons }),
          extra: { status: 'not ready', reasons: reasons.map((reason) => `${reason.field}: ${reason.message}`) },
        };
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/metrics',
      tag: 'service',
      access: { auth: 'none' },
      load: { always: true },
      ownQuery: true,
      operationId: 'getMetrics',
      summary: 'Get metrics for Prometheus',
      description: 'In the Prometheus text format. Only for loopback, or with POSTRIDER_METRICS_TOKEN as bearer token.',
      refusals: ['UNAUTHORIZED'],
      response: { status: 200, contentType: options.metrics.contentType },
      async handle(request) {
        if (!isLoopback(request) && !bearsToken(request.headers.authorization, options.metricsToken)) {
          const message = 'Metrics require a client on loopback, or POSTRIDER_METRICS_TOKEN as a bearer token.';
          return { ok: false, failure: failure('UNAUTHORIZED', { message }) };
        }
        return { ok: true, contentType: options.metrics.contentType, content: await options.metrics.text() };
      },
    }),
    ...(options.openapi === undefined ? [] : [openapiRoute<C>(options.openapi)]),
  ];
}

const anything = Type.Object({}, { additionalProperties: true });

function openapiRoute<C>(describe: () => unknown): RouteDefinition<C> {
  let openapi: string | undefined;
  return defineRoute({
    method: 'GET',
    path: '/openapi.json',
    tag: 'service',
    access: { auth: 'none' },
    ownQuery: true,
    operationId: 'getOpenapi',
    summary: 'Get the OpenAPI 3.1 document of this API',
    description: 'Generated from the schemas that validate requests. GET /docs displays it in a browser.',
    response: {
      status: 200,
      schema: Type.Object({ openapi: Type.String(), info: anything, paths: anything }, { title: 'Openapi' }),
    },
    handle() {
      openapi ??= JSON.stringify(describe());
      return { ok: true, json: openapi };
    },
  });
}

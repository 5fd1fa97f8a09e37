/**
 * What operators and their machines ask: is it alive (/health), may it get traffic (/ready, with every reason why not), what does it
 * count (/metrics), what does it offer (/openapi.json). None needs an API key; /metrics needs a loopback socket or the token.
 * They answer also under overload and while the service stops.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Type } from 'typebox';
import { failure } from '../base/failure.ts';
import type { Metrics } from '../base/metrics.ts';
import { defineRoute, type RouteDefinition } from './route.ts';
import { named } from './validate.ts';

export interface NotReady {
  /** What is in the way: storage, disk, queue, draining… */
  field: string;
  /** Why, and what would help; never a path or an SQL text. */
  message: string;
}

export interface ServiceOptions {
  metrics: Metrics;
  metricsToken?: string;
  /** Every reason not to get traffic; an empty list is ready. A throw counts as a reason. */
  notReady: () => NotReady[] | Promise<NotReady[]>;
  /** Asked once, at the first request; absent where the API is not served. */
  openapi?: () => unknown;
}

/** Fields by which proxies show themselves, whatever they are set up to send. */
const PROXIED = /^(?:x-forwarded(?:-.*)?|forwarded|x-real-ip|via)$/;

/** Names of this machine to itself, with any port. */
const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i;

function isLoopback(request: { remoteAddress: string; headers: IncomingHttpHeaders }): boolean {
  // A proxy on this machine speaks from loopback for the whole world, and says so.
  if (Object.keys(request.headers).some((name) => PROXIED.test(name))) return false;
  // A page in a browser here reaches us under its own name, where the DNS points that name to loopback (DNS rebinding).
  if (!LOOPBACK_HOST.test(request.headers.host ?? '')) return false;
  const address = request.remoteAddress.replace(/^::ffff:/, '');
  return address === '::1' || address.startsWith('127.');
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function bearsToken(authorization: string | undefined, token: string | undefined): boolean {
  if (token === undefined || authorization === undefined) return false;
  const match = /^Bearer +(\S+)$/i.exec(authorization);
  return match !== null && timingSafeEqual(digest(match[1]!), digest(token));
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
      ...{ method: 'GET', path: '/health', tag: 'service', auth: 'none', always: true, ownQuery: true },
      operationId: 'getHealth',
      summary: 'Check whether the process is alive',
      description: 'Says only that the process answers. For traffic decisions use /ready.',
      response: { status: 200, schema: named('Health', { status: Type.Literal('ok') }) },
      handle: () => ({ ok: true, body: { status: 'ok' } }),
    }),
    defineRoute({
      ...{ method: 'GET', path: '/ready', tag: 'service', auth: 'none', always: true, ownQuery: true },
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
            description: 'Empty here; the 503 lists what is not ready.',
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
      ...{ method: 'GET', path: '/metrics', tag: 'service', auth: 'none', always: true, ownQuery: true },
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
    ...{ method: 'GET', path: '/openapi.json', tag: 'service', auth: 'none', ownQuery: true },
    operationId: 'getOpenapi',
    summary: 'Get the OpenAPI 3.1 document of this API',
    description: 'Made of the schemas that validate requests; GET /docs shows it in a browser.',
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

/**
 * GET /openapi/resend.json: this interface as OpenAPI 3.1, generated from its routes. Request bodies are described by the schemas that
 * validate them; responses are plain objects, described in Resend's public documentation.
 */
import type { Caller } from '../../accounts/accounts.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { defineRoute } from '../../http/route.ts';
import { PREFIX } from './endpoint.ts';

type Json = Record<string, unknown>;

const ERROR = {
  type: 'object',
  required: ['statusCode', 'name', 'message'],
  properties: { statusCode: { type: 'integer' }, name: { type: 'string' }, message: { type: 'string' } },
};

/** Returns the schema to publish, which can differ from the one that validates. */
function shown(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(shown);
  if (typeof schema !== 'object' || schema === null) return schema;
  if ('shownAs' in schema) return shown(schema.shownAs);
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, shown(value)]));
}

/** Returns an id such as `getEmails` or `postEmailsByIdCancel`: unique, and stable across versions. */
function operationId(method: string, path: string): string {
  const words = path
    .split('/')
    .filter(Boolean)
    .map((one) => (one.startsWith(':') ? `by-${one.slice(1)}` : one));
  const name = words.join('-').replace(/-+(\w)/g, (_, letter: string) => letter.toUpperCase());
  return `${method.toLowerCase()}${name[0]!.toUpperCase()}${name.slice(1)}`;
}

function parameters({ path, method, idempotencyKey }: RouteDefinition<Caller>): Json[] {
  const text = { type: 'string' };
  const inPath = [...path.matchAll(/:([^/]+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: text,
  }));
  const isList = method === 'GET' && !path.endsWith('/metrics') && !/:\w+$/.test(path);
  const inQuery = isList
    ? [
        { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 } },
        { name: 'after', in: 'query', schema: text, description: 'ID of the last entry of the previous page.' },
        { name: 'before', in: 'query', schema: text, description: 'ID of the first entry of the next page.' },
      ]
    : [];
  const key = { name: 'Idempotency-Key', in: 'header', schema: { type: 'string', maxLength: 256 } };
  return [...inPath, ...inQuery, ...(idempotencyKey ? [key] : [])];
}

/** Returns whether the body has fields. Routes without fields accept `{}`, which some clients send with every request. */
function hasFields({ body }: RouteDefinition<Caller>): boolean {
  const { type, properties = {} } = (body ?? {}) as { type?: string; properties?: object };
  return type === 'array' || Object.keys(properties).length > 0;
}

function operation(route: RouteDefinition<Caller>): Json {
  const path = route.path.slice(PREFIX.length);
  const content = (schema: unknown): Json => ({ 'application/json': { schema } });
  const found = parameters(route);
  return {
    operationId: operationId(route.method, path),
    summary: route.summary,
    tags: [path.split('/')[1]],
    ...(found.length > 0 && { parameters: found }),
    ...(hasFields(route) && {
      requestBody: {
        required: route.bodyOptional !== true,
        content: content(shown(JSON.parse(JSON.stringify(route.body)))),
      },
    }),
    responses: {
      [route.response.status]: { description: 'Success.', content: content({ type: 'object' }) },
      default: { description: 'Error.', content: content({ $ref: '#/components/schemas/Error' }) },
    },
  };
}

/** Returns the document of these routes, except those that need no key. */
function documentOf(routes: readonly RouteDefinition<Caller>[], serverUrl: string): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    if (route.auth !== 'key') continue;
    const path = route.path.slice(PREFIX.length).replace(/:([^/]+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Postrider: Resend interface', version: '1' },
    servers: [{ url: serverUrl }],
    security: [{ key: [] }],
    paths: Object.fromEntries(Object.entries(paths).sort(([a], [b]) => (a < b ? -1 : 1))),
    components: {
      schemas: { Error: ERROR },
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'A Postrider API key.' } },
    },
  };
}

export function documentRoute(
  routes: readonly RouteDefinition<Caller>[],
  linkBase: { readonly baseUrl: string },
): RouteDefinition<Caller> {
  return defineRoute<Caller>({
    method: 'GET',
    path: '/openapi/resend.json',
    tag: 'service',
    auth: 'none',
    hidden: true,
    ownQuery: true,
    summary: 'Get the OpenAPI document of the Resend interface',
    response: { status: 200 },
    handle: () => ({ ok: true, body: documentOf(routes, linkBase.baseUrl) }),
  });
}

/**
 * The interface of another service as OpenAPI 3.1 (GET /openapi/<name>.json), generated from its routes. Request bodies are described by the
 * schemas that validate them; responses are plain objects, described in the public documentation of that service.
 */
import type { Caller } from '../accounts/accounts.ts';
import type { RouteDefinition } from '../http/route.ts';
import { defineRoute } from '../http/route.ts';

type Json = Record<string, unknown>;

export interface DoorDocument {
  /** Name in the path of the document. */
  name: string;
  title: string;
  /** Prefix of the paths of the routes; the document has them without it. */
  prefix: string;
  /** Schema of the body of an error. */
  error: Json;
  securityScheme: Json;
  /** Parameters of routes that return a list, and of routes that accept mail. */
  listParameters: readonly Json[];
  mailParameters: readonly Json[];
  /** Returns the tag of a path, which groups operations. */
  tagOf(path: string): string;
}

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

function parameters({ path, method, idempotencyKey }: RouteDefinition<Caller>, document: DoorDocument): Json[] {
  const text = { type: 'string' };
  const inPath = [...path.matchAll(/:([^/]+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: text,
  }));
  const isList = method === 'GET' && !path.endsWith('/metrics') && !/:\w+$/.test(path);
  const inQuery = isList ? document.listParameters : [];
  return [...inPath, ...inQuery, ...(idempotencyKey ? document.mailParameters : [])];
}

/** Returns whether the body has fields. Routes without fields accept `{}`, which some clients send with every request. */
function hasFields({ body }: RouteDefinition<Caller>): boolean {
  const { type, properties = {} } = (body?.schema ?? {}) as { type?: string; properties?: object };
  return type === 'array' || Object.keys(properties).length > 0;
}

function operation(route: RouteDefinition<Caller>, document: DoorDocument): Json {
  const path = route.path.slice(document.prefix.length);
  const content = (schema: unknown): Json => ({ 'application/json': { schema } });
  const found = parameters(route, document);
  return {
    operationId: operationId(route.method, path),
    summary: route.summary,
    tags: [document.tagOf(path)],
    ...(found.length > 0 && { parameters: found }),
    ...(hasFields(route) && {
      requestBody: {
        required: route.body?.optional !== true,
        content: content(shown(JSON.parse(JSON.stringify(route.body?.schema)))),
      },
    }),
    responses: {
      [route.response.status]: { description: 'Success.', content: content({ type: 'object' }) },
      default: { description: 'Error.', content: content({ $ref: '#/components/schemas/Error' }) },
    },
  };
}

/** Returns the document of these routes, except hidden ones and those that need no key. */
function documentOf(routes: readonly RouteDefinition<Caller>[], document: DoorDocument, serverUrl: string): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    if (route.access.auth !== 'key' || route.hidden) continue;
    const path = route.path.slice(document.prefix.length).replace(/:([^/]+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, document) };
  }
  return {
    openapi: '3.1.0',
    info: { title: document.title, version: '1' },
    servers: [{ url: serverUrl }],
    security: [{ key: [] }],
    paths: Object.fromEntries(Object.entries(paths).sort(([a], [b]) => (a < b ? -1 : 1))),
    components: {
      schemas: { Error: document.error },
      securitySchemes: { key: document.securityScheme },
    },
  };
}

export function documentRoute(
  routes: readonly RouteDefinition<Caller>[],
  document: DoorDocument,
  linkBase: { readonly baseUrl: string },
): RouteDefinition<Caller> {
  return defineRoute<Caller>({
    method: 'GET',
    path: `/openapi/${document.name}.json`,
    tag: 'service',
    access: { auth: 'none' },
    hidden: true,
    ownQuery: true,
    summary: 'Get the OpenAPI document of an interface',
    response: { status: 200 },
    handle: () => ({ ok: true, body: documentOf(routes, document, linkBase.baseUrl) }),
  });
}

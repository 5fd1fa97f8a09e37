/**
 * /openapi.json (OpenAPI 3.1) out of the route definitions: the very schemas that validate. Deterministic: paths in
 * alphabetical order, so that a generated client changes only when the API does.
 */
import type { TSchema } from 'typebox';
import { catalogue, type FailureCode } from '../base/failure.ts';
import type { Method, RouteDefinition, RouteResponse } from './route.ts';

type Json = Record<string, unknown>;

const METHODS: readonly Method[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

const REFUSAL_SCHEMA = {
  type: 'object',
  required: ['success', 'error', 'reasonCode', 'requestId'],
  properties: {
    success: { const: false },
    error: {
      type: 'object',
      required: ['code', 'message', 'details'],
      properties: {
        code: { type: 'string', enum: Object.keys(catalogue) },
        message: { type: 'string', description: 'One sentence that says what to do.' },
        details: {
          type: 'array',
          items: {
            type: 'object',
            required: ['field', 'message'],
            properties: {
              field: { type: 'string', description: 'Path of the field, such as attachments[0].sha256.' },
              message: { type: 'string' },
              line: { type: 'integer' },
              column: { type: 'integer' },
            },
          },
        },
      },
    },
    reasonCode: { type: 'string', description: 'Repeats error.code.' },
    requestId: { type: 'string' },
  },
};

function plain(schema: TSchema): Json {
  return JSON.parse(JSON.stringify(schema)) as Json;
}

/** `/messages/:id/cancel` as OpenAPI writes it. */
function openPath(path: string): string {
  return path.replaceAll(/:([^/]+)/g, '{$1}');
}

/** `POST /messages/:id/cancel` → postMessagesByIdCancel. */
export function operationId(method: Method, path: string): string {
  const words = path.split(/[/.-]/).filter((word) => word !== '');
  const parts = words.map((word) => (word.startsWith(':') ? `By${capital(word.slice(1))}` : capital(word)));
  return `${method.toLowerCase()}${parts.join('')}`;
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

function parameters<C>(route: RouteDefinition<C>): Json[] {
  const params = (route.params === undefined ? {} : plain(route.params).properties) as Record<string, Json> | undefined;
  const inPath = [...route.path.matchAll(/:([^/]+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: params?.[name!] ?? { type: 'string' },
  }));
  const query = route.query === undefined ? {} : plain(route.query);
  const required = (query.required ?? []) as string[];
  const inQuery = Object.entries((query.properties ?? {}) as Record<string, Json>).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }));
  return [...inPath, ...inQuery];
}

function requestBody<C>(route: RouteDefinition<C>): Json | undefined {
  if (route.bodyType === 'text/csv') return { required: true, content: { 'text/csv': { schema: { type: 'string' } } } };
  if (route.bodyType === 'raw' || route.bodyType === 'stream') {
    return { required: true, content: { 'application/octet-stream': {} } };
  }
  if (route.body === undefined) return undefined;
  return { required: !route.bodyOptional, content: { 'application/json': { schema: plain(route.body) } } };
}

function refusalCodes<C>(route: RouteDefinition<C>): FailureCode[] {
  const codes: FailureCode[] = ['INVALID_REQUEST', 'INTERNAL_ERROR', 'OVERLOADED', ...(route.refusals ?? [])];
  if (route.auth === 'key') codes.push('UNAUTHORIZED', 'ACCOUNT_SUSPENDED', 'FORBIDDEN', 'RATE_LIMITED');
  if (route.path.includes(':')) codes.push('NOT_FOUND');
  if (route.body !== undefined) codes.push('UNSUPPORTED_MEDIA_TYPE', route.bodyTooLarge ?? 'PAYLOAD_TOO_LARGE');
  return [...new Set(codes)];
}

function success({ schema, contentType = 'application/json', description = 'Success.' }: RouteResponse): Json {
  if (schema === undefined && contentType === 'application/json') return { description };
  return { description, content: { [contentType]: schema === undefined ? {} : { schema: plain(schema) } } };
}

function responses<C>(route: RouteDefinition<C>): Json {
  const byStatus = new Map<number, FailureCode[]>();
  for (const code of refusalCodes(route)) {
    byStatus.set(catalogue[code].status, [...(byStatus.get(catalogue[code].status) ?? []), code]);
  }
  const all: Json = {};
  for (const response of [route.response, ...(route.furtherResponses ?? [])]) all[response.status] = success(response);
  for (const [refused, codes] of [...byStatus].sort(([a], [b]) => a - b)) {
    all[refused] = {
      description: codes.join(', '),
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } },
    };
  }
  return all;
}

function operation<C>(route: RouteDefinition<C>): Json {
  const body = requestBody(route);
  const found = parameters(route);
  return {
    operationId: operationId(route.method, route.path),
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    tags: [route.tag],
    security: route.auth === 'key' ? [{ apiKey: [], accountId: [] }] : [],
    ...(found.length === 0 ? {} : { parameters: found }),
    ...(body === undefined ? {} : { requestBody: body }),
    responses: responses(route),
  };
}

export interface OpenapiAbout {
  title: string;
  version: string;
  description?: string;
  serverUrl?: string;
}

/** The document for these routes; hidden ones are left out. */
export function createOpenapi<C>(routes: readonly RouteDefinition<C>[], about: OpenapiAbout): Json {
  const { serverUrl, ...info } = about;
  const paths: Record<string, Json> = {};
  const shown = routes.filter((route) => !route.hidden);
  const order = (route: RouteDefinition<C>) => `${openPath(route.path)} ${METHODS.indexOf(route.method)}`;
  for (const route of [...shown].sort((a, b) => (order(a) < order(b) ? -1 : 1))) {
    const path = openPath(route.path);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: '3.1.0',
    info,
    ...(serverUrl === undefined ? {} : { servers: [{ url: serverUrl }] }),
    tags: [...new Set(shown.map((route) => route.tag))].sort().map((name) => ({ name })),
    paths,
    components: {
      schemas: { Refusal: REFUSAL_SCHEMA },
      securitySchemes: {
        apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
        accountId: { type: 'apiKey', in: 'header', name: 'X-Id' },
      },
    },
  };
}

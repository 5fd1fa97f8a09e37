/**
 * Defines the endpoints of this interface. An endpoint is a route that translates: it calls routes of Postrider's API on behalf of its
 * caller and returns their responses in Resend's form. Unknown fields are ignored and listed in `X-Ignored-Fields`.
 */
import type { Static, TProperties, TSchema } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import type { Clock } from '../../base/clock.ts';
import { type Failure, failure, invalid, ok, type Result, refuse } from '../../base/failure.ts';
import type { IdPrefix } from '../../base/ids.ts';
import { idOfUuid, isUuid, uuidOf } from '../../base/uuid-id.ts';
import type { InnerAnswer, InnerCall, InnerCalls } from '../../http/inner-calls.ts';
import {
  defineRoute,
  type Method,
  type RouteAnswer,
  type RouteDefinition,
  type RouteRequest,
} from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import type { HttpClient } from '../../net/http-client.ts';
import type { Blobs } from '../../storage/blobs/blobs.ts';
import type { Database } from '../../storage/database.ts';

/** Prefix of the path of every endpoint. */
export const PREFIX = '/resend';

export interface ResendDoorDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  /** Calls routes of Postrider's API. */
  call: InnerCalls<Caller>;
  /** Call this after a template was published, so that sends use the new version. */
  templatesChanged(accountId: string): void;
  /** Fetches attachments that are given by URL; reaches public addresses only. */
  http: HttpClient;
  /** Key and base URL of links; the URL is read at each use. */
  linkBase: { readonly secretKey: Uint8Array; readonly baseUrl: string };
}

type Request<B = unknown> = RouteRequest<Caller, B>;

/** One request to an endpoint. */
export interface EndpointContext<B = unknown> {
  request: Request<B>;
  body: B;
  query: URLSearchParams;
  caller: Caller;
  call(method: Method, path: string, rest?: Omit<InnerCall, 'method' | 'path'>): Promise<InnerAnswer>;
  /** Returns the id in a parameter of the path, `id` by default. */
  id(prefix: IdPrefix, parameter?: string): Result<string>;
}

/** The result of an endpoint: a JSON body, returned with the endpoint's status, or a failure. */
export type EndpointAnswer = { ok: true; body: unknown } | { ok: false; failure: Failure };

interface Endpoint<B extends TSchema | undefined> {
  method: Method;
  path: string;
  summary: string;
  /** The scope that the key needs; full by default. */
  scope?: 'send';
  /** Default 200. */
  status?: 201;
  body?: B;
  acceptsMail?: true;
  maxBodyBytes?: number;
  maxJsonValues?: number;
  handle(context: EndpointContext<B extends TSchema ? Static<B> : unknown>): Promise<EndpointAnswer>;
}

/** An object that can have other fields too. */
export const open = <P extends TProperties>(properties: P) => Type.Object(properties);

export const success = (body: unknown): EndpointAnswer => ({ ok: true, body });

/** Returns the failure of one field, which has the name that clients use. */
export function invalidField(field: string, message: string): { ok: false; failure: Failure } {
  return refuse(invalid([{ field, message }]));
}

export const NOT_FOUND = (what: string): { ok: false; failure: Failure } =>
  refuse(failure('NOT_FOUND', { message: `${what} not found.` }));

/** What an id refers to, in error messages. */
const NOUNS: Partial<Record<IdPrefix, string>> = {
  msg: 'Email',
  inb: 'Email',
  dom: 'Domain',
  key: 'API key',
  whk: 'Webhook',
  evt: 'Webhook event',
};

type Shape = {
  shownAs?: Shape;
  properties?: Record<string, Shape>;
  items?: Shape;
  anyOf?: Shape[];
  additionalProperties?: unknown;
};

/** Returns the fields of a value that its schema does not have. */
export function unknownFields(value: unknown, written: Shape, path = ''): string[] {
  const schema = written.shownAs ?? written;
  if (Array.isArray(value)) {
    const { items } = schema;
    return items === undefined ? [] : value.flatMap((one) => unknownFields(one, items, path));
  }
  const { properties } = schema;
  if (typeof value !== 'object' || value === null || properties === undefined) return [];
  return Object.entries(value).flatMap(([name, member]) => {
    const field = path === '' ? name : `${path}.${name}`;
    const inner = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return inner === undefined ? [field] : unknownFields(member, inner, field);
  });
}

const MOST_NAMED = 20;

function ignoredHeader(value: unknown, schema: TSchema): Record<string, string> {
  const names = [...new Set(unknownFields(value, schema as Shape))].filter((name) => /^[\w.-]{1,64}$/.test(name));
  return names.length === 0 ? {} : { 'X-Ignored-Fields': names.slice(0, MOST_NAMED).join(', ') };
}

function contextOf<B>({ call }: ResendDoorDeps, request: Request<B>): EndpointContext<B> {
  const mark = request.url.indexOf('?');
  return {
    request,
    body: request.body,
    query: new URLSearchParams(mark === -1 ? '' : request.url.slice(mark + 1)),
    caller: request.caller,
    call: (method, path, rest = {}) => call(request, { method, path, ...rest }),
    id: (prefix, parameter = 'id') => {
      const text = request.params[parameter] ?? '';
      if (!isUuid(text)) return invalidField('id', 'must be a valid UUID');
      const id = idOfUuid(prefix, text);
      return id === undefined ? NOT_FOUND(NOUNS[prefix] ?? 'Resource') : ok(id);
    },
  };
}

function hasOnlyOptionalFields(schema: TSchema): boolean {
  const { type, required = [] } = schema as { type?: unknown; required?: string[] };
  return type === 'object' && required.length === 0;
}

/** Returns the route of an endpoint. */
export function endpoint<B extends TSchema | undefined = undefined>(
  deps: ResendDoorDeps,
  definition: Endpoint<B>,
): RouteDefinition<Caller> {
  const {
    method,
    path,
    summary,
    scope,
    status = 200,
    acceptsMail = false,
    maxBodyBytes,
    maxJsonValues,
    handle,
  } = definition;
  // Some clients send `{}` with every request, and their parameters as the body of a GET.
  const schema: TSchema = definition.body ?? open({});
  return defineRoute({
    method,
    path: `${PREFIX}${path}`,
    tag: 'resend',
    access: { auth: 'key', ...(scope !== undefined && { scope }) },
    ownQuery: true,
    summary,
    idempotencyKey: acceptsMail,
    body: {
      schema,
      optional: hasOnlyOptionalFields(schema),
      ...(maxBodyBytes !== undefined && { maxBytes: maxBodyBytes }),
      ...(maxJsonValues !== undefined && { maxJsonValues }),
    },
    load: { acceptsMail },
    response: { status },
    handle: async (request: Request): Promise<RouteAnswer> => {
      const answer = await handle(contextOf(deps, request) as Parameters<typeof handle>[0]);
      if (!answer.ok) return answer;
      return {
        ok: true,
        status,
        body: answer.body,
        headers: definition.body === undefined ? {} : ignoredHeader(request.body, schema),
      };
    },
  } as RouteDefinition<Caller>);
}

/** Answers with the id in the path. */
export async function withId(
  context: EndpointContext,
  prefix: IdPrefix,
  answer: (id: string) => Promise<EndpointAnswer>,
): Promise<EndpointAnswer> {
  const id = context.id(prefix);
  return id.ok ? answer(id.value) : id;
}

interface Removal {
  /** The path of Postrider's list, and of the list of this interface. */
  path: string;
  prefix: IdPrefix;
  /** What Resend calls the resource. */
  object: string;
  summary: string;
}

/** Returns the endpoint that deletes a resource by its id. */
export function removal(deps: ResendDoorDeps, { path, prefix, object, summary }: Removal): RouteDefinition<Caller> {
  return endpoint(deps, {
    method: 'DELETE',
    path: `${path}/:id`,
    summary,
    handle: (context) =>
      withId(context, prefix, async (id) => {
        const removed = await context.call('DELETE', `${path}/${id}`);
        return removed.ok ? success({ object, id: uuidOf(id), deleted: true }) : removed;
      }),
  });
}

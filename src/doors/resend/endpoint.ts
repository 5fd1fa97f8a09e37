/**
 * What the endpoints of this interface are written with. An endpoint is a route that translates: it calls routes of our own in the
 * name of its caller and words their answers as Resend does. Fields it does not know are ignored and listed in `X-Ignored-Fields`.
 */
import { type Static, type TProperties, type TSchema, Type } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import type { Clock } from '../../base/clock.ts';
import { type Failure, failure, invalid, ok, type Result, refuse } from '../../base/failure.ts';
import type { IdPrefix } from '../../base/ids.ts';
import { idOfUuid, isUuid } from '../../base/uuid-id.ts';
import type { InnerAnswer, InnerCall, InnerCalls } from '../../http/inner-calls.ts';
import {
  defineRoute,
  type Method,
  type RouteAnswer,
  type RouteDefinition,
  type RouteRequest,
} from '../../http/route.ts';
import type { HttpClient } from '../../net/http-client.ts';
import type { Blobs } from '../../storage/blobs/blobs.ts';
import type { Database } from '../../storage/database.ts';

/** In front of the path of every endpoint. */
export const PREFIX = '/resend';

export interface ResendDoorDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  /** Our own routes. */
  call: InnerCalls<Caller>;
  /** Sends are to use what was just published. */
  templatesChanged(accountId: string): void;
  /** Fetches attachments that are named by a URL; it reaches public addresses only. */
  http: HttpClient;
  /** What links are made with; the address is read at each use. */
  linkBase: { readonly secretKey: Uint8Array; readonly baseUrl: string };
}

type Request<B = unknown> = RouteRequest<Caller, B>;

/** One request to an endpoint. */
export interface Asked<B = unknown> {
  request: Request<B>;
  body: B;
  query: URLSearchParams;
  caller: Caller;
  call(method: Method, path: string, rest?: Omit<InnerCall, 'method' | 'path'>): Promise<InnerAnswer>;
  /** The id that a parameter of the path names. */
  id(prefix: IdPrefix, parameter?: string): Result<string>;
}

/** An endpoint's answer: a JSON body with the status of the endpoint, or a refusal. */
export type Said = { ok: true; body: unknown } | { ok: false; failure: Failure };

interface Endpoint<B extends TSchema | undefined> {
  method: Method;
  path: string;
  summary: string;
  /** What the key must be allowed; full unless given. */
  scope?: 'send';
  /** 200 unless given. */
  status?: 201;
  body?: B;
  acceptsMail?: true;
  maxBodyBytes?: number;
  maxJsonValues?: number;
  handle(asked: Asked<B extends TSchema ? Static<B> : unknown>): Promise<Said>;
}

/** An object that may have other fields too. */
export const open = <P extends TProperties>(properties: P) => Type.Object(properties);

export const said = (body: unknown): Said => ({ ok: true, body });

/** Refuses with a fault of one field, named as the client wrote it. */
export function fault(field: string, message: string): { ok: false; failure: Failure } {
  return refuse(invalid([{ field, message }]));
}

export const NOT_FOUND = (what: string): { ok: false; failure: Failure } =>
  refuse(failure('NOT_FOUND', { message: `${what} not found.` }));

/** What an id names there. */
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

/** Fields of a value that its schema does not have. */
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

function asked<B>({ call }: ResendDoorDeps, request: Request<B>): Asked<B> {
  const mark = request.url.indexOf('?');
  return {
    request,
    body: request.body,
    query: new URLSearchParams(mark === -1 ? '' : request.url.slice(mark + 1)),
    caller: request.caller,
    call: (method, path, rest = {}) => call(request, { method, path, ...rest }),
    id: (prefix, parameter = 'id') => {
      const text = request.params[parameter] ?? '';
      if (!isUuid(text)) return fault('id', 'must be a valid UUID');
      const id = idOfUuid(prefix, text);
      return id === undefined ? NOT_FOUND(NOUNS[prefix] ?? 'Resource') : ok(id);
    },
  };
}

function hasOnlyOptionalFields(schema: TSchema): boolean {
  const { type, required = [] } = schema as { type?: unknown; required?: string[] };
  return type === 'object' && required.length === 0;
}

/** Makes a route of an endpoint. */
export function endpoint<B extends TSchema | undefined = undefined>(
  deps: ResendDoorDeps,
  definition: Endpoint<B>,
): RouteDefinition<Caller> {
  const { method, path, summary, scope, status = 200, handle, ...rest } = definition;
  // Some clients send `{}` with every request, and their parameters with a GET.
  const body: TSchema = definition.body ?? open({});
  return defineRoute({
    ...rest,
    ...{ method, path: `${PREFIX}${path}`, tag: 'resend', auth: 'key', ownQuery: true, summary },
    ...(scope !== undefined && { scope }),
    ...{ body, bodyOptional: hasOnlyOptionalFields(body) },
    ...(definition.acceptsMail && { idempotencyKey: true }),
    response: { status },
    handle: async (request: Request): Promise<RouteAnswer> => {
      const answer = await handle(asked(deps, request) as Parameters<typeof handle>[0]);
      if (!answer.ok) return answer;
      return {
        ok: true,
        status,
        body: answer.body,
        headers: definition.body === undefined ? {} : ignoredHeader(request.body, body),
      };
    },
  } as RouteDefinition<Caller>);
}

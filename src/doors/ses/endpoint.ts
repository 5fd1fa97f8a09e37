/**
 * The shared parts of the operations. An operation translates: it calls routes of Postrider's API on behalf of its caller, or
 * submits a complete email, and returns the result in the form of SES, for both versions of its API.
 */
import type { Static, TProperties, TSchema } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import type { Clock } from '../../base/clock.ts';
import { type Failure, invalid, type Result, refuse } from '../../base/failure.ts';
import type { InnerAnswer, InnerCall, InnerCalls } from '../../http/inner-calls.ts';
import {
  defineRoute,
  type Method,
  type RouteAnswer,
  type RouteDefinition,
  type RouteRequest,
} from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import type { Submit } from '../../send/send.ts';
import { PREFIX } from './errors.ts';

export interface SesDoorDeps {
  clock: Clock;
  /** Calls routes of Postrider's API. */
  call: InnerCalls<Caller>;
  /** Accepts complete emails. */
  submit: Submit;
  /** Domain of a Message-ID that Postrider adds if the sender's domain cannot be used. */
  hostname: string;
  /** Requests per second that a key can make; undefined without a limit. */
  rateLimit: number | undefined;
  linkBase: { readonly secretKey: Uint8Array; readonly baseUrl: string };
}

/** One request to an operation. */
export interface SesContext {
  request: RouteRequest<Caller>;
  caller: Caller;
  query: URLSearchParams;
  call(method: Method, path: string, rest?: Omit<InnerCall, 'method' | 'path'>): Promise<InnerAnswer>;
}

export type Operated = Result<Record<string, unknown>>;

/** An object that can have other fields too, which are ignored. */
export const open = <P extends TProperties>(properties: P) => Type.Object(properties);

/** Returns the failure of one field, which has the name that clients use. */
export function invalidField(field: string, message: string): { ok: false; failure: Failure } {
  return refuse(invalid([{ field, message }]));
}

type Defined<T> = { [N in keyof T]: Exclude<T[N], undefined> };

/** Removes members without a value, as JSON does. */
export function defined<T extends object>(value: T): Partial<Defined<T>> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Partial<Defined<T>>;
}

export function contextOf({ call }: SesDoorDeps, request: RouteRequest<Caller>): SesContext {
  const mark = request.url.indexOf('?');
  return {
    request,
    caller: request.caller,
    query: new URLSearchParams(mark === -1 ? '' : request.url.slice(mark + 1)),
    call: (method, path, rest = {}) => call(request, { method, path, ...rest }),
  };
}

/** Identifies the attempts of one call of an SDK. */
export const INVOCATION_HEADER = 'amz-sdk-invocation-id';
/** The names that SDKs give to this header; the second one is that of the SDK for PHP. */
export const INVOCATION_HEADERS = [INVOCATION_HEADER, 'aws-sdk-invocation-id'] as const;
const INVOCATION = /^[\x21-\x7e]{1,200}$/;

/**
 * Returns the Idempotency-Key of a request: SDKs send the same invocation id with every attempt of one call. Undefined if the request has
 * none, or one that is not valid.
 */
export function repeatKey({ request }: SesContext): string | undefined {
  const name = INVOCATION_HEADERS.find((header) => request.headerValues(header).length > 0);
  if (name === undefined) return undefined;
  const [id = '', ...others] = request.headerValues(name);
  return others.length === 0 && INVOCATION.test(id) ? `${name}:${id}` : undefined;
}

interface Operation<B extends TSchema | undefined> {
  method: Method;
  /** Below `/v2/email`. */
  path: string;
  summary: string;
  /** The scope that the key needs; full by default. */
  scope?: 'send';
  body?: B;
  acceptsMail?: true;
  handle(context: SesContext, body: B extends TSchema ? Static<B> : undefined): Promise<Operated>;
}

/** Limits of the bodies of routes that accept mail. */
export const EMAIL_BODY = { maxBytes: 16_000_000, tooLarge: 'EMAIL_SIZE_EXCEEDED' } as const;

/** Returns the route of an operation of version 2. */
export function operation<B extends TSchema | undefined = undefined>(
  deps: SesDoorDeps,
  definition: Operation<B>,
): RouteDefinition<Caller> {
  const { method, path, summary, scope, body: schema, acceptsMail = false, handle } = definition;
  return defineRoute({
    method,
    path: `${PREFIX}/v2/email${path}`,
    tag: 'ses',
    access: { auth: 'key', ...(scope !== undefined && { scope }) },
    ownQuery: true,
    summary,
    idempotencyKey: acceptsMail,
    body: { schema: schema ?? open({}), optional: schema === undefined, ...(acceptsMail && EMAIL_BODY) },
    load: { acceptsMail },
    response: { status: 200 },
    handle: async (request: RouteRequest<Caller>): Promise<RouteAnswer> => {
      const result = await handle(contextOf(deps, request), request.body as Parameters<typeof handle>[1]);
      return result.ok ? { ok: true, body: result.value } : result;
    },
  } as RouteDefinition<Caller>);
}

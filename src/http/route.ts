/**
 * Defines the routes of the HTTP API: one RouteDefinition per call, with the schemas that validate it and describe it in /openapi.json.
 * Nothing here depends on a web framework. Expected refusals are returned as values; a thrown error is an outage (Unavailable, 503) or a
 * bug (500).
 *
 * Every call is checked in this order: 404 and 405 of the path, 401, 403 of account and scope, 429, 503, 415, 413, 400 of query and body,
 * and then the handler. A rawFirst route runs its handler before these 400s, and calls request.parse() when it needs the body. If an
 * Idempotency-Key is given, the handler looks for a stored response before the 503 of back-pressure.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { Static, TSchema } from 'typebox';
import type { Actor } from '../base/actor.ts';
import { type Failure, type FailureCode, failure, type Issue, type Result } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Mode } from '../base/mode.ts';
import type { OperatorScope } from './operator-key.ts';
import type { ParsedJson } from './strict-json.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
type Scope = 'send' | 'full';

/** Roles of account members: read, change, decide. Each includes the permissions of the ones before it. */
export const MEMBER_ROLES = ['viewer', 'member', 'owner'] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];

/** The parts of a caller that this folder needs; accounts add their own fields. */
export interface CallerKey {
  /** Identifies the key, or the user, for rate limiting. */
  keyId: string;
  scope: Scope;
  mode: Mode;
  actor: Actor;
  /** Role of a logged-in user in the account; keys have none. */
  role?: MemberRole;
  /** Networks (CIDR) that the key can be used from; absent or empty for any address. */
  allowedNetworks?: readonly string[];
  /** Scopes of an operator key; all other callers have none. */
  operatorScopes?: readonly OperatorScope[];
  /** For the log; operators have none. */
  account?: { readonly id: string };
}

/** Sandbox keys are in CI systems and on laptops, so they must not change anything that affects live mail. */
export const LIVE_KEY_REQUIRED: Failure = failure('FORBIDDEN', {
  message:
    'A sandbox key can change only sandbox keys and sandbox credentials here, because this resource also affects live mail. Use a live key with scope full (in a session: X-Mode: live).',
});

type Typed<S> = S extends TSchema ? Static<S> : undefined;

export interface RouteRequest<C = unknown, B = unknown, Q = unknown> {
  /** The authenticated caller; none on routes whose access has auth 'none'. */
  readonly caller: C;
  /** Decoded path parameters, by the name after the colon. */
  readonly params: Readonly<Record<string, string>>;
  /** Validated query; numbers and booleans are converted as the schema requires. Empty object if the route has no query. */
  readonly query: Q;
  /** On rawFirst routes only: issues of query and parameters, which parse() reports too. */
  readonly inputIssues: readonly Issue[];
  /**
   * Only on routes that accept mail with an Idempotency-Key: why mail cannot be accepted right now. The handler still returns the stored
   * response of a repeat, and refuses everything else with this failure.
   */
  readonly backPressure: Failure | undefined;
  /**
   * Validated body: the JSON value, the text of a text/csv body, or the Buffer of a raw one. undefined on rawFirst and stream routes, and
   * if the route has no body.
   */
  readonly body: B;
  /** The raw bytes of the body; empty on stream routes. */
  readonly rawBody: Buffer;
  /**
   * Only on routes whose body has the type 'stream': the body as it arrives, without a size limit. The handler counts, checks, and
   * consumes it. It must never destroy the stream, because the connection is needed for the response, and must remove its listeners if it
   * stops reading.
   */
  readonly stream: Readable;
  readonly headers: IncomingHttpHeaders;
  readonly method: string;
  /** Path and query exactly as received. */
  readonly url: string;
  readonly requestId: string;
  /** Address of the client: the peer, or the address that a trusted proxy reports (X-Forwarded-For). */
  readonly remoteAddress: string;
  /** The trace context of a request that accepts mail (base/trace.ts). */
  readonly traceparent?: string | undefined;
  /** Whether the client used TLS, with this service or with a trusted proxy (X-Forwarded-Proto). */
  readonly isSecure: boolean;
  /** Aborted if the client disconnects, and on routes whose load has `waits` also when the service stops. */
  readonly signal: AbortSignal;
  /** Carries the request id on every line. */
  readonly log: Log;
  /** Notes the first message that the request accepted, for the request log. */
  noteMessage(messageId: string): void;
  /** Returns all values of this header; more than one means that it was repeated. */
  headerValues(name: string): string[];
  /** Parses rawBody as strict JSON, without its schema; for rawFirst routes. Parsed once and cached. */
  json(): ParsedJson;
  /** What the client sent, where `json()` was made from it: repeats under an Idempotency-Key are compared by this. */
  readonly submitted?: ParsedJson | undefined;
  /** Schema of the route over that value, after inputIssues; for rawFirst routes. */
  parse(): Result<B>;
}

/** Parses the body of a route; the refusal contains all issues of the request. */
export type BodyParser = (request: Pick<RouteRequest, 'rawBody' | 'json' | 'inputIssues'>) => Result<unknown>;

/** Headers of a response; a list is sent as several fields of that name. Values must not contain unchecked input of a caller. */
export type AnswerHeaders = Readonly<Record<string, string | readonly string[]>>;

/** A JSON body. status defaults to the definition's. */
export interface JsonAnswer {
  ok: true;
  status?: number;
  headers?: AnswerHeaders;
  body: unknown;
}

/** JSON text that is sent unchanged, byte for byte (stored responses, text generated elsewhere). */
interface RawJsonAnswer {
  ok: true;
  status?: number;
  headers?: AnswerHeaders;
  json: string;
}

/** Any other content: complete, or as a stream that is destroyed if the client disconnects. */
export interface ContentAnswer {
  ok: true;
  status?: number;
  headers?: AnswerHeaders;
  contentType: string;
  content: string | Buffer | Readable;
}

export interface Refusal {
  failure: Failure;
  /** For HTTP statuses that the error catalog does not have (408, 417, 431). */
  status?: number;
  headers?: AnswerHeaders;
  /** Additional top-level members of the error body; never success, error, reasonCode, or requestId. */
  extra?: Readonly<Record<string, unknown>>;
}

type RefusalAnswer = Refusal & { ok: false };

export type RouteAnswer = JsonAnswer | RawJsonAnswer | ContentAnswer | RefusalAnswer;

/** An answer that is ready to be written. */
export interface HttpAnswer {
  status: number;
  contentType: string;
  content: string | Buffer | Readable;
  headers?: AnswerHeaders | undefined;
  /** Why, where it is a refusal. */
  refusal?: Failure;
}

export interface RouteResponse {
  status: number;
  schema?: TSchema;
  contentType?: string;
  description?: string;
  /** Names of headers that only this response has; openapi.ts describes them. */
  headers?: readonly string[];
}

/** Who can make a call. */
export interface RouteAccess {
  /**
   * 'key': an API key, or the session of a user with an account. 'user': a logged-in user without an account. 'operator': a user who runs
   * the service, or an operator key.
   */
  auth: 'none' | 'key' | 'user' | 'operator';
  /** Minimum role of a user in the account, unless it is the default: viewer for GET, otherwise member. Keys have no role. */
  role?: MemberRole;
  /** Required scope of the key; default full. */
  scope?: Scope;
  /** Changes a resource that both modes share: refused to sandbox keys. */
  changesShared?: boolean;
  /** Requires a person: an API key or operator key is refused. */
  peopleOnly?: boolean;
  /** Sessions can name account and mode in the query, because the browser's EventSource cannot set headers. */
  accountInQuery?: boolean;
}

/** The body of a request. A route without one accepts no body, or `{}`. */
export interface RouteBody<B extends TSchema | undefined = TSchema | undefined> {
  /** Default json. 'raw' reads any Content-Type into rawBody; 'stream' leaves the body unread in request.stream. */
  type?: 'json' | 'text/csv' | 'raw' | 'stream';
  /** Validates a JSON body. */
  schema?: B;
  /** An empty body is read as {}. */
  optional?: boolean;
  /** Default 1,000,000. */
  maxBytes?: number;
  /** Default PAYLOAD_TOO_LARGE. */
  tooLarge?: FailureCode;
  /** The most members and elements of a JSON body; 100,000 unless given. */
  maxJsonValues?: number;
  /** The handler runs before the body is parsed. Query issues are still found before it. */
  rawFirst?: boolean;
  /**
   * Returns issues that a schema cannot express, for fields that match it. Called only if the request has other issues, so that all are
   * reported in one response; the handler checks a valid body. In lists, elements that do not match are undefined.
   */
  furtherIssues?(fields: Partial<Typed<B>>, malformed: ReadonlySet<string>): readonly Issue[];
}

/** How a route behaves under load. */
interface RouteLoad {
  /** Maximum simultaneous calls of this route, counted separately, so that a flood of them does not affect other routes. */
  atOnce?: number;
  /** A long poll or an event stream: not counted as a request in progress, and ended when the service stops. */
  waits?: boolean;
  /** Accepts mail: refused after 401 and 403 while the service cannot accept any (disk, queue, storage); see backPressure. */
  acceptsMail?: boolean;
  /** Also responds under overload and while the service stops (/health, /ready, /metrics). */
  always?: boolean;
}

export interface RouteDefinition<
  C = unknown,
  B extends TSchema | undefined = TSchema | undefined,
  Q extends TSchema | undefined = TSchema | undefined,
> {
  method: Method;
  /** For example '/messages/:id'. A parameter is a complete segment, and a fixed segment takes precedence over it. No trailing slash. */
  path: string;
  /** Name of the method in generated clients. Not needed for hidden routes. */
  operationId?: string;
  summary: string;
  description?: string;
  tag: string;
  access: RouteAccess;
  /** Accepts Idempotency-Key, for /openapi.json. */
  idempotencyKey?: boolean;
  /** Accepts X-Share-Token, for /openapi.json. */
  shareToken?: boolean;
  body?: RouteBody<B>;
  /** Object schema; properties of type integer, number, or boolean are converted from text. Unknown parameters are refused. */
  query?: Q;
  /**
   * Disables validation of the query: the URL is signed and its handler validates it, or it is opened by programs that add parameters of
   * their own (email clients, probes).
   */
  ownQuery?: boolean;
  /** Object schema of the path parameters, for /openapi.json and for refusals (400). */
  params?: TSchema;
  /** The success response. contentType defaults to application/json; other content may omit the schema. */
  response: RouteResponse;
  /** Other success responses, for /openapi.json; their statuses differ from that of `response`. */
  furtherResponses?: readonly RouteResponse[];
  /** Errors in addition to those that every route has, for /openapi.json. */
  refusals?: readonly FailureCode[];
  load?: RouteLoad;
  /** Omitted from /openapi.json. */
  hidden?: boolean;
  handle(request: RouteRequest<C, Typed<B>, Typed<Q>>): Promise<RouteAnswer> | RouteAnswer;
}

/** Infers the types of body and query from their schemas; returns its argument unchanged. */
export function defineRoute<C, B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: RouteDefinition<C, B, Q>,
): RouteDefinition<C> {
  return definition as unknown as RouteDefinition<C>;
}

/** Returns a JSON response with the status of the definition. */
export function answer(body: unknown, headers?: AnswerHeaders): JsonAnswer {
  return headers === undefined ? { ok: true, body } : { ok: true, body, headers };
}

/**
 * What a feature writes to appear on the HTTP surface: one RouteDefinition per call, with the schemas that validate it and
 * describe it in /openapi.json. Nothing here knows a web framework. Expected refusals come back as values; a throw is an
 * outage (Unavailable, 503) or a bug (500).
 *
 * Every call is checked in this order: 404 and 405 of the path, 401, 403 of account and scope, 429, 503, 415, 413, 400
 * of query and body, and then the handler. A rawFirst route gets its handler before these 400s, and calls
 * request.parse() when it is ready for them. Where an Idempotency-Key is given, the handler looks for its answer before the 503 of
 * back-pressure.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { Static, TSchema } from 'typebox';
import type { Actor } from '../base/actor.ts';
import { type Failure, type FailureCode, failure, type Issue, type Result } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Mode } from '../base/mode.ts';
import type { ParsedJson } from './strict-json.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
type Scope = 'send' | 'full';

/** What members of an account may do: see, do, decide; each also what the ones before it may. */
export const MEMBER_ROLES = ['viewer', 'member', 'owner'] as const;
export type MemberRole = (typeof MEMBER_ROLES)[number];

/** What the shell itself needs to know of the caller; accounts add their own fields. */
export interface CallerKey {
  /** Identifies the key, or the user, for rate limiting. */
  keyId: string;
  scope: Scope;
  mode: Mode;
  /** Who it is that changes something. */
  actor: Actor;
  /** What a signed-in user is in the account; keys have no role. */
  role?: MemberRole;
  /** For the log; operators have none. */
  account?: { readonly id: string };
}

/** What a sandbox key may not do: it lies in every CI system and on every laptop. */
export const NO_LIVE_POWER: Failure = failure('FORBIDDEN', {
  message:
    'A sandbox key may not change what live mail uses too, only sandbox keys and sandbox credentials; use a live key of scope full (a session: X-Mode: live).',
});

type Typed<S> = S extends TSchema ? Static<S> : undefined;

export interface RouteRequest<C = unknown, B = unknown, Q = unknown> {
  /** Who calls; on routes with auth 'none' nobody. */
  readonly caller: C;
  /** Decoded path parameters, by the name after the colon. */
  readonly params: Readonly<Record<string, string>>;
  /** Validated query; numbers and booleans are converted as the schema says. Empty object when the route takes none. */
  readonly query: Q;
  /** Only on rawFirst routes: what is wrong with query and parameters. Part of what parse() refuses. */
  readonly inputIssues: readonly Issue[];
  /**
   * Only on routes that accept mail and take an Idempotency-Key: why nothing may be accepted right now. The handler still gives a repeat
   * its stored answer, and refuses everything else with this.
   */
  readonly backPressure: Failure | undefined;
  /**
   * Validated body: the JSON value, the text of a text/csv body, the Buffer of a raw one. undefined on rawFirst and stream
   * routes, and when the route takes no body.
   */
  readonly body: B;
  /** The body's bytes as they came; empty on stream routes. */
  readonly rawBody: Buffer;
  /**
   * Only on routes with bodyType 'stream': the body as it arrives, unlimited. The handler counts, checks and consumes; it never
   * destroys it, because the connection must live for the answer, and takes its listeners off when it gives up.
   */
  readonly stream: Readable;
  readonly headers: IncomingHttpHeaders;
  readonly method: string;
  /** Path and query as they came. */
  readonly url: string;
  readonly requestId: string;
  /** Address of the client: the peer, or the address that a trusted proxy reports (X-Forwarded-For). */
  readonly remoteAddress: string;
  /** Whether the client used TLS, with this service or with a trusted proxy (X-Forwarded-Proto). */
  readonly isSecure: boolean;
  /** Aborted when the client is gone, and on routes that wait also when the service stops. */
  readonly signal: AbortSignal;
  /** Carries the request id on every line. */
  readonly log: Log;
  /** Every value this header was sent with: more than one element means that it was doubled. */
  headerValues(name: string): string[];
  /** Strict JSON of rawBody, whatever the schema says of it; for rawFirst routes. Read once, however often it is asked for. */
  json(): ParsedJson;
  /** What the client sent, where `json()` was made from it: repeats under an Idempotency-Key are compared by this. */
  readonly submitted?: ParsedJson | undefined;
  /** Schema of the route over that value, after inputIssues; for rawFirst routes. */
  parse(): Result<B>;
}

/** Reads the body that a route takes, and refuses with everything that is wrong with the request. */
export type BodyParser = (request: Pick<RouteRequest, 'rawBody' | 'json' | 'inputIssues'>) => Result<unknown>;

/** An answer's headers; a value must not come from a caller unchecked. */
/** A list is sent as several fields of that name. */
export type AnswerHeaders = Readonly<Record<string, string | readonly string[]>>;

/** A JSON body. status defaults to the definition's. */
export interface JsonAnswer {
  ok: true;
  status?: number;
  headers?: AnswerHeaders;
  body: unknown;
}

/** JSON text that is sent as it is, byte for byte (stored answers, text made elsewhere). */
interface RawJsonAnswer {
  ok: true;
  status?: number;
  headers?: AnswerHeaders;
  json: string;
}

/** Any other content: whole, or as a stream that is destroyed when the client goes away. */
export interface ContentAnswer {
  ok: true;
  status?: number;
  headers?: AnswerHeaders;
  contentType: string;
  content: string | Buffer | Readable;
}

export interface Refusal {
  failure: Failure;
  /** Where HTTP has a status that the catalogue does not (408, 417, 431). */
  status?: number;
  headers?: AnswerHeaders;
  /** Further top-level members of the error body; never success, error, reasonCode or requestId. */
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
}

export interface RouteDefinition<
  C = unknown,
  B extends TSchema | undefined = TSchema | undefined,
  Q extends TSchema | undefined = TSchema | undefined,
> {
  method: Method;
  /** '/messages/:id': a parameter is a whole segment. A fixed segment wins over a parameter. No trailing slash. */
  path: string;
  /** As a person would name the call: generated clients have a method of this name. Not needed where it is hidden. */
  operationId?: string;
  /** One line for /openapi.json. */
  summary: string;
  description?: string;
  tag: string;
  /**
   * 'key': an API key, or the session of a user with an account. 'user': a signed-in user, of no account; 'operator': one who runs
   * the service.
   */
  auth: 'none' | 'key' | 'user' | 'operator';
  /** The least that a user has to be in the account, where it is not the usual: viewer for GET, else member. Keys have none. */
  role?: MemberRole;
  /** A session may name account and mode in the query: for the browser's EventSource, which sets no headers. */
  accountInQuery?: boolean;
  /** Takes Idempotency-Key, for /openapi.json. */
  idempotencyKey?: boolean;
  /** Takes X-Share-Token, for /openapi.json. */
  shareToken?: boolean;
  /** What the key must be allowed; default full. */
  scope?: Scope;
  /** Changes what both modes share: refused to a sandbox key. */
  changesShared?: boolean;
  body?: B;
  /** An empty body is read as {}. */
  bodyOptional?: boolean;
  /**
   * Issues that a schema cannot tell, of those fields that fit it; asked only where something else is wrong with the request, so that
   * all is answered at once. A body without issues is the handler's to check. Lists have undefined in place of what does not fit.
   */
  furtherIssues?(fields: Partial<Typed<B>>, malformed: ReadonlySet<string>): readonly Issue[];
  /** Object schema; properties of type integer, number or boolean are converted from their text. Others are refused. */
  query?: Q;
  /**
   * No query is validated here: the URL is signed and its handler's to validate, or it is opened by programs that add a query of
   * their own (mail programs, probes).
   */
  ownQuery?: boolean;
  /** Object schema of the path parameters, for /openapi.json and for refusals (400). */
  params?: TSchema;
  /** What success looks like. contentType defaults to application/json; schema may be left out for other content. */
  response: RouteResponse;
  /** Other kinds of success, for /openapi.json; their statuses differ from that of `response`. */
  furtherResponses?: readonly RouteResponse[];
  /** Refusals beyond those that every route has, for /openapi.json. */
  refusals?: readonly FailureCode[];
  /** Default 1,000,000. */
  maxBodyBytes?: number;
  /** The most members and elements of a JSON body; 100,000 unless given. */
  maxJsonValues?: number;
  /** Default PAYLOAD_TOO_LARGE. */
  bodyTooLarge?: FailureCode;
  /** Default json. 'raw' takes any Content-Type into rawBody, 'stream' leaves the body unread in request.stream. */
  bodyType?: 'json' | 'text/csv' | 'raw' | 'stream';
  /** The handler runs before the body is parsed and query issues are still validated before it. */
  rawFirst?: boolean;
  /** So many of these calls are worked on at once, not counted among all others: a flood of them holds up nothing else. */
  atOnce?: number;
  /** A long poll or an event stream: not counted against the limit of requests in work, ended when the service stops. */
  waits?: boolean;
  /** Accepts mail: refused while the service may not accept any (disk, queue, storage), after 401 and 403; see backPressure. */
  acceptsMail?: boolean;
  /** Answered also under overload and while the service stops (/health, /ready, /metrics). */
  always?: boolean;
  /** Left out of /openapi.json. */
  hidden?: boolean;
  handle(request: RouteRequest<C, Typed<B>, Typed<Q>>): Promise<RouteAnswer> | RouteAnswer;
}

/** Infers the types of body and query from their schemas; otherwise it returns what it is given. */
export function defineRoute<C, B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: RouteDefinition<C, B, Q>,
): RouteDefinition<C> {
  return definition as unknown as RouteDefinition<C>;
}

/** A JSON answer with the definition's status. */
export function answer(body: unknown, headers?: AnswerHeaders): JsonAnswer {
  return headers === undefined ? { ok: true, body } : { ok: true, body, headers };
}

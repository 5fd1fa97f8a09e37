/**
 * Calls routes of Postrider's API from within the process, for interfaces that translate to them: the checks, the handler and the
 * transaction of the route, without a socket. The caller and the client are those of the outer request.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { type Failure, failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { notPermitted } from './identify.ts';
import { type CompiledRoute, compileRoute, createRouter } from './pipeline.ts';
import type { AnswerHeaders, CallerKey, ContentAnswer, Method, RouteDefinition, RouteRequest } from './route.ts';
import type { ParsedJson } from './strict-json.ts';

type QueryValue = string | number | boolean | undefined;

export interface InnerCall {
  method: Method;
  /** The path with encoded parameters. */
  path: string;
  query?: Readonly<Record<string, QueryValue>>;
  /** A JSON value. */
  body?: unknown;
  /** Names in lower case. Headers of the outer request are not passed on. */
  headers?: Readonly<Record<string, string>>;
  /** See RouteRequest. */
  submitted?: ParsedJson;
}

// biome-ignore lint/suspicious/noExplicitAny: callers know the response of the route that they call
type Body = any;

interface InnerSuccess {
  ok: true;
  status: number;
  headers: AnswerHeaders;
  /** The value of a JSON response. */
  body: Body;
  /** The content of a response that is not JSON. */
  content?: ContentAnswer['content'];
}

export type InnerAnswer = InnerSuccess | { ok: false; failure: Failure };

/** The parts of the outer request that inner calls take over. */
export type OuterRequest<C> = Pick<
  RouteRequest<C>,
  | 'caller'
  | 'backPressure'
  | 'requestId'
  | 'remoteAddress'
  | 'traceparent'
  | 'isSecure'
  | 'signal'
  | 'log'
  | 'noteMessage'
  | 'rawBody'
>;

/** Makes a call on behalf of the outer request. Throws what handlers throw. */
export type InnerCalls<C> = (outer: OuterRequest<C>, call: InnerCall) => Promise<InnerAnswer>;

const NOTHING = Buffer.alloc(0);
const NO_FIELDS = Buffer.from('{}');

class InnerRequest<C> implements RouteRequest<C> {
  readonly #outer: OuterRequest<C>;
  readonly #call: InnerCall;
  readonly method: string;
  readonly url: string;
  params: Readonly<Record<string, string>> = {};
  query: unknown = {};
  inputIssues: readonly Issue[] = [];
  body: unknown = undefined;
  parser: CompiledRoute<C>['parse'] | undefined = undefined;

  constructor(outer: OuterRequest<C>, call: InnerCall, url: string) {
    this.#outer = outer;
    this.#call = call;
    this.method = call.method;
    this.url = url;
  }

  get caller(): C {
    return this.#outer.caller;
  }
  get backPressure(): Failure | undefined {
    return this.#outer.backPressure;
  }
  get requestId(): string {
    return this.#outer.requestId;
  }
  get remoteAddress(): string {
    return this.#outer.remoteAddress;
  }
  get traceparent(): string | undefined {
    return this.#outer.traceparent;
  }
  get isSecure(): boolean {
    return this.#outer.isSecure;
  }
  get signal(): AbortSignal {
    return this.#outer.signal;
  }
  get log(): RouteRequest['log'] {
    return this.#outer.log;
  }
  get headers(): IncomingHttpHeaders {
    return this.#call.headers ?? {};
  }
  get submitted(): ParsedJson | undefined {
    return this.#call.submitted;
  }
  /** The bytes of the outer request, from which the body was made. */
  get rawBody(): Buffer {
    if (this.#call.body === undefined) return NOTHING;
    return this.#outer.rawBody.length === 0 ? NO_FIELDS : this.#outer.rawBody;
  }
  get stream(): Readable {
    return Readable.from([this.rawBody]);
  }

  noteMessage(messageId: string): void {
    this.#outer.noteMessage(messageId);
  }

  headerValues(name: string): string[] {
    const value = this.#call.headers?.[name.toLowerCase()];
    return value === undefined ? [] : [value];
  }

  json(): ParsedJson {
    return ok(this.#call.body ?? {});
  }

  parse(): Result<never> {
    return this.parser!(this) as Result<never>;
  }
}

function searchOf(query: InnerCall['query']): string {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) =>
    value === undefined ? [] : [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`],
  );
  return pairs.join('&');
}

function issuesOf<C>(inner: InnerRequest<C>, route: CompiledRoute<C>, search: string): readonly Issue[] {
  const query = route.readQuery(search);
  if (query.ok) inner.query = query.value;
  const params = route.validateParams?.(inner.params);
  return [query, params].flatMap((read) => (read === undefined || read.ok ? [] : read.failure.details));
}

export function createInnerCalls<C extends CallerKey>(routes: readonly RouteDefinition<C>[]): InnerCalls<C> {
  // Routes for users and operators do not check the permissions of a key.
  const reachable = routes.filter(({ access }) => access.auth === 'key' || access.auth === 'none');
  const router = createRouter(reachable.map((definition) => compileRoute(definition, routes)));
  return async (outer, call) => {
    const match = router(call.method, call.path);
    if (!match.found) return refuse(failure('NOT_FOUND'));
    const { route, params } = match;
    const { definition } = route;
    const refusal = notPermitted(outer.caller, route.access);
    if (refusal !== undefined) return refuse(refusal);
    const search = searchOf(call.query);
    const inner = new InnerRequest(outer, call, search === '' ? call.path : `${call.path}?${search}`);
    inner.params = params;
    inner.parser = route.parse;
    inner.inputIssues = issuesOf(inner, route, search);
    if (!definition.body?.rawFirst) {
      if (inner.inputIssues.length > 0) return refuse(invalid([...inner.inputIssues]));
      const parsed = inner.parse() as Result<unknown>;
      if (!parsed.ok) return parsed;
      inner.body = parsed.value;
    }
    const answered = await definition.handle(inner as unknown as Parameters<typeof definition.handle>[0]);
    if (!answered.ok) return refuse(answered.failure);
    const { status = definition.response.status, headers = {} } = answered;
    if ('json' in answered) return { ok: true, status, headers, body: JSON.parse(answered.json) };
    if ('content' in answered) return { ok: true, status, headers, body: undefined, content: answered.content };
    return { ok: true, status, headers, body: answered.body };
  };
}

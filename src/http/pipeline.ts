/**
 * Finds the route of a request, runs the checks in the documented order (route.ts), and calls the handler. All routes share this pipeline,
 * so the same issue gets the same response everywhere.
 *
 * Paths are compared verbatim: no trailing slash, no dot segments, no case folding. A parameter matches one non-empty segment and is
 * decoded. A fixed segment takes precedence over a parameter, but only for its own methods: GET /templates/render still reaches GET
 * /templates/:id.
 */
import type { TSchema } from 'typebox';
import { type Failure, failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { type Tracer, traceparentOf } from '../base/trace.ts';
import { compileBody } from './absent-fields.ts';
import { refusalAnswer, routeAnswer } from './answer.ts';
import { type BodyBudget, type BodyRules, checkBody, compileQuery, type QueryReader, readBody } from './body.ts';
import type { ArrivedRequest } from './door.ts';
import type { Exchange, Load } from './exchange.ts';
import { type Access, createIdentify, type IdentifyOptions, notPermitted, refusedAddress } from './identify.ts';
import type { RateLimiter } from './rate-limit.ts';
import type { BodyParser, CallerKey, HttpAnswer, Method, Refusal, RouteDefinition } from './route.ts';
import type { ParsedJson } from './strict-json.ts';
import { closed, compile, type Validator } from './validate.ts';

interface RouteAddress {
  method: Method;
  path: string;
}

export interface BackPressure {
  code: 'OVERLOADED' | 'UNAVAILABLE';
  reason: string;
}

type Match<R> =
  | { found: true; route: R; params: Record<string, string> }
  /** `allow` lists the methods of this path; it is empty if the path is unknown. */
  | { found: false; allow: string[] };

type Router<R> = (method: string, path: string) => Match<R>;

interface Pattern<R> {
  segments: string[];
  byMethod: Map<string, R>;
}

const NO_PARAMS: Record<string, string> = Object.freeze(Object.create(null) as Record<string, string>);

function decode(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/** Returns the parameters of a path that matches the pattern; undefined if it does not match. */
function matchSegments(pattern: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  let params = NO_PARAMS;
  for (const [index, expected] of pattern.entries()) {
    const segment = segments[index]!;
    if (expected.startsWith(':')) {
      const value = segment === '' ? undefined : decode(segment);
      if (value === undefined) return undefined;
      if (params === NO_PARAMS) params = Object.create(null) as Record<string, string>;
      params[expected.slice(1)] = value;
    } else if (expected !== segment) return undefined;
  }
  return params;
}

/** Orders patterns of equal length by the first position at which only one of them has a fixed segment. */
function bySpecificity(a: Pattern<unknown>, b: Pattern<unknown>): number {
  // Patterns of different lengths never compete, but sorting needs a total order.
  if (a.segments.length !== b.segments.length) return a.segments.length - b.segments.length;
  for (const [index, segment] of a.segments.entries()) {
    const other = b.segments[index]!;
    if (segment.startsWith(':') !== other.startsWith(':')) return segment.startsWith(':') ? 1 : -1;
  }
  return 0;
}

function shapeOf(path: string): string {
  return path.replaceAll(/:[^/]+/g, ':');
}

function groupByPath<R extends RouteAddress>(routes: readonly R[]): Pattern<R>[] {
  const patterns = new Map<string, Pattern<R>>();
  const seen = new Set<string>();
  for (const route of routes) {
    if (!route.path.startsWith('/')) throw new Error(`the path of a route must start with a slash: ${route.path}`);
    const name = `${route.method} ${shapeOf(route.path)}`;
    if (seen.has(name)) throw new Error(`two routes match ${route.method} ${route.path}`);
    seen.add(name);
    const pattern = patterns.get(route.path) ?? { segments: route.path.split('/'), byMethod: new Map<string, R>() };
    patterns.set(route.path, pattern);
    pattern.byMethod.set(route.method, route);
  }
  return [...patterns.values()].sort(bySpecificity);
}

/** Creates a router; throws if two routes match the same call. */
export function createRouter<R extends RouteAddress>(routes: readonly R[]): Router<R> {
  const byLength = Map.groupBy(groupByPath(routes), ({ segments }) => segments.length);
  return (method, path) => {
    const segments = path.split('/');
    const allow = new Set<string>();
    for (const pattern of byLength.get(segments.length) ?? []) {
      const params = matchSegments(pattern.segments, segments);
      if (params === undefined) continue;
      const route = pattern.byMethod.get(method) ?? (method === 'HEAD' ? pattern.byMethod.get('GET') : undefined);
      if (route !== undefined) return { found: true, route, params };
      for (const other of pattern.byMethod.keys()) allow.add(other);
    }
    if (allow.has('GET')) allow.add('HEAD');
    return { found: false, allow: [...allow].sort() };
  };
}

const DEFAULT_MAX_BODY_BYTES = 1_000_000;
const NO_ISSUES: readonly Issue[] = Object.freeze([]);
/** Schema for calls without a body. They accept an empty object too. */
const NO_FIELDS = closed({});
const EMPTY: ParsedJson = ok({});

export interface CompiledRoute<C> {
  definition: RouteDefinition<C>;
  method: RouteDefinition<C>['method'];
  path: string;
  access: Access;
  readQuery: QueryReader;
  validateParams: Validator | undefined;
  body: BodyRules;
  parse: BodyParser;
  ownLoad: Load | undefined;
}

interface PipelineOptions<C extends CallerKey> extends IdentifyOptions<C> {
  routes: readonly RouteDefinition<C>[];
  rateLimiter?: RateLimiter | undefined;
  budget: BodyBudget;
  tracer: Tracer;
  /** Called for every request whose caller is known, permitted to make the call, and within its rate limit. */
  onAdmitted?: ((caller: C, remoteAddress: string) => void) | undefined;
  /** Checked first on all routes except those with `always`; the refusal is OVERLOADED. */
  overloaded: (exchange: Exchange) => Failure | undefined;
  /** Returns why mail cannot be accepted right now; called on routes that accept mail. */
  backPressure?: (() => BackPressure | undefined) | undefined;
}

/**
 * Returns fields that only the GET response of this path has, or the elements of its list: ids, versions, times, status. PUT ignores them,
 * so a client can send back a resource with one value changed; so does the PATCH of a resource that has a PUT.
 */
function readOnlyFields<C>(
  { method, path, body }: RouteDefinition<C>,
  routes: readonly RouteDefinition<C>[],
): string[] {
  const isWhole =
    method === 'PUT' || (method === 'PATCH' && routes.some((one) => one.method === 'PUT' && one.path === path));
  const schema = body?.schema;
  if (!isWhole || schema === undefined) return [];
  const shown = routes.find((route) => route.method === 'GET' && route.path === path)?.response.schema;
  const writable = propertiesOf(schema);
  const { items } = (shown ?? {}) as { items?: TSchema };
  return Object.keys(propertiesOf(items ?? shown)).filter((name) => !(name in writable));
}

function propertiesOf(schema: TSchema | undefined): Record<string, unknown> {
  return (schema as { properties?: Record<string, unknown> } | undefined)?.properties ?? {};
}

function parserOf<C>(definition: RouteDefinition<C>, routes: readonly RouteDefinition<C>[]): BodyParser {
  const { type = 'json', schema, optional, furtherIssues } = definition.body ?? {};
  if (type === 'stream') return ({ inputIssues }) => withOtherIssues(inputIssues, ok(undefined));
  if (type === 'raw') return ({ rawBody, inputIssues }) => withOtherIssues(inputIssues, ok(rawBody));
  if (type === 'text/csv') return ({ rawBody, inputIssues }) => withOtherIssues(inputIssues, parseText(rawBody));
  const checks = { validate: compileBody(schema ?? NO_FIELDS, readOnlyFields(definition, routes)), furtherIssues };
  const isOptional = schema === undefined || optional === true;
  return (request) => {
    const json = isOptional && request.rawBody.length === 0 ? EMPTY : request.json();
    return checkBody(json, checks, request.inputIssues);
  };
}

/** Returns the value that was read, unless the request has other issues. */
function withOtherIssues(otherIssues: readonly Issue[], read: Result<unknown>): Result<unknown> {
  if (otherIssues.length === 0) return read;
  return refuse(invalid(read.ok ? [...otherIssues] : [...otherIssues, ...read.failure.details]));
}

function parseText(bytes: Buffer): Result<unknown> {
  const text = bytes.toString('utf8');
  if (text.includes('\uFFFD') && !bytes.includes('\uFFFD'))
    return refuse(invalid([{ field: '', message: 'is not valid UTF-8' }]));
  return ok(text);
}

const CONTENT_TYPES = { json: 'application/json', 'text/csv': 'text/csv', raw: undefined, stream: undefined } as const;

export function compileRoute<C>(
  definition: RouteDefinition<C>,
  routes: readonly RouteDefinition<C>[],
): CompiledRoute<C> {
  const { method, path, access, body = {}, load = {} } = definition;
  return {
    definition,
    method,
    path,
    access: { method, ...access },
    readQuery: definition.ownQuery ? () => ok({}) : compileQuery(definition.query),
    validateParams: definition.params === undefined ? undefined : compile(definition.params),
    body: {
      maxBytes: body.maxBytes ?? DEFAULT_MAX_BODY_BYTES,
      tooLarge: body.tooLarge ?? 'PAYLOAD_TOO_LARGE',
      type: CONTENT_TYPES[body.type ?? 'json'],
    },
    parse: parserOf(definition, routes),
    ownLoad: load.atOnce === undefined ? undefined : { inProgress: 0, atMost: load.atOnce },
  };
}

function refused(exchange: Exchange, refusal: Failure | Refusal): HttpAnswer {
  return refusalAnswer('failure' in refusal ? refusal : { failure: refusal }, exchange.requestId);
}

/** Reads the query and checks the path parameters; returns the issues of both. */
function inputIssues<C>(exchange: Exchange, route: CompiledRoute<C>, search: string): readonly Issue[] {
  const query = route.readQuery(search);
  if (query.ok) exchange.query = query.value;
  const params = route.validateParams?.(exchange.params);
  if (query.ok && (params === undefined || params.ok)) return NO_ISSUES;
  return [query, params].flatMap((read) => (read === undefined || read.ok ? [] : read.failure.details));
}

function noRouteFailure(allow: string[]): Failure {
  return allow.length === 0 ? failure('NOT_FOUND') : failure('METHOD_NOT_ALLOWED', { allow });
}

/**
 * Returns whether the call may succeed while no mail is accepted: it may be a retry with a stored response, or a dry run, which stores
 * nothing. The handler refuses all others.
 */
function mayStillSucceed<C>({ request, url, door }: Exchange, { idempotencyKey, query }: RouteDefinition<C>): boolean {
  if (!idempotencyKey) return false;
  const names = door?.repeatHeaders ?? ['idempotency-key'];
  return names.some((name) => request.headers[name] !== undefined) || (query !== undefined && url.includes('?'));
}

/** Reads the body of a request; later calls return the same result. */
type BodyReader = () => ReturnType<typeof readBody>;

function once<T>(read: () => T): () => T {
  let result: { value: T } | undefined;
  return () => {
    result ??= { value: read() };
    return result.value;
  };
}

/** Returns the request as doors see it before the caller is known. */
function arrivedRequest(exchange: Exchange, body: BodyReader): ArrivedRequest {
  const { method, url, headers, isSecure, forwardedHost } = exchange;
  return {
    method,
    url,
    headers,
    isSecure,
    forwardedHost,
    headerValues: (name) => exchange.headerValues(name),
    readBody: async () => {
      const bytes = await body();
      if (bytes === undefined) return refuse(failure('UNAUTHORIZED'));
      return 'failure' in bytes ? refuse(bytes.failure) : ok(bytes);
    },
  };
}

function beginTrace(exchange: Exchange, tracer: Tracer): void {
  exchange.callerTrace = traceparentOf(exchange.request.headers.traceparent);
  exchange.traceparent = tracer.begin(exchange.callerTrace);
}

/** Handles one request; resolves with undefined if the client disconnected before it was complete. Rethrows errors of handlers. */
type Pipeline = (exchange: Exchange) => Promise<HttpAnswer | undefined>;

export function createPipeline<C extends CallerKey>(options: PipelineOptions<C>): Pipeline {
  const router: Router<CompiledRoute<C>> = createRouter(
    options.routes.map((definition) => compileRoute(definition, options.routes)),
  );

  const identify = createIdentify(options);

  /** Identifies the caller and sets it. Returns the failure if it is unknown (401), not permitted (403), or over its rate limit (429). */
  async function admit(exchange: Exchange, access: Access, body: BodyReader): Promise<Failure | undefined> {
    const { door } = exchange;
    const identified = await (door === undefined
      ? identify(exchange.request, access)
      : door.identify(arrivedRequest(exchange, body), access));
    if (!identified.ok) return identified.failure;
    const caller = identified.value;
    exchange.caller = caller;
    const refusal = refusedAddress(caller, exchange.remoteAddress) ?? notPermitted(caller, access);
    if (refusal !== undefined) return refusal;
    const decision = options.rateLimiter?.take(caller.keyId, exchange.startedMs);
    if (decision !== undefined) exchange.extraHeaders = decision.headers;
    if (decision?.failure !== undefined) return decision.failure;
    options.onAdmitted?.(caller as C, exchange.remoteAddress);
    return undefined;
  }

  return async (exchange) => {
    const url = exchange.request.url ?? '';
    const queryStart = url.indexOf('?');
    const match = router(exchange.request.method ?? '', queryStart === -1 ? url : url.slice(0, queryStart));
    if (!match.found) return refused(exchange, noRouteFailure(match.allow));
    const { route } = match;
    const { definition, access } = route;
    const { body: bodyOptions = {}, load = {} } = definition;
    exchange.routeName = `${definition.method} ${definition.path}`;
    exchange.params = match.params;
    exchange.waits = load.waits === true;
    exchange.ownLoad = route.ownLoad;
    exchange.acceptsMail = load.acceptsMail === true;
    exchange.maxJsonValues = bodyOptions.maxJsonValues;
    const body = once(() => readBody(exchange, route.body, options.budget));
    const overload = load.always ? undefined : options.overloaded(exchange);
    if (overload !== undefined) return refused(exchange, overload);
    if (access.auth !== 'none') {
      const notAdmitted = await admit(exchange, access, body);
      if (notAdmitted !== undefined) return refused(exchange, notAdmitted);
    }
    if (load.acceptsMail) beginTrace(exchange, options.tracer);
    const pressure = load.acceptsMail ? options.backPressure?.() : undefined;
    if (pressure !== undefined) {
      const { code, reason } = pressure;
      exchange.backPressure = failure(code, { message: `Nothing was accepted: ${reason}. Retry later.` });
      if (!mayStillSucceed(exchange, definition)) return refused(exchange, exchange.backPressure);
    }
    const bytes = bodyOptions.type === 'stream' ? exchange.rawBody : await body();
    if (bytes === undefined) return undefined;
    if ('failure' in bytes) return refused(exchange, bytes);
    exchange.rawBody = bytes;
    exchange.inputIssues = inputIssues(exchange, route, queryStart === -1 ? '' : url.slice(queryStart + 1));
    exchange.parser = route.parse;
    if (!bodyOptions.rawFirst) {
      const parsed = exchange.parse();
      if (!parsed.ok) return refused(exchange, parsed.failure);
      exchange.body = parsed.value;
    }
    const answer = await definition.handle(exchange as Parameters<typeof definition.handle>[0]);
    return routeAnswer(answer, definition.response.status, exchange.requestId);
  };
}

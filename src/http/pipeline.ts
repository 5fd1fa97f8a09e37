/**
 * Takes a request step by step in the published order (route.ts) and runs its handler. There is one pipeline for every route, the
 * fast ones included, so that an issue is answered alike everywhere.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type Failure, failure, type Issue, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { type HttpAnswer, type Refusal, refusalAnswer, routeAnswer } from './answer.ts';
import { type BodyBudget, type BodyRules, readBody } from './body.ts';
import { checkBody } from './check-body.ts';
import type { Exchange } from './exchange.ts';
import { compileQuery, type QueryReader } from './query.ts';
import type { RateLimiter } from './rate-limit.ts';
import { type BodyParser, type CallerKey, NO_LIVE_POWER, type RouteDefinition } from './route.ts';
import { createRouter, type Router } from './router.ts';
import type { ParsedJson } from './strict-json.ts';
import { closed, compile, type Validator } from './validate.ts';

const DEFAULT_MAX_BODY_BYTES = 1_000_000;
const NO_ISSUES: readonly Issue[] = Object.freeze([]);
/** Of calls that take no body: nothing, or an object that is empty too. */
const NO_FIELDS = closed({});
const EMPTY: ParsedJson = ok({});

interface Compiled<C> {
  definition: RouteDefinition<C>;
  method: RouteDefinition<C>['method'];
  path: string;
  readQuery: QueryReader;
  validateParams: Validator | undefined;
  body: BodyRules;
  parse: BodyParser;
}

/** Who calls, or 401 and 403 of the account. */
export type Authenticate<C> = (headers: IncomingHttpHeaders) => Result<C> | Promise<Result<C>>;

export interface PipelineOptions<C extends CallerKey> {
  routes: readonly RouteDefinition<C>[];
  authenticate: Authenticate<C>;
  rateLimiter?: RateLimiter | undefined;
  budget: BodyBudget;
  /** Checked before anything else on a route that does not answer always; the refusal is OVERLOADED. */
  overloaded: (exchange: Exchange) => Failure | undefined;
  /** Why no mail may be accepted right now; asked on routes that accept mail. */
  backPressure?: (() => string | undefined) | undefined;
}

function parserOf<C>({ bodyType = 'json', body: schema, bodyOptional, furtherIssues }: RouteDefinition<C>): BodyParser {
  if (bodyType === 'stream') return ({ inputIssues }) => unless(inputIssues, ok(undefined));
  if (bodyType === 'raw') return ({ rawBody, inputIssues }) => unless(inputIssues, ok(rawBody));
  if (bodyType === 'text/csv') return ({ rawBody, inputIssues }) => unless(inputIssues, parseText(rawBody));
  const checks = { validate: compile(schema ?? NO_FIELDS), furtherIssues };
  const isOptional = schema === undefined || bodyOptional === true;
  return (request) => {
    const json = isOptional && request.rawBody.length === 0 ? EMPTY : request.json();
    return checkBody(json, checks, request.inputIssues);
  };
}

/** What was read, unless there are issues elsewhere. */
function unless(elsewhere: readonly Issue[], read: Result<unknown>): Result<unknown> {
  if (elsewhere.length === 0) return read;
  return refuse(invalid(read.ok ? [...elsewhere] : [...elsewhere, ...read.failure.details]));
}

function parseText(bytes: Buffer): Result<unknown> {
  const text = bytes.toString('utf8');
  if (text.includes('\uFFFD') && !bytes.includes('\uFFFD'))
    return refuse(invalid([{ field: '', message: 'is not valid UTF-8' }]));
  return ok(text);
}

const CONTENT_TYPES = { json: 'application/json', 'text/csv': 'text/csv', raw: undefined, stream: undefined } as const;

function compileRoute<C>(definition: RouteDefinition<C>): Compiled<C> {
  return {
    definition,
    method: definition.method,
    path: definition.path,
    readQuery: definition.ownQuery ? () => ok({}) : compileQuery(definition.query),
    validateParams: definition.params === undefined ? undefined : compile(definition.params),
    body: {
      maxBytes: definition.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES,
      tooLarge: definition.bodyTooLarge ?? 'PAYLOAD_TOO_LARGE',
      type: CONTENT_TYPES[definition.bodyType ?? 'json'],
    },
    parse: parserOf(definition),
  };
}

function refused(exchange: Exchange, refusal: Failure | Refusal): HttpAnswer {
  return refusalAnswer('failure' in refusal ? refusal : { failure: refusal }, exchange.requestId);
}

/** Reads query and parameters; answers what is wrong with them. */
function inputIssues<C>(exchange: Exchange, route: Compiled<C>, search: string): readonly Issue[] {
  const query = route.readQuery(search);
  if (query.ok) exchange.query = query.value;
  const params = route.validateParams?.(exchange.params);
  if (query.ok && (params === undefined || params.ok)) return NO_ISSUES;
  return [query, params].flatMap((read) => (read === undefined || read.ok ? [] : read.failure.details));
}

function unrouted(allow: string[]): Failure {
  return allow.length === 0 ? failure('NOT_FOUND') : failure('METHOD_NOT_ALLOWED', { allow });
}

/** Answers one request; undefined when the client went away before it was complete. Throws what handlers throw. */
export type Pipeline = (exchange: Exchange) => Promise<HttpAnswer | undefined>;

export function createPipeline<C extends CallerKey>(options: PipelineOptions<C>): Pipeline {
  const router: Router<Compiled<C>> = createRouter(options.routes.map(compileRoute));

  /** 401, 403 and 429; sets the caller. */
  async function identify(exchange: Exchange, definition: RouteDefinition<C>): Promise<Failure | undefined> {
    const identified = await options.authenticate(exchange.request.headers);
    if (!identified.ok) return identified.failure;
    const caller = identified.value;
    if (definition.scope !== 'send' && caller.scope !== 'full') return failure('FORBIDDEN');
    if (definition.changesShared && caller.mode === 'sandbox') return NO_LIVE_POWER;
    exchange.caller = caller;
    if (options.rateLimiter === undefined) return undefined;
    const decision = options.rateLimiter.take(caller.keyId, exchange.startedMs);
    exchange.extraHeaders = decision.headers;
    return decision.failure;
  }

  return async (exchange) => {
    const url = exchange.request.url ?? '';
    const mark = url.indexOf('?');
    const match = router(exchange.request.method ?? '', mark === -1 ? url : url.slice(0, mark));
    if (!match.found) return refused(exchange, unrouted(match.allow));
    const { route } = match;
    const { definition } = route;
    exchange.routeName = `${definition.method} ${definition.path}`;
    exchange.params = match.params;
    exchange.waits = definition.waits === true;
    exchange.acceptsMail = definition.acceptsMail === true;
    const overload = definition.always ? undefined : options.overloaded(exchange);
    if (overload !== undefined) return refused(exchange, overload);
    if (definition.auth === 'key') {
      const stranger = await identify(exchange, definition);
      if (stranger !== undefined) return refused(exchange, stranger);
    }
    const closed = definition.acceptsMail ? options.backPressure?.() : undefined;
    if (closed !== undefined) {
      return refused(exchange, failure('OVERLOADED', { message: `Nothing was accepted: ${closed}. Repeat it later.` }));
    }
    const bytes =
      definition.bodyType === 'stream' ? exchange.rawBody : await readBody(exchange, route.body, options.budget);
    if (bytes === undefined) return undefined;
    if ('failure' in bytes) return refused(exchange, bytes);
    exchange.rawBody = bytes;
    exchange.inputIssues = inputIssues(exchange, route, mark === -1 ? '' : url.slice(mark + 1));
    exchange.parser = route.parse;
    if (!definition.rawFirst) {
      const parsed = exchange.parse();
      if (!parsed.ok) return refused(exchange, parsed.failure);
      exchange.body = parsed.value;
    }
    const answer = await definition.handle(exchange as Parameters<typeof definition.handle>[0]);
    return routeAnswer(answer, definition.response.status, exchange.requestId);
  };
}

/**
 * Takes a request step by step in the published order (route.ts) and runs its handler. There is one pipeline for every route, the
 * fast ones included, so that an issue is answered alike everywhere. Steps that need not wait do not: a request whose key is
 * cached and whose body came in one packet meets two promises, its body and its handler.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type Failure, failure, type Issue, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { type HttpAnswer, type Refusal, refusalAnswer, routeAnswer } from './answer.ts';
import { type BodyBudget, type BodyRules, readBody } from './body.ts';
import type { Exchange } from './exchange.ts';
import { compileQuery, type QueryReader } from './query.ts';
import type { RateLimiter } from './rate-limit.ts';
import { type Fitting, validateFully, validateParsed, withFurtherIssues } from './rest-issues.ts';
import { type CallerKey, NO_LIVE_POWER, type RouteDefinition, type Scope } from './route.ts';
import { createRouter, type Router } from './router.ts';
import { type ParsedJson, parseStrictJson } from './strict-json.ts';
import { compile, type Validator } from './validate.ts';

const DEFAULT_MAX_BODY_BYTES = 1_000_000;

interface Compiled<C> {
  definition: RouteDefinition<C>;
  method: RouteDefinition<C>['method'];
  path: string;
  name: string;
  scope: Scope;
  readQuery: QueryReader;
  validateParams: Validator | undefined;
  body: BodyRules;
  parse: Parse;
}

/** Who calls, or 401 and 403 of the account. May answer at once; a promise costs a turn of the queue. */
export type Authenticate<C> = (headers: IncomingHttpHeaders) => Result<C> | Promise<Result<C>>;

export interface PipelineOptions<C extends CallerKey> {
  routes: readonly RouteDefinition<C>[];
  authenticate: Authenticate<C>;
  rateLimiter?: RateLimiter | undefined;
  budget: BodyBudget;
  /** Checked before anything else on a route that does not answer always; the refusal is OVERLOADED. */
  overloaded: (exchange: Exchange) => Failure | undefined;
  /** Why no mail may be taken on right now; asked on routes that are intake. */
  intakeClosed?: (() => string | undefined) | undefined;
}

/**
 * With `everything` a body that fits its schema is validated by all that is asked of the rest of one that does not; `json` is the
 * value of the bytes where it was read already.
 */
type Parse = (bytes: Buffer, everything?: boolean, json?: ParsedJson) => Result<unknown>;

function parserOf<C>(definition: RouteDefinition<C>): Parse {
  const type = definition.bodyType ?? 'json';
  if (type === 'raw') return ok;
  if (type === 'text/csv') return parseText;
  const schema = definition.body;
  if (schema === undefined) return parseNothing;
  const validate = compile(schema);
  const checkRest = ({ fields, malformed, rest }: Fitting): readonly Issue[] =>
    definition.checkRest?.(fields, malformed, rest) ?? [];
  const ordinary = validateFully({ validate, checkRest, everything: false });
  const thorough = validateFully({ validate, checkRest, everything: true });
  return (bytes, everything = false, json) => {
    const validate = everything ? thorough : ordinary;
    if (bytes.length === 0 && definition.bodyOptional) return validate({}, []);
    return validateParsed(json ?? parseStrictJson(bytes), validate);
  };
}

function parseText(bytes: Buffer): Result<unknown> {
  const text = bytes.toString('utf8');
  if (text.includes('\uFFFD') && !bytes.includes('\uFFFD'))
    return refuse(invalid([{ field: '', message: 'is not valid UTF-8' }]));
  return ok(text);
}

/** For calls without fields of their own: nothing, or an object that is empty too. */
function parseNothing(bytes: Buffer): Result<unknown> {
  return bytes.length === 0 ? ok(undefined) : validateParsed(parseStrictJson(bytes), expectNothing);
}

function expectNothing(value: unknown, before: readonly Issue[]): Result<undefined> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return refuse(withFurtherIssues(before, [{ field: '', message: 'must be empty: this call takes no body' }]));
  }
  const unknown = Object.keys(value).map((field) => ({ field, message: 'is not a known field' }));
  const found = [...before, ...unknown];
  return found.length === 0 ? ok(undefined) : refuse(withFurtherIssues(before, unknown));
}

const CONTENT_TYPES = { json: 'application/json', 'text/csv': 'text/csv', raw: undefined, stream: undefined } as const;

function compileRoute<C>(definition: RouteDefinition<C>): Compiled<C> {
  return {
    definition,
    method: definition.method,
    path: definition.path,
    name: `${definition.method} ${definition.path}`,
    scope: definition.scope ?? 'full',
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

function validateInput<C>(exchange: Exchange, route: Compiled<C>, search: string): Failure | undefined {
  const details = [];
  const query = route.readQuery(search);
  if (query.ok) exchange.query = query.value;
  else details.push(...query.failure.details);
  const params = route.validateParams?.(exchange.params);
  if (params !== undefined && !params.ok) details.push(...params.failure.details);
  return details.length === 0 ? undefined : invalid(details);
}

function unrouted(allow: string[]): Failure {
  return allow.length === 0 ? failure('NOT_FOUND') : failure('METHOD_NOT_ALLOWED', { allow });
}

/** Answers one request; undefined when the client went away before it was complete. Throws what handlers throw. */
export type Pipeline = (exchange: Exchange) => Promise<HttpAnswer | undefined>;

export function createPipeline<C extends CallerKey>(options: PipelineOptions<C>): Pipeline {
  const router: Router<Compiled<C>> = createRouter(options.routes.map(compileRoute));

  /** 401, 403 and 429; sets the caller. */
  async function identify(exchange: Exchange, route: Compiled<C>): Promise<Failure | undefined> {
    const pending = options.authenticate(exchange.request.headers);
    const identified = pending instanceof Promise ? await pending : pending;
    if (!identified.ok) return identified.failure;
    const caller = identified.value;
    if (route.scope === 'full' && caller.scope !== 'full') return failure('FORBIDDEN');
    if (route.definition.changesShared && caller.mode === 'sandbox') return NO_LIVE_POWER;
    exchange.caller = caller;
    if (options.rateLimiter === undefined) return undefined;
    const verdict = options.rateLimiter.take(caller.keyId, exchange.startedMs);
    exchange.extraHeaders = verdict.headers;
    return verdict.failure;
  }

  return async (exchange) => {
    const url = exchange.request.url ?? '';
    const mark = url.indexOf('?');
    const match = router(exchange.request.method ?? '', mark === -1 ? url : url.slice(0, mark));
    if (!match.found) return refused(exchange, unrouted(match.allow));
    const { route } = match;
    const { definition } = route;
    exchange.routeName = route.name;
    exchange.params = match.params;
    exchange.waits = definition.waits === true;
    exchange.isIntake = definition.intake === true;
    const overload = definition.always ? undefined : options.overloaded(exchange);
    if (overload !== undefined) return refused(exchange, overload);
    if (definition.auth === 'key') {
      const stranger = await identify(exchange, route);
      if (stranger !== undefined) return refused(exchange, stranger);
    }
    const closed = definition.intake ? options.intakeClosed?.() : undefined;
    if (closed !== undefined) {
      return refused(exchange, failure('OVERLOADED', { message: `Nothing was accepted: ${closed}. Repeat it later.` }));
    }
    const reading =
      definition.bodyType === 'stream' ? exchange.rawBody : readBody(exchange, route.body, options.budget);
    const bytes = reading instanceof Promise ? await reading : reading;
    if (bytes === undefined) return undefined;
    if ('failure' in bytes) return refused(exchange, bytes);
    exchange.rawBody = bytes;
    const issue = validateInput(exchange, route, mark === -1 ? '' : url.slice(mark + 1));
    if (definition.rawFirst) {
      exchange.parser = route.parse;
      if (issue !== undefined) exchange.inputIssues = issue.details;
    } else if (definition.bodyType !== 'stream') {
      const parsed = route.parse(bytes, issue !== undefined);
      if (!parsed.ok && issue !== undefined)
        return refused(exchange, invalid([...issue.details, ...parsed.failure.details]));
      if (!parsed.ok) return refused(exchange, parsed.failure);
      exchange.body = definition.bodyType === 'raw' ? bytes : parsed.value;
    }
    if (issue !== undefined && !definition.rawFirst) return refused(exchange, issue);
    const pending = definition.handle(exchange as Parameters<typeof definition.handle>[0]);
    const answer = pending instanceof Promise ? await pending : pending;
    return routeAnswer(answer, definition.response.status, exchange.requestId);
  };
}

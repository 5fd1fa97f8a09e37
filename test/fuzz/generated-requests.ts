/**
 * Calls every operation of the served OpenAPI document with generated requests: valid ones, almost valid ones, and ones that are not JSON.
 * No response is a 5xx, and each has a documented status, a body that matches its schema, and only documented headers.
 */

import fc from 'fast-check';
import type { Answer, Call } from '../kit/api.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { fittingOf, nearlyOf, type Resolve } from '../kit/schema-values.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { TEST_LOGO } from '../kit/test-logo.ts';
import { Checker, type Described, type Document, type Operation, type Parameter } from './answer-checker.ts';
import { FILE, FILE_TYPE, type IdOf, KEPT_DOMAIN, PLACEHOLDER, seed, uniqueName } from './request-seeds.ts';

/** Endless streams: only their start is checked. */
const ENDLESS = new Set(['streamEvents']);
const NOT_JSON = [
  '',
  '{',
  '[]',
  'null',
  '"text"',
  '{"a":1,"a":2}',
  '{"a":NaN}',
  '['.repeat(500),
  '\ufeff{}',
  '{}x',
  Buffer.from([0xff, 0xfe]),
];

export const describedIn = (document: Document): Described[] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );

/** The parts of a call; values that depend on the service are filled in when it is sent. */
interface Recipe {
  key: 'sandbox' | 'live' | 'none' | 'wrong';
  path: Record<string, string | undefined>;
  query: string;
  body: unknown;
  isRaw: boolean;
  contentType: string;
  idempotencyKey: string | undefined;
}

const textOf = (value: unknown): string =>
  (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).toWellFormed();

function queryOf(parameters: readonly Parameter[], resolve: Resolve): fc.Arbitrary<string> {
  const pairs = parameters.map(({ name, schema, explode }) => {
    if (explode) return fc.constantFrom([], [`${name}.order=17`], [`${name}.=`], [`${name}.${'x'.repeat(200)}=%00`]);
    const value = fc.oneof(
      { weight: 3, arbitrary: fittingOf(schema, resolve) },
      { weight: 1, arbitrary: nearlyOf(schema, resolve) },
    );
    return fc
      .option(value, { nil: undefined, freq: 1 })
      .map((one) =>
        (Array.isArray(one) ? one : one === undefined ? [] : [one]).map(
          (each) => `${name}=${encodeURIComponent(textOf(each))}`,
        ),
      );
  });
  const odd = fc.constantFrom('unknown=1', '%', 'limit=%ff', 'limit=1&limit=2', '&&=', 'cursor=WyJ4Il0');
  const strange = fc.oneof({ weight: 5, arbitrary: fc.constant('') }, { weight: 1, arbitrary: odd });
  return fc
    .tuple(strange, ...pairs)
    .map(([extra, ...all]) => [...all.flat(), ...(extra === '' ? [] : [extra])].join('&'));
}

/** An upload has the type in its manifest. */
const sentType = (contentType: string): string =>
  contentType === 'application/octet-stream' ? FILE_TYPE : contentType;

function bodyOf(
  { requestBody }: Operation,
  resolve: Resolve,
): fc.Arbitrary<Pick<Recipe, 'body' | 'isRaw' | 'contentType'>> {
  if (requestBody === undefined) return fc.constant({ body: undefined, isRaw: false, contentType: '' });
  const [[contentType, { schema = {} }] = ['', {}]] = Object.entries(requestBody.content);
  if (contentType !== 'application/json') {
    const bytes = fc.oneof(
      fc.string({ maxLength: 300 }),
      fc.constantFrom('email,reason\nann@example.com,manual\n', '\0'),
    );
    return bytes.map((body) => ({ body, isRaw: true, contentType: sentType(contentType) }));
  }
  const fits = fittingOf(schema, resolve);
  const json = (value: fc.Arbitrary<unknown>) => value.map((body) => ({ body, isRaw: false, contentType }));
  return fc.oneof(
    { weight: 5, arbitrary: json(fits) },
    { weight: 4, arbitrary: json(nearlyOf(schema, resolve)) },
    { weight: 1, arbitrary: fc.constantFrom<unknown>(...NOT_JSON).map((body) => ({ body, isRaw: true, contentType })) },
    { weight: 1, arbitrary: json(fits).map((one) => ({ ...one, contentType: 'text/plain' })) },
  );
}

/** One in this many requests has an invalid key. */
const KEYS: Recipe['key'][] = [
  ...Array<'sandbox'>(8).fill('sandbox'),
  ...Array<'live'>(6).fill('live'),
  'none',
  'wrong',
];

function recipeOf({ path, operation }: Described, resolve: Resolve): fc.Arbitrary<Recipe> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  const strange = fc.option(
    fc.oneof(
      fc.string({ minLength: 1, maxLength: 40 }),
      fc.constantFrom('msg_x', '..', '%', 'a b', '🙂', '\0', 'x'.repeat(300)),
    ),
    { nil: undefined, freq: 1 },
  );
  const inQuery = (operation.parameters ?? []).filter((one) => one.in === 'query');
  const keys = fc.constantFrom<Recipe['key'][]>(...KEYS);
  const idempotencyKeys = fc.constantFrom(undefined, undefined, 'k1', 'k2', 'x'.repeat(256), 'a\tb', '\xe9');
  return fc
    .record({
      key: keys,
      path: fc.record(Object.fromEntries(names.map((name) => [name, strange]))),
      query: queryOf(inQuery, resolve),
      body: bodyOf(operation, resolve),
      idempotencyKey: idempotencyKeys,
    })
    .map(({ body, ...recipe }) => ({ ...recipe, ...body }) as Recipe);
}

function callOf({ method, path }: Described, recipe: Recipe, idOf: IdOf): Call {
  const filled = path.replaceAll(PLACEHOLDER, (_, noun: string, name: string) => {
    const value = recipe.path[name] ?? idOf(noun, name) ?? 'x';
    // The client removes dot segments from the path.
    return `${noun}/${encodeURIComponent(value.toWellFormed()).replaceAll('.', '%2E')}`;
  });
  const { body, isRaw, contentType, idempotencyKey } = recipe;
  return {
    method,
    path: recipe.query === '' ? filled : `${filled}?${recipe.query}`,
    ...(body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body) }),
    headers: {
      ...(body === undefined ? {} : { 'content-type': contentType }),
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      ...(path.startsWith('/shared/') ? { 'x-share-token': idOf('shared', 'token') ?? 'x' } : {}),
    },
    timeoutMs: 60_000,
  };
}

/** The calls that the examples of the document describe, with either key. */
function plainRecipes({ path, operation }: Described): Recipe[] {
  const [[contentType, { example }] = ['', { example: undefined }]] = Object.entries(
    operation.requestBody?.content ?? {},
  );
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name!, undefined]);
  return (['sandbox', 'sandbox', 'live'] as const).map((key) => {
    const isNamed = typeof example === 'object' && example !== null && 'name' in example;
    const body =
      contentType === 'application/octet-stream' ? FILE : isNamed ? { ...example, name: uniqueName() } : example;
    const shared = { path: Object.fromEntries(names), query: '', body, isRaw: contentType !== 'application/json' };
    return { ...shared, key, contentType: sentType(contentType), idempotencyKey: undefined };
  });
}

const resolver =
  (document: Document): Resolve =>
  (schema) => {
    if (typeof schema.$ref !== 'string') return schema;
    const [kind = '', name = ''] = schema.$ref.replace('#/components/', '').split('/');
    return document.components[kind]![name]!;
  };

/** Operations that a key can call, or anyone; those of logged-in users are tested with their sessions. */
/** Operations without `security` have that of the document, which includes keys. */
const isForKeys = ({ operation: { security } }: Described): boolean =>
  security === undefined || security.length === 0 || security.some((one) => 'apiKey' in (one as object));

/** Operations with these tags require a logged-in user. */
const TAGS_OF_PEOPLE = new Set(['session', 'users', 'operator']);

/** Reads no further than the headers. */
async function beginning(service: Service, { path }: Call, headers: Record<string, string>): Promise<Answer> {
  const stop = new AbortController();
  const answer = await fetch(service.url + path, { headers, signal: stop.signal });
  const text = answer.status === 200 ? '' : await answer.text();
  stop.abort();
  return { status: answer.status, headers: Object.fromEntries(answer.headers), text, body: {} };
}

async function sent(service: Service, key: Recipe['key'], call: Call, isEndless: boolean): Promise<Answer> {
  const { live, sandbox } = service;
  if (isEndless) {
    const { accountId, apiKey } = key === 'live' ? live : sandbox;
    return beginning(service, call, { 'x-api-key': apiKey, 'x-id': accountId });
  }
  if (key === 'wrong') {
    const headers = { ...call.headers, 'x-id': live.accountId, 'x-api-key': 'pr_live_wrong' };
    return service.anonymous.call({ ...call, headers });
  }
  return { sandbox: service.sandboxApi, live: service.api, none: service.anonymous }[key].call(call);
}

/** How often a call is repeated after a 503, for example for statistics that are still being counted. */
const REPEATS = 10;

/** Sends a call as a client does: a documented 503 with `Retry-After` is retried after that time. */
async function answerTo(
  service: Service,
  key: Recipe['key'],
  call: Call,
  { operation: { operationId, responses } }: Described,
): Promise<Answer> {
  for (let repeats = 0; ; repeats += 1) {
    const answer = await sent(service, key, call, ENDLESS.has(operationId));
    const waitSeconds = Number(answer.headers['retry-after']);
    const isToBeRepeated = answer.status === 503 && responses[503] !== undefined && waitSeconds > 0;
    if (!isToBeRepeated || repeats === REPEATS) return answer;
    await new Promise((resolve) => setTimeout(resolve, waitSeconds * 1_000));
  }
}

/** A wait would take seconds. */
const hurried = (query: string): string =>
  [...query.split('&').filter((one) => one !== '' && !/^timeoutSeconds=\d/.test(one)), 'timeoutSeconds=0'].join('&');

export interface Run {
  /** Counts per operation. */
  requests: number;
  seed: number;
}

export interface Seen {
  /** How often each status was returned, by operation. */
  statuses: Record<string, Record<string, number>>;
  /** Operations that only require a key. Others need a password, a passkey, or an invitation, and are tested with user sessions. */
  byKeys: string[];
  /** Responses that do not match the document, each kind once. */
  problems: string[];
}

/** Calls the operations of the document that a key can call. */
export async function callEverything({ requests, seed: from }: Run): Promise<Seen> {
  const dns = await fakeDns({});
  const service = await startService({
    env: {
      POSTRIDER_ROUTE: 'smtp://127.0.0.1:1',
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_LOG_LEVEL: 'error',
      POSTRIDER_MCP: 'on',
    },
  });
  try {
    await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
    await service.cli('domain', 'add', service.live.accountId, KEPT_DOMAIN, '--verified');
    await service.cli('account', 'set', service.live.accountId, '--email-limit', '40000000');
    const { body } = await service.anonymous.get('/openapi.json');
    const document = body as unknown as Document;
    const checker = new Checker(document);
    const statuses: Seen['statuses'] = {};
    const problems = new Map<string, string>();
    for (const described of describedIn(document).filter(isForKeys)) {
      const { operationId } = described.operation;
      const idOf = await seed(service, described.path);
      // Another operation may have removed it.
      if (operationId === 'getLogo') await service.api.put('/account/logo', { content: TEST_LOGO });
      const generated = fc.sample(recipeOf(described, resolver(document)), { numRuns: requests, seed: from });
      const recipes = [...plainRecipes(described), ...generated];
      const counts: Record<string, number> = {};
      statuses[operationId] = counts;
      for (const recipe of recipes) {
        if (operationId === 'waitForSandboxMessage') recipe.query = hurried(recipe.query);
        const call = callOf(described, recipe, idOf);
        const answer = await answerTo(service, recipe.key, call, described);
        counts[answer.status] = (counts[answer.status] ?? 0) + 1;
        const problem = checker.problemOf(described, answer);
        if (problem === undefined || problems.has(`${operationId} ${problem}`)) continue;
        const shown = JSON.stringify({ key: recipe.key, ...call }).slice(0, 2_000);
        problems.set(`${operationId} ${problem}`, `sent: ${shown}\nanswer: ${answer.text.slice(0, 500)}`);
      }
    }
    const all = [...problems].map(([problem, how]) => `${problem}\n${how}`);
    const byKeys = describedIn(document)
      .filter(isForKeys)
      .filter(({ operation }) => !operation.tags.some((tag) => TAGS_OF_PEOPLE.has(tag)))
      .map(({ operation }) => operation.operationId);
    return { statuses, byKeys, problems: all.length === 0 ? [] : [...all, service.log.slice(-4_000)] };
  } finally {
    await service.close();
    await dns.close();
  }
}

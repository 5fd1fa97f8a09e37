/**
 * Generates /openapi.json (OpenAPI 3.1) from the route definitions and the schemas that validate requests. A schema with a title is
 * described once, under components, with its example. The output is deterministic, with paths in alphabetical order, so a generated client
 * changes only when the API does.
 */
import { isDeepStrictEqual } from 'node:util';
import type { TSchema } from 'typebox';
import { errorCatalog, type FailureCode, issueCodes } from '../base/failure.ts';
import type { Method, RouteAccess, RouteDefinition, RouteResponse } from './route.ts';

type Json = Record<string, unknown>;

const METHODS: readonly Method[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

const REFUSAL_SCHEMA = {
  title: 'Refusal',
  type: 'object',
  required: ['success', 'error', 'reasonCode', 'requestId'],
  properties: {
    success: { const: false },
    error: {
      type: 'object',
      required: ['code', 'message', 'details'],
      properties: {
        code: { type: 'string', enum: Object.keys(errorCatalog) },
        message: { type: 'string', description: 'One sentence that describes the problem and the fix.' },
        details: {
          type: 'array',
          items: {
            type: 'object',
            required: ['field', 'code', 'message'],
            properties: {
              field: { type: 'string', description: 'Path of the field, such as attachments[0].sha256.' },
              code: {
                type: 'string',
                description: `${Object.keys(issueCodes).join(', ')}, or the code of the error.`,
              },
              message: { type: 'string' },
              line: { type: 'integer' },
              column: { type: 'integer' },
            },
          },
        },
      },
    },
    reasonCode: { type: 'string', description: 'Repeats error.code.' },
    requestId: { type: 'string' },
  },
};

/** Returns the schema as JSON, without the messages of patterns. A property with that name has a schema instead of a text. */
function plain(schema: TSchema): Json {
  const isMessage = (name: string, value: unknown): boolean => name === 'phrase' && typeof value === 'string';
  return JSON.parse(JSON.stringify(schema, (name, value) => (isMessage(name, value) ? undefined : value))) as Json;
}

const text = { type: 'string' } as const;

class Components {
  readonly schemas: Record<string, Json> = {};
  readonly responses: Record<string, Json> = {};
  readonly parameters: Record<string, Json> = { ...REQUEST_HEADERS };
  readonly #examples: Readonly<Record<string, unknown>>;

  constructor({ examples = {} }: OpenapiOptions) {
    this.#examples = examples;
  }

  /**
   * Returns the schema with references instead of named schemas, which are moved to the components. Throws if two different schemas have
   * the same name, which is a bug.
   */
  withReferences(schema: unknown): unknown {
    if (Array.isArray(schema)) return schema.map((one) => this.withReferences(one));
    if (typeof schema !== 'object' || schema === null) return schema;
    if ('shownAs' in schema) return this.withReferences(schema.shownAs);
    const used = Object.fromEntries(
      Object.entries(schema).map(([key, value]) => [key, this.withReferences(value)]),
    ) as Json;
    const { title } = used;
    if (typeof title !== 'string') return used;
    const known = this.schemas[title];
    if (known !== undefined && !isDeepStrictEqual(known, used)) throw new Error(`two schemas are named ${title}`);
    this.schemas[title] = used;
    return { $ref: `#/components/schemas/${title}` };
  }

  /** Returns the schemas by name, each with its example, which is also that of the bodies that refer to it. */
  described(): Record<string, Json> {
    return Object.fromEntries(
      Object.entries(this.schemas).map(([name, schema]) => {
        const example = this.#examples[name];
        return [name, example === undefined ? schema : { ...schema, examples: [example] }];
      }),
    );
  }

  /** Adds a response or a parameter to the components and returns a reference to it. */
  share(kind: 'responses' | 'parameters', name: string, value: Json): Json {
    const known = this[kind][name];
    if (known !== undefined && !isDeepStrictEqual(known, value)) throw new Error(`two ${kind} are named ${name}`);
    this[kind][name] = value;
    return { $ref: `#/components/${kind}/${name}` };
  }

  /** Returns the `content` of a response that is not JSON. Binary content has no schema. */
  text(contentType: string, operationId = ''): Json {
    const example = this.#examples[operationId];
    return {
      [contentType]: { ...(contentType !== '*/*' && { schema: text }), ...(example !== undefined && { example }) },
    };
  }

  /** Returns the `content` of a JSON body. */
  content(contentType: string, schema: TSchema): Json {
    return { [contentType]: { schema: this.withReferences(plain(schema)) } };
  }
}

const describeHeader = (description: string, example: string): Json => ({ description, schema: text, example });

const REQUEST_HEADERS: Record<string, Json> = {
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      '1 to 255 printable ASCII characters. The first request is processed; an identical retry within 24 h returns the same response and sends nothing.',
    schema: { type: 'string', minLength: 1, maxLength: 255 },
    example: 'order-17-receipt',
  },
  'Last-Event-ID': {
    name: 'Last-Event-ID',
    in: 'header',
    description: 'The id of the last message of an earlier stream, or an eventId: the stream resumes after it.',
    schema: { type: 'string', maxLength: 1_000 },
    example: 'WyJtc2dfIl0',
  },
  'X-Share-Token': {
    name: 'X-Share-Token',
    in: 'header',
    required: true,
    description: 'The value after #token= in a link to a message or to a template.',
    schema: { type: 'string', maxLength: 1_000 },
    example: 'WyJhY2NfIl0.K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN_H_pI4',
  },
};

const ANSWER_HEADERS: Record<string, Json> = {
  'X-Request-Id': describeHeader('Identifies this request in the log.', 'req_2zAbCdEfGhIjKlMnOpQrStU'),
  'Idempotent-Replayed': describeHeader(
    'true if this is the stored response of an earlier request with the same Idempotency-Key.',
    'true',
  ),
  Link: describeHeader(
    'The next page, with rel="next"; absent on the last page.',
    '</messages?cursor=WyJtc2dfIl0>; rel="next"',
  ),
  'X-Next-Cursor': describeHeader('The cursor of the next page.', 'WyJtc2dfIl0'),
  'X-Omitted-Requests': describeHeader('How many successful requests of the period were not recorded.', '0'),
  'Retry-After': describeHeader('Seconds to wait before you retry the request.', '5'),
  'RateLimit-Limit': describeHeader('Requests per second allowed for this key. Absent if there is no limit.', '50'),
  'RateLimit-Remaining': describeHeader('Requests that this key can make now.', '49'),
  'RateLimit-Reset': describeHeader('Seconds until the full limit is available again.', '1'),
  Allow: describeHeader('With 405: the methods that this path supports.', 'GET, POST'),
};

const headers = (...names: string[]): Json =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

const RATE_LIMIT = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'];

/** Converts a path to the form of OpenAPI: `/messages/:id/cancel` becomes `/messages/{id}/cancel`. */
function openapiPath(path: string): string {
  return path.replaceAll(/:([^/]+)/g, '{$1}');
}

/** Puts the description on the parameter, where tools look for it, and not in its schema. */
function parameter(name: string, where: 'path' | 'query', required: boolean, described: Json): Json {
  const { description, example, ...schema } = described;
  return {
    name,
    in: where,
    required,
    ...(description === undefined ? {} : { description }),
    schema,
    ...(example === undefined ? {} : { example }),
  };
}

/** Describes parameters with a common prefix (`metadata.order`) as one object whose members are the parameters. */
function namedParameters(prefix: string, { description, ...member }: Json): Json {
  const schema = { type: 'object', additionalProperties: member };
  const shown = { style: 'form', explode: true, schema, example: { [`${prefix}.name`]: 'value' } };
  return { name: prefix, in: 'query', required: false, description, ...shown };
}

/** Returns the parameters of a route. Those of the path are shared by all routes that have the same noun before them. */
function parameters<C>(
  route: RouteDefinition<C>,
  components: Components,
  { pathParameters = {} }: OpenapiOptions,
): Json[] {
  const params = (route.params === undefined ? {} : plain(route.params).properties) as Record<string, Json> | undefined;
  const inPath = [...route.path.matchAll(/([^/]+)\/:([^/]+)/g)].map(([, noun, name]) => {
    const described = { type: 'string', ...pathParameters[`${noun}/${name}`], ...params?.[name!] };
    return components.share('parameters', `${noun}.${name}`, parameter(name!, 'path', true, described));
  });
  const query = route.query === undefined ? {} : plain(route.query);
  const required = (query.required ?? []) as string[];
  const inQuery = Object.entries((query.properties ?? {}) as Record<string, Json>).map(([name, schema]) =>
    parameter(name, 'query', required.includes(name), schema),
  );
  const inPattern = Object.entries((query.patternProperties ?? {}) as Record<string, Json>).map(([pattern, schema]) =>
    namedParameters(pattern.replaceAll(/\W/g, ''), schema),
  );
  const inHeader = [];
  if (route.idempotencyKey) inHeader.push({ $ref: '#/components/parameters/Idempotency-Key' });
  if (route.shareToken) inHeader.push({ $ref: '#/components/parameters/X-Share-Token' });
  if (isStream(route)) inHeader.push({ $ref: '#/components/parameters/Last-Event-ID' });
  return [...inPath, ...inQuery, ...inPattern, ...inHeader];
}

function isStream<C>(route: RouteDefinition<C>): boolean {
  return route.response.contentType === 'text/event-stream';
}

/** Returns whether the route is a list: it accepts a cursor and is not an event stream, which can also start after a cursor. */
function isList<C>(route: RouteDefinition<C>): boolean {
  return !isStream(route) && route.query !== undefined && 'cursor' in ((plain(route.query).properties ?? {}) as Json);
}

function requestBody<C>(route: RouteDefinition<C>, components: Components): Json | undefined {
  const { type, schema, optional } = route.body ?? {};
  if (type === 'text/csv') {
    const example = 'email,reason\nann@example.com,manual\n';
    return { required: true, content: { 'text/csv': { schema: text, example } } };
  }
  if (type === 'raw' || type === 'stream') {
    return { required: true, content: { 'application/octet-stream': { example: '%PDF-1.7 …' } } };
  }
  if (schema === undefined || isEmpty(plain(schema))) return undefined;
  return { required: !optional, content: components.content('application/json', schema) };
}

/** Returns whether the body can only be `{}`, which is described as no body. */
function isEmpty(schema: Json): boolean {
  return schema.type === 'object' && Object.keys((schema.properties ?? {}) as Json).length === 0;
}

function refusalCodes<C>(route: RouteDefinition<C>): FailureCode[] {
  const { auth } = route.access;
  const { type, schema, tooLarge = 'PAYLOAD_TOO_LARGE' } = route.body ?? {};
  const codes: FailureCode[] = ['INVALID_REQUEST', 'OVERLOADED', 'UNAVAILABLE', ...(route.refusals ?? [])];
  if (auth !== 'none') codes.push('UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED');
  if (auth === 'key') codes.push('ACCOUNT_SUSPENDED', 'NOT_FOUND');
  if (route.path.includes(':')) codes.push('NOT_FOUND');
  if (schema !== undefined || type === 'text/csv') {
    codes.push('UNSUPPORTED_MEDIA_TYPE', tooLarge);
  }
  return [...new Set(codes)];
}

function success<C>(route: RouteDefinition<C>, response: RouteResponse, components: Components): Json {
  const { schema, contentType = 'application/json', description = 'Success.' } = response;
  const names = [
    ...(route.idempotencyKey ? ['Idempotent-Replayed'] : []),
    ...(isList(route) ? ['Link', 'X-Next-Cursor'] : []),
    ...(response.headers ?? []),
  ];
  const described = { description, ...(names.length > 0 && { headers: headers(...names) }) };
  if (schema === undefined && contentType === 'application/json') return described;
  const content =
    schema === undefined ? components.text(contentType, route.operationId) : components.content(contentType, schema);
  return { ...described, content };
}

/** Codes whose responses include Retry-After. */
const WITH_RETRY_AFTER: ReadonlySet<FailureCode> = new Set([
  'RATE_LIMITED',
  'OVERLOADED',
  'UNAVAILABLE',
  'DUPLICATE_REQUEST_IN_PROGRESS',
]);

/** Converts `NOT_FOUND` to `NotFound`. */
function pascalCase(code: string): string {
  return code.toLowerCase().replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function responses<C>(route: RouteDefinition<C>, components: Components): Json {
  const byStatus = new Map<number, FailureCode[]>();
  for (const code of refusalCodes(route)) {
    byStatus.set(errorCatalog[code].status, [...(byStatus.get(errorCatalog[code].status) ?? []), code]);
  }
  const all: Json = {};
  for (const response of [route.response, ...(route.furtherResponses ?? [])]) {
    all[response.status] = success(route, response, components);
  }
  const content = { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } };
  for (const [refused, codes] of [...byStatus].sort(([a], [b]) => a - b)) {
    const names = [
      'X-Request-Id',
      ...(codes.some((code) => WITH_RETRY_AFTER.has(code)) ? ['Retry-After'] : []),
      ...(codes.includes('RATE_LIMITED') ? RATE_LIMIT : []),
    ];
    const refusal = { description: codes.join(', '), headers: headers(...names), content };
    // Its name consists of its error codes.
    all[refused] = components.share('responses', codes.map(pascalCase).join('Or'), refusal);
  }
  const others = headers('X-Request-Id', 'Retry-After', 'Allow');
  const description = 'INTERNAL_ERROR, and any other error. All have the same shape.';
  all.default = components.share('responses', 'OtherError', { description, headers: others, content });
  return all;
}

/** Members of an account authenticate with their session cookie and send the account id. */
const MEMBER_SECURITY: Json[] = [{ session: [], accountId: [] }];
const SESSION_SECURITY: Json[] = [{ session: [] }];
const SECURITY: Record<RouteAccess['auth'], Json[]> = {
  none: [],
  key: [{ apiKey: [], accountId: [] }, ...MEMBER_SECURITY],
  user: SESSION_SECURITY,
  operator: [{ operatorKey: [] }, ...SESSION_SECURITY],
};
const PEOPLE_SECURITY: typeof SECURITY = { ...SECURITY, key: MEMBER_SECURITY, operator: SESSION_SECURITY };

function operation<C>(route: RouteDefinition<C>, components: Components, options: OpenapiOptions): Json {
  const body = requestBody(route, components);
  const found = parameters(route, components, options);
  const security = (route.access.peopleOnly ? PEOPLE_SECURITY : SECURITY)[route.access.auth];
  return {
    operationId: route.operationId,
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    tags: [route.tag],
    // Authentication with an API key is the default for the entire document.
    ...(security === SECURITY.key ? {} : { security }),
    ...(found.length === 0 ? {} : { parameters: found }),
    ...(body === undefined ? {} : { requestBody: body }),
    responses: responses(route, components),
  };
}

interface OpenapiAbout {
  title: string;
  version: string;
  description?: string;
  license?: { name: string; identifier: string };
}

export interface OpenapiOptions {
  about: OpenapiAbout;
  serverUrl?: string;
  /** Tags in the order in which a new user needs them. Other tags follow in alphabetical order. */
  tags?: readonly { name: string; description: string }[];
  /** Descriptions of path parameters, by the preceding segment and the name: `messages/id`. */
  pathParameters?: Readonly<Record<string, { description: string; example: string }>>;
  /** Examples by the name of the schema, or for a response that is not JSON, by its operationId. */
  examples?: Readonly<Record<string, unknown>>;
  /** Webhook events: the schema of the body, and each event with an example. */
  events?: { schema: TSchema; types: readonly { eventType: string; description: string; sample: unknown }[] };
}

const WEBHOOK_HEADERS = [
  [
    'webhook-id',
    'The eventId. It is the same on every retry, so you can detect duplicates.',
    'evt_2zAbCdEfGhIjKlMnOpQrStU',
  ],
  ['webhook-timestamp', 'Unix time in seconds at which this request was signed.', '1795167840'],
  [
    'webhook-signature',
    'v1, followed by a comma and a Base64-encoded HMAC-SHA256 (standardwebhooks.com).',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ],
] as const;

function webhooks(
  { schema, types }: NonNullable<OpenapiOptions['events']>,
  components: Components,
): Record<string, Json> {
  const used = components.withReferences(plain(schema));
  const parameters = WEBHOOK_HEADERS.map(([name, description, example]) =>
    components.share('parameters', name, { name, in: 'header', required: true, description, schema: text, example }),
  );
  const answers = {
    '2XX': components.share('responses', 'EventAccepted', {
      description: 'Accepted. Postrider retries after any other response, or if there is none within 15 s.',
    }),
    '410': components.share('responses', 'EndpointGone', {
      description: 'The endpoint no longer exists. Postrider disables the webhook.',
    }),
  };
  return Object.fromEntries(
    types.map(({ eventType, description, sample }) => {
      const content = { 'application/json': { schema: used, example: sample } };
      const post = {
        operationId: `on${eventType}`,
        summary: description.replace(/\.$/, ''),
        description: `${description} Sent at least once to every endpoint that is subscribed to ${eventType} events, and signed.`,
        tags: ['webhooks'],
        security: [],
        parameters,
        requestBody: { required: true, content },
        responses: answers,
      };
      return [eventType, { post }];
    }),
  );
}

interface Place {
  name: string;
  value: Json;
  replace(reference: Json): void;
}

/** Describes what several places share only once, under its name, and replaces the copies with references. */
function shareCopies(kind: 'responses' | 'parameters', places: readonly Place[], components: Components): void {
  for (const [name, same] of Map.groupBy(places, (place) => place.name)) {
    const [most] = [...Map.groupBy(same, ({ value }) => JSON.stringify(value)).values()].sort(
      (a, b) => b.length - a.length,
    );
    if (most!.length === 1) continue;
    for (const { value, replace } of most!) replace(components.share(kind, name, value));
  }
}

/** Returns the parameters of an operation that are not references. */
function parameterPlaces(operation: Json): Place[] {
  const all = (operation.parameters ?? []) as Json[];
  return all.flatMap((value, index) => {
    if ('$ref' in value) return [];
    return { name: value.name as string, value, replace: (reference) => (all[index] = reference) };
  });
}

/** Returns the responses of an operation whose body is a named schema, under the name of the schema. */
function responsePlaces(operation: Json): Place[] {
  const all = operation.responses as Record<string, { content?: Record<string, { schema?: { $ref?: string } }> }>;
  return Object.entries(all).flatMap(([status, value]) => {
    const { $ref } = value.content?.['application/json']?.schema ?? {};
    if ($ref === undefined) return [];
    return { name: $ref.split('/').at(-1)!, value, replace: (reference) => (all[status] = reference) };
  });
}

/** Generates the document for these routes; hidden routes are omitted. */
export function createOpenapi<C>(routes: readonly RouteDefinition<C>[], options: OpenapiOptions): Json {
  const { about, serverUrl, tags = [], events } = options;
  const components = new Components(options);
  components.withReferences(REFUSAL_SCHEMA);
  const paths: Record<string, Json> = {};
  const shown = routes.filter((route) => !route.hidden);
  const order = (route: RouteDefinition<C>) => `${openapiPath(route.path)} ${METHODS.indexOf(route.method)}`;
  for (const route of [...shown].sort((a, b) => (order(a) < order(b) ? -1 : 1))) {
    const path = openapiPath(route.path);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, components, options) };
  }
  const otherTags = [...new Set(shown.map((route) => route.tag))].filter(
    (tag) => !tags.some(({ name }) => name === tag),
  );
  const sorted = (named: Record<string, Json>): Json =>
    Object.fromEntries(Object.entries(named).sort(([a], [b]) => (a < b ? -1 : 1)));
  const hooks = events && webhooks(events, components);
  const operations = [...Object.values(paths), ...Object.values(hooks ?? {})].flatMap(
    (one) => Object.values(one) as Json[],
  );
  shareCopies('parameters', operations.flatMap(parameterPlaces), components);
  shareCopies('responses', operations.flatMap(responsePlaces), components);
  return {
    openapi: '3.1.0',
    info: about,
    ...(serverUrl === undefined ? {} : { servers: [{ url: serverUrl }] }),
    tags: [...tags, ...otherTags.sort().map((name) => ({ name }))],
    security: SECURITY.key,
    paths,
    ...(hooks === undefined ? {} : { webhooks: hooks }),
    components: {
      schemas: sorted(components.described()),
      responses: sorted(components.responses),
      parameters: sorted(components.parameters),
      headers: ANSWER_HEADERS,
      securitySchemes: {
        apiKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key', description: 'pr_live_… or pr_test_….' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'postrider_session',
          description:
            'Session of a signed-in user. Calls that change something also need X-Requested-With: postrider and an Origin header.',
        },
        operatorKey: {
          type: 'http',
          scheme: 'bearer',
          description:
            'pr_operator_…, for the routes below /operator only. The scope read allows every GET, and write every other call.',
        },
        accountId: { type: 'apiKey', in: 'header', name: 'X-Id', description: 'Account id, acc_….' },
      },
    },
  };
}

/**
 * Every operation of the API by its name, with the input and output types of openapi.json. Returns parsed JSON, or the Response for any
 * other content.
 */
import { invalidRequest, unexpectedAnswer } from './error.ts';
import { type CallOptions, type ClientOptions, createHttp, type Http, type HttpRequest } from './http.ts';
import { type operations, routes } from './schema.ts';

export type OperationId = keyof operations;

type Parameters<O extends OperationId> = operations[O] extends { parameters: infer P } ? P : Record<never, never>;
type Path<O extends OperationId> = Parameters<O> extends { path: infer P } ? { path: P } : { path?: never };
type JsonOf<C> = C extends { content: { 'application/json': infer J } } ? J : never;

/** A query in which a field for several values can have one. */
type OneOrSeveral<Q> = { [N in keyof Q]: NonNullable<Q[N]> extends readonly (infer V)[] ? Q[N] | V : Q[N] };

/** The query of an operation. */
export type Query<O extends OperationId> =
  Parameters<O> extends { query?: infer Q } ? OneOrSeveral<NonNullable<Q>> : never;
/** The JSON body of an operation. */
export type Body<O extends OperationId> = operations[O] extends { requestBody?: infer B }
  ? JsonOf<NonNullable<B>>
  : never;
type Responses<O extends OperationId> = operations[O]['responses'][keyof operations[O]['responses']];
/** The result of an operation: JSON, or the Response for other content. */
export type Answer<O extends OperationId> = [JsonOf<Responses<O>>] extends [never] ? Response : JsonOf<Responses<O>>;

type FileOperation = { [O in OperationId]: [JsonOf<Responses<O>>] extends [never] ? O : never }[OperationId];

const JSON_TYPE = 'application/json';
const ANY_TYPE = '';

/** Content types of the operations that do not return JSON. */
const FILE_TYPES: Record<FileOperation, string> = {
  exportAuditAsCsv: 'text/csv',
  exportAuditAsJsonLines: 'application/jsonl',
  exportServiceAuditAsCsv: 'text/csv',
  exportServiceAuditAsJsonLines: 'application/jsonl',
  exportSuppressions: 'text/csv',
  getInboundAttachment: ANY_TYPE,
  getInboundFile: ANY_TYPE,
  getInboundMailContent: 'message/rfc822',
  getMessageContent: 'message/rfc822',
  getMetrics: 'text/plain',
  getPostmasterMailContent: 'message/rfc822',
  getSharedMessageContent: 'message/rfc822',
  streamEvents: 'text/event-stream',
  uploadFile: 'text/plain',
};

const typeOf = (operation: OperationId): string =>
  (FILE_TYPES as Partial<Record<OperationId, string>>)[operation] ?? JSON_TYPE;

/** Throws if the response has another type than the operation, such as the page of a proxy. */
function checkType(response: Response, wanted: string): void {
  const [given = ''] = (response.headers.get('content-type') ?? '').split(';');
  if (wanted === ANY_TYPE || given.trim().toLowerCase() === wanted) return;
  response.body?.cancel().catch(() => undefined);
  throw unexpectedAnswer(response, `returned ${given.trim() || 'no content type'} instead of ${wanted}`);
}

function parsed(response: Response, bytes: Uint8Array): unknown {
  try {
    const body: unknown = JSON.parse(new TextDecoder().decode(bytes));
    if (typeof body === 'object' && body !== null) return body;
  } catch (cause) {
    throw unexpectedAnswer(response, 'returned invalid JSON', cause);
  }
  throw unexpectedAnswer(response, 'returned JSON that is not an object or array');
}

/** Writes a parameter of a path. Without the check, `..` would address another operation. */
function segmentOf(name: string, value: unknown): string {
  const text = String(value ?? '');
  if (text === '' || text === '.' || text === '..') {
    throw invalidRequest(`\`${name}\` must not be empty, "." or "..".`, name);
  }
  return encodeURIComponent(text);
}

/** Each try has an additional effect: a new version. */
const NOT_REPEATABLE: ReadonlySet<OperationId> = new Set(['replaceTemplate']);

export type Input<O extends OperationId> = Path<O> & {
  query?: Query<O>;
  body?: [Body<O>] extends [never] ? string : Body<O>;
  /** Content type of the body, if it is not JSON. */
  contentType?: string;
  headers?: Record<string, string>;
};

/** Options come last; input may be omitted if nothing is required. */
export type CallArguments<O extends OperationId> =
  Path<O> extends { path: unknown }
    ? [input: Input<O>, options?: CallOptions]
    : [input?: Input<O>, options?: CallOptions];

export interface Caller {
  readonly http: Http;
  call<O extends OperationId>(operation: O, ...rest: CallArguments<O>): Promise<Answer<O>>;
  /** The same, with the response headers. */
  answered<O extends OperationId>(
    operation: O,
    ...rest: CallArguments<O>
  ): Promise<{ body: Answer<O>; headers: Headers }>;
  /** Returns the response without reading its body; the request is not retried. */
  open<O extends OperationId>(operation: O, ...rest: CallArguments<O>): Promise<Response>;
}

/** 128 random bits; crypto.randomUUID is missing in pages without TLS. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function searchOf(query: Record<string, unknown> | undefined): string {
  const search = new URLSearchParams();
  const append = (name: string, value: unknown): void => {
    if (Array.isArray(value)) for (const one of value) append(name, one);
    else if (typeof value !== 'object' || value === null) search.append(name, String(value));
    // `metadata: { order: '17' }` becomes `metadata.order=17`.
    else
      for (const [key, one] of Object.entries(value)) append(key.startsWith(`${name}.`) ? key : `${name}.${key}`, one);
  };
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined && value !== null) append(name, value);
  return search.size === 0 ? '' : `?${search}`;
}

type AnyInput = {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  contentType?: string;
  headers?: Record<string, string>;
};

/** Returns the authentication headers. Pages send X-Requested-With, which cross-site requests cannot contain. */
function identity({ session, accountId, apiKey }: ClientOptions): Record<string, string> {
  const account: Record<string, string> = accountId ? { 'X-Id': accountId } : {};
  if (session === undefined) return { ...account, 'X-Api-Key': apiKey };
  return { ...account, 'X-Requested-With': 'postrider', ...(session.mode && { 'X-Mode': session.mode }) };
}

function checkOptions(options: ClientOptions): void {
  const needed = options.session === undefined ? (['url', 'accountId', 'apiKey'] as const) : (['url'] as const);
  for (const name of needed) if (!options[name]) throw invalidRequest(`Postrider needs ${name}.`, name);
  const { url } = options;
  if (/^https?:\/\//i.test(url) && URL.canParse(url)) return;
  throw invalidRequest(`\`url\` must be an HTTP URL, such as https://mail.example.com, but is ${url}.`, 'url');
}

export function createCaller(options: ClientOptions): Caller {
  checkOptions(options);
  const http = createHttp(options);
  const base = options.url.replace(/\/+$/, '');

  function requestOf(operation: OperationId, input: AnyInput = {}, given: CallOptions = {}): HttpRequest {
    if (!Object.hasOwn(routes, operation)) {
      throw invalidRequest(`There is no operation ${operation}. Use an operationId of the OpenAPI document.`);
    }
    const [method, template, keyed]: readonly [string, string, 'keyed'?] = routes[operation];
    const path = template.replace(/\{(\w+)\}/g, (_, name: string) => segmentOf(name, input.path?.[name]));
    const { body, contentType = JSON_TYPE } = input;
    const wanted = typeOf(operation);
    return {
      method,
      url: `${base}${path}${searchOf(input.query)}`,
      headers: {
        ...identity(options),
        ...(body === undefined ? {} : { 'Content-Type': contentType }),
        ...(keyed ? { 'Idempotency-Key': given.idempotencyKey ?? newKey() } : {}),
        ...input.headers,
      },
      body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
      isRepeatable:
        keyed !== undefined || (['GET', 'PUT', 'DELETE'].includes(method) && !NOT_REPEATABLE.has(operation)),
      check: (response) => checkType(response, wanted),
      signal: given.signal,
      timeoutMs: given.timeoutMs,
    };
  }

  async function answered<O extends OperationId>(
    operation: O,
    ...[input, given]: CallArguments<O>
  ): Promise<{ body: Answer<O>; headers: Headers }> {
    const { response, bytes } = await http.send(requestOf(operation, input as AnyInput, given));
    const { headers } = response;
    const body = typeOf(operation) === JSON_TYPE ? parsed(response, bytes) : new Response(bytes, { headers });
    return { body: body as Answer<O>, headers };
  }

  return {
    http,
    answered,
    call: async (...given) => (await answered(...given)).body,
    open: async (operation, ...[input, given]) =>
      http.open({ ...requestOf(operation, input as AnyInput, given), isRepeatable: false }),
  };
}

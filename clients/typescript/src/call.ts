/**
 * Every operation of the API by its name, with the input and output types of openapi.json. Returns parsed JSON, or the Response for any
 * other content.
 */
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
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) append(name, value);
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

export function createCaller(options: ClientOptions): Caller {
  const needed = options.session === undefined ? (['url', 'accountId', 'apiKey'] as const) : (['url'] as const);
  for (const name of needed) if (!options[name]) throw new TypeError(`Postrider needs ${name}.`);
  const http = createHttp(options);
  const base = options.url.replace(/\/+$/, '');

  function requestOf(operation: OperationId, input: AnyInput = {}, given: CallOptions = {}): HttpRequest {
    const [method, template, keyed]: readonly [string, string, 'keyed'?] = routes[operation];
    const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(input.path?.[name])));
    const { body, contentType = 'application/json' } = input;
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
      isRepeatable: keyed !== undefined || ['GET', 'PUT', 'DELETE'].includes(method),
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
    const isJson = /^application\/json\b/.test(headers.get('content-type') ?? '');
    const body = isJson ? JSON.parse(new TextDecoder().decode(bytes)) : new Response(bytes, { headers });
    return { body: body as Answer<O>, headers };
  }

  return {
    http,
    answered,
    call: async (...given) => (await answered(...given)).body,
    open: (operation, ...[input, given]) =>
      http.open({ ...requestOf(operation, input as AnyInput, given), isRepeatable: false }),
  };
}

/**
 * A small HTTP API client for tests: sends requests unchanged and follows no redirects. Returns every response with its status, headers and
 * parsed body; rejects if the connection breaks.
 */
import { Agent, request as httpRequest } from 'node:http';

export interface Answer<T = JsonObject> {
  status: number;
  headers: Record<string, string>;
  text: string;
  /** The parsed body; an empty object if there is none. */
  body: T;
}

/** JSON in tests: they name what they expect, and a missing member is undefined. */
// biome-ignore lint/suspicious/noExplicitAny: an answer is what is being tested, so no type is assumed for it
export type JsonObject = Record<string, any>;

export interface Call {
  method: string;
  path: string;
  /** Sent as JSON; a string or Buffer is sent unchanged. */
  body?: unknown;
  headers?: Record<string, string>;
  timeoutMs?: number;
}

export interface Credentials {
  accountId: string;
  apiKey: string;
}

export interface Api {
  call(call: Call): Promise<Answer>;
  get(path: string): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  put(path: string, body?: unknown): Promise<Answer>;
  patch(path: string, body?: unknown): Promise<Answer>;
  delete(path: string): Promise<Answer>;
  /** Closes the kept-alive connections. */
  close(): void;
}

function payload(body: unknown): Buffer | undefined {
  if (body === undefined) return undefined;
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

/**
 * `base` is called for every request: a restarted service has another port. Without credentials none are sent. `localAddress` is the address
 * that connections come from.
 */
export function apiClient(
  base: () => string,
  credentials?: Credentials,
  { localAddress }: { localAddress?: string } = {},
): Api {
  const agent = new Agent({ keepAlive: true, ...(localAddress !== undefined && { localAddress }) });
  const call = (one: Call): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const content = payload(one.body);
      const headers: Record<string, string> = {};
      if (credentials) Object.assign(headers, { 'x-api-key': credentials.apiKey, 'x-id': credentials.accountId });
      if (content) headers['content-type'] = 'application/json';
      if (content) headers['content-length'] = String(content.length);
      Object.assign(headers, one.headers);
      const url = new URL(one.path, base());
      const sent = httpRequest(
        url,
        { method: one.method, headers, agent, timeout: one.timeoutMs ?? 30_000 },
        (answer) => {
          const chunks: Buffer[] = [];
          answer.on('data', (chunk: Buffer) => chunks.push(chunk));
          answer.on('error', reject);
          answer.on('end', () => {
            const text = Buffer.concat(chunks).toString('utf8');
            resolve({ status: answer.statusCode ?? 0, headers: flat(answer.headers), text, body: parsed(text) });
          });
        },
      );
      sent.on('timeout', () => sent.destroy(new Error(`${one.method} ${one.path} timed out`)));
      sent.on('error', reject);
      sent.end(content);
    });
  const withBody =
    (method: string) =>
    (path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer> =>
      call(headers === undefined ? { method, path, body } : { method, path, body, headers });
  return {
    call,
    get: (path) => call({ method: 'GET', path }),
    post: withBody('POST'),
    put: withBody('PUT'),
    patch: withBody('PATCH'),
    delete: (path) => call({ method: 'DELETE', path }),
    close: () => agent.destroy(),
  };
}

function flat(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]),
  );
}

function parsed(text: string): JsonObject {
  try {
    return (JSON.parse(text || '{}') ?? {}) as JsonObject;
  } catch {
    return {};
  }
}

/**
 * HTTP client for untrusted servers, used to post webhooks and reports and to fetch policies. It connects only to addresses that the guard
 * allows (guarded-connector.ts), follows no redirects, verifies TLS, reads at most 64 KB of a response, and has one deadline from the
 * lookup to the last byte. If the status arrives in time, the response is valid even if its body is incomplete; the connection is then
 * closed.
 *
 * Connections are kept per origin and closed with their pool when idle. There are at most 1,000 pools.
 */
import type { Dispatcher, Pool } from 'undici';
import { loadedOnce } from '../base/lifecycle.ts';
import type { Cidr } from './address-guard.ts';
import { errorSentenceWithDetail } from './error-sentence.ts';
import { guardedConnector, type Lookup, NotConnected } from './guarded-connector.ts';

export interface HttpClientOptions {
  /** Usually `dns.lookupHost`. */
  lookup: Lookup;
  /** Ranges that are allowed although they are not public. */
  allow: readonly Cidr[];
  /** Default 50. */
  connectionsPerOrigin?: number;
  /** Timeout for connecting to one address; default 5,000. */
  connectMs?: number;
  /** Certificate authorities in PEM, instead of the system's. */
  ca?: string;
  /** The User-Agent of requests; default Postrider. */
  userAgent?: string;
}

export { checkUrl } from './guarded-connector.ts';

export interface HttpClient {
  /** Sends a POST request. Errors of the peer never reject the promise. An abort signal ends the request with the kind `reset`. */
  post(request: HttpPost): Promise<HttpOutcome>;
  /** Sends a GET request like `post`, and returns the complete response body. */
  get(request: HttpGet): Promise<HttpOutcome>;
  /** Aborts requests in flight. */
  close(): Promise<void>;
}

const MAX_POOLS = 1_000;
const IDLE_POOL_MS = 15_000;

interface Entry {
  pool: Pool;
  inFlight: number;
  lastUsedMs: number;
}

/** Creates a client for one list of allowed ranges. Call close() to let the process exit. */
export function openHttpClient(options: HttpClientOptions): HttpClient {
  const { lookup, allow, ca, userAgent = 'Postrider' } = options;
  const connectMs = options.connectMs ?? 5_000;
  /** Loads undici with the first request: it takes 15 MB of memory, which a service without webhooks saves. */
  const openPools = loadedOnce(async (): Promise<(origin: string) => Pool> => {
    const { buildConnector, Pool } = await import('undici');
    const connector = buildConnector({ allowH2: false, timeout: connectMs, ...(ca === undefined ? {} : { ca }) });
    const connect = guardedConnector({ lookup, allow, connector });
    return (origin) =>
      new Pool(origin, {
        connect,
        connections: options.connectionsPerOrigin ?? 50,
        pipelining: 1,
        allowH2: false,
        keepAliveTimeout: 4_000,
        maxHeaderSize: 16_384,
      });
  });
  const pools = new Map<string, Entry>();

  const drop = (origin: string, entry: Entry): void => {
    pools.delete(origin);
    entry.pool.close().catch(() => {});
  };
  const dropIdle = (): void => {
    const before = performance.now() - IDLE_POOL_MS;
    for (const [origin, entry] of pools) {
      if (entry.inFlight === 0 && entry.lastUsedMs < before) drop(origin, entry);
    }
  };
  const sweep = setInterval(dropIdle, IDLE_POOL_MS).unref();

  const entryOf = (origin: string, openPool: (origin: string) => Pool): Entry => {
    let entry = pools.get(origin);
    if (entry) return entry;
    if (pools.size >= MAX_POOLS) {
      for (const [oldest, idle] of pools) {
        if (idle.inFlight > 0) continue;
        drop(oldest, idle);
        break;
      }
    }
    entry = { pool: openPool(origin), inFlight: 0, lastUsedMs: 0 };
    pools.set(origin, entry);
    return entry;
  };

  const request = async (requested: HttpRequest): Promise<HttpOutcome> => {
    const url = URL.parse(requested.url);
    if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
      return { ok: false, kind: 'protocol', message: 'not an http or https URL', latencyMs: 0 };
    }
    const entry = entryOf(url.origin, await openPools());
    entry.inFlight += 1;
    try {
      const headers = { 'user-agent': userAgent, ...requested.headers };
      return await exchange(
        entry.pool,
        { origin: url.origin, path: url.pathname + url.search },
        { ...requested, headers },
      );
    } finally {
      entry.inFlight -= 1;
      entry.lastUsedMs = performance.now();
    }
  };

  return {
    post: request,
    get: (requested) => request({ ...requested, method: 'GET', headers: {}, body: null, keepBody: true }),
    close: async () => {
      clearInterval(sweep);
      await Promise.all([...pools.values()].map((entry) => entry.pool.destroy()));
      pools.clear();
    },
  };
}

export interface HttpGet {
  url: string;
  /** Timeout for the complete exchange; default 15,000. */
  timeoutMs?: number;
  /** Limit of the response body in bytes; default 65,536. If the response is longer, the outcome has no `body`. */
  maxBytes?: number;
  signal?: AbortSignal;
}

export interface HttpPost extends HttpGet {
  headers: Record<string, string>;
  body: string | Buffer;
  /** Whether to return the complete response body, not only its beginning. */
  keepBody?: boolean;
}

export interface HttpRequest extends HttpGet {
  method?: 'GET' | 'POST';
  headers: Record<string, string>;
  body: string | Buffer | null;
  /** Whether to return the complete response body, not only its beginning. */
  keepBody?: boolean;
}

export type HttpFailureKind = 'refused-address' | 'dns' | 'connect' | 'tls' | 'timeout' | 'reset' | 'protocol';

export type HttpOutcome =
  | {
      ok: true;
      status: number;
      /** Response headers, in lower case: retry-after, content-type, and location, if present. */
      headers: Record<string, string>;
      /** The first 1,000 characters of the body, with control characters replaced by spaces. */
      bodyStart: string;
      /** Set if the body was requested and is complete. */
      body?: Buffer;
      latencyMs: number;
    }
  /** The message is a sentence for the owner of the URL, without capital and full stop. */
  | { ok: false; kind: HttpFailureKind; message: string; latencyMs: number };

interface Failed {
  kind: HttpFailureKind;
  message: string;
}

const DEFAULT_TIMEOUT_MS = 15_000;
const MAX_BODY_BYTES = 65_536;
const SHOWN_CHARACTERS = 1_000;
const SHOWN_BYTES = 4 * SHOWN_CHARACTERS;
const SHOWN_HEADERS = ['retry-after', 'content-type', 'location'];
const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu;
const TLS_CODE = /^(?:ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH|INVALID_CA|EPROTO$)/;
const CONNECT_CODE =
  /^(?:ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|EACCES|EINVAL|UND_ERR_CONNECT_TIMEOUT)$/;
const RESET_CODE = /^(?:ECONNRESET|EPIPE|UND_ERR_SOCKET|UND_ERR_CLOSED|UND_ERR_DESTROYED)$/;

function kindOf(error: NodeJS.ErrnoException): HttpFailureKind {
  if (error instanceof NotConnected) return error.kind;
  const code = error.code ?? '';
  if (TLS_CODE.test(code)) return 'tls';
  if (CONNECT_CODE.test(code)) return 'connect';
  return RESET_CODE.test(code) ? 'reset' : 'protocol';
}

function failedBy(error: NodeJS.ErrnoException): Failed {
  const { code = '', message } = error;
  return { kind: kindOf(error), message: errorSentenceWithDetail({ cause: code, message }) };
}

/** The parts of a response that are kept. */
interface Received {
  /** 0 until the status line arrives. */
  status: number;
  headers: Record<string, string>;
  bodyBytes: number;
  chunks: Buffer[];
}

function bodyStart(chunks: Buffer[]): string {
  if (chunks.length === 0) return '';
  const text = new TextDecoder().decode(Buffer.concat(chunks).subarray(0, SHOWN_BYTES));
  return text.replace(UNPRINTABLE, ' ').slice(0, SHOWN_CHARACTERS).toWellFormed();
}

function shownHeaders(received: Record<string, string | string[] | undefined>): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of SHOWN_HEADERS) {
    const value = received[name];
    if (value !== undefined) headers[name] = String(value).slice(0, SHOWN_CHARACTERS);
  }
  return headers;
}

/**
 * Returns an undici handler that collects a response. It calls `end` when the response ends or fails, and `tooLong` if it exceeds the
 * limit.
 */
function collect(
  received: Received & { keepBytes: number; maxBytes: number },
  on: { start: (abort: (reason: Error) => void) => void; end: (failed?: Failed) => void; tooLong: () => void },
): Dispatcher.DispatchHandler {
  return {
    onRequestStart: (controller) => on.start((reason) => controller.abort(reason)),
    onResponseStart: (_controller, status, headers) => {
      if (status < 200) return;
      received.status = status;
      received.headers = shownHeaders(headers);
    },
    onResponseData: (_controller, chunk) => {
      if (received.bodyBytes < received.keepBytes) received.chunks.push(Buffer.from(chunk));
      received.bodyBytes += chunk.length;
      if (received.bodyBytes > received.maxBytes) on.tooLong();
    },
    onResponseEnd: () => on.end(),
    onResponseError: (_controller, error) => on.end(failedBy(error)),
  };
}

/**
 * Sends a request to `target` on `pool`. Never rejects. Once the status has arrived, the outcome is that response, even if its body is
 * incomplete.
 */
export function exchange(
  pool: Pool,
  target: { origin: string; path: string },
  request: HttpRequest,
): Promise<HttpOutcome> {
  return new Promise((resolve) => {
    const { method = 'POST', headers, body, keepBody, signal, timeoutMs = DEFAULT_TIMEOUT_MS } = request;
    const { maxBytes = MAX_BODY_BYTES } = request;
    const startMs = performance.now();
    const keepBytes = keepBody ? maxBytes : SHOWN_BYTES;
    const received = { status: 0, headers: {}, bodyBytes: 0, chunks: [], keepBytes, maxBytes };
    let abort: ((reason: Error) => void) | undefined;
    let hasEnded = false;

    const end = (failed?: Failed): void => {
      if (hasEnded) return;
      hasEnded = true;
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      const latencyMs = Math.round(performance.now() - startMs);
      const { status, headers: shown, chunks } = received;
      if (failed && status === 0) resolve({ ok: false, ...failed, latencyMs });
      else {
        const fullBody = keepBody && !failed ? { body: Buffer.concat(chunks) } : {};
        resolve({ ok: true, status, headers: shown, bodyStart: bodyStart(chunks), ...fullBody, latencyMs });
      }
    };
    const fail = (kind: HttpFailureKind, message: string): void => {
      end({ kind, message });
      abort?.(new Error(message));
    };
    const onAbort = (): void => fail('reset', 'the request was cancelled');
    const timer = setTimeout(
      () => fail('timeout', `the server did not answer within ${timeoutMs / 1_000} s`),
      timeoutMs,
    );
    if (signal?.aborted) {
      onAbort();
      return;
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    const handler = collect(received, {
      start: (abortIt) => {
        if (hasEnded) abortIt(new Error('the deadline has passed'));
        else abort = abortIt;
      },
      end,
      tooLong: () => fail('protocol', `the response is longer than ${maxBytes} bytes`),
    });
    try {
      pool.dispatch({ ...target, method, headers, body, headersTimeout: 0, bodyTimeout: 0 }, handler);
    } catch (error) {
      end(failedBy(error as Error));
    }
  });
}

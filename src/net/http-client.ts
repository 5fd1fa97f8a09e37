/**
 * Speaks to strangers' servers: POSTs of webhooks and reports, and policies that are fetched. Reaches only addresses the guard passes (guarded-connector.ts), follows no
 * redirect, verifies TLS, reads at most 64 KB of an answer, and has one deadline for everything from the lookup to the
 * last byte. An answer whose status came in time counts, even when its body did not: the connection is then cut.
 *
 * Connections are kept per origin and dropped with their pool when idle; there are never more than 1,000 pools, so
 * ten thousand endpoints cost what is in use.
 */
import type { Dispatcher, Pool } from 'undici';
import { loadedOnce } from '../base/lifecycle.ts';
import type { Cidr } from './address-guard.ts';
import { guardedConnector, type Lookup, NotConnected } from './guarded-connector.ts';

export interface HttpClientOptions {
  /** Usually `dns.lookupHost`. */
  lookup: Lookup;
  /** Ranges that may be reached although they are not public. */
  allow: readonly Cidr[];
  /** Default 50. */
  connectionsPerOrigin?: number;
  /** For one address; default 5,000. */
  connectMs?: number;
  /** Certificate authorities in PEM, instead of the system's. */
  ca?: string;
}

export { checkUrl } from './guarded-connector.ts';

export interface HttpClient {
  /** Never rejects because of the peer. A signal ends it with the kind `reset`. */
  post(request: HttpPost): Promise<HttpOutcome>;
  /** The same without a body of ours; the answer's is given whole. */
  get(request: HttpGet): Promise<HttpOutcome>;
  /** Cuts what is under way. */
  close(): Promise<void>;
}

const MAX_POOLS = 1_000;
const IDLE_POOL_MS = 15_000;

interface Entry {
  pool: Pool;
  inFlight: number;
  lastUsedMs: number;
}

/** A client for one list of permitted ranges; close() it to let the process end. */
export function openHttpClient(options: HttpClientOptions): HttpClient {
  const { lookup, allow, ca } = options;
  const connectMs = options.connectMs ?? 5_000;
  /** Loaded with the first POST: 15 MB of memory that a service without webhooks does without. */
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

  const request = async (asked: HttpRequest): Promise<HttpOutcome> => {
    const url = URL.parse(asked.url);
    if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
      return { ok: false, kind: 'protocol', message: 'not an http or https URL', latencyMs: 0 };
    }
    const entry = entryOf(url.origin, await openPools());
    entry.inFlight += 1;
    try {
      return await exchange(entry.pool, { origin: url.origin, path: url.pathname + url.search }, asked);
    } finally {
      entry.inFlight -= 1;
      entry.lastUsedMs = performance.now();
    }
  };

  return {
    post: request,
    get: (asked) => request({ ...asked, method: 'GET', headers: {}, body: null, keepBody: true }),
    close: async () => {
      clearInterval(sweep);
      await Promise.all([...pools.values()].map((entry) => entry.pool.destroy()));
      pools.clear();
    },
  };
}

export interface HttpGet {
  url: string;
  /** For the whole exchange; default 15,000. */
  timeoutMs?: number;
  /** Most bytes of the answer's body; 65,536 unless given. A longer one is cut and not given. */
  maxBytes?: number;
  signal?: AbortSignal;
}

export interface HttpPost extends HttpGet {
  headers: Record<string, string>;
  body: string | Buffer;
}

export interface HttpRequest extends HttpGet {
  method?: 'GET' | 'POST';
  headers: Record<string, string>;
  body: string | Buffer | null;
  /** The answer's body is wanted, and not only its beginning. */
  keepBody?: boolean;
}

export type HttpFailureKind = 'refused-address' | 'dns' | 'connect' | 'tls' | 'timeout' | 'reset' | 'protocol';

export type HttpOutcome =
  | {
      ok: true;
      status: number;
      /** Of the answer, in lower case: retry-after, content-type and location where present. */
      headers: Record<string, string>;
      /** The first 1,000 characters, controls replaced. */
      bodyStart: string;
      /** Where it was asked for and came whole. */
      body?: Buffer;
      latencyMs: number;
    }
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

/** What is kept of an answer. */
interface Received {
  /** 0 until the status line has come. */
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

/** Gathers an answer for undici; `end` is called at its end, its failure, and when it grows too long. */
function gather(
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
    onResponseError: (_controller, error) => on.end({ kind: kindOf(error), message: error.message }),
  };
}

/** Sends to `target` on `pool`. Never rejects. An answer whose status has come is an answer, however it ends. */
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
    let over = false;

    const end = (failed?: Failed): void => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      const latencyMs = Math.round(performance.now() - startMs);
      const { status, headers: shown, chunks } = received;
      if (failed && status === 0) resolve({ ok: false, ...failed, latencyMs });
      else {
        const whole = keepBody && !failed ? { body: Buffer.concat(chunks) } : {};
        resolve({ ok: true, status, headers: shown, bodyStart: bodyStart(chunks), ...whole, latencyMs });
      }
    };
    const cut = (kind: HttpFailureKind, message: string): void => {
      end({ kind, message });
      abort?.(new Error(message));
    };
    const onAbort = (): void => cut('reset', 'the request was cancelled');
    const timer = setTimeout(() => cut('timeout', `no answer within ${timeoutMs} ms`), timeoutMs);
    if (signal?.aborted) {
      onAbort();
      return;
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    const handler = gather(received, {
      start: (abortIt) => {
        if (over) abortIt(new Error('the deadline has passed'));
        else abort = abortIt;
      },
      end,
      tooLong: () => cut('protocol', `the answer is longer than ${maxBytes} bytes`),
    });
    try {
      pool.dispatch({ ...target, method, headers, body, headersTimeout: 0, bodyTimeout: 0 }, handler);
    } catch (error) {
      end({ kind: kindOf(error as Error), message: (error as Error).message });
    }
  });
}

/**
 * One POST and its answer over a given pool: the deadline, the bound on what is read, and the names of the failures. The
 * promise settles exactly once, and whatever is still under way then is cut.
 */
import type { Dispatcher, Pool } from 'undici';
import { NotConnected } from './guarded-connector.ts';

export interface HttpPost {
  url: string;
  headers: Record<string, string>;
  body: string | Buffer;
  /** For the whole exchange; default 15,000. */
  timeoutMs?: number;
  signal?: AbortSignal;
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
  received: Received,
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
      if (received.bodyBytes < SHOWN_BYTES) received.chunks.push(Buffer.from(chunk));
      received.bodyBytes += chunk.length;
      if (received.bodyBytes > MAX_BODY_BYTES) on.tooLong();
    },
    onResponseEnd: () => on.end(),
    onResponseError: (_controller, error) => on.end({ kind: kindOf(error), message: error.message }),
  };
}

/** Sends to `target` on `pool`. Never rejects. An answer whose status has come is an answer, however it ends. */
export function exchange(
  pool: Pool,
  target: { origin: string; path: string },
  request: HttpPost,
): Promise<HttpOutcome> {
  return new Promise((resolve) => {
    const { headers, body, signal, timeoutMs = DEFAULT_TIMEOUT_MS } = request;
    const startMs = performance.now();
    const received: Received = { status: 0, headers: {}, bodyBytes: 0, chunks: [] };
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
      else resolve({ ok: true, status, headers: shown, bodyStart: bodyStart(chunks), latencyMs });
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
      tooLong: () => cut('protocol', `the answer is longer than ${MAX_BODY_BYTES} bytes`),
    });
    try {
      pool.dispatch({ ...target, method: 'POST', headers, body, headersTimeout: 0, bodyTimeout: 0 }, handler);
    } catch (error) {
      end({ kind: kindOf(error as Error), message: (error as Error).message });
    }
  });
}

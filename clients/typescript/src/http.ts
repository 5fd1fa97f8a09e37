/**
 * Requests that are repeated where that is safe: GET, PUT and DELETE, and a POST with an Idempotency-Key, which is the same on every
 * try. Repeated are broken connections, time-outs, and answers that say "not now"; the wait is the service's Retry-After, else
 * exponential with jitter. Everything else is thrown as PostriderError at once.
 */
import { errorOf, PostriderError } from './error.ts';

interface Settings {
  /** Where the service is, such as https://mail.example.com. */
  url: string;
  /** Tries after the first one; 5 by default. */
  maxRetries?: number;
  /** For one try; 30,000 by default. */
  timeoutMs?: number;
  /** Stands in for the platform's fetch. */
  fetch?: typeof fetch;
}

/** For programs. */
export interface KeyOptions extends Settings {
  /** acc_… */
  accountId: string;
  /** pr_live_… or pr_test_…: the key chooses between real mail and the sandbox. */
  apiKey: string;
  session?: never;
}

/** For a page of the service's own origin where somebody is signed in: the cookie stands for the key. */
export interface SessionOptions extends Settings {
  session: { mode?: 'live' | 'sandbox' };
  /** acc_…; calls of the person, such as signing in, need none. */
  accountId?: string;
  apiKey?: never;
}

export type ClientOptions = KeyOptions | SessionOptions;

export interface CallOptions {
  /** Of calls that take one: made here by default. Give one that your own records know, so that a new process repeats it too. */
  idempotencyKey?: string;
  signal?: AbortSignal;
  /** For one try. */
  timeoutMs?: number;
}

export type RequestBody = string | Blob | ReadableStream<Uint8Array>;

export interface HttpRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  /** A function gives it again for each try. */
  body?: RequestBody | (() => RequestBody) | undefined;
  /** Whether doing it twice is doing it once. */
  isRepeatable: boolean;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  /** Stands in for the client's. */
  fetch?: typeof fetch | undefined;
}

export interface HttpAnswer {
  response: Response;
  /** The whole body; empty where it is left to the caller. */
  bytes: Uint8Array<ArrayBuffer>;
}

const MAX_RETRIES = 5;
const TIMEOUT_MS = 30_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
/** Longer than this nobody waits unasked: the error says how long it would be. */
const LONGEST_RETRY_AFTER_SECONDS = 60;
const NOT_NOW: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** Resolves after this time, or rejects when the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}

/** Wait before try `next`, from 2 on: half of it by chance, so that many clients do not come back at the same moment. */
export function backoffMs(next: number): number {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (next - 2)) * (0.5 + Math.random() / 2);
}

/** How long to wait before the same request may succeed; undefined where it will not. */
function waitOf(error: PostriderError, next: number): number | undefined {
  const isPassing = error.status === 0 || NOT_NOW.has(error.status) || error.code === 'DUPLICATE_REQUEST_IN_PROGRESS';
  if (!isPassing) return undefined;
  const seconds = error.retryAfterSeconds;
  if (seconds === undefined) return backoffMs(next);
  if (seconds > LONGEST_RETRY_AFTER_SECONDS) return undefined;
  // Several tries may be needed where the service can only guess.
  return Math.max(seconds * 1000 * (1 + Math.random() / 4), backoffMs(next));
}

export interface Http {
  /** Sends it and reads the whole answer. Throws PostriderError, or the reason of the caller's signal. */
  send(request: HttpRequest): Promise<HttpAnswer>;
  /** The same, but leaves the body of a success to the caller; `signal` ends it too. */
  open(request: HttpRequest): Promise<Response>;
}

export function createHttp(options: Settings): Http {
  const { maxRetries = MAX_RETRIES } = options;
  const fetchOnce = options.fetch ?? ((...given: Parameters<typeof fetch>) => globalThis.fetch(...given));

  async function attempt(request: HttpRequest, isWhole: boolean): Promise<HttpAnswer> {
    const { method, url, headers, signal, timeoutMs = options.timeoutMs ?? TIMEOUT_MS } = request;
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), timeoutMs);
    const body = typeof request.body === 'function' ? request.body() : request.body;
    try {
      const response = await (request.fetch ?? fetchOnce)(url, {
        ...{ method, headers, redirect: 'error' as const },
        signal: signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]),
        ...(body === undefined ? {} : { body }),
        // Streams need it, and nothing else minds.
        ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
      } as RequestInit);
      const bytes = isWhole || !response.ok ? new Uint8Array(await response.arrayBuffer()) : new Uint8Array();
      if (!response.ok) throw errorOf(response, new TextDecoder().decode(bytes));
      return { response, bytes };
    } catch (cause) {
      if (cause instanceof PostriderError) throw cause;
      if (signal?.aborted) throw signal.reason;
      if (deadline.signal.aborted) {
        throw new PostriderError(`There was no answer within ${timeoutMs} ms.`, { code: 'TIMEOUT', cause });
      }
      throw new PostriderError(`No answer from ${new URL(url).host}.`, { code: 'CONNECTION_FAILED', cause });
    } finally {
      clearTimeout(timer);
    }
  }

  async function repeated(request: HttpRequest, isWhole: boolean): Promise<HttpAnswer> {
    for (let next = 2; ; next += 1) {
      try {
        return await attempt(request, isWhole);
      } catch (error) {
        if (!(error instanceof PostriderError) || !request.isRepeatable || next - 2 >= maxRetries) throw error;
        const waitMs = waitOf(error, next);
        if (waitMs === undefined) throw error;
        await sleep(waitMs, request.signal);
      }
    }
  }

  return {
    send: (request) => repeated(request, true),
    open: async (request) => (await repeated(request, false)).response,
  };
}

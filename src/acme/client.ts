/**
 * ACME client (RFC 8555): directory, nonces, signed requests, polling. Every request has a fresh nonce and a signature with the account's
 * key (ES256). A request with an outdated nonce is repeated with the nonce of the error response (§6.5). Other failures are not retried
 * here; acme.ts retries the order.
 */
import { createHash, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';

const REQUEST_MS = 30_000;
const NONCE_TRIES = 10;
const MAX_REPLY_BYTES = 1_000_000;
const FIRST_POLL_MS = 250;
const LONGEST_POLL_MS = 15_000;
const ERROR_PREFIX = 'urn:ietf:params:acme:error:';

type AcmeErrorFacts = Partial<{ type: string | undefined; retryAfterMs: number | undefined; isAway: boolean }>;

/** The certificate authority refused a request or is unreachable. The message is for the operator. */
export class AcmeError extends Error {
  override name = 'AcmeError';
  /** Error type as in §6.7, without its prefix: `rateLimited`; undefined if there is none. */
  readonly type: string | undefined;
  /** Retry-After of the authority (§6.6). */
  readonly retryAfterMs: number | undefined;
  /** Whether the authority is unreachable or unavailable, so it does not count the attempt. */
  readonly isAway: boolean;

  constructor(message: string, { type, retryAfterMs, isAway = false }: AcmeErrorFacts = {}) {
    super(message);
    this.type = type;
    this.retryAfterMs = retryAfterMs;
    this.isAway = isAway;
  }
}

/** A problem document (RFC 7807). */
export interface Problem {
  type?: string;
  detail?: string;
}

export interface AcmeReply<T> {
  body: T;
  /** The body before it was parsed. */
  text: string;
  location: string | undefined;
  retryAfterMs: number | undefined;
}

export interface AcmeClient {
  /** Signs with the key itself, and from then on as the account in the response. */
  openAccount(payload: object): Promise<void>;
  newOrder(payload: object): Promise<AcmeReply<unknown>>;
  /** Without a payload: POST-as-GET (§6.3). */
  post<T>(url: string, payload?: object): Promise<AcmeReply<T>>;
  /** Polls until `isDone`, at the interval that the authority requests. */
  poll<T>(url: string, isDone: (body: T) => boolean): Promise<T>;
  /** Returns the key authorization of a token, which proves control of a name (§8.1). */
  keyAuthorization(token: string): string;
}

export interface ClientOptions {
  directory: string;
  /** EC P-256, private. */
  accountKey: KeyObject;
  /** Required by §6.1. */
  userAgent: string;
  /** Aborts pending requests. */
  signal: AbortSignal;
  fetch: typeof fetch;
}

interface Directory {
  newNonce: string;
  newAccount: string;
  newOrder: string;
}

const base64url = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Returns the required members of the public key, in the order of the thumbprint (RFC 7638 §3.2). */
function publicJwk(key: KeyObject): object {
  const { crv, kty, x, y } = createPublicKey(key).export({ format: 'jwk' });
  return { crv, kty, x, y };
}

/** Returns the delay in Retry-After, which has seconds or a date (RFC 9110 §10.2.3). */
function retryAfterOf(headers: Headers): number | undefined {
  const text = headers.get('retry-after');
  if (text === null) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

export function problemText(problem: Problem | undefined): string {
  const type = problem?.type?.replace(ERROR_PREFIX, '');
  return [type, problem?.detail].filter(Boolean).join(': ') || 'no reason was given';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function readText(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > MAX_REPLY_BYTES) throw new Error(`the response is longer than ${MAX_REPLY_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Fetches the directory immediately; rejects with AcmeError, as do all its methods. */
export async function openAcmeClient(options: ClientOptions): Promise<AcmeClient> {
  const { accountKey } = options;
  const jwk = publicJwk(accountKey);
  const thumbprint = createHash('sha256').update(JSON.stringify(jwk)).digest('base64url');
  let account: string | undefined;
  let nonce: string | undefined;

  const request = async (url: string, init: RequestInit): Promise<{ response: Response; text: string }> => {
    const signal = AbortSignal.any([options.signal, AbortSignal.timeout(REQUEST_MS)]);
    const headers = { 'User-Agent': options.userAgent, ...init.headers };
    try {
      const response = await options.fetch(url, { ...init, headers, signal, redirect: 'error' });
      nonce = response.headers.get('replay-nonce') ?? undefined;
      return { response, text: await readText(response) };
    } catch (error) {
      const { message, cause } = error as Error;
      const why = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : message;
      throw new AcmeError(`${new URL(url).host} cannot be reached: ${why}`, { isAway: true });
    }
  };

  const nextNonce = async (): Promise<string> => {
    if (nonce === undefined) await request(resources.newNonce, { method: 'HEAD' });
    const fresh = nonce;
    nonce = undefined;
    if (fresh === undefined) throw new AcmeError('the certificate authority returned no nonce');
    return fresh;
  };

  const signed = async (url: string, payload: object | undefined): Promise<string> => {
    const header = {
      alg: 'ES256',
      nonce: await nextNonce(),
      url,
      ...(account === undefined ? { jwk } : { kid: account }),
    };
    const text = `${base64url(header)}.${payload === undefined ? '' : base64url(payload)}`;
    const signature = sign('sha256', Buffer.from(text), { key: accountKey, dsaEncoding: 'ieee-p1363' });
    const [protectedPart, payloadPart] = text.split('.');
    return JSON.stringify({
      protected: protectedPart,
      payload: payloadPart,
      signature: signature.toString('base64url'),
    });
  };

  const post = async <T>(url: string, payload?: object): Promise<AcmeReply<T>> => {
    for (let tries = 1; ; tries += 1) {
      const body = await signed(url, payload);
      const headers = { 'Content-Type': 'application/jose+json' };
      const { response, text } = await request(url, { method: 'POST', headers, body });
      const retryAfterMs = retryAfterOf(response.headers);
      if (response.ok) {
        const location = response.headers.get('location') ?? undefined;
        return { body: parsed(text) as T, text, location, retryAfterMs };
      }
      const problem = parsed(text) as Problem | undefined;
      const type = problem?.type?.replace(ERROR_PREFIX, '');
      if (type === 'badNonce' && tries < NONCE_TRIES) continue;
      const message = `${new URL(url).host} returned ${response.status}: ${problemText(problem)}`;
      throw new AcmeError(message, { type, retryAfterMs, isAway: response.status >= 500 });
    }
  };

  const found = await request(options.directory, {});
  const resources = parsed(found.text) as Directory;
  if (!found.response.ok || !resources?.newNonce || !resources.newAccount || !resources.newOrder) {
    const { status } = found.response;
    throw new AcmeError(`${options.directory} is not an ACME directory: it returned ${status}`, {
      isAway: status >= 500,
    });
  }
  return {
    openAccount: async (payload) => {
      account = (await post(resources.newAccount, payload)).location;
      if (account === undefined) throw new AcmeError('the certificate authority returned no account URL');
    },
    newOrder: (payload) => post(resources.newOrder, payload),
    post,
    poll: async <T>(url: string, isDone: (body: T) => boolean): Promise<T> => {
      for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_POLL_MS)) {
        const { body, retryAfterMs = pauseMs } = await post<T>(url);
        if (isDone(body)) return body;
        await wait(Math.min(Math.max(retryAfterMs, FIRST_POLL_MS), LONGEST_POLL_MS), undefined, {
          signal: options.signal,
        });
      }
    },
    keyAuthorization: (token) => `${token}.${thumbprint}`,
  };
}

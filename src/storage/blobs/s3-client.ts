/**
 * Makes signed calls to one bucket of an S3-compatible store (Signature Version 4 by aws4fetch, HTTP by undici). Every call has deadlines
 * and is retried a limited number of times if a retry may help; all calls are safe to repeat. A truncated body is an error. If the store's
 * clock differs from the local one, calls are signed with the store's time. Calls reject with S3Error only.
 *
 * S3Error records whether an immediate retry may help, and whether the store itself refused the call, which waiting does not fix (wrong
 * bucket, key, region, or permission). All errors are Unavailable to callers. Messages contain the store's code and text, and no data of
 * the request.
 *
 * The XML functions find elements by name, so they work only for elements that do not nest. They treat the content as text.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import { Agent, type Dispatcher, request } from 'undici';
import type { Clock } from '../../base/clock.ts';
import { Unavailable } from '../../base/failure.ts';
import { bucketUrl, objectName, type S3Credentials, type S3Location } from './s3-location.ts';

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

function unescaped(text: string): string {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]+));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return ENTITIES[name.toLowerCase()] ?? whole;
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/** Returns the inner text of every element of this name, unparsed. */
export function xmlElements(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}(?:\\s[^>]*)?>([\\s\\S]*?)</${name}>`, 'g'))].map((found) => found[1]!);
}

/** Returns the text of the first element of this name. */
export function xmlText(xml: string, name: string): string | undefined {
  const found = new RegExp(`<${name}(?:\\s[^>]*)?>([^<]*)</${name}>`).exec(xml)?.[1];
  return found === undefined ? undefined : unescaped(found);
}

export function escapeXml(text: string): string {
  return text.replace(/[<>&"']/g, (one) => `&#${one.charCodeAt(0)};`);
}

/** Codes of temporary errors, in addition to the statuses 408, 429, and 5xx. */
const TEMPORARY =
  /^(RequestTimeout|SlowDown|OperationAborted|InternalError|ServiceUnavailable|BadDigest|IncompleteBody)$/;

export class S3Error extends Unavailable {
  override name = 'S3Error';
  /** Status and code of the store's response; absent if there was none. */
  readonly status: number | undefined;
  readonly code: string | undefined;
  /** Whether an immediate retry may succeed. */
  readonly isRetryable: boolean;

  constructor(message: string, facts: { status?: number; code?: string; isRetryable: boolean }) {
    super(`blob storage: S3 ${message}`);
    this.status = facts.status;
    this.code = facts.code;
    this.isRetryable = facts.isRetryable;
  }

  /** Whether the store refused the call and will keep refusing it until a setting or permission is changed. */
  get refused(): boolean {
    return this.status !== undefined && this.status < 500 && !this.isRetryable;
  }
}

/** Returns the error for an unsuccessful response. `body` is the first part of the response body. */
export function errorFromAnswer(call: string, answer: { status: number; body: string; region?: string }): S3Error {
  const { status, body, region } = answer;
  const code = xmlText(body, 'Code');
  const detail = xmlText(body, 'Message')?.replace(/\s+/g, ' ').slice(0, 200);
  const words = [String(status), code, detail].filter((one) => one !== undefined && one !== '').join(' ');
  const elsewhere = region === undefined ? '' : ` (the bucket is in region ${region})`;
  return new S3Error(`${call} failed with ${words}${elsewhere}`, {
    status,
    ...(code === undefined ? {} : { code }),
    isRetryable: status >= 500 || status === 429 || status === 408 || TEMPORARY.test(code ?? ''),
  });
}

/** Returns the error for a call without a response, or with a truncated one. */
function noResponseError(call: string, error: unknown): S3Error {
  if (error instanceof S3Error) return error;
  const { message, code, cause } = error as Error & { code?: string };
  const reason = (cause as Error | undefined)?.message ?? message;
  return new S3Error(`${call} got no complete response: ${reason || code || 'the connection was lost'}`, {
    isRetryable: true,
  });
}

const CONNECT_MS = 5_000;
const ANSWER_MS = 15_000;
/** Transfers slower than this, in bytes per millisecond, are aborted. */
const MIN_UPLOAD_BYTES_PER_MS = 250;
const MIN_DOWNLOAD_BYTES_PER_MS = 25;
/** Maximum pause between two chunks of a response. */
const IDLE_MS = 30_000;
/** If the clocks differ by more than this, calls are signed with the store's time. Stores accept a difference of 15 minutes. */
const SKEW_MS = 300_000;
const MAX_ATTEMPTS = 4;
const PAUSE_MS = 100;
/** No retry starts after a call has taken this long. */
const TRY_WITHIN_MS = 10_000;
const MAX_TEXT_BYTES = 4_000_000;
const ERROR_BYTES = 16_000;

export interface S3Call {
  /** Name of the call for messages, such as PutObject. */
  name: string;
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Key of the blob; undefined if the call concerns the bucket. */
  key?: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: Uint8Array;
  /** Digest of the body in hex, which the store verifies. */
  bodySha256?: string;
  /** Time limit of this call, if the store needs more time; by default the client's. */
  answerMs?: number;
}

interface S3Answer {
  status: number;
  headers: Record<string, string | undefined>;
  /** Unix ms of the store's clock. */
  storeNowMs: number | undefined;
  /** Length that the body must have; undefined for chunked bodies. */
  sizeBytes: number | undefined;
  body: AsyncIterable<Buffer>;
  /** Discards the rest of the body and closes the connection; does nothing if it was read completely. */
  discard(): void;
  /** Time limit for the body, in addition to its transfer time at the slowest accepted rate. */
  waitMs: number;
}

export interface S3Client {
  /**
   * Repeats the call until it succeeds and its response is consumed, or gives up. Returns undefined if the object does not exist (404,
   * unless the bucket is missing).
   */
  run<T>(call: S3Call, consume: (answer: S3Answer) => Promise<T>): Promise<T | undefined>;
  /** Returns a presigned URL for this call; the client must send `signedHeaders` unchanged. */
  presign(call: S3Call, options: { expiresInSeconds: number; nowMs: number }): Promise<string>;
  /** Aborts calls in flight. */
  close(): Promise<void>;
}

export interface S3ClientOptions {
  location: S3Location;
  credentials: S3Credentials | (() => Promise<S3Credentials>);
  clock: Clock;
  /** Time limit from the last byte of a request to the header of its response; 15 s by default. */
  answerMs?: number;
}

/** Creates the function that signs a call. Its `nowMs` is the store's time; with `presign`, the signature is part of the URL. */
function createSigner({ location, credentials }: S3ClientOptions) {
  /** One signing key per day. */
  const signingKeys = new Map<string, ArrayBuffer>();
  return async (call: S3Call, nowMs: number, presign?: { expiresInSeconds: number }) => {
    if (signingKeys.size > 4) signingKeys.clear();
    const url = new URL(
      call.key === undefined ? bucketUrl(location) : `${bucketUrl(location)}/${objectName(location, call.key)}`,
    );
    for (const [name, value] of Object.entries(call.query ?? {})) url.searchParams.set(name, value);
    if (presign) url.searchParams.set('X-Amz-Expires', String(presign.expiresInSeconds));
    const headers = { ...call.headers };
    if (!presign) headers['x-amz-content-sha256'] = call.bodySha256 ?? 'UNSIGNED-PAYLOAD';
    const signer = new AwsV4Signer({
      method: call.method,
      url: url.href,
      headers,
      service: 's3',
      region: location.region,
      cache: signingKeys,
      ...(typeof credentials === 'function' ? await credentials() : credentials),
      datetime: new Date(nowMs).toISOString().replace(/[:-]|\.\d{3}/g, ''),
      signQuery: presign !== undefined,
      allHeaders: presign !== undefined,
    });
    return signer.sign();
  };
}

export function openS3Client(options: S3ClientOptions): S3Client {
  const { clock } = options;
  const agent = new Agent({ connect: { timeout: CONNECT_MS }, pipelining: 1, connections: 256, bodyTimeout: IDLE_MS });
  const sign = createSigner(options);
  /** How far the store's clock is ahead of the local one. */
  let skewMs = 0;

  /** Tries the call once; resolves with a successful response whose body is not read yet, or undefined for a missing object. */
  const tryOnce = async (call: S3Call): Promise<S3Answer | undefined> => {
    const signed = await sign(call, clock.now() + skewMs);
    const sizeBytes = call.body?.length ?? 0;
    const answerMs = (call.answerMs ?? options.answerMs ?? ANSWER_MS) + sizeBytes / MIN_UPLOAD_BYTES_PER_MS;
    // This also covers cases that undici's own limits do not: a name that does not resolve, a connection that never becomes free.
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new Error('the response took too long')), CONNECT_MS + 2 * answerMs);
    // An abort signal does not end a request that waits for a connection.
    const overdue = new Promise<never>((_, reject) => {
      deadline.signal.addEventListener('abort', () => reject(deadline.signal.reason), { once: true });
    });
    let response: Dispatcher.ResponseData;
    try {
      const requested = request(signed.url, {
        method: call.method,
        headers: {
          ...Object.fromEntries(signed.headers as unknown as Iterable<[string, string]>),
          'accept-encoding': 'identity',
          ...(call.body ? { 'content-length': String(sizeBytes) } : {}),
        },
        body: call.body ?? null,
        dispatcher: agent,
        headersTimeout: answerMs,
        signal: deadline.signal,
      });
      requested.then(
        (late) => deadline.signal.aborted && discardBody(late),
        () => undefined,
      );
      response = await Promise.race([requested, overdue]);
    } catch (error) {
      throw noResponseError(call.name, error);
    } finally {
      clearTimeout(timer);
    }
    return answerOf(call, response);
  };

  const answerOf = async (call: S3Call, response: Dispatcher.ResponseData): Promise<S3Answer | undefined> => {
    const headers = response.headers as Record<string, string | undefined>;
    const storeNowMs = Date.parse(headers.date ?? '') || undefined;
    if (response.statusCode >= 200 && response.statusCode < 300) {
      const length = headers['content-length'];
      const sizeBytes = length === undefined ? undefined : Number(length);
      if (sizeBytes === undefined && call.method === 'GET' && !/chunked/i.test(headers['transfer-encoding'] ?? '')) {
        discardBody(response);
        throw new S3Error(`the response to ${call.name} has no length`, { isRetryable: true });
      }
      const waitMs = call.answerMs ?? options.answerMs ?? ANSWER_MS;
      const discard = (): void => discardBody(response);
      return { status: response.statusCode, headers, storeNowMs, sizeBytes, body: response.body, discard, waitMs };
    }
    const body = await firstBytes(response.body, ERROR_BYTES);
    const region = headers['x-amz-bucket-region'];
    const error = errorFromAnswer(call.name, {
      status: response.statusCode,
      body,
      ...(region === undefined ? {} : { region }),
    });
    if (error.status === 404 && error.code === 'NoSuchKey') return undefined;
    if (error.status === 404 && call.method === 'HEAD' && call.key !== undefined) return checkBucket(call, error);
    // The response to HEAD has no code.
    const mayBeSkew = error.status === 403 && /^(RequestTimeTooSkewed)?$/.test(error.code ?? '');
    if (mayBeSkew && storeNowMs !== undefined && Math.abs(storeNowMs - clock.now() - skewMs) > SKEW_MS) {
      skewMs = storeNowMs - clock.now();
      throw new S3Error(`${call.name} failed because the clocks differ by ${Math.round(skewMs / 1000)} s`, {
        status: 403,
        isRetryable: true,
      });
    }
    throw error;
  };

  /** Checks the bucket, because the response to HEAD does not say what is missing. A missing bucket must not look like a missing blob. */
  const checkBucket = async (call: S3Call, error: S3Error): Promise<undefined> => {
    const bucket = await tryOnce({ name: 'HeadBucket', method: 'HEAD' });
    if (!bucket) throw error;
    await drained(call.name, bucket);
  };

  return {
    run: async (call, consume) => {
      const startedMs = performance.now();
      for (let tried = 1; ; tried += 1) {
        try {
          const answer = await tryOnce(call);
          return answer && (await consume(answer));
        } catch (error) {
          const over = tried === MAX_ATTEMPTS || performance.now() - startedMs > TRY_WITHIN_MS;
          if (!(error instanceof S3Error) || !error.isRetryable || over) throw error;
          await pause(PAUSE_MS * 2 ** (tried - 1) * (0.5 + Math.random()));
        }
      }
    },
    presign: async (call, { expiresInSeconds, nowMs }) =>
      (await sign(call, nowMs + skewMs, { expiresInSeconds })).url.href,
    close: () => agent.destroy(),
  };
}

function discardBody({ body }: Dispatcher.ResponseData): void {
  if (!body.destroyed) body.on('error', () => undefined).destroy();
}

/** Reads up to this many bytes as text; a connection that fails ends the text. */
async function firstBytes(body: AsyncIterable<Buffer>, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxBytes) break;
    }
  } catch {}
  return Buffer.concat(chunks).toString('utf8', 0, maxBytes);
}

/** Yields the body; throws S3Error if it is shorter than announced. */
export async function* wholeBody(name: string, answer: S3Answer): AsyncGenerator<Buffer> {
  let bytes = 0;
  // Counts only the time spent waiting for the store, not for the reader.
  let waitedMs = 0;
  let waitingSinceMs = performance.now();
  try {
    for await (const chunk of answer.body) {
      bytes += chunk.length;
      waitedMs += performance.now() - waitingSinceMs;
      if (waitedMs > answer.waitMs + bytes / MIN_DOWNLOAD_BYTES_PER_MS) throw new Error('the body arrived too slowly');
      yield chunk;
      waitingSinceMs = performance.now();
    }
  } catch (error) {
    throw noResponseError(name, error);
  }
  if (answer.sizeBytes === undefined || bytes === answer.sizeBytes) return;
  throw new S3Error(`the response to ${name} ended after ${bytes} of ${answer.sizeBytes} bytes`, { isRetryable: true });
}

/** Returns the complete response in memory; used as the consume function of calls for objects. */
export async function bytesOf(name: string, answer: S3Answer): Promise<Buffer> {
  if (answer.sizeBytes === undefined) return Buffer.concat(await Array.fromAsync(wholeBody(name, answer)));
  const content = Buffer.allocUnsafeSlow(answer.sizeBytes);
  let at = 0;
  for await (const chunk of wholeBody(name, answer)) at += chunk.copy(content, at);
  return content;
}

/** Returns the response as text; used as the consume function of calls with XML responses. */
export async function textOf(name: string, answer: S3Answer): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of wholeBody(name, answer)) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > MAX_TEXT_BYTES)
      throw new S3Error(`the response to ${name} is larger than ${MAX_TEXT_BYTES} bytes`, { isRetryable: false });
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Reads the response completely, so that its connection can be reused. */
export async function drained(name: string, answer: S3Answer): Promise<S3Answer> {
  for await (const _ of wholeBody(name, { ...answer, sizeBytes: undefined })) {
    // The body of a successful PUT or HEAD is not used.
  }
  return answer;
}

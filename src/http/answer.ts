/**
 * Converts the result of a handler, or a failure, into bytes (status, headers, and body) and writes them to the socket. Every error
 * response has the same shape, every response has X-Request-Id, and no cause, stack, or path ever appears in a body.
 *
 * A response may be sent before the request's body is complete. In that case a limited part of the remaining body is read and discarded,
 * because closing a socket with unread bytes resets it, and a client that writes its entire body first would lose the response. The limits
 * of bytes and time hold no matter how long the body is or how fast it arrives.
 */
import { pipeline } from 'node:stream/promises';
import {
  detailsOf,
  errorCatalog,
  type Failure,
  failure,
  OutcomeUnknown,
  outcomeUnknown,
  Unavailable,
} from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import { STATUS_CODES } from '../net/node-http.ts';
import { compressedJson } from './encoding.ts';
import type { Exchange } from './exchange.ts';
import type { HttpAnswer, Refusal, RouteAnswer } from './route.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

const DEFAULT_RETRY_SECONDS = 5;
/** The body of every error response. */
function refusalBody(refusal: Failure, requestId: string, extra?: Readonly<Record<string, unknown>>): string {
  const { code, message } = refusal;
  const error = { code, message, details: detailsOf(refusal) };
  return JSON.stringify({ success: false, error, reasonCode: code, requestId, ...extra });
}

/** Refusals that always carry Retry-After. */
const WAITS: ReadonlySet<Failure['code']> = new Set(['OVERLOADED', 'UNAVAILABLE', 'RATE_LIMITED']);

/** Returns Retry-After in seconds if waiting helps, RateLimit-* if the limit is known, and Allow for 405. */
function refusalHeaders(refusal: Failure): Record<string, string> {
  const headers: Record<string, string> = {};
  const waits = WAITS.has(refusal.code);
  const seconds = refusal.retryAfterSeconds ?? (waits ? DEFAULT_RETRY_SECONDS : undefined);
  if (seconds !== undefined) headers['Retry-After'] = String(Math.max(1, Math.ceil(seconds)));
  if (refusal.limit !== undefined) {
    headers['RateLimit-Limit'] = String(refusal.limit);
    headers['RateLimit-Remaining'] = '0';
    headers['RateLimit-Reset'] = headers['Retry-After'] ?? '1';
  }
  if (refusal.allow !== undefined) headers.Allow = refusal.allow.join(', ');
  return headers;
}

export function refusalAnswer(refusal: Refusal, requestId: string): HttpAnswer {
  return {
    status: refusal.status ?? errorCatalog[refusal.failure.code].status,
    contentType: JSON_TYPE,
    content: refusalBody(refusal.failure, requestId, refusal.extra),
    headers: { ...refusalHeaders(refusal.failure), ...refusal.headers },
    refusal: refusal.failure,
  };
}

/**
 * Maps a thrown error: an outage becomes 503 (nothing was accepted) or 500 (unknown whether something was accepted). Any other error is a
 * bug, which is logged with its cause and returned as 500.
 */
export function thrownFailure(error: unknown, log: Log): Failure {
  if (error instanceof OutcomeUnknown) {
    log.error({ err: error }, 'commit outcome unknown: the database connection was lost');
    return outcomeUnknown(error);
  }
  if (error instanceof Unavailable) {
    // The stack is omitted, because an outage logs this line for every request.
    log.warn({ error: error.message }, 'request rejected: a dependency is unavailable');
    return failure(error.failureCode);
  }
  log.error({ err: error }, 'request failed');
  return failure('INTERNAL_ERROR');
}

/** Builds the response of a handler; `status` is the one in the route definition. */
export function routeAnswer(answer: RouteAnswer, status: number, requestId: string): HttpAnswer {
  if (!answer.ok) return refusalAnswer(answer, requestId);
  const { headers } = answer;
  if ('json' in answer)
    return { status: answer.status ?? status, contentType: JSON_TYPE, content: answer.json, headers };
  if ('content' in answer) {
    const { contentType, content } = answer;
    return { status: answer.status ?? status, contentType, content, headers };
  }
  return {
    status: answer.status ?? status,
    contentType: JSON_TYPE,
    content: JSON.stringify(answer.body ?? null),
    headers,
  };
}

/** Headers of every response. JSON for one caller must not be cached for others. */
const COMMON = ['X-Content-Type-Options', 'nosniff', 'Cache-Control', 'no-store'] as const;

/** Names and values in turn, the fastest form for ServerResponse.writeHead. */
function headerList(answer: HttpAnswer, requestId: string): string[] {
  const list = ['Content-Type', answer.contentType, 'X-Request-Id', requestId];
  const { headers } = answer;
  if (headers === undefined) {
    list.push(...COMMON);
    return list;
  }
  let cache = false;
  for (const name in headers) {
    const value = headers[name]!;
    if (typeof value === 'string') list.push(name, value);
    else for (const one of value) list.push(name, one);
    if (name.length === 13 && name.toLowerCase() === 'cache-control') cache = true;
  }
  list.push(COMMON[0], COMMON[1]);
  if (!cache) list.push(COMMON[2], COMMON[3]);
  return list;
}

/** Returns a complete error response as text, for a socket whose request could not be parsed; the connection then closes. */
export function rawRefusal(refusal: Refusal, requestId: string): string {
  const answer = refusalAnswer(refusal, requestId);
  const body = String(answer.content);
  const list = headerList(answer, requestId);
  let text = `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ''}\r\n`;
  for (let index = 0; index < list.length; index += 2) text += `${list[index]}: ${list[index + 1]}\r\n`;
  return `${text}Date: ${new Date().toUTCString()}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;
}

/** How long a client may continue to send a body that was refused, and the interval at which a longer time is decided. */
const LINGER_MS = 1_000;
/** The longest time for a body that the route would have buffered, while at least LEAST_BYTES arrive in every LINGER_MS. */
const MOST_LINGER_MS = 30_000;
const LEAST_BYTES = 32_000;
/** Maximum bytes read in that time, if the route allows no more. After that the socket is no longer read, so the client blocks. */
const DISCARD_BYTES = 1_000_000;

function hasBody(exchange: Exchange): boolean {
  const { headers } = exchange;
  return (headers['content-length'] ?? '0') !== '0' || headers['transfer-encoding'] !== undefined;
}

function discardBody(exchange: Exchange): void {
  const { request } = exchange;
  // A handler that stopped reading a streamed body may have left its listener, which would keep the body from flowing.
  request.removeAllListeners('readable');
  const mostBytes = Math.max(DISCARD_BYTES, exchange.discardsBytes);
  request.on('data', (chunk: Buffer) => {
    exchange.discardedBytes += chunk.length;
    if (exchange.discardedBytes >= mostBytes) request.pause();
  });
  request.resume();
}

/** Lets the parser deliver the bytes that have already arrived; returns whether the request is then complete. */
async function completed(exchange: Exchange): Promise<boolean> {
  const { request } = exchange;
  if (request.complete) return true;
  // A body of the usual size arrives in the same packet as its headers, so one turn of the event loop is enough.
  discardBody(exchange);
  await new Promise((resolve) => setImmediate(resolve));
  return request.complete && !request.isPaused();
}

/** Resolves when the body has ended, or when its client may no longer send it. */
function lingered(exchange: Exchange): Promise<void> {
  const { request } = exchange;
  if (exchange.broken !== undefined || exchange.waitsForContinue) return Promise.resolve();
  return new Promise((resolve) => {
    let leftMs = exchange.discardsBytes > 0 ? MOST_LINGER_MS : LINGER_MS;
    let seenBytes = exchange.discardedBytes;
    const timer = setInterval(() => {
      leftMs -= LINGER_MS;
      const arrivedBytes = exchange.discardedBytes - seenBytes;
      seenBytes = exchange.discardedBytes;
      if (leftMs <= 0 || arrivedBytes < LEAST_BYTES || exchange.isGivenUp) done();
    }, LINGER_MS);
    const done = () => {
      clearInterval(timer);
      resolve();
    };
    request.once('end', done);
    request.once('close', done);
  });
}

async function writeStream(exchange: Exchange, answer: HttpAnswer, list: string[]): Promise<void> {
  const { response } = exchange;
  const source = answer.content as Exclude<HttpAnswer['content'], string | Buffer>;
  response.writeHead(answer.status, list);
  if (exchange.request.method === 'HEAD') {
    source.destroy();
    response.end();
    return;
  }
  response.flushHeaders();
  try {
    await pipeline(source, response);
  } catch (error) {
    // The status is already sent. The connection ends without the last chunk, so that the client sees an incomplete response.
    if (!response.destroyed) exchange.log.error({ err: error }, 'response aborted');
    response.destroy();
  }
}

/** Writes a response; resolves when only Node's own transmission of the bytes remains. */
export async function writeAnswer(exchange: Exchange, answer: HttpAnswer, draining: boolean): Promise<void> {
  const { request, response } = exchange;
  let { content } = answer;
  const early = !request.complete && hasBody(exchange) && !(await completed(exchange));
  if (response.destroyed || request.socket.destroyed) {
    if (typeof content === 'object' && 'destroy' in content) content.destroy();
    return;
  }
  const list = headerList(answer, exchange.requestId);
  if (exchange.extraHeaders !== undefined) {
    const own = answer.headers ?? {};
    // A refusal for another limit reports that limit, and not the rate of the key.
    for (const [name, value] of Object.entries(exchange.extraHeaders))
      if (!Object.hasOwn(own, name)) list.push(name, value);
  }
  if (early || draining || exchange.mustClose) list.push('Connection', 'close');
  if (typeof content !== 'string' && !Buffer.isBuffer(content)) return writeStream(exchange, answer, list);
  if (typeof content === 'string' && answer.contentType === JSON_TYPE && !early) {
    const compressed = await compressedJson(exchange, content);
    if (compressed) list.push('Content-Encoding', 'gzip');
    if (request.method === 'GET') list.push('Vary', 'Accept-Encoding');
    content = compressed ?? content;
  }
  const sizeBytes = typeof content === 'string' ? Buffer.byteLength(content) : content.length;
  if (answer.status !== 304) list.push('Content-Length', String(sizeBytes));
  response.writeHead(answer.status, list);
  if (!early) {
    // Equal numbers of bytes and characters mean ASCII, which needs no encoding.
    response.end(content, sizeBytes === content.length ? 'latin1' : 'utf8');
    return;
  }
  response.write(content);
  await lingered(exchange);
  response.end();
}

/**
 * Turns what a handler returned, or why it was refused, into bytes: status, headers and body. Every refusal has the one shape
 * of the API, every answer carries X-Request-Id, and no cause, stack or path ever enters a body.
 */
import { STATUS_CODES } from 'node:http';
import type { Readable } from 'node:stream';
import {
  catalogue,
  type Failure,
  failure,
  type Issue,
  OutcomeUnknown,
  outcomeUnknown,
  Unavailable,
} from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { AnswerHeaders, RouteAnswer } from './route.ts';

/** An answer that is ready to be written. */
export interface HttpAnswer {
  status: number;
  contentType: string;
  content: string | Buffer | Readable;
  headers?: AnswerHeaders | undefined;
  /** Why, where it is a refusal. */
  refusal?: Failure;
}

export const JSON_TYPE = 'application/json; charset=utf-8';

const DEFAULT_RETRY_SECONDS = 5;
/** A field name comes from the caller and may be megabytes long. */
const MAX_FIELD_LENGTH = 200;

function shorten(issue: Issue): Issue {
  return issue.field.length <= MAX_FIELD_LENGTH
    ? issue
    : { ...issue, field: `${issue.field.slice(0, MAX_FIELD_LENGTH)}…` };
}

/** The body of every refusal (contract of the API). */
export function refusalBody(refusal: Failure, requestId: string, extra?: Readonly<Record<string, unknown>>): string {
  const { code, message } = refusal;
  const details = refusal.details.map(shorten);
  return JSON.stringify({ success: false, error: { code, message, details }, reasonCode: code, requestId, ...extra });
}

/** Retry-After in seconds for the refusals where waiting helps, Allow for 405. */
export function refusalHeaders(refusal: Failure): Record<string, string> {
  const headers: Record<string, string> = {};
  const waits = refusal.code === 'OVERLOADED' || refusal.code === 'RATE_LIMITED';
  const seconds = refusal.retryAfterSeconds ?? (waits ? DEFAULT_RETRY_SECONDS : undefined);
  if (seconds !== undefined) headers['Retry-After'] = String(Math.max(1, Math.ceil(seconds)));
  if (refusal.allow !== undefined) headers.Allow = refusal.allow.join(', ');
  return headers;
}

export interface Refusal {
  failure: Failure;
  /** Where HTTP has a status that the catalogue does not (408, 417, 431). */
  status?: number;
  headers?: AnswerHeaders;
  extra?: Readonly<Record<string, unknown>>;
}

export function refusalAnswer(refusal: Refusal, requestId: string): HttpAnswer {
  return {
    status: refusal.status ?? catalogue[refusal.failure.code].status,
    contentType: JSON_TYPE,
    content: refusalBody(refusal.failure, requestId, refusal.extra),
    headers: { ...refusalHeaders(refusal.failure), ...refusal.headers },
    refusal: refusal.failure,
  };
}

/**
 * What a throw becomes: an outage 503, which says that nothing was accepted, and 500 where that is not known; anything else is
 * a bug, logged with its cause and answered with 500.
 */
export function thrownFailure(error: unknown, log: Log): Failure {
  if (error instanceof OutcomeUnknown) {
    log.error({ err: error }, 'the database was lost while it committed: nobody knows whether a request was done');
    return outcomeUnknown(error);
  }
  if (error instanceof Unavailable) {
    log.warn({ err: error }, 'a request was refused because something it needs is not available');
    return failure('OVERLOADED');
  }
  log.error({ err: error }, 'a request failed');
  return failure('INTERNAL_ERROR');
}

/** The answer of a handler; `status` is the definition's. */
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

/** Headers that every answer has and that depend on nothing; JSON of one caller is nobody else's to keep. */
const COMMON = ['X-Content-Type-Options', 'nosniff', 'Cache-Control', 'no-store'] as const;

/** Names and values in turn, as ServerResponse.writeHead takes them fastest. */
export function headerList(answer: HttpAnswer, requestId: string): string[] {
  const list = ['Content-Type', answer.contentType, 'X-Request-Id', requestId];
  const { headers } = answer;
  if (headers === undefined) {
    list.push(...COMMON);
    return list;
  }
  let cache = false;
  for (const name in headers) {
    list.push(name, headers[name]!);
    if (name.length === 13 && name.toLowerCase() === 'cache-control') cache = true;
  }
  list.push(COMMON[0], COMMON[1]);
  if (!cache) list.push(COMMON[2], COMMON[3]);
  return list;
}

/** A whole refusal as text, for a socket whose request never became one; the connection ends with it. */
export function rawRefusal(refusal: Refusal, requestId: string): string {
  const answer = refusalAnswer(refusal, requestId);
  const body = String(answer.content);
  const list = headerList(answer, requestId);
  let text = `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ''}\r\n`;
  for (let index = 0; index < list.length; index += 2) text += `${list[index]}: ${list[index + 1]}\r\n`;
  return `${text}Date: ${new Date().toUTCString()}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;
}

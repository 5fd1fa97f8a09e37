/**
 * The one error of this client: what the service refused, or why there was no answer. Decide by `code`, never by the message.
 */
import type { Refusal } from './schema.ts';

type ServiceCode = Refusal['error']['code'];

/** Codes of the service, and those for what went wrong before or behind it. */
export type ErrorCode =
  | ServiceCode
  /** No answer: the connection broke, or was never made. `cause` has the reason. */
  | 'CONNECTION_FAILED'
  /** No answer within `timeoutMs`. */
  | 'TIMEOUT'
  /** An answer that is not the service's, such as a proxy's page. */
  | 'UNEXPECTED_ANSWER'
  /** A webhook that is not genuine, or not fresh. */
  | 'WEBHOOK_INVALID';

export type ErrorDetail = Refusal['error']['details'][number];

export interface ErrorOptions {
  code: ErrorCode;
  status?: number;
  details?: readonly ErrorDetail[];
  requestId?: string | undefined;
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

export class PostriderError extends Error {
  override readonly name = 'PostriderError';
  readonly code: ErrorCode;
  /** HTTP status; 0 where there was no answer. */
  readonly status: number;
  /** Every issue that was found, with the path of its field. */
  readonly details: readonly ErrorDetail[];
  /** Names the request in the service's log. */
  readonly requestId: string | undefined;
  /** How long the service asked to wait. */
  readonly retryAfterSeconds: number | undefined;

  constructor(message: string, options: ErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.status = options.status ?? 0;
    this.details = options.details ?? [];
    this.requestId = options.requestId;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** Seconds, or the time of an HTTP date (RFC 9110 §10.2.3). */
function retryAfterOf(response: Response): number | undefined {
  const text = response.headers.get('retry-after');
  if (text === null) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

function refusalIn(text: string): Refusal | undefined {
  try {
    const body = JSON.parse(text) as Partial<Refusal> | null;
    return typeof body?.error?.code === 'string' ? (body as Refusal) : undefined;
  } catch {
    return undefined;
  }
}

/** What an answer that is not 2xx says. */
export function errorOf(response: Response, text: string): PostriderError {
  const refusal = refusalIn(text);
  const { status } = response;
  const requestId = refusal?.requestId ?? response.headers.get('x-request-id') ?? undefined;
  const shared = { status, requestId, retryAfterSeconds: retryAfterOf(response) };
  if (refusal === undefined)
    return new PostriderError(`The answer was ${status}.`, { code: 'UNEXPECTED_ANSWER', ...shared });
  const { code, message, details } = refusal.error;
  return new PostriderError(message, { code, details, ...shared });
}

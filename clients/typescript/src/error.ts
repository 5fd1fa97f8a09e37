/**
 * The error class of this client: a refusal by the service, or the reason for a missing response. Branch on `code`, never on the message.
 */
import type { Refusal } from './schema.ts';

type ServiceCode = Refusal['error']['code'];

/** Codes of the service, and those for failures outside of it. */
export type ErrorCode =
  | ServiceCode
  /** No response: the connection failed. `cause` has the reason. */
  | 'CONNECTION_FAILED'
  /** No response within `timeoutMs`. */
  | 'TIMEOUT'
  /** A response from something other than the service, for example a proxy's page. */
  | 'UNEXPECTED_ANSWER'
  /** A webhook with an invalid signature or an old timestamp. */
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
  /** HTTP status; 0 without a response. */
  readonly status: number;
  /** Every issue with the path of its field. */
  readonly details: readonly ErrorDetail[];
  /** Identifies the request in the service's log. */
  readonly requestId: string | undefined;
  /** How long the service asks to wait. */
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

/** Parses seconds, or an HTTP date (RFC 9110 §10.2.3). */
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

/** Returns the error of a call that cannot be sent as it is. */
export function invalidRequest(message: string, field?: string, cause?: unknown): PostriderError {
  const details = field === undefined ? [] : [{ field, code: 'INVALID_VALUE', message }];
  return new PostriderError(message, { code: 'INVALID_REQUEST', details, cause });
}

/** Returns the error of a success that does not come from the service. */
export function unexpectedAnswer({ status, headers, url }: Response, problem: string, cause?: unknown): PostriderError {
  const from = URL.canParse(url) ? new URL(url).origin : 'The server';
  return new PostriderError(`${from} ${problem}. Check that \`url\` is the address of Postrider.`, {
    code: 'UNEXPECTED_ANSWER',
    status,
    requestId: headers.get('x-request-id') ?? undefined,
    cause,
  });
}

/** Returns the error of a response that is not 2xx. */
export function errorOf(response: Response, text: string): PostriderError {
  const refusal = refusalIn(text);
  const { status } = response;
  const requestId = refusal?.requestId ?? response.headers.get('x-request-id') ?? undefined;
  const shared = { status, requestId, retryAfterSeconds: retryAfterOf(response) };
  if (refusal === undefined)
    return new PostriderError(`The response had status ${status}.`, { code: 'UNEXPECTED_ANSWER', ...shared });
  const { code, message, details } = refusal.error;
  return new PostriderError(message, { code, details, ...shared });
}

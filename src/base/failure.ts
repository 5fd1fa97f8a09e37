/**
 * Defines the error catalog: code, HTTP status, SMTP reply, and public text. Failures are plain values, because they cross threads and are
 * stored. A private cause is only logged and never part of a failure. docs/reference/errors.md is checked against this table. Functions
 * with expected failures return a Result; exceptions are for bugs and broken infrastructure.
 */

interface ErrorCatalogEntry {
  status: number;
  /** SMTP reply for the same failure on the submission port. */
  smtp: string;
  /** Public message, unless the failure has a more precise one. */
  text: string;
}

export const errorCatalog = {
  INVALID_REQUEST: {
    status: 400,
    smtp: '550 5.6.0',
    text: 'The request is not valid. Fix the fields listed in details and send it again.',
  },
  UNSUPPORTED_FILE_TYPE: {
    status: 400,
    smtp: '550 5.7.1',
    text: 'Executable and script files are not allowed. Put the file into an archive, or link to it instead.',
  },
  TEMPLATE_VARIABLE_MISSING: {
    status: 400,
    smtp: '550 5.6.0',
    text: 'A variable has no value. Add it to templateVariables, or send the content literally with render: false.',
  },
  TEMPLATE_INVALID: {
    status: 400,
    smtp: '550 5.6.0',
    text: 'The template has a syntax error. Fix it at the line and column in details.',
  },
  UNAUTHORIZED: {
    status: 401,
    smtp: '535 5.7.8',
    text: 'Authentication failed. Send a valid API key in X-Api-Key and the id of its account in X-Id.',
  },
  FORBIDDEN: {
    status: 403,
    smtp: '550 5.7.1',
    text: 'This API key is not allowed to make this call. Use a key with scope full.',
  },
  ACCOUNT_SUSPENDED: {
    status: 403,
    smtp: '535 5.7.8',
    text: 'The account is suspended. Contact your operator.',
  },
  PLAN_NOT_ELIGIBLE: {
    status: 403,
    smtp: '535 5.7.8',
    text: 'SMTP requires a paid or enterprise plan. Ask your operator to change the plan of the account.',
  },
  SENDER_NOT_VERIFIED: {
    status: 403,
    smtp: '550 5.7.1',
    text: "The sender's domain is not verified for this account. Add and verify the domain first.",
  },
  UPLOAD_URL_INVALID: {
    status: 403,
    smtp: '550 5.7.1',
    text: 'The upload URL is not valid or has expired. Request a new one with POST /attachments.',
  },
  NOT_FOUND: { status: 404, smtp: '550 5.1.1', text: 'This path or resource does not exist.' },
  SUBMISSION_NOT_FOUND: {
    status: 404,
    smtp: '550 5.6.0',
    text: 'This account has no attachment submission with this ID. Check `attachmentSubmissionId`, and use a key of the mode that created it.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    smtp: '502 5.5.1',
    text: 'This path does not support this method. See the Allow header for supported methods.',
  },
  DUPLICATE_REQUEST_IN_PROGRESS: {
    status: 409,
    smtp: '451 4.3.2',
    text: 'A request with this Idempotency-Key is still being processed. Retry in a moment.',
  },
  ATTACHMENT_UPLOAD_INCOMPLETE: {
    status: 409,
    smtp: '550 5.6.0',
    text: 'An upload is missing or differs from its manifest. Upload the files listed in details again.',
  },
  SUBMISSION_ALREADY_USED: {
    status: 409,
    smtp: '550 5.6.0',
    text: 'The attachment submission has already been sent. Create a new one with POST /attachments.',
  },
  LIMIT_REACHED: {
    status: 409,
    smtp: '550 5.3.2',
    text: 'The account has reached its limit for this resource. Delete one you no longer need, or ask your operator to raise the limit.',
  },
  CONFLICT: { status: 409, smtp: '550 5.5.0', text: 'The current state of the resource does not allow this.' },
  EMAIL_SIZE_EXCEEDED: {
    status: 413,
    smtp: '552 5.3.4',
    text: 'The email exceeds the size limit. Send large files with POST /attachments, or request a higher limit with POST /approvals.',
  },
  PAYLOAD_TOO_LARGE: { status: 413, smtp: '552 5.3.4', text: 'The request body exceeds the size limit of this call.' },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    smtp: '501 5.5.4',
    text: 'The body must be JSON. Send Content-Type: application/json and no Content-Encoding.',
  },
  IDEMPOTENCY_KEY_MISMATCH: {
    status: 422,
    smtp: '550 5.6.0',
    text: 'The Idempotency-Key differs from that of POST /attachments. Use the same key on both calls.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 422,
    smtp: '550 5.6.0',
    text: 'This Idempotency-Key was used with a different body. Use a new key for a new request.',
  },
  UPLOAD_MISMATCH: {
    status: 422,
    smtp: '550 5.6.0',
    text: 'The uploaded bytes differ from the manifest in size or SHA-256. Nothing was stored. Upload the file again.',
  },
  QUOTA_EXCEEDED: {
    status: 429,
    smtp: '451 4.7.0',
    text: 'The account has reached its daily or monthly quota. Retry after the number of seconds in Retry-After, or ask your operator to raise the limit.',
  },
  RATE_LIMITED: {
    status: 429,
    smtp: '451 4.7.0',
    text: 'Too many requests. Retry after the number of seconds in Retry-After.',
  },
  INTERNAL_ERROR: {
    status: 500,
    smtp: '451 4.3.0',
    text: 'An internal error occurred. Retry with the same Idempotency-Key. If it persists, send the requestId to your operator.',
  },
  OVERLOADED: {
    status: 503,
    smtp: '451 4.3.2',
    text: 'Postrider is overloaded or stopping and did not accept the request. Retry after the number of seconds in Retry-After.',
  },
  UNAVAILABLE: {
    status: 503,
    smtp: '451 4.3.2',
    text: 'The database or the blob store cannot be reached, and nothing was accepted. Retry after the number of seconds in Retry-After.',
  },
} as const satisfies Record<string, ErrorCatalogEntry>;

export type FailureCode = keyof typeof errorCatalog;

/** What is wrong with a field, for programs. docs/reference/errors.md is generated from this table. */
export const issueCodes = {
  REQUIRED: 'A required field or value is missing.',
  UNKNOWN_FIELD: 'The call has no such field.',
  WRONG_TYPE: 'The value does not have the JSON type of the field.',
  WRONG_FORMAT: 'The value does not have the format of the field, for example of a time.',
  NOT_ALLOWED: 'The value is not among the allowed ones.',
  TOO_SHORT: 'The text, list, or object has too few characters or elements.',
  TOO_LONG: 'The text, list, or object has too many characters or elements.',
  TOO_SMALL: 'The number is below the minimum.',
  TOO_LARGE: 'The number is above the maximum.',
  DUPLICATE: 'An element is repeated.',
  INVALID_VALUE: 'The value is not valid for another reason, which the message states.',
} as const;

export type IssueCode = keyof typeof issueCodes;

export interface Issue {
  /** By default, responses have `INVALID_VALUE`, or the code of the error if that is not `INVALID_REQUEST`. */
  code?: IssueCode | FailureCode;
  /** Path of the field as the caller wrote it, for example `attachments[0].sha256`; empty for the entire body. */
  field: string;
  /** The problem and the accepted values, as the end of a sentence that starts with the field. */
  message: string;
  line?: number;
  column?: number;
}

export interface Failure {
  code: FailureCode;
  message: string;
  details: Issue[];
  /** Seconds for a `Retry-After` header, if waiting helps. */
  retryAfterSeconds?: number;
  /** With RATE_LIMITED: the number of requests allowed at the same time, for the `RateLimit-*` headers. */
  limit?: number;
  allow?: string[];
}

/** Maximum number of issues in one failure; a body can contain the same error any number of times. */
export const MAX_ISSUES = 100;
const MAX_MESSAGE_LENGTH = 2_000;

/** Returns each issue once. */
function distinct(details: Issue[]): Issue[] {
  const seen = new Set<string>();
  return details.filter(({ field, message, line, column }) => {
    const key = JSON.stringify([field, message, line, column]);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

/** Field names come from the caller and may be megabytes long. */
const MAX_FIELD_LENGTH = 200;

function shortened(field: string): string {
  return field.length > MAX_FIELD_LENGTH ? `${field.slice(0, MAX_FIELD_LENGTH).toWellFormed()}…` : field;
}

/** Describes the first issue and the number of others, for the middle of a sentence. */
export function firstIssue([first, ...others]: readonly Issue[]): string {
  if (first === undefined) return '';
  const { field, message } = first;
  const more =
    others.length === 0 ? '' : ` (and ${others.length} more error${others.length === 1 ? '' : 's'}, see details)`;
  return `${field === '' ? 'the body' : shortened(field)} ${message}${more}`;
}

/** An element of `details` in a response. */
export type Detail = Issue & Required<Pick<Issue, 'code'>>;

/** A failure as it is shown to clients. */
export type ShownFailure = Pick<Failure, 'code' | 'message'> & { details: Detail[] };

/** Returns the issues of a failure as they are shown to clients. */
export function detailsOf({ code: errorCode, details }: Pick<Failure, 'code' | 'details'>): Detail[] {
  const fallback = errorCode === 'INVALID_REQUEST' ? 'INVALID_VALUE' : errorCode;
  return details.map(({ field, code = fallback, ...issue }) => ({ field: shortened(field), code, ...issue }));
}

/** Codes whose first issue is a sufficient message; for other codes, the catalog's text is added. */
const ISSUE_IS_MESSAGE: ReadonlySet<FailureCode> = new Set(['INVALID_REQUEST', 'UNSUPPORTED_FILE_TYPE']);

/** Returns the message of a failure that has no specific one. */
function sentenceOf(code: FailureCode, details: readonly Issue[]): string {
  const { text } = errorCatalog[code];
  if (details.length === 0) return text;
  const issue = `${firstIssue(details).replace(/^the body/, 'The body')}.`;
  return ISSUE_IS_MESSAGE.has(code) ? issue : `${issue} ${text}`;
}

/** Creates a failure from the catalog; `extra` makes it more precise. Keeps up to 100 distinct details and 2,000 characters of message. */
export function failure(code: FailureCode, extra: Partial<Omit<Failure, 'code'>> = {}): Failure {
  const details = distinct(extra.details ?? []).slice(0, MAX_ISSUES);
  const result: Failure = { ...extra, code, message: extra.message ?? sentenceOf(code, details), details };
  if (result.message.length > MAX_MESSAGE_LENGTH) result.message = `${result.message.slice(0, MAX_MESSAGE_LENGTH)}…`;
  return result;
}

/** Returns INVALID_REQUEST with all issues. */
export function invalid(details: Issue[], message?: string): Failure {
  return failure('INVALID_REQUEST', message === undefined ? { details } : { details, message });
}

/**
 * Thrown if infrastructure (storage, disk) is currently unavailable. It is not returned as a failure, since callers can only respond with
 * its code (HTTP 503, SMTP 451 4.3.2) and keep their data. UNAVAILABLE is for an unreachable server, OVERLOADED for work that this machine
 * cannot accept.
 */
export class Unavailable extends Error {
  override name = 'Unavailable';
  readonly failureCode: 'UNAVAILABLE' | 'OVERLOADED' | 'INTERNAL_ERROR';

  constructor(message: string, failureCode: Unavailable['failureCode'] = 'UNAVAILABLE') {
    super(message);
    this.failureCode = failureCode;
  }
}

/**
 * Thrown if the storage failed during a commit, so Postrider cannot tell whether the write was committed. Callers that keep their data and
 * retry can treat it like any outage. Its message must never claim that nothing was accepted.
 */
export class OutcomeUnknown extends Unavailable {
  override name = 'OutcomeUnknown';

  /**
   * Use INTERNAL_ERROR if there may be other nodes, since a proxy would retry a 503 on another node. Use OVERLOADED if a commit of the
   * embedded database failed: the process ends, and there is no other node.
   */
  constructor(message: string, failureCode: 'INTERNAL_ERROR' | 'OVERLOADED' = 'INTERNAL_ERROR') {
    super(message, failureCode);
  }
}

/** Returns the failure for the caller, with advice on how to retry; it does not claim that the request was refused. */
export function outcomeUnknown({ failureCode }: Pick<OutcomeUnknown, 'failureCode'>): Failure {
  return failure(failureCode, {
    message:
      'Postrider cannot tell whether the request was processed, because the database connection was lost during the commit. Retry with the same Idempotency-Key, which processes it once. Without a key, a retry may process it twice.',
  });
}

/** Represents an expected outcome as a value: the result, or the failure that explains why there is none. */
export type Result<T> = { ok: true; value: T } | { ok: false; failure: Failure };

export function ok<T>(value: T): { ok: true; value: T } {
  return { ok: true, value };
}

export function refuse(failure: Failure): { ok: false; failure: Failure } {
  return { ok: false, failure };
}

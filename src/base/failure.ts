/**
 * The one catalogue of refusals: code, HTTP status, SMTP reply and public text. Failures are plain values (they cross
 * threads and are stored); a private cause never becomes part of one, it is only logged. docs/reference/errors.md is checked
 * against this table. What may be refused answers a Result; exceptions are kept for bugs and broken infrastructure.
 */

interface CatalogueEntry {
  /** HTTP status of the answer. */
  status: number;
  /** Reply on the SMTP submission listener for the same refusal. */
  smtp: string;
  /** Public sentence used where the refusal has nothing more precise to say. */
  text: string;
}

export const catalogue = {
  INVALID_REQUEST: {
    status: 400,
    smtp: '550 5.6.0',
    text: 'The request is not valid; fix the fields named in details and send it again.',
  },
  UNSUPPORTED_FILE_TYPE: {
    status: 400,
    smtp: '550 5.7.1',
    text: 'Executable and script files cannot be sent; put the file into an archive or link to it instead.',
  },
  TEMPLATE_VARIABLE_MISSING: {
    status: 400,
    smtp: '550 5.6.0',
    text: 'A variable has no value; give it one in templateVariables, or send the content literally with render: false.',
  },
  TEMPLATE_INVALID: {
    status: 400,
    smtp: '550 5.6.0',
    text: 'The template does not parse; fix it at the line and column named in details.',
  },
  UNAUTHORIZED: {
    status: 401,
    smtp: '535 5.7.8',
    text: 'The request needs a valid X-Api-Key and the X-Id of its account.',
  },
  FORBIDDEN: {
    status: 403,
    smtp: '550 5.7.1',
    text: 'This API key may not make this call; use a key with scope full.',
  },
  ACCOUNT_SUSPENDED: {
    status: 403,
    smtp: '535 5.7.8',
    text: 'The account is suspended; ask the operator of this service.',
  },
  PLAN_NOT_ELIGIBLE: {
    status: 403,
    smtp: '535 5.7.8',
    text: 'SMTP is available on the plans paid and enterprise; change the plan of the account first.',
  },
  SENDER_NOT_VERIFIED: {
    status: 403,
    smtp: '550 5.7.1',
    text: 'The domain of the sender is not verified for this account; add and verify it first.',
  },
  UPLOAD_URL_INVALID: {
    status: 403,
    smtp: '550 5.7.1',
    text: 'The upload URL is not valid or has expired; ask for a fresh one with POST /attachments.',
  },
  NOT_FOUND: { status: 404, smtp: '550 5.1.1', text: 'There is nothing at this address.' },
  SUBMISSION_NOT_FOUND: {
    status: 404,
    smtp: '550 5.6.0',
    text: 'The attachmentSubmissionId matches no submission of this account.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    smtp: '502 5.5.1',
    text: 'This method is not allowed here; see the Allow header.',
  },
  DUPLICATE_REQUEST_IN_PROGRESS: {
    status: 409,
    smtp: '451 4.3.2',
    text: 'A request with this Idempotency-Key is still being processed; repeat it in a moment.',
  },
  ATTACHMENT_UPLOAD_INCOMPLETE: {
    status: 409,
    smtp: '550 5.6.0',
    text: 'An upload is missing or differs from its manifest; upload the files named in details again.',
  },
  SUBMISSION_ALREADY_USED: {
    status: 409,
    smtp: '550 5.6.0',
    text: 'The attachment submission was sent before; make a new one with POST /attachments.',
  },
  LIMIT_REACHED: {
    status: 409,
    smtp: '550 5.3.2',
    text: 'The account has as many of these as it may have; remove one first.',
  },
  CONFLICT: { status: 409, smtp: '550 5.5.0', text: 'The resource is not in a state that allows this.' },
  EMAIL_SIZE_EXCEEDED: { status: 413, smtp: '552 5.3.4', text: 'The email is larger than the limit that applies.' },
  PAYLOAD_TOO_LARGE: { status: 413, smtp: '552 5.3.4', text: 'The request body is larger than this call accepts.' },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    smtp: '501 5.5.4',
    text: 'The body must be JSON; send Content-Type: application/json and no Content-Encoding.',
  },
  IDEMPOTENCY_KEY_MISMATCH: {
    status: 422,
    smtp: '550 5.6.0',
    text: 'The Idempotency-Key differs from that of the POST /attachments this send refers to; use the same key on both.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 422,
    smtp: '550 5.6.0',
    text: 'This Idempotency-Key was used with another body; use a new key for a new request.',
  },
  UPLOAD_MISMATCH: {
    status: 422,
    smtp: '550 5.6.0',
    text: 'The bytes differ from the manifest in size or SHA-256; nothing was kept, upload the file again.',
  },
  RATE_LIMITED: { status: 429, smtp: '451 4.7.0', text: 'Too many requests; wait as long as Retry-After says.' },
  INTERNAL_ERROR: {
    status: 500,
    smtp: '451 4.3.0',
    text: 'Something broke on our side; repeat the request with the same Idempotency-Key, and quote the requestId.',
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
} as const satisfies Record<string, CatalogueEntry>;

export type FailureCode = keyof typeof catalogue;

export interface Issue {
  /** Path of the field as the caller wrote it, for example `attachments[0].sha256`; empty for the whole body. */
  field: string;
  /** What is wrong and what is allowed, as the end of a sentence that starts with the field. */
  message: string;
  line?: number;
  column?: number;
}

export interface Failure {
  code: FailureCode;
  message: string;
  details: Issue[];
  /** Seconds for a `Retry-After` header, where waiting helps. */
  retryAfterSeconds?: number;
  /** With RATE_LIMITED: how many are let through at once, for the `RateLimit-*` headers. */
  limit?: number;
  /** Methods for an `Allow` header. */
  allow?: string[];
}

/** Bounds of one refusal: what is wrong may be repeated as often as a body has room for it. */
export const MAX_ISSUES = 100;
const MAX_MESSAGE_LENGTH = 2_000;

/** Each issue once, however often it was met. */
function distinct(details: Issue[]): Issue[] {
  const seen = new Set<string>();
  return details.filter(({ field, message, line, column }) => {
    const key = JSON.stringify([field, message, line, column]);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

/** Of a field in a sentence. */
const MAX_FIELD_LENGTH = 200;

/** The first of the issues, and how many there are besides: the middle of a sentence. */
export function firstIssue([first, ...others]: readonly Issue[]): string {
  if (first === undefined) return '';
  const { field, message } = first;
  const shown = field.length > MAX_FIELD_LENGTH ? `${field.slice(0, MAX_FIELD_LENGTH).toWellFormed()}…` : field;
  const more =
    others.length === 0 ? '' : ` (and ${others.length} more fault${others.length === 1 ? '' : 's'}, see details)`;
  return `${shown === '' ? 'the body' : shown} ${message}${more}`;
}

/** Codes whose issues say all that there is to say; to others the text of the catalogue is added. */
const SAID_BY_ISSUES: ReadonlySet<FailureCode> = new Set(['INVALID_REQUEST', 'UNSUPPORTED_FILE_TYPE']);

/** What a refusal says that nobody gave a sentence of its own. */
function sentenceOf(code: FailureCode, details: readonly Issue[]): string {
  const { text } = catalogue[code];
  if (details.length === 0) return text;
  const issue = `${firstIssue(details).replace(/^the body/, 'The body')}.`;
  return SAID_BY_ISSUES.has(code) ? issue : `${issue} ${text}`;
}

/**
 * A refusal from the catalogue; `extra` makes it more precise. At most 100 details, each once, and 2,000 characters of message
 * are kept.
 */
export function failure(code: FailureCode, extra: Partial<Omit<Failure, 'code'>> = {}): Failure {
  const details = distinct(extra.details ?? []).slice(0, MAX_ISSUES);
  const whole: Failure = { ...extra, code, message: extra.message ?? sentenceOf(code, details), details };
  if (whole.message.length > MAX_MESSAGE_LENGTH) whole.message = `${whole.message.slice(0, MAX_MESSAGE_LENGTH)}…`;
  return whole;
}

/** INVALID_REQUEST with every issue that was found. */
export function invalid(details: Issue[], message?: string): Failure {
  return failure('INVALID_REQUEST', message === undefined ? { details } : { details, message });
}

/**
 * Infrastructure that does not work at the moment (storage, disk). Thrown, not returned: callers cannot do anything but
 * answer with its code (HTTP 503, SMTP 451 4.3.2) and keep what they hold. UNAVAILABLE is for a server that cannot be reached,
 * OVERLOADED for what this machine cannot take on.
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
 * The storage was lost while it committed: nobody knows whether the write was done. To those who keep what they hold and try
 * again it is like any outage; it is never answered in the words of a refusal, which say that nothing was accepted.
 */
export class OutcomeUnknown extends Unavailable {
  override name = 'OutcomeUnknown';

  /**
   * INTERNAL_ERROR where others may continue immediately: a proxy repeats a 503 at another node. OVERLOADED where a commit of the
   * embedded database failed: the process ends, and there is no other.
   */
  constructor(message: string, failureCode: 'INTERNAL_ERROR' | 'OVERLOADED' = 'INTERNAL_ERROR') {
    super(message, failureCode);
  }
}

/** What a caller reads of it: in no word a refusal, and how to repeat it. */
export function outcomeUnknown({ failureCode }: Pick<OutcomeUnknown, 'failureCode'>): Failure {
  return failure(failureCode, {
    message:
      'It is not known whether this was done: the database was lost while it was stored. Repeat it with the same Idempotency-Key, which does it once; without a key a repeat may do it twice.',
  });
}

/** An expected outcome as a value: what was asked for, or the refusal that explains why not. */
export type Result<T> = { ok: true; value: T } | { ok: false; failure: Failure };

export function ok<T>(value: T): { ok: true; value: T } {
  return { ok: true, value };
}

export function refuse(failure: Failure): { ok: false; failure: Failure } {
  return { ok: false, failure };
}

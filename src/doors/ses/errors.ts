/**
 * Errors in the forms of Amazon SES: for version 2 of its API JSON with the header `x-amzn-ErrorType`, and for version 1 (Query protocol) an
 * XML document. Clients decide by the type, which this file maps from Postrider's codes, and read the message.
 */
import { type Failure, type FailureCode, failure, firstIssue } from '../../base/failure.ts';
import type { DoorRequest } from '../../http/door.ts';
import type { HttpAnswer } from '../../http/route.ts';
import { queryError } from './xml.ts';

/** Prefix of the path of every endpoint. */
export const PREFIX = '/ses';

interface AwsError {
  status: number;
  /** Name of the exception in version 2. */
  type: string;
  /** Status and code in version 1, if they differ from those of version 2 without `Exception`. */
  query?: readonly [status: number, code: string];
}

const error = (status: number, type: string, query?: AwsError['query']): AwsError =>
  query === undefined ? { status, type } : { status, type, query };

const BAD_REQUEST = error(400, 'BadRequestException', [400, 'InvalidParameterValue']);
const UNAVAILABLE = error(503, 'ServiceUnavailableException');
const INTERNAL = error(500, 'InternalServiceErrorException', [500, 'InternalFailure']);
const NOT_FOUND = error(404, 'NotFoundException');
const REJECTED = error(400, 'MessageRejected');
const THROTTLED = error(429, 'TooManyRequestsException', [400, 'Throttling']);
const UNKNOWN_OPERATION = error(404, 'UnknownOperationException', [404, 'InvalidAction']);

/** Kinds of failed authentication. */
export const AUTHENTICATION = {
  missing: error(403, 'MissingAuthenticationTokenException'),
  incomplete: error(403, 'IncompleteSignatureException', [400, 'IncompleteSignature']),
  unknownKey: error(403, 'UnrecognizedClientException', [403, 'InvalidClientTokenId']),
  mismatch: error(403, 'InvalidSignatureException', [403, 'SignatureDoesNotMatch']),
} as const;

/** Errors by Postrider's code; all others are internal. The comparison with plain text allows codes that the type does not list. */
const ERRORS: Readonly<Record<string, AwsError>> = {
  INVALID_REQUEST: BAD_REQUEST,
  UNSUPPORTED_FILE_TYPE: BAD_REQUEST,
  TEMPLATE_VARIABLE_MISSING: error(400, 'BadRequestException', [400, 'MissingRenderingAttribute']),
  TEMPLATE_INVALID: error(400, 'BadRequestException', [400, 'InvalidTemplate']),
  IDEMPOTENCY_KEY_REUSED: BAD_REQUEST,
  UNSUPPORTED_MEDIA_TYPE: error(415, 'UnsupportedMediaTypeException'),
  UNAUTHORIZED: AUTHENTICATION.unknownKey,
  FORBIDDEN: error(403, 'AccessDeniedException', [403, 'AccessDenied']),
  ACCOUNT_SUSPENDED: error(400, 'AccountSuspendedException', [400, 'AccountSendingPausedException']),
  SENDER_NOT_VERIFIED: REJECTED,
  EMAIL_SIZE_EXCEEDED: REJECTED,
  PAYLOAD_TOO_LARGE: error(413, 'RequestEntityTooLargeException'),
  NOT_FOUND,
  METHOD_NOT_ALLOWED: UNKNOWN_OPERATION,
  CONFLICT: error(409, 'ConflictException'),
  LIMIT_REACHED: error(400, 'LimitExceededException'),
  RATE_LIMITED: THROTTLED,
  QUOTA_EXCEEDED: THROTTLED,
  // Clients retry a 503.
  DUPLICATE_REQUEST_IN_PROGRESS: UNAVAILABLE,
  OVERLOADED: UNAVAILABLE,
  UNAVAILABLE,
};

/** Errors of failures for which the code does not decide. */
const special = new WeakMap<Failure, AwsError>();

/** Creates a failure that has its own error in this interface. */
export function awsFailure(code: FailureCode, as: AwsError, message: string): Failure {
  const made = failure(code, { message });
  special.set(made, as);
  return made;
}

/** Returns a failure of the envelope sender's domain, which has its own error. */
export function mailFromFailure(refusal: Failure): Failure {
  const as = error(400, 'MailFromDomainNotVerifiedException');
  return awsFailure('SENDER_NOT_VERIFIED', as, refusal.message);
}

export function unknownAction(action: string): Failure {
  const shown = action.replace(/[^\w-]/g, '?').slice(0, 100);
  const message = `Postrider's Amazon SES interface has no action ${shown}.`;
  return awsFailure('NOT_FOUND', UNKNOWN_OPERATION, message);
}

export function templateMissing(name: string): Failure {
  const as = error(404, 'NotFoundException', [400, 'TemplateDoesNotExist']);
  return awsFailure('NOT_FOUND', as, `Template ${name} does not exist.`);
}

/** Postrider's field names, at the start of a path, and their counterparts in version 2. */
const FIELDS: readonly [ours: RegExp, theirs: string][] = [
  [/^from\b/, 'FromEmailAddress'],
  [/^to\b/, 'Destination.ToAddresses'],
  [/^cc\b/, 'Destination.CcAddresses'],
  [/^bcc\b/, 'Destination.BccAddresses'],
  [/^replyTo\b/, 'ReplyToAddresses'],
  [/^subject\b/, 'Subject'],
  [/^html\b/, 'Html'],
  [/^text\b/, 'Text'],
  [/^headers\b/, 'Headers'],
  [/^attachments(\[\d+\])\.name\b/, 'Attachments$1.FileName'],
  [/^attachments(\[\d+\])\.content\b/, 'Attachments$1.RawContent'],
  [/^attachments(\[\d+\])\.contentType\b/, 'Attachments$1.ContentType'],
  [/^attachments\b/, 'Attachments'],
  [/^metadata\b/, 'EmailTags'],
  [/^templateId\b/, 'TemplateName'],
  [/^templateVariables\b/, 'TemplateData'],
  [/^email$/, 'EmailAddress'],
];

function sesField(field: string): string {
  const [ours, theirs] = FIELDS.find(([name]) => name.test(field)) ?? [/$^/, ''];
  return field.replace(ours, theirs);
}

const UNVERIFIED = /^The domain (\S+) is not verified/;

/** Returns the message, with the field names of this interface. Clients look for the sentence of SES about unverified senders. */
export function messageOf(refusal: Failure): string {
  const { code, message, details } = refusal;
  if (special.has(refusal)) return message;
  if (code === 'INVALID_REQUEST' && details.length > 0 && message.startsWith(firstIssue(details).slice(0, 40)))
    return `${firstIssue(details.map((issue) => ({ ...issue, field: sesField(issue.field) }))).replace(/^the body/, 'The body')}.`;
  if (code === 'SENDER_NOT_VERIFIED' && UNVERIFIED.test(message)) return `Email address is not verified. ${message}`;
  return message;
}

function errorOf(refusal: Failure): AwsError {
  return special.get(refusal) ?? ERRORS[refusal.code] ?? INTERNAL;
}

/** Name of the exception in version 2, and the message. */
export function awsErrorOf(refusal: Failure): { type: string; message: string } {
  return { type: errorOf(refusal).type, message: messageOf(refusal) };
}

/** Returns whether a request is one of version 1: its action is in the body, and its path is that of the interface. */
function isQuery({ url, headers }: DoorRequest): boolean {
  const [path = ''] = url.slice(PREFIX.length).split('?');
  if (path === '' || path === '/') return true;
  return !path.startsWith('/v2/') && /^application\/x-www-form-urlencoded\b/i.test(headers['content-type'] ?? '');
}

/** Returns the failure of a path that this interface does not have. */
function missingPath({ url, method }: DoorRequest): string {
  const [path = ''] = url.slice(PREFIX.length).split('?');
  return `Postrider's Amazon SES interface has no operation ${method} ${path.replace(/[^\x21-\x7e]/g, '?').slice(0, 100)}. It includes sending, account, identities, and the suppression list.`;
}

/** Returns an error response in the form of SES, and any other response with the request id. */
export function shape(answer: HttpAnswer, request: DoorRequest): HttpAnswer {
  const { refusal } = answer;
  const { Link: _, Allow: __, ...kept } = (answer.headers ?? {}) as Record<string, string>;
  const headers = { ...kept, 'x-amzn-RequestId': request.requestId };
  if (refusal === undefined) return { ...answer, headers };
  const isUnrouted =
    request.routeName === 'unknown' && (refusal.code === 'NOT_FOUND' || refusal.code === 'METHOD_NOT_ALLOWED');
  const { status, type, query } = isUnrouted ? UNKNOWN_OPERATION : errorOf(refusal);
  const message = isUnrouted ? missingPath(request) : messageOf(refusal);
  if (isQuery(request)) {
    const [queryStatus, code] = query ?? [status, type.replace(/Exception$/, '')];
    return {
      ...answer,
      status: queryStatus,
      contentType: 'text/xml',
      headers,
      content: queryError({ code, message, isSender: queryStatus < 500, requestId: request.requestId }),
    };
  }
  return {
    ...answer,
    status,
    headers: { ...headers, 'x-amzn-ErrorType': type },
    content: JSON.stringify({ message }),
  };
}

/**
 * Errors in Resend's form: `{ statusCode, name, message }`, with the names that its clients compare and the field names of this
 * interface.
 */
import { errorCatalog, type Failure } from '../../base/failure.ts';
import type { DoorRequest } from '../../http/door.ts';
import type { HttpAnswer } from '../../http/route.ts';
import { PREFIX } from './endpoint.ts';

/** Status and name by Postrider's code. */
const NAMES: Readonly<Record<string, readonly [status: number, name: string]>> = {
  INVALID_REQUEST: [422, 'validation_error'],
  UNSUPPORTED_FILE_TYPE: [422, 'invalid_attachment'],
  TEMPLATE_VARIABLE_MISSING: [422, 'validation_error'],
  TEMPLATE_INVALID: [422, 'validation_error'],
  UNAUTHORIZED: [403, 'invalid_api_key'],
  FORBIDDEN: [403, 'restricted_api_key'],
  ACCOUNT_SUSPENDED: [403, 'restricted_api_key'],
  PLAN_NOT_ELIGIBLE: [403, 'restricted_api_key'],
  SENDER_NOT_VERIFIED: [403, 'validation_error'],
  NOT_FOUND: [404, 'not_found'],
  METHOD_NOT_ALLOWED: [405, 'method_not_allowed'],
  DUPLICATE_REQUEST_IN_PROGRESS: [409, 'concurrent_idempotent_requests'],
  IDEMPOTENCY_KEY_REUSED: [409, 'invalid_idempotent_request'],
  LIMIT_REACHED: [422, 'validation_error'],
  CONFLICT: [422, 'validation_error'],
  EMAIL_SIZE_EXCEEDED: [422, 'validation_error'],
  PAYLOAD_TOO_LARGE: [413, 'validation_error'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'validation_error'],
  RATE_LIMITED: [429, 'rate_limit_exceeded'],
  QUOTA_EXCEEDED: [429, 'daily_quota_exceeded'],
  INTERNAL_ERROR: [500, 'internal_server_error'],
  OVERLOADED: [503, 'application_error'],
  UNAVAILABLE: [503, 'application_error'],
};

/** Postrider's field names, in paths and sentences, and their counterparts in this interface. */
const FIELDS: readonly [ours: RegExp, theirs: string][] = [
  [/\breplyTo\b/g, 'reply_to'],
  [/\bsendAt\b/g, 'scheduled_at'],
  [/\btemplateVariables\b/g, 'template.variables'],
  [/\btemplateId\b/g, 'template.id'],
  [/\bcontentType\b/g, 'content_type'],
  [/\bcontentId\b/g, 'content_id'],
  [/\b(attachments\[\d+\])\.name\b/g, '$1.filename'],
  [/\bmetadata\b/g, 'tags'],
  [/\bformatEvents\b/g, 'events'],
];

export function withResendNames(text: string): string {
  return FIELDS.reduce((words, [ours, theirs]) => words.replace(ours, theirs), text);
}

const FROM_FORMAT =
  'Invalid `from` field. The email address needs to follow the `email@example.com` or `Name <email@example.com>` format.';

/** Returns the status, name and message of failures for which the code alone does not decide; undefined for all others. */
function special(
  { code: ours, message, details }: Failure,
  { headers }: DoorRequest,
): readonly [number, string, string] | undefined {
  // The comparison with plain text allows codes that the type does not list.
  const code: string = ours;
  if (code === 'UNAUTHORIZED')
    return headers.authorization === undefined
      ? [401, 'missing_api_key', 'Missing API key in the authorization header']
      : [403, 'invalid_api_key', 'API key is invalid'];
  if (code === 'FORBIDDEN' && message === errorCatalog.FORBIDDEN.text)
    return [401, 'restricted_api_key', 'This API key is restricted to only send emails.'];
  const domain = code === 'SENDER_NOT_VERIFIED' ? /^The domain (\S+) is not verified/.exec(message)?.[1] : undefined;
  if (domain !== undefined) {
    const words = `The ${domain} domain is not verified. Please, add and verify your domain with POST /domains.`;
    return [403, 'validation_error', words];
  }
  if (code === 'QUOTA_EXCEEDED' && /month/i.test(message)) return [429, 'monthly_quota_exceeded', message];
  const [first] = details;
  if (code !== 'INVALID_REQUEST' || first === undefined) return undefined;
  if (first.field === 'Idempotency-Key')
    return [400, 'invalid_idempotency_key', 'The idempotency key must be between 1-256 characters.'];
  if (/^is required/.test(first.message))
    return [422, 'missing_required_field', `Missing \`${withResendNames(first.field)}\` field.`];
  if (first.field === 'from') return [422, 'invalid_from_address', `${FROM_FORMAT} It ${first.message}.`];
  if (/^attachments\b/.test(first.field)) return [422, 'invalid_attachment', sentence(first.field, first.message)];
  if (first.field === 'region') return [422, 'invalid_region', sentence(first.field, first.message)];
  if (first.field === 'permission') return [422, 'invalid_access', sentence(first.field, first.message)];
  const isParameter = ['limit', 'after', 'before', 'id'].includes(first.field);
  const name = isParameter ? 'invalid_parameter' : 'validation_error';
  return [422, name, first.field === '' ? `The body ${first.message}.` : sentence(first.field, first.message)];
}

function sentence(field: string, message: string): string {
  return `The \`${withResendNames(field)}\` field ${withResendNames(message)}.`;
}

/** Endpoints for marketing, which Postrider does not do. */
const OUT_OF_SCOPE = new Set([
  'contacts',
  'contact-properties',
  'audiences',
  'segments',
  'broadcasts',
  'topics',
  'automations',
  'events',
  'inboxes',
  'oauth',
  'usage',
  'domains/claim',
]);

/** Returns a message for a path that this interface does not have; undefined for its own paths. */
function missingPath({ code }: Failure, { url, routeName }: DoorRequest): string | undefined {
  const [path = ''] = url.slice(PREFIX.length).split('?');
  const [, first = '', ...rest] = path.split('/');
  const noun = first === 'domains' && rest.includes('claim') ? 'domains/claim' : first;
  if (noun === 'logs')
    return "The endpoint /logs is not part of Postrider's Resend interface; GET /requests of the Postrider API lists requests.";
  if (OUT_OF_SCOPE.has(noun))
    return `The endpoint /${noun} is not part of Postrider's Resend interface; for marketing, use a list manager such as listmonk with Postrider.`;
  return routeName === 'unknown' && code === 'NOT_FOUND'
    ? `Postrider's Resend interface has no endpoint ${path.slice(0, 100)}.`
    : undefined;
}

/** Returns an error response in Resend's form, and any other response unchanged. */
export function shape(answer: HttpAnswer, request: DoorRequest): HttpAnswer {
  const { refusal } = answer;
  if (refusal === undefined) return answer;
  const missing = missingPath(refusal, request);
  const isMissing = missing !== undefined && !['UNAUTHORIZED', 'OVERLOADED', 'UNAVAILABLE'].includes(refusal.code);
  const [status, name] = NAMES[refusal.code] ?? [answer.status, 'application_error'];
  const [statusCode, itsName, message] = isMissing
    ? [404, 'not_found', missing]
    : (special(refusal, request) ?? [status, name, withResendNames(refusal.message)]);
  const { Link: _, ...headers } = (answer.headers ?? {}) as Record<string, string>;
  return {
    ...answer,
    status: statusCode,
    headers,
    content: JSON.stringify({ statusCode, name: itsName, message }),
  };
}

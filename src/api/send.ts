/** POST /send and POST /send/batch on the HTTP surface. */
import type { Caller } from '../accounts/accounts.ts';
import { invalid, type Result, refuse } from '../base/failure.ts';
import { defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { type Answer, readKey } from '../idempotency/idempotency.ts';
import { createSend, type SendDependencies } from '../send/accept.ts';
import { originOf } from '../send/accept-emails.ts';
import { batchResponse, dryRunResponse, sendResponse } from '../send/answer-schema.ts';
import { type ItemRefusal, sendBatch } from '../send/batch.ts';
import { batchBody, MAX_BODY_BYTES, sendBody, sendQuery } from '../send/request.ts';

const SHARED = {
  method: 'POST',
  tag: 'send',
  access: { auth: 'key', scope: 'send' },
  idempotencyKey: true,
  load: { acceptsMail: true },
} as const;
const SEND_REFUSALS = [
  'UNSUPPORTED_FILE_TYPE',
  'TEMPLATE_VARIABLE_MISSING',
  'TEMPLATE_INVALID',
  'SENDER_NOT_VERIFIED',
  'NOT_FOUND',
  'SUBMISSION_NOT_FOUND',
  'DUPLICATE_REQUEST_IN_PROGRESS',
  'ATTACHMENT_UPLOAD_INCOMPLETE',
  'SUBMISSION_ALREADY_USED',
  'EMAIL_SIZE_EXCEEDED',
  'QUOTA_EXCEEDED',
  'IDEMPOTENCY_KEY_MISMATCH',
  'IDEMPOTENCY_KEY_REUSED',
] as const;
const REPLAYED = { 'Idempotent-Replayed': 'true' };

/** Returns the caller, where the request came from, and what prevents acceptance. */
function requestContextOf(request: RouteRequest<Caller>) {
  return { caller: request.caller, origin: originOf(request), backPressure: request.backPressure };
}

interface SendRouteDependencies extends SendDependencies {
  /** Called when a message of a batch is refused. Refused requests get a plain error response instead. */
  onItemRefused?(request: RouteRequest<Caller>, index: number, refusal: ItemRefusal): void;
}

export function createSendRoutes(dependencies: SendRouteDependencies): RouteDefinition<Caller>[] {
  const mailer = createSend(dependencies);

  const send = async (request: RouteRequest<Caller, unknown, { dryRun?: boolean }>): Promise<RouteAnswer> => {
    const read = readKey(request.headerValues('idempotency-key'));
    const key = read.ok ? read.value : undefined;
    const result = await mailer.send({
      ...requestContextOf(request),
      read: () => request.json(),
      idempotency:
        key === undefined
          ? undefined
          : { endpoint: '/send', key, bytes: () => request.rawBody, submitted: request.submitted },
      // A dry run does not return the response of a key, even if the query is invalid.
      dryRun: request.query.dryRun ?? (request.inputIssues.length > 0 && /[?&]dryRun=/.test(request.url)),
      isOneOfMany: false,
      issues: read.ok ? request.inputIssues : [...request.inputIssues, ...read.failure.details],
    });
    return result.ok ? answerOf(request, result.value) : result;
  };

  const batch = async (request: RouteRequest<Caller, unknown, undefined>): Promise<RouteAnswer> => {
    const key = readKey(request.headerValues('idempotency-key'));
    if (!key.ok) {
      const body = request.parse();
      return refuse(invalid([...key.failure.details, ...(body.ok ? [] : body.failure.details)]));
    }
    const result = await sendBatch(mailer, dependencies, {
      ...requestContextOf(request),
      parse: () => request.parse() as Result<{ messages: unknown[] }>,
      log: request.log,
      onRefused: (index, refusal) => dependencies.onItemRefused?.(request as RouteRequest<Caller>, index, refusal),
      ...(key.value !== undefined && {
        idempotency: {
          key: key.value,
          json: request.submitted ?? request.json(),
          items: itemsOf(request.submitted),
          bytes: () => request.rawBody,
        },
      }),
    });
    return result.ok ? answerOf(request, result.value) : result;
  };

  return [
    defineRoute({
      ...SHARED,
      path: '/send',
      operationId: 'sendEmail',
      summary: 'Send an email',
      description: 'Returns 202 once the email is on stable storage. Every recipient has its own message id.',
      body: { schema: sendBody, maxBytes: MAX_BODY_BYTES, tooLarge: 'EMAIL_SIZE_EXCEEDED', rawFirst: true },
      query: sendQuery,
      response: { status: 202, schema: sendResponse, description: 'The email is on stable storage.' },
      furtherResponses: [
        { status: 200, schema: dryRunResponse, description: 'With dryRun=true: what would be sent. Nothing is sent.' },
      ],
      refusals: SEND_REFUSALS,
      handle: send,
    }),
    defineRoute({
      ...SHARED,
      path: '/send/batch',
      operationId: 'sendEmailBatch',
      summary: 'Send up to 100 emails',
      description: 'Each message is checked and stored separately. Results are in the order of the messages.',
      body: { schema: batchBody, maxBytes: MAX_BODY_BYTES, rawFirst: true },
      response: { status: 200, schema: batchResponse },
      refusals: ['DUPLICATE_REQUEST_IN_PROGRESS', 'IDEMPOTENCY_KEY_REUSED'],
      handle: batch,
    }),
  ];
}

/** Returns the messages of a batch as the client sent them, if the body was translated before it was read. */
function itemsOf(submitted: RouteRequest['submitted']): readonly unknown[] | undefined {
  return submitted?.ok && Array.isArray(submitted.value) ? submitted.value : undefined;
}

/** The first message of a response, which may be a stored one. */
const FIRST_MESSAGE = /"messageId":"(msg_[0-9A-Za-z]+)"/;

function answerOf(request: Pick<RouteRequest, 'noteMessage'>, answer: Answer): RouteAnswer {
  const { status, json } = answer;
  const messageId = FIRST_MESSAGE.exec(json)?.[1];
  if (messageId !== undefined) request.noteMessage(messageId);
  return answer.replayed ? { ok: true, status, json, headers: REPLAYED } : { ok: true, status, json };
}

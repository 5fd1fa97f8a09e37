/** POST /send and POST /send/batch on the HTTP surface. */
import type { Caller } from '../accounts/accounts.ts';
import { invalid } from '../base/failure.ts';
import { type Result, refuse } from '../base/result.ts';
import { defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { type Answer, readKey } from '../idempotency/idempotency.ts';
import { createSend, type SendDependencies } from './accept.ts';
import { sendBatch } from './batch.ts';
import {
  batchBody,
  batchResponse,
  dryRunResponse,
  MAX_BODY_BYTES,
  sendBody,
  sendQuery,
  sendResponse,
} from './request.ts';

const REPLAYED = { 'Idempotent-Replayed': 'true' };

/** Who sends, and from where. */
function senderOf({ caller, requestId, remoteAddress: clientAddress }: RouteRequest<Caller>) {
  return { caller, requestId, clientAddress };
}

export function createSendRoutes(dependencies: SendDependencies): RouteDefinition<Caller>[] {
  const sender = createSend(dependencies);

  const send = async (request: RouteRequest<Caller, unknown, { dryRun?: boolean }>): Promise<RouteAnswer> => {
    const read = readKey(request.headerValues('idempotency-key'));
    const key = read.ok ? read.value : undefined;
    const result = await sender.send({
      ...senderOf(request),
      read: () => request.json(),
      idempotency: key === undefined ? undefined : { endpoint: '/send', key, bytes: () => request.rawBody },
      // A key's answer is none to a dry run, also where the query is at fault.
      dryRun: request.query.dryRun ?? (request.inputIssues.length > 0 && /[?&]dryRun=/.test(request.url)),
      isOneOfMany: false,
      issues: read.ok ? request.inputIssues : [...request.inputIssues, ...read.failure.details],
    });
    return result.ok ? answerOf(result.value) : result;
  };

  const batch = async (request: RouteRequest<Caller, unknown, undefined>): Promise<RouteAnswer> => {
    const key = readKey(request.headerValues('idempotency-key'));
    if (!key.ok) {
      const body = request.parse();
      return refuse(invalid([...key.failure.details, ...(body.ok ? [] : body.failure.details)]));
    }
    const result = await sendBatch(sender, dependencies, {
      ...senderOf(request),
      parse: () => request.parse() as Result<{ messages: unknown[] }>,
      log: request.log,
      ...(key.value !== undefined && {
        idempotency: { key: key.value, json: request.json(), bytes: () => request.rawBody },
      }),
    });
    return result.ok ? answerOf(result.value) : result;
  };

  return [
    defineRoute({
      method: 'POST',
      path: '/send',
      operationId: 'sendEmail',
      idempotencyKey: true,
      summary: 'Send an email',
      description: 'Answers 202 once the email is on stable storage. Every recipient has a message id of its own.',
      tag: 'send',
      auth: 'key',
      scope: 'send',
      body: sendBody,
      query: sendQuery,
      response: { status: 202, schema: sendResponse, description: 'The email is on stable storage.' },
      furtherResponses: [
        { status: 200, schema: dryRunResponse, description: 'With dryRun=true: what would be sent; nothing is.' },
      ],
      refusals: [
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
        'IDEMPOTENCY_KEY_MISMATCH',
        'IDEMPOTENCY_KEY_REUSED',
      ],
      maxBodyBytes: MAX_BODY_BYTES,
      bodyTooLarge: 'EMAIL_SIZE_EXCEEDED',
      rawFirst: true,
      acceptsMail: true,
      handle: send,
    }),
    defineRoute({
      method: 'POST',
      path: '/send/batch',
      operationId: 'sendEmailBatch',
      idempotencyKey: true,
      summary: 'Send up to 100 emails',
      description: 'Each message is checked and stored by itself; results are in the order of the messages.',
      tag: 'send',
      auth: 'key',
      scope: 'send',
      body: batchBody,
      response: { status: 200, schema: batchResponse },
      refusals: ['DUPLICATE_REQUEST_IN_PROGRESS', 'IDEMPOTENCY_KEY_REUSED'],
      maxBodyBytes: MAX_BODY_BYTES,
      rawFirst: true,
      acceptsMail: true,
      handle: batch,
    }),
  ];
}

function answerOf(answer: Answer): RouteAnswer {
  const { status, json } = answer;
  return answer.replayed ? { ok: true, status, json, headers: REPLAYED } : { ok: true, status, json };
}

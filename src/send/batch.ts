/**
 * POST /send/batch: up to 100 messages, each checked and stored on its own. They are stored at the same time so that they share commits,
 * but composed in turns with other requests. Results are in the order of the messages. Messages that name the same submission run one after
 * the other. With an Idempotency-Key the response of the batch is kept, and every message has its own record under the same key: after a
 * crash halfway, the retry sends only what was not accepted. The response of a batch of which nothing was accepted is not kept, like that
 * of any refused request.
 */

import { ownerOf } from '../accounts/accounts.ts';
import {
  detailsOf,
  errorCatalog,
  type Failure,
  type FailureCode,
  failure,
  OutcomeUnknown,
  ok,
  outcomeUnknown,
  type Result,
  refuse,
  type ShownFailure,
  Unavailable,
} from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { ParsedJson } from '../http/strict-json.ts';
import { type Answer, digestOfJson, KEY_LIFETIME_MS, keepAnswerOperation, once } from '../idempotency/idempotency.ts';
import { REPEATABLE, type Send, type SendDependencies } from './accept.ts';
import type { MailOrigin } from './accept-emails.ts';
import type { SendingCaller } from './mail-header.ts';

const BATCH_ENDPOINT = '/send/batch';

interface BatchRequest {
  caller: SendingCaller;
  origin: MailOrigin;
  /** Why nothing can be accepted right now: messages that were accepted before get their response, the others are refused. */
  backPressure?: Failure | undefined;
  parse(): Result<{ messages: unknown[] }>;
  /** `items`: the messages as the client sent them. Retries are compared by these if a translated body is read instead. */
  idempotency?: { key: string; json: ParsedJson; items?: readonly unknown[] | undefined; bytes(): Uint8Array };
  log: Log;
  /** Called for each message that is refused, with its index. */
  onRefused?(index: number, refusal: ItemRefusal): void;
}

/** As the response shows it. */
export type ItemRefusal = ShownFailure;

type ItemResult =
  | { status: number; data: { messageId: string } }
  | { status: number; error: ItemRefusal; reasonCode: FailureCode };

/** Runs the batch. The response is 200 even if messages are refused. */
export async function sendBatch(
  send: Send,
  dependencies: Pick<SendDependencies, 'database' | 'inFlight' | 'clock'>,
  request: BatchRequest,
): Promise<Result<Answer>> {
  const { idempotency, caller } = request;
  if (idempotency === undefined) {
    const run = await runAll(send, request);
    return run.ok ? ok(run.value.answer) : run;
  }
  const { database, inFlight, clock } = dependencies;
  const nowMs = clock.now();
  const body = digestOfJson(idempotency.json, idempotency.bytes);
  const key = { ...ownerOf({ caller }), endpoint: BATCH_ENDPOINT, key: idempotency.key };
  return once({ database, inFlight, key, body, nowMs }, async () => {
    const run = await runAll(send, request);
    if (!run.ok) return run;
    const { answer, isFinal, hasAccepted } = run.value;
    if (isFinal && hasAccepted) {
      const stored = { bodyHash: body.value, status: answer.status, body: answer.json };
      await database
        .execute(keepAnswerOperation, {
          key,
          answer: stored,
          nowMs,
          expiresAtMs: nowMs + KEY_LIFETIME_MS,
        })
        .catch((error: Error) => {
          // A plain outage would deny that messages were accepted; a retry finds them under their own records.
          throw error instanceof Unavailable ? new OutcomeUnknown(error.message) : error;
        });
    }
    return ok(answer);
  });
}

interface Run {
  answer: Answer;
  /** No message was refused with a code that a retry could get past. */
  isFinal: boolean;
  /** At least one message was accepted. */
  hasAccepted: boolean;
}

async function runAll(send: Send, request: BatchRequest): Promise<Result<Run>> {
  const { backPressure } = request;
  const parsed = request.parse();
  if (!parsed.ok) return parsed;
  const last = new Map<string, Promise<ItemResult>>();
  const results = await Promise.all(
    parsed.value.messages.map((message, index) => {
      const run = (): Promise<ItemResult> => runOne(send, request, message, index);
      const submissionId = submissionIdOf(message);
      if (submissionId === undefined) return run();
      const result = last.get(submissionId)?.then(run) ?? run();
      last.set(submissionId, result);
      return result;
    }),
  );
  const hasAccepted = results.some((result) => 'data' in result);
  if (backPressure !== undefined && !hasAccepted) return refuse(backPressure);
  for (const [index, result] of results.entries()) if ('error' in result) request.onRefused?.(index, result.error);
  const isFinal = results.every((result) => !('error' in result) || !REPEATABLE.has(result.error.code));
  return ok({ answer: { status: 200, json: JSON.stringify({ results }), replayed: false }, isFinal, hasAccepted });
}

/** Only the first acceptable message can use a submission, so messages that name the same one run in order. */
function submissionIdOf(message: unknown): string | undefined {
  if (typeof message !== 'object' || message === null || !('attachmentSubmissionId' in message)) return undefined;
  const { attachmentSubmissionId } = message;
  return typeof attachmentSubmissionId === 'string' ? attachmentSubmissionId : undefined;
}

async function runOne(send: Send, request: BatchRequest, message: unknown, index: number): Promise<ItemResult> {
  const { caller, origin, backPressure, idempotency } = request;
  try {
    const result = await send.send({
      caller,
      origin,
      backPressure,
      read: () => ok(message),
      isOneOfMany: true,
      ...(idempotency !== undefined && {
        idempotency: {
          endpoint: `${BATCH_ENDPOINT}#${index}`,
          key: idempotency.key,
          bytes: () => JSON.stringify(message),
          submitted: idempotency.items && ok(idempotency.items[index]),
        },
      }),
    });
    if (!result.ok) {
      const { code, details } = result.failure;
      request.log.info(
        { accountId: caller.account.id, item: index, code, fields: details.map((one) => one.field) },
        'mail refused',
      );
      return refused(result.failure);
    }
    return {
      status: result.value.status,
      data: (JSON.parse(result.value.json) as { data: { messageId: string } }).data,
    };
  } catch (error) {
    if (error instanceof OutcomeUnknown) {
      request.log.error({ err: error, item: index }, 'batch: commit outcome of a message is unknown');
      return refused(outcomeUnknown(error));
    }
    if (error instanceof Unavailable) return refused(failure(error.failureCode, { retryAfterSeconds: 1 }));
    request.log.error({ err: error, item: index }, 'batch: message failed');
    return refused(failure('INTERNAL_ERROR'));
  }
}

function refused(refusal: Failure): ItemResult {
  const { code, message } = refusal;
  const error = { code, message, details: detailsOf(refusal) };
  return { status: errorCatalog[code].status, error, reasonCode: code };
}

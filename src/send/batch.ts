/**
 * POST /send/batch: up to 100 messages, each checked and stored by itself, all at once so that they share commits, but made in
 * turns with other requests; results in the order of the messages. Those that name the same submission wait for one another.
 * With an Idempotency-Key the answer of the whole is kept, and every message has a record of its own under the same key: after
 * a crash halfway the retry sends only what was not accepted, whatever the answer was. The answer of a batch of which nothing
 * was accepted is not kept, as that of a refused request is not.
 */

import {
  catalogue,
  type Failure,
  type FailureCode,
  failure,
  OutcomeUnknown,
  ok,
  outcomeUnknown,
  type Result,
  refuse,
  Unavailable,
} from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { ParsedJson } from '../http/strict-json.ts';
import { type Answer, digestOfJson, KEY_LIFETIME_MS, keepAnswerOperation, once } from '../idempotency/idempotency.ts';
import { REPEATABLE, type Send, type SendDependencies } from './accept.ts';
import type { SendingCaller } from './mail-header.ts';

const BATCH_ENDPOINT = '/send/batch';

interface BatchRequest {
  caller: SendingCaller;
  requestId?: string;
  clientAddress?: string;
  /** Why nothing may be accepted right now: messages that were accepted before are answered, the others are refused. */
  backPressure?: Failure | undefined;
  parse(): Result<{ messages: unknown[] }>;
  /** `items`: what repeats of each message are compared by, where it is not the message that is read. */
  idempotency?: { key: string; json: ParsedJson; items?: readonly unknown[] | undefined; bytes(): Uint8Array };
  log: Log;
  /** Each message that is refused, by its index. */
  onRefused?(index: number, refusal: ItemRefusal): void;
}

/** As the answer names it. */
export type ItemRefusal = Pick<Failure, 'code' | 'message' | 'details'>;

type ItemResult =
  | { status: number; data: { messageId: string } }
  | { status: number; error: ItemRefusal; reasonCode: FailureCode };

/** Runs the batch; the answer is 200 whatever becomes of its messages. */
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
  const key = { accountId: caller.account.id, mode: caller.mode, endpoint: BATCH_ENDPOINT, key: idempotency.key };
  return once({ database, inFlight, key, body, nowMs }, async () => {
    const run = await runAll(send, request);
    if (!run.ok) return run;
    const { answer, isFinal, messageIds } = run.value;
    if (isFinal && messageIds.length > 0) {
      const stored = { bodyHash: body.value, status: answer.status, body: answer.json };
      await database
        .execute(keepAnswerOperation, {
          key,
          answer: stored,
          messageIds,
          nowMs,
          expiresAtMs: nowMs + KEY_LIFETIME_MS,
        })
        .catch((error: Error) => {
          // Its messages are accepted, which a plain outage denies; the repeat finds them under their own records.
          throw error instanceof Unavailable ? new OutcomeUnknown(error.message) : error;
        });
    }
    return ok(answer);
  });
}

interface Run {
  answer: Answer;
  /** No message was refused in a way that a retry could get past. */
  isFinal: boolean;
  /** The first one's of each email that was accepted. */
  messageIds: string[];
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
  if (backPressure !== undefined && !results.some((result) => 'data' in result)) return refuse(backPressure);
  for (const [index, result] of results.entries()) if ('error' in result) request.onRefused?.(index, result.error);
  const isFinal = results.every((result) => !('error' in result) || !REPEATABLE.has(result.error.code));
  const messageIds = results.flatMap((result) => ('data' in result ? [result.data.messageId] : []));
  return ok({ answer: { status: 200, json: JSON.stringify({ results }), replayed: false }, isFinal, messageIds });
}

/** Of those that name one submission the first that can be accepted gets it, so they go one after the other. */
function submissionIdOf(message: unknown): string | undefined {
  if (typeof message !== 'object' || message === null || !('attachmentSubmissionId' in message)) return undefined;
  const { attachmentSubmissionId } = message;
  return typeof attachmentSubmissionId === 'string' ? attachmentSubmissionId : undefined;
}

async function runOne(send: Send, request: BatchRequest, message: unknown, index: number): Promise<ItemResult> {
  const { caller, requestId, clientAddress, backPressure, idempotency } = request;
  try {
    const result = await send.send({
      caller,
      requestId,
      clientAddress,
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

function refused({ code, message, details }: Failure): ItemResult {
  return { status: catalogue[code].status, error: { code, message, details }, reasonCode: code };
}

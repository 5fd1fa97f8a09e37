/**
 * POST /send from body to answer, as a list of steps in the order in which a request is judged: idempotency, form (400), sender
 * (403), submission (404), size (413), and then the one transaction. Nothing is stored before the last step.
 *
 *   once → parse → check → apply the template → fill in → verify sender → look up the submission → compose → take in
 */

import type { Caller } from '../accounts/accounts.ts';
import { type Failure, type FailureCode, failure, MAX_DETAILS } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { compile } from '../http/validate.ts';
import type { AcceptanceResult } from '../messages/messages.ts';
import { createSandboxClock } from '../sandbox/sandbox.ts';
import { judgeSources } from '../templates/templates.ts';
import type { CheckedMail } from './check.ts';
import { composeAll } from './composition.ts';
import { type ContentDependencies, fillIn, type Sender } from './content.ts';
import { dryRun } from './dry-run.ts';
import { type Answer, type Claims, hashBody, once } from './idempotency.ts';
import { createTakeIn, type Intake, type IntakeDependencies } from './intake.ts';
import { judgeBody } from './judge.ts';
import { sendBody } from './request.ts';
import { takeInLarge, uploadedFiles } from './submission.ts';
import { applyTemplate } from './template.ts';

export interface SendDependencies extends IntakeDependencies, ContentDependencies {
  claims: Claims;
  /** Whether the account may send from the domain (or from one above it). */
  isVerified(accountId: string, domain: string): boolean | Promise<boolean>;
}

export interface SendRequest {
  caller: Pick<Caller, 'account' | 'mode'>;
  /** The JSON value of the body; only asked for when no stored answer exists. */
  read(): Result<unknown>;
  /** The key with the place it is unique in and the bytes it stands for. */
  idempotency?: { endpoint: string; key: string; body: Uint8Array | string };
  dryRun?: boolean;
  /** Asked right before the work of making the mail, or of saying all that is wrong with it, where one request has many. */
  turn?(): Promise<void> | undefined;
}

export interface Send {
  /** Answers 202 with the body of the contract, 200 for a dry run; rejects with Unavailable when storage fails. */
  send(request: SendRequest): Promise<Result<Answer>>;
}

/** Codes that a request refused with them may get past by being repeated as it is. */
export const REPEATABLE: ReadonlySet<FailureCode> = new Set([
  'DUPLICATE_REQUEST_IN_PROGRESS',
  'RATE_LIMITED',
  'INTERNAL_ERROR',
  'OVERLOADED',
]);

export function createSend(dependencies: SendDependencies): Send {
  const { clock, database, claims, isVerified } = dependencies;
  const takeIn = createTakeIn(dependencies);
  const sandboxClock = createSandboxClock({ clock, database });
  const validate = compile(sendBody);

  const verify = (sender: Sender, domain: string): boolean | Promise<boolean> =>
    sender.mode === 'sandbox' || isVerified(sender.account.id, domain);

  /** A template that is not there is told after the sender is judged, as everything is that answers 404. */
  const findTemplate = async (
    request: SendRequest,
    mail: CheckedMail,
    sender: Sender,
  ): Promise<Result<CheckedMail>> => {
    const applied = await applyTemplate(mail, sender, dependencies);
    if (applied.ok || applied.failure.code !== 'NOT_FOUND' || request.dryRun === true) return applied;
    return (await verify(sender, mail.from.domain)) ? applied : refuse(notVerified(mail.from.domain));
  };

  type Record = { endpoint: string; key: string; bodyHash: Uint8Array; status: number } | null;

  /** Undefined: the transaction found that the key has an answer. */
  const run = async (request: SendRequest, realNowMs: number, record: Record): Promise<Result<Answer> | undefined> => {
    const body = request.read();
    if (!body.ok) return body;
    const { account, mode } = request.caller;
    const aheadMs = mode === 'live' ? 0 : await sandboxClock.aheadMs(account.id);
    const nowMs = realNowMs + aheadMs;
    const sender: Sender = { account, mode, nowMs, aheadMs };
    const { settings } = sender.account;
    const checked = judgeBody(body.value, validate, { settings, mode: sender.mode, nowMs });
    if (!checked.ok) {
      const wait = request.turn?.();
      if (wait !== undefined) await wait;
      return refuse(withTemplateFaults(checked.failure, body.value));
    }
    const whole = checked.value.templateId === undefined ? checked : await findTemplate(request, checked.value, sender);
    if (!whole.ok) return whole;
    const mail = whole.value;
    const wait = request.turn?.();
    if (wait !== undefined) await wait;
    const filled = fillIn(mail, sender, dependencies, { listMissing: request.dryRun === true });
    if (!filled.ok) return filled;
    const verified = verify(sender, mail.from.domain);
    const isSenderVerified = typeof verified === 'boolean' ? verified : await verified;
    const idempotencyKey = request.idempotency?.key;
    if (request.dryRun === true) {
      const uploaded = await uploadedFiles(dependencies, mail, sender, idempotencyKey);
      if (!uploaded.ok) return uploaded;
      const seen = { filled: filled.value, isVerified: isSenderVerified, files: uploaded.value?.files };
      return ok({ status: 200, json: JSON.stringify(await dryRun(database, mail, sender, seen)), replayed: false });
    }
    if (!isSenderVerified) return refuse(notVerified(mail.from.domain));
    const intake: Omit<Intake, 'emails'> = {
      accountId: sender.account.id,
      mode: sender.mode,
      source: 'http',
      nowMs,
      aheadMs,
      from: mail.fromText,
      retain: mail.retain,
      sendAtMs: mail.sendAtMs,
      expiresAfterSeconds: mail.expiresAfterSeconds,
      idempotency: record,
    };
    if (mail.attachmentSubmissionId !== undefined) {
      const large = { mail, sender, filled: filled.value, idempotencyKey, intake };
      const taken = await takeInLarge(dependencies, takeIn, large);
      return taken.ok ? answerOf(taken.value) : taken;
    }
    const composed = composeAll(mail, sender, filled.value, dependencies);
    const emails = composed instanceof Promise ? await composed : composed;
    return emails.ok ? answerOf(await takeIn({ ...intake, emails: emails.value })) : emails;
  };

  const unkeyed = async (request: SendRequest): Promise<Result<Answer>> => {
    const answer = await run(request, clock.now(), null);
    if (answer === undefined) throw new Error('a send without a key found a record of it');
    return answer;
  };

  const keyed = (request: SendRequest, given: NonNullable<SendRequest['idempotency']>): Promise<Result<Answer>> => {
    const nowMs = clock.now();
    const { account, mode }: { account: { id: string }; mode: Mode } = request.caller;
    const bodyHash = hashBody(given.body);
    const { endpoint, key } = given;
    const place = { accountId: account.id, mode, endpoint, key };
    return once({ database, claims, place, bodyHash, nowMs }, () =>
      run(request, nowMs, { endpoint, key, bodyHash, status: 202 }),
    );
  };

  return {
    send: (request) =>
      request.idempotency === undefined || request.dryRun === true
        ? unkeyed(request)
        : keyed(request, request.idempotency),
  };
}

/** Undefined when nothing was stored because the key has an answer already. */
function answerOf(result: AcceptanceResult): Result<Answer> | undefined {
  return result.stored ? ok({ status: 202, json: result.answer, replayed: false }) : undefined;
}

/** Beside what else is wrong with a body: which of its parts do not parse as templates. Nothing is filled in. */
function withTemplateFaults(refusal: Failure, value: unknown): Failure {
  const given = value as Record<string, unknown> | null;
  if (typeof given !== 'object' || given === null || given.render === false) return refusal;
  const named = new Set(refusal.details.map((fault) => fault.field));
  const part = (name: string): string | null => {
    const text = given[name];
    return typeof text === 'string' && !named.has(name) ? text : null;
  };
  const judged = judgeSources({ subject: part('subject'), html: part('html'), text: part('text') }, 'as a template');
  if (judged.ok) return refusal;
  return { ...refusal, details: [...refusal.details, ...judged.failure.details].slice(0, MAX_DETAILS) };
}

export function notVerified(domain: string): ReturnType<typeof failure> {
  return failure('SENDER_NOT_VERIFIED', {
    message: `The domain ${domain} is not verified for this account; add it with POST /domains and verify it first.`,
    details: [{ field: 'from', message: 'must be at a verified domain' }],
  });
}

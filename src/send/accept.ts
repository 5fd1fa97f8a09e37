/**
 * POST /send from body to answer, as a list of steps in the order in which a request is judged: idempotency, form (400), sender
 * (403), submission (404), size (413), and then the one transaction. Nothing is stored before the last step but
 * the large copies of a mail that differs for its recipients, which nothing names until then.
 *
 *   once → parse → check → apply the template → fill in → verify sender → look up the submission → compose → take in
 */

import { type Failure, type FailureCode, failure, type Issue } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { pause, TURN_MS, turn } from '../base/turns.ts';
import type { ParsedJson } from '../http/strict-json.ts';
import { compile } from '../http/validate.ts';
import { type Answer, digestOfJson, type InFlightKeys, once } from '../idempotency/idempotency.ts';
import { createSandboxClock } from '../sandbox/sandbox.ts';
import { judgeSources } from '../templates/templates.ts';
import { type AcceptDependencies, type ComposedEmail, createAcceptEmails, type Intake } from './accept-emails.ts';
import { acceptLarge, uploadedFiles } from './accept-large.ts';
import type { AcceptanceResult } from './acceptance.ts';
import type { CheckedMail } from './check.ts';
import { composeEmails } from './compose-emails.ts';
import { dryRun } from './dry-run.ts';
import { type ContentDependencies, type FilledMail, fillIn, type Sender } from './fill-in.ts';
import { sendBody } from './request.ts';
import { type IsVerified, type SendingCaller, senderFailure } from './sender.ts';
import { applyTemplate } from './template.ts';
import { validateBody } from './validate-body.ts';

export interface SendDependencies extends AcceptDependencies, ContentDependencies {
  inFlight: InFlightKeys;
  isVerified: IsVerified;
}

export interface SendRequest {
  caller: SendingCaller;
  requestId?: string | undefined;
  /** The JSON value of the body. */
  read(): ParsedJson;
  /** The key with the endpoint it was given to, and what an earlier version compared bodies by. */
  idempotency?: { endpoint: string; key: string; bytes(): Uint8Array | string } | undefined;
  dryRun?: boolean | undefined;
  /** Whether the request has others beside it, so that the work of making them holds the event loop for no longer than one does. */
  isOneOfMany?: boolean | undefined;
  /** What is wrong already: the request is refused with these, and with what else is found. */
  issues?: readonly Issue[] | undefined;
}

export interface Send {
  /** Answers 202 with the body of the contract, 200 for a dry run; rejects with Unavailable when storage fails. */
  send(request: SendRequest): Promise<Result<Answer>>;
}

/** Undefined: the transaction found that the key has an answer. */
type Outcome = Result<Answer> | undefined;

/** One request under way. */
interface Work {
  request: SendRequest;
  sender: Sender;
  /** What is kept of the answer; null without a key. */
  record: Intake['idempotency'];
}

/** Codes that a request refused with them may get past by being repeated as it is. */
export const REPEATABLE: ReadonlySet<FailureCode> = new Set([
  'DUPLICATE_REQUEST_IN_PROGRESS',
  'RATE_LIMITED',
  'INTERNAL_ERROR',
  'OVERLOADED',
]);

/** A mail whose variables have values, and why its sender may not send it. */
interface Made {
  filled: FilledMail;
  senderFailure: Failure | undefined;
}

export function createSend(dependencies: SendDependencies): Send {
  const { clock, database, inFlight, isVerified } = dependencies;
  const acceptEmails = createAcceptEmails(dependencies);
  const sandboxClock = createSandboxClock({ clock, database });
  const validate = compile(sendBody);

  /** A template that is not there is told after the sender is judged, as everything is that answers 404. */
  const findTemplate = async (mail: CheckedMail, { request, sender }: Work): Promise<Result<CheckedMail>> => {
    const applied = await applyTemplate(mail, sender, dependencies);
    if (applied.ok || applied.failure.code !== 'NOT_FOUND' || request.dryRun === true) return applied;
    const issue = await senderFailure(sender, mail.from, isVerified);
    return issue === undefined ? applied : refuse(issue);
  };

  const answerDryRun = async (mail: CheckedMail, made: Made, { request, sender }: Work): Promise<Outcome> => {
    const uploaded = await uploadedFiles(dependencies, mail, sender, request.idempotency?.key);
    if (!uploaded.ok) return uploaded;
    const { isHttps } = dependencies.unsubscribeLinks;
    const seen = { ...made, files: uploaded.value, isHttps };
    return ok({ status: 200, json: JSON.stringify(await dryRun(database, mail, sender, seen)), replayed: false });
  };

  const storeLarge = async (mail: CheckedMail, filled: FilledMail, work: Work): Promise<Outcome> => {
    const idempotencyKey = work.request.idempotency?.key;
    const large = { mail, sender: work.sender, filled, idempotencyKey, intake: intakeOf(mail, [], work) };
    const taken = await acceptLarge(dependencies, acceptEmails, large);
    return taken.ok ? answerFor(work)(taken.value) : taken;
  };

  const store = (mail: CheckedMail, composed: Result<ComposedEmail[]>, work: Work): Outcome | Promise<Outcome> =>
    composed.ok ? acceptEmails(intakeOf(mail, composed.value, work)).then(answerFor(work)) : composed;

  // Functions of their own: a closure within the ordinary way would cost each mail a context.
  const storeLater = async (mail: CheckedMail, composed: Promise<Result<ComposedEmail[]>>, work: Work) =>
    store(mail, await composed, work);

  const complete = (mail: CheckedMail, made: Made, work: Work): Outcome | Promise<Outcome> => {
    if (work.request.dryRun === true) return answerDryRun(mail, made, work);
    if (made.senderFailure !== undefined) return refuse(made.senderFailure);
    if (mail.attachmentSubmissionId !== undefined) return storeLarge(mail, made.filled, work);
    const composed = composeEmails(mail, work.sender, made.filled, dependencies);
    return composed instanceof Promise ? storeLater(mail, composed, work) : store(mail, composed, work);
  };

  const completeLater = async (
    mail: CheckedMail,
    { filled, issue }: { filled: FilledMail; issue: Promise<Failure | undefined> },
    work: Work,
  ): Promise<Outcome> => complete(mail, { filled, senderFailure: await issue }, work);

  const completeAfterPause = async (mail: CheckedMail, filled: FilledMail, work: Work): Promise<Outcome> => {
    await pause();
    return complete(mail, { filled, senderFailure: await senderFailure(work.sender, mail.from, isVerified) }, work);
  };

  const make = (mail: CheckedMail, work: Work): Outcome | Promise<Outcome> => {
    const { request, sender } = work;
    const beganMs = performance.now();
    const filled = fillIn(mail, sender, dependencies, { listMissing: request.dryRun === true });
    if (!filled.ok) return filled;
    // Filling in may take its 50 ms, and composing what came of it as long again.
    if (performance.now() - beganMs > TURN_MS) return completeAfterPause(mail, filled.value, work);
    const issue = senderFailure(sender, mail.from, isVerified);
    return issue instanceof Promise
      ? completeLater(mail, { filled: filled.value, issue }, work)
      : complete(mail, { filled: filled.value, senderFailure: issue }, work);
  };

  /** With what has to be waited for before the mail is made: the template, and the event loop where others need it too. */
  const makeInTurn = async (checked: CheckedMail, work: Work): Promise<Outcome> => {
    const mail = checked.templateId === undefined ? ok(checked) : await findTemplate(checked, work);
    if (!mail.ok) return mail;
    const wait = turn();
    if (wait !== undefined) await wait;
    return make(mail.value, work);
  };

  const refuseInTurn = async (refusal: Failure, value: unknown): Promise<Outcome> => {
    const wait = turn();
    if (wait !== undefined) await wait;
    return refuse(withTemplateIssues(refusal, value));
  };

  const judge = (json: ParsedJson, work: Work): Outcome | Promise<Outcome> => {
    const { account, mode, nowMs } = work.sender;
    const checked = validateBody(json, validate, { settings: account.settings, mode, nowMs }, work.request.issues);
    if (!checked.ok) return refuseInTurn(checked.failure, json.value);
    const mail = checked.value;
    return mail.templateId === undefined && work.request.isOneOfMany !== true && !mayTakeLong(mail)
      ? make(mail, work)
      : makeInTurn(mail, work);
  };

  const judgeAhead = async (
    json: ParsedJson,
    request: SendRequest,
    { realNowMs, record }: { realNowMs: number; record: Work['record'] },
  ): Promise<Outcome> => {
    const { account, mode, allowedSenders } = request.caller;
    const clockOffsetMs = await sandboxClock.clockOffsetMs(account.id);
    const sender = { account, mode, allowedSenders, nowMs: realNowMs + clockOffsetMs, clockOffsetMs };
    return judge(json, { request, sender, record });
  };

  /** An ordinary live mail waits for nothing but the storage: every wait costs the serving thread a promise and its registers. */
  const run = (
    request: SendRequest,
    json: ParsedJson,
    { realNowMs, record }: { realNowMs: number; record: Work['record'] },
  ): Outcome | Promise<Outcome> => {
    const { account, mode, allowedSenders } = request.caller;
    if (mode !== 'live') return judgeAhead(json, request, { realNowMs, record });
    const sender = { account, mode, allowedSenders, nowMs: realNowMs, clockOffsetMs: 0 };
    return judge(json, { request, sender, record });
  };

  // A bug rejects, as it does behind a key.
  const unkeyed = (request: SendRequest): Promise<Result<Answer>> => {
    try {
      const unrecorded = { realNowMs: clock.now(), record: null };
      return Promise.resolve(run(request, request.read(), unrecorded) as Result<Answer> | Promise<Result<Answer>>);
    } catch (error) {
      return Promise.reject(error);
    }
  };

  const keyed = (request: SendRequest, given: NonNullable<SendRequest['idempotency']>): Promise<Result<Answer>> => {
    const nowMs = clock.now();
    const { account, mode }: { account: { id: string }; mode: Mode } = request.caller;
    const { endpoint, key: name, bytes } = given;
    const json = request.read();
    const body = digestOfJson(json, bytes);
    const record = { endpoint, key: name, bodyHash: body.value, status: 202 };
    const key = { accountId: account.id, mode, endpoint, key: name };
    return once({ database, inFlight, key, body, nowMs }, async () => run(request, json, { realNowMs: nowMs, record }));
  };

  return {
    send: (request) =>
      request.idempotency === undefined || request.dryRun === true
        ? unkeyed(request)
        : keyed(request, request.idempotency),
  };
}

/** So many characters with variables are filled in, and text without any composed, within a few milliseconds. */
const SHORT_LENGTH = 100_000;

/** Whether making the mail may hold the event loop, as loops, filters and long parts may. */
function mayTakeLong({ html = '', text = '', subject, render }: CheckedMail): boolean {
  if (html.length + text.length > SHORT_LENGTH) return true;
  return (
    render && [subject, html, text].some((part) => part.includes('{%') || (part.includes('{{') && part.includes('|')))
  );
}

function intakeOf(mail: CheckedMail, emails: ComposedEmail[], { request, sender, record }: Work): Intake {
  return {
    accountId: sender.account.id,
    mode: sender.mode,
    source: 'http',
    requestId: request.requestId,
    nowMs: sender.nowMs,
    clockOffsetMs: sender.clockOffsetMs,
    from: mail.fromText,
    emails,
    retain: mail.retain,
    sendAtMs: mail.sendAtMs,
    expiresAfterSeconds: mail.expiresAfterSeconds,
    idempotency: record,
  };
}

function answerFor(work: Work): (result: AcceptanceResult) => Outcome {
  return work.record === null ? answerWithoutKey : answerOf;
}

function answerWithoutKey(result: AcceptanceResult): Outcome {
  if (!result.stored) throw new Error('a send without a key found a record of it');
  return answerOf(result);
}

/** Undefined when nothing was stored because the key has an answer already. */
function answerOf(result: AcceptanceResult): Outcome {
  return result.stored ? ok({ status: 202, json: result.answer, replayed: false }) : undefined;
}

/** Beside what else is wrong with a body: which of its parts do not parse as templates. Nothing is filled in. */
function withTemplateIssues(refusal: Failure, value: unknown): Failure {
  const given = value as Record<string, unknown> | null;
  if (typeof given !== 'object' || given === null || given.render === false) return refusal;
  const named = new Set(refusal.details.map((issue) => issue.field));
  const part = (name: string): string | null => {
    const text = given[name];
    return typeof text === 'string' && !named.has(name) ? text : null;
  };
  const judged = judgeSources({ subject: part('subject'), html: part('html'), text: part('text') }, 'as a template');
  if (judged.ok) return refusal;
  return failure(refusal.code, { details: [...refusal.details, ...judged.failure.details] });
}

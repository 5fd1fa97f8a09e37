/**
 * Processes POST /send from body to response. The steps run in the order in which a request is checked: idempotency, form (400), sender
 * (403), submission (404), size (413), then the transaction. Before the last step, Postrider stores only the large copies of personalized
 * mail, and no row refers to them yet.
 *
 *   once → parse → validate → apply the template → render → verify the sender → compose → accept
 *
 * A dry run takes the same steps, but returns the email instead of composing it.
 */

import { ownerOf } from '../accounts/accounts.ts';
import {
  type Failure,
  type FailureCode,
  failure,
  type Issue,
  invalid,
  ok,
  type Result,
  refuse,
} from '../base/failure.ts';
import { SLICE_MS, timeSlice, yieldToEventLoop } from '../base/time-slice.ts';
import { compileBody } from '../http/absent-fields.ts';
import type { ParsedJson } from '../http/strict-json.ts';
import { type Answer, digestOfJson, type InFlightKeys, once } from '../idempotency/idempotency.ts';
import { quotaExceeded } from '../limits/limits.ts';
import { createSandboxClock } from '../sandbox/sandbox.ts';
import {
  accountVariables,
  applyDeclarations,
  type TemplateSource,
  UNSUBSCRIBE_VARIABLE,
  validateSources,
} from '../templates/templates.ts';
import { type AcceptDependencies, createAcceptEmails, type EmailsToAccept, type MailOrigin } from './accept-emails.ts';
import type { AcceptanceResult } from './acceptance.ts';
import { type AppliedTemplate, type CheckedMail, validateBody } from './check.ts';
import { composeEmails, type FilledMail, type FillInDependencies, fillIn } from './compose-emails.ts';
import { dryRun, type SenderAdvice } from './dry-run.ts';
import { acceptLarge, uploadedFiles } from './large.ts';
import { type IsVerified, type Sender, type SendingCaller, senderFailure } from './mail-header.ts';
import { sendBody } from './request.ts';

export interface SendDependencies extends AcceptDependencies, FillInDependencies {
  inFlight: InFlightKeys;
  isVerified: IsVerified;
  /** For dry runs; without it a dry run reports nothing about the sender's domain. */
  senderAdvice?: SenderAdvice | undefined;
}

interface SendRequest {
  caller: SendingCaller;
  origin: MailOrigin;
  /** The JSON value of the body. */
  read(): ParsedJson;
  /**
   * The key with its endpoint, and the bytes by which an earlier version compared bodies. Repeats are compared by `submitted` if it is
   * given, and by the body that is read if not.
   */
  idempotency?:
    | { endpoint: string; key: string; bytes(): Uint8Array | string; submitted?: ParsedJson | undefined }
    | undefined;
  dryRun?: boolean | undefined;
  /** Whether other requests are in progress. This one must then not block the event loop for longer than a single request does. */
  isOneOfMany?: boolean | undefined;
  /** Set if nothing can be accepted right now. Only repeats and dry runs are then processed. */
  backPressure?: Failure | undefined;
  /** Issues that were already found. If there are any, the request is refused with these and all other issues. */
  issues?: readonly Issue[] | undefined;
}

export interface Send {
  /** Returns 202 with the body of `sendResponse`, or 200 for a dry run. Rejects with Unavailable if storage fails. */
  send(request: SendRequest): Promise<Result<Answer>>;
}

/** A request, together with the time of its caller. */
interface SendContext {
  request: SendRequest;
  sender: Sender;
  /** The idempotency record to store with the response; null without a key. */
  record: EmailsToAccept['idempotency'];
}

/** Codes after which an identical request may succeed later. */
export const REPEATABLE: ReadonlySet<FailureCode> = new Set([
  'DUPLICATE_REQUEST_IN_PROGRESS',
  'QUOTA_EXCEEDED',
  'RATE_LIMITED',
  'INTERNAL_ERROR',
  'OVERLOADED',
  'UNAVAILABLE',
]);

export function createSend(dependencies: SendDependencies): Send {
  const { clock, database, inFlight } = dependencies;
  const sandboxClock = createSandboxClock(dependencies);
  const validate = compileBody(sendBody);
  const finish = createFinish(dependencies);

  const senderOf = async ({ account, mode, allowedSenders }: SendingCaller, realNowMs: number): Promise<Sender> => {
    const clockOffsetMs = mode === 'live' ? 0 : await sandboxClock.clockOffsetMs(account.id);
    return { account, mode, allowedSenders, nowMs: realNowMs + clockOffsetMs, clockOffsetMs };
  };

  /** Returns undefined if the transaction found that the key already has a response. */
  const run = async (
    request: SendRequest,
    json: ParsedJson,
    { realNowMs, record }: { realNowMs: number; record: SendContext['record'] },
  ): Promise<Result<Answer> | undefined> => {
    if (request.backPressure !== undefined && request.dryRun !== true) return refuse(request.backPressure);
    const sender = await senderOf(request.caller, realNowMs);
    const { account, mode, nowMs } = sender;
    const checked = validateBody(json, validate, { settings: account.settings, mode, nowMs }, request.issues);
    if (!checked.ok) {
      const wait = timeSlice();
      if (wait !== undefined) await wait;
      return refuse(withTemplateIssues(checked.failure, json.value));
    }
    const context = { request, sender, record };
    const mail =
      checked.value.templateId === undefined ? checked : await findTemplate(checked.value, context, dependencies);
    if (!mail.ok) return mail;
    const wait = request.isOneOfMany === true || mayTakeLong(mail.value) ? timeSlice() : undefined;
    // If there is no wait, this continues synchronously, before the next request requests a time slice.
    if (wait !== undefined) await wait;
    const startMs = performance.now();
    const filled = fillIn(mail.value, sender, dependencies, { listMissing: request.dryRun === true });
    if (!filled.ok) return filled;
    // Rendering can take up to 50 ms, and composing the result can take equally long.
    if (performance.now() - startMs > SLICE_MS) await yieldToEventLoop();
    return finish(mail.value, filled.value, context);
  };

  return {
    send: async (request) => {
      const { caller, idempotency, dryRun: isDryRun } = request;
      const realNowMs = clock.now();
      const json = request.read();
      if (idempotency === undefined || isDryRun === true) {
        const answer = await run(request, json, { realNowMs, record: null });
        if (answer === undefined) throw new Error('a send without an idempotency key was treated as a repeated one');
        return answer;
      }
      const { endpoint, bytes, submitted = json } = idempotency;
      const key = { ...ownerOf({ caller }), endpoint, key: idempotency.key };
      const body = digestOfJson(submitted, bytes);
      const record = { endpoint, key: key.key, bodyHash: body.value, status: 202 };
      return once({ database, inFlight, key, body, nowMs: realNowMs }, () => run(request, json, { realNowMs, record }));
    },
  };
}

/** Returns the steps after rendering, which return, refuse, or compose and accept the email. */
function createFinish(dependencies: SendDependencies) {
  const { database, isVerified } = dependencies;
  const acceptEmails = createAcceptEmails(dependencies);
  return async (
    mail: CheckedMail,
    filled: FilledMail,
    { request, sender, record }: SendContext,
  ): Promise<Result<Answer> | undefined> => {
    const idempotencyKey = request.idempotency?.key;
    const unverified = await senderFailure(sender, mail.from, isVerified);
    if (request.dryRun === true) {
      const uploaded = await uploadedFiles(dependencies, mail, sender, idempotencyKey);
      if (!uploaded.ok) return uploaded;
      const preview = { filled, files: uploaded.value, senderFailure: unverified };
      const json = JSON.stringify(await dryRun({ ...dependencies, database }, mail, sender, preview));
      return ok({ status: 200, json, replayed: false });
    }
    if (unverified !== undefined) return refuse(unverified);
    const common = commonOf(mail, { request, sender, record });
    if (mail.attachmentSubmissionId !== undefined) {
      const large = { mail, sender, filled, idempotencyKey, common };
      const accepted = await acceptLarge(dependencies, acceptEmails, large);
      return accepted.ok ? answerOf(accepted.value) : accepted;
    }
    const emails = await composeEmails(mail, sender, filled, dependencies);
    if (!emails.ok) return emails;
    return answerOf(await acceptEmails({ ...common, emails: emails.value }));
  };
}

function answerOf({ stored, answer, quota }: AcceptanceResult): Result<Answer> | undefined {
  if (quota !== undefined) return refuse(quotaExceeded(quota));
  return stored ? ok({ status: 202, json: answer, replayed: false }) : undefined;
}

/** Applies the stored template. If the template is missing, the 404 is returned only after the sender is verified. */
async function findTemplate(
  mail: CheckedMail,
  { request, sender }: SendContext,
  dependencies: SendDependencies,
): Promise<Result<CheckedMail>> {
  const applied = await applyTemplate(mail, sender, dependencies);
  if (applied.ok || applied.failure.code !== 'NOT_FOUND' || request.dryRun === true) return applied;
  const unverified = await senderFailure(sender, mail.from, dependencies.isVerified);
  return unverified === undefined ? applied : refuse(unverified);
}

/** Rendering content of this length with variables, or composing it without rendering, takes a few milliseconds. */
const SHORT_LENGTH = 100_000;

/** Returns whether rendering or composing the email can block the event loop, which loops, filters, and long parts can do. */
function mayTakeLong({ html = '', text = '', subject, render, template }: CheckedMail): boolean {
  if (template !== undefined || html.length + text.length > SHORT_LENGTH) return true;
  return (
    render && [subject, html, text].some((part) => part.includes('{%') || (part.includes('{{') && part.includes('|')))
  );
}

function commonOf(mail: CheckedMail, { request, sender, record }: SendContext): Omit<EmailsToAccept, 'emails'> {
  return {
    accountId: sender.account.id,
    mode: sender.mode,
    source: 'http',
    origin: request.origin,
    nowMs: sender.nowMs,
    clockOffsetMs: sender.clockOffsetMs,
    from: mail.fromText,
    retain: mail.retain,
    sendAtMs: mail.sendAtMs,
    expiresAfterSeconds: mail.expiresAfterSeconds,
    idempotency: record,
  };
}

/** Adds issues for the parts of a body that do not parse as templates. Renders nothing. */
function withTemplateIssues(refusal: Failure, value: unknown): Failure {
  const given = value as Record<string, unknown> | null;
  if (typeof given !== 'object' || given === null || given.render === false) return refusal;
  const reported = new Set(refusal.details.map((issue) => issue.field));
  const part = (name: string): string | null => {
    const text = given[name];
    return typeof text === 'string' && !reported.has(name) ? text : null;
  };
  const sources = validateSources(
    { subject: part('subject'), html: part('html'), text: part('text') },
    'as a template',
  );
  if (sources.ok) return refusal;
  return failure(refusal.code, { details: [...refusal.details, ...sources.failure.details] });
}

/**
 * Takes the parts that the request omits from the stored template, and resolves the declared variables with the values of the request. The
 * version is looked up once, so all copies use the same version even if the template is edited. A part given by the request replaces both
 * the part of the template and its layout. Fails with NOT_FOUND if the account has no such template, INVALID_REQUEST if there is no subject
 * or a value has the wrong type, and TEMPLATE_INVALID if the template exceeds the limits together with its layout.
 */
async function applyTemplate(
  mail: CheckedMail,
  sender: Sender,
  { templates }: { templates: TemplateSource },
): Promise<Result<CheckedMail>> {
  const found = await templates.find({ accountId: sender.account.id, mode: sender.mode }, mail.templateId!);
  if (found === undefined) return refuse(unknownTemplate());
  if ('unusable' in found) return refuse(found.unusable);
  const usesTemplateSubject = mail.subject === '';
  if (usesTemplateSubject && found.subject === null) {
    return refuse(
      invalid([{ field: 'subject', code: 'REQUIRED', message: 'is required because the template has no subject' }]),
    );
  }
  const parsed = { ...found.parsed };
  if (!usesTemplateSubject) delete parsed.subject;
  if (mail.html !== undefined) delete parsed.html;
  if (mail.text !== undefined) delete parsed.text;
  const merged: CheckedMail = {
    ...mail,
    subject: usesTemplateSubject ? found.subject! : mail.subject,
    html: mail.html ?? found.html ?? undefined,
    text: mail.text ?? found.text ?? undefined,
  };
  const template: AppliedTemplate = {
    id: found.id,
    version: found.version,
    parsed,
    optional: new Set(),
    missing: [],
  };
  if (!mail.render) return ok({ ...merged, template });
  const predefined = accountVariables(sender.account.settings.variables);
  predefined[UNSUBSCRIBE_VARIABLE] = '';
  const { variables, optional, missing, issues } = applyDeclarations(found.declared, mail.variables, predefined);
  if (issues.length > 0) return refuse(invalid(issues));
  return ok({ ...merged, variables, template: { ...template, optional, missing } });
}

function unknownTemplate(): ReturnType<typeof failure> {
  return failure('NOT_FOUND', {
    message: 'No template of this account has this id or name.',
    details: [{ field: 'templateId', message: 'is not the id or name of a template of this account' }],
  });
}

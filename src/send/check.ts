/**
 * From a body that fits its schema to a mail that may be sent: everything that a schema cannot check. All issues are
 * collected; a value bound for a header with CR, LF or NUL is refused, never stripped.
 */

import type { AccountSettings, MissingVariables } from '../accounts/accounts.ts';
import { failure, type Issue, invalid } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { isoTimeMs } from '../http/validate.ts';
import type { Address } from '../mail/address.ts';
import type { FileToCompose } from '../mail/compose/compose.ts';
import { hasForbiddenControl } from '../mail/compose/header.ts';
import type { Retain } from '../messages/messages.ts';
import type { ParsedParts } from '../templates/templates.ts';
import { readHeaders } from './extra-headers.ts';
import { readFiles } from './files.ts';
import { type Recipients, readFrom, readRecipients, readReplyTo } from './recipients.ts';
import type { SendBody } from './request.ts';

const MAX_SUBJECT_LENGTH = 998;
const MAX_METADATA_NAME_LENGTH = 255;
const MAX_SCHEDULE_MS = 30 * 86_400_000;
/** 72 hours. */
export const DEFAULT_EXPIRY_SECONDS = 259_200;

export interface CheckedMail {
  /** As the caller wrote it. */
  fromText: string;
  from: Address;
  recipients: Recipients;
  replyTo: Address[];
  /** Still with their variables in them when `render` is true. An empty subject is none where there is a template. */
  subject: string;
  html: string | undefined;
  text: string | undefined;
  render: boolean;
  variables: Record<string, unknown>;
  missingVariables: MissingVariables;
  headers: [name: string, value: string][];
  files: FileToCompose[];
  tags: string[];
  metadata: Record<string, string>;
  /** Unix ms; null sends at once. */
  sendAtMs: number | null;
  expiresAfterSeconds: number;
  retain: Retain;
  requireTls: boolean | 'verified';
  sandboxOutcome: string | undefined;
  attachmentSubmissionId: string | undefined;
  /** Id or name of the stored template whose parts stand in for those not given here; see template.ts. */
  templateId: string | undefined;
  /** Set once the template has been found and its parts are in place. */
  template?: AppliedTemplate;
  trackOpens: boolean;
  trackClicks: boolean;
  listUnsubscribe: boolean;
}

/** What the template of a mail has to say about filling it in. */
export interface AppliedTemplate {
  id: string;
  version: number;
  /** Parts that are the template's own. */
  parsed: ParsedParts;
  /** Declared variables that may be without a value, and are. */
  optional: ReadonlySet<string>;
  /** Required variables without a value. */
  missing: string[];
}

export interface CheckContext {
  settings: AccountSettings;
  mode: Mode;
  nowMs: number;
}

const NO_VARIABLES: Record<string, unknown> = {};

/** Checks the body; every issue found is in the details of the refusal. */
export function checkMail(body: SendBody, context: CheckContext): Result<CheckedMail> {
  const issues: Issue[] = [];
  const refusedTypes: Issue[] = [];
  const fromText = body.from ?? context.settings.defaultFrom ?? undefined;
  const from = readFrom(fromText, issues);
  const recipients = readRecipients(body, issues);
  const hasReplyTo = body.replyTo !== undefined;
  const {
    headers,
    sandboxOutcome,
    replyTo: inHeaders,
  } = readHeaders(body.headers, { mode: context.mode, hasReplyTo }, issues);
  const replyTo = inHeaders
    ? readReplyTo(inHeaders.value, inHeaders.field, issues)
    : readReplyTo(body.replyTo, 'replyTo', issues);
  const files = readFiles(body.attachments, { issues, refusedTypes });
  checkContent(body, issues);
  checkMetadata(body.metadata, issues);
  if (body.listUnsubscribe === true) checkListUnsubscribe(headers, issues);
  if (body.attachmentSubmissionId !== undefined) checkLargeFlow(body, recipients, issues);
  const sendAtMs = body.sendAt === undefined ? null : readSendAt(body.sendAt, context.nowMs, issues);
  if (issues.length > 0) return refuse(invalid([...issues, ...refusedTypes]));
  if (refusedTypes.length > 0) return refuse(failure('UNSUPPORTED_FILE_TYPE', { details: refusedTypes }));
  return ok({
    fromText: fromText!.trim(),
    from: from!,
    recipients,
    replyTo,
    subject: body.subject ?? '',
    html: body.html === '' ? undefined : body.html,
    text: body.text === '' ? undefined : body.text,
    render: body.render ?? true,
    variables: body.templateVariables ?? NO_VARIABLES,
    missingVariables: body.missingVariables ?? context.settings.missingVariables,
    headers,
    files,
    tags: body.tags ?? [],
    metadata: body.metadata ?? {},
    sendAtMs,
    expiresAfterSeconds: body.expiresAfterSeconds ?? DEFAULT_EXPIRY_SECONDS,
    retain: body.retainContent ?? context.settings.retainContent,
    requireTls: body.requireTls ?? false,
    sandboxOutcome,
    attachmentSubmissionId: body.attachmentSubmissionId,
    templateId: body.templateId,
    trackOpens: body.enableOpenTracking ?? false,
    trackClicks: body.enableClickTracking ?? false,
    listUnsubscribe: body.listUnsubscribe ?? false,
  });
}

/** What is wrong with a subject that is ready to be sent, or undefined. */
export function subjectIssue(subject: string): string | undefined {
  if (hasMoreCharacters(subject, MAX_SUBJECT_LENGTH)) return `must be at most ${MAX_SUBJECT_LENGTH} characters long`;
  return lineBreakIssue(subject);
}

/** Counts code points, of which one is at most two units of the string: only a text in between has to be counted. */
function hasMoreCharacters(text: string, limit: number): boolean {
  return text.length > limit && (text.length > 2 * limit || [...text].length > limit);
}

function checkContent(body: SendBody, issues: Issue[]): void {
  if (body.templateId === undefined) {
    if (body.subject === undefined) issues.push({ field: 'subject', message: 'is required' });
    // An empty text that is given is a mail without a body, as SMTP takes it.
    if (!body.html && body.text === undefined)
      issues.push({ field: 'html', message: 'is required unless text is given, and must not be empty' });
  }
  if (body.subject === undefined) return;
  // What is filled in may be shorter than its source; the length is checked then.
  const issue = body.subject.includes('{') ? lineBreakIssue(body.subject) : subjectIssue(body.subject);
  if (issue !== undefined) issues.push({ field: 'subject', message: issue });
}

function lineBreakIssue(text: string): string | undefined {
  return hasForbiddenControl(text) ? 'has a line break or another control character' : undefined;
}

function checkMetadata(metadata: SendBody['metadata'], issues: Issue[]): void {
  if (metadata === undefined) return;
  for (const name of Object.keys(metadata)) {
    const field = `metadata.${name}`;
    if (name === '' || hasMoreCharacters(name, MAX_METADATA_NAME_LENGTH)) {
      issues.push({ field, message: `must have a name of 1 to ${MAX_METADATA_NAME_LENGTH} characters` });
    }
    if (lineBreakIssue(name) ?? lineBreakIssue(metadata[name]!)) {
      issues.push({ field, message: 'has a line break or another control character' });
    }
  }
}

function checkListUnsubscribe(headers: CheckedMail['headers'], issues: Issue[]): void {
  if (!headers.some(([name]) => /^list-unsubscribe(?:-post)?$/i.test(name))) return;
  const message = 'writes the headers List-Unsubscribe and List-Unsubscribe-Post; leave them out of headers';
  issues.push({ field: 'listUnsubscribe', message });
}

/** An empty list is as good as none. */
function checkLargeFlow(body: SendBody, recipients: Recipients, issues: Issue[]): void {
  const only = 'an email with attachmentSubmissionId goes to exactly one address in to';
  for (const field of ['cc', 'bcc'] as const) {
    if (body[field] !== undefined && body[field].length > 0)
      issues.push({ field, message: `must be left out: ${only}` });
  }
  if (recipients.to.length > 1)
    issues.push({ field: 'to', message: `has ${recipients.to.length} addresses: ${only}, without cc and bcc` });
  if (body.attachments !== undefined && body.attachments.length > 0) {
    const message = 'must be left out: where attachmentSubmissionId is given, all files are those of the submission';
    issues.push({ field: 'attachments', message });
  }
}

function readSendAt(text: string, nowMs: number, issues: Issue[]): number | null {
  const sendAtMs = isoTimeMs(text);
  if (sendAtMs > nowMs + MAX_SCHEDULE_MS) issues.push({ field: 'sendAt', message: 'must be at most 30 days ahead' });
  return sendAtMs > nowMs ? sendAtMs : null;
}

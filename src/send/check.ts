/**
 * Checks the body of a send request. Returns a message that can be sent, or lists all issues, including those that a schema cannot find. A
 * field that does not match the schema is checked further only as far as its value allows. A header value with CR, LF, or NUL is rejected,
 * never stripped. Base64 is read strictly, with or without line breaks. File names and types that could break out of a header or a
 * directory, or run as a program, are rejected.
 */
import type { AccountSettings, MissingVariables } from '../accounts/accounts.ts';
import { LIFETIME_MS } from '../base/backoff.ts';
import { failure, type Issue, invalid, MAX_ISSUES, ok, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { checkBody, type FurtherIssues } from '../http/body.ts';
import type { ParsedJson } from '../http/strict-json.ts';
import { isoTimeMs, type Validator } from '../http/validate.ts';
import type { Address } from '../mail/address.ts';
import type { FileToCompose } from '../mail/compose/compose.ts';
import { fileNameIssue, isContentType, refusedFileType } from '../mail/compose/content-type.ts';
import { hasForbiddenControl } from '../mail/compose/header.ts';
import { displayedMailbox } from '../mail/mime/submitted-from.ts';
import type { Retain } from '../messages/messages.ts';
import type { ParsedParts } from '../templates/templates.ts';
import { type Recipients, readFrom, readHeaders, readRecipients, readReplyTo } from './mail-header.ts';
import type { SendBody } from './request.ts';

const MAX_SUBJECT_LENGTH = 998;
const MAX_METADATA_NAME_LENGTH = 255;
const MAX_SCHEDULE_MS = 30 * 86_400_000;
/** 72 hours. */
export const DEFAULT_EXPIRY_SECONDS = LIFETIME_MS / 1000;

export interface CheckedMail {
  /** The sender, as the caller wrote it, with encoded-words decoded. */
  fromText: string;
  from: Address;
  recipients: Recipients;
  replyTo: Address[];
  /** Variables are still unrendered if `render` is true. May be empty if there is a template. */
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
  /** Unix ms; null means immediately. */
  sendAtMs: number | null;
  expiresAfterSeconds: number;
  retain: Retain;
  requireTls: boolean | 'verified';
  sandboxOutcome: string | undefined;
  attachmentSubmissionId: string | undefined;
  /** Id or name of the stored template whose parts are used for those not given here; see `applyTemplate`. */
  templateId: string | undefined;
  /** Set after the template has been found and its parts have been added. */
  template?: AppliedTemplate;
  trackOpens: boolean;
  trackClicks: boolean;
  listUnsubscribe: boolean;
}

/** The parts of the mail's template that rendering needs. */
export interface AppliedTemplate {
  id: string;
  version: number;
  /** Parts that the mail takes from the template. */
  parsed: ParsedParts;
  /** Optional declared variables that have no value. */
  optional: ReadonlySet<string>;
  /** Required variables without a value. */
  missing: string[];
}

interface CheckContext {
  settings: AccountSettings;
  mode: Mode;
  nowMs: number;
}

const NO_VARIABLES: Record<string, unknown> = {};

/** Checks the body. If it fails, the failure's details list every issue. */
function checkMail(body: SendBody, context: CheckContext): Result<CheckedMail> {
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
    fromText: fromText!.includes('=?') ? displayedMailbox(from!) : fromText!.trim(),
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

/** Returns the issue of a rendered subject, or undefined if it is valid. */
export function subjectIssue(subject: string): string | undefined {
  if (hasMoreCharacters(subject, MAX_SUBJECT_LENGTH)) return `must be at most ${MAX_SUBJECT_LENGTH} characters long`;
  return lineBreakIssue(subject);
}

/**
 * Compares the number of code points with the limit. A code point is one or two UTF-16 units, so the code points are counted only if the
 * length is between `limit` and `2 * limit`.
 */
function hasMoreCharacters(text: string, limit: number): boolean {
  return text.length > limit && (text.length > 2 * limit || [...text].length > limit);
}

function checkContent(body: SendBody, issues: Issue[]): void {
  if (body.templateId === undefined) {
    if (body.subject === undefined) issues.push({ field: 'subject', code: 'REQUIRED', message: 'is required' });
    // An explicitly empty text creates an email without a body, which SMTP also accepts.
    if (!body.html && body.text === undefined)
      issues.push({
        field: 'html',
        code: 'REQUIRED',
        message: 'is required if text is not given, and must not be empty',
      });
  }
  if (body.subject === undefined) return;
  // The rendered subject may be shorter than its source; its length is checked after rendering.
  const issue = body.subject.includes('{') ? lineBreakIssue(body.subject) : subjectIssue(body.subject);
  if (issue !== undefined) issues.push({ field: 'subject', message: issue });
}

/** Returns the issue of a value of a header field, or undefined if it is valid or absent. */
export function lineBreakIssue(text: string | undefined): string | undefined {
  return text !== undefined && hasForbiddenControl(text) ? 'has a line break or another control character' : undefined;
}

/** Values are in no header, so they can have line breaks. A name is that of a header in mail that is submitted over SMTP. */
function checkMetadata(metadata: SendBody['metadata'], issues: Issue[]): void {
  if (metadata === undefined) return;
  for (const name of Object.keys(metadata)) {
    const field = `metadata.${name}`;
    if (name === '' || hasMoreCharacters(name, MAX_METADATA_NAME_LENGTH)) {
      issues.push({ field, message: `must have a name of 1 to ${MAX_METADATA_NAME_LENGTH} characters` });
    }
    const issue = lineBreakIssue(name);
    if (issue !== undefined) issues.push({ field, message: `${issue} in its name` });
  }
}

function checkListUnsubscribe(headers: CheckedMail['headers'], issues: Issue[]): void {
  if (!headers.some(([name]) => /^list-unsubscribe(?:-post)?$/i.test(name))) return;
  const message = 'sets List-Unsubscribe and List-Unsubscribe-Post; remove these from headers';
  issues.push({ field: 'listUnsubscribe', message });
}

/** Checks the fields that an email with uploaded files cannot have. An empty list is treated as absent. */
function checkLargeFlow(body: SendBody, recipients: Recipients, issues: Issue[]): void {
  const only = 'an email with attachmentSubmissionId must have exactly one recipient, in to';
  for (const field of ['cc', 'bcc'] as const) {
    if (body[field] !== undefined && body[field].length > 0) issues.push({ field, message: `is not allowed: ${only}` });
  }
  if (recipients.to.length > 1) issues.push({ field: 'to', message: `has ${recipients.to.length} addresses: ${only}` });
  if (body.attachments !== undefined && body.attachments.length > 0) {
    const message = 'is not allowed together with attachmentSubmissionId';
    issues.push({ field: 'attachments', message });
  }
}

function readSendAt(text: string, nowMs: number, issues: Issue[]): number | null {
  const sendAtMs = isoTimeMs(text);
  if (sendAtMs > nowMs + MAX_SCHEDULE_MS) issues.push({ field: 'sendAt', message: 'must be within the next 30 days' });
  return sendAtMs > nowMs ? sendAtMs : null;
}

/**
 * Returns the checked mail, or INVALID_REQUEST (UNSUPPORTED_FILE_TYPE if nothing else is wrong) with every issue, including those found
 * `elsewhere` (query, headers).
 */
export function validateBody(
  json: ParsedJson,
  validate: Validator<SendBody>,
  context: CheckContext,
  elsewhere?: readonly Issue[],
): Result<CheckedMail> {
  const furtherIssues: FurtherIssues = (fields, malformed) => {
    const checked = checkMail(fields as unknown as SendBody, context);
    const issues = checked.ok ? [] : checked.failure.details;
    return issues.filter((issue) => issue.code !== 'REQUIRED' || !isMissingFor(issue.field, malformed));
  };
  const formed = checkBody(json, { validate, furtherIssues }, elsewhere);
  return formed.ok ? checkMail(formed.value, context) : formed;
}

/** Returns whether a field may only seem to be missing because it, or an alternative to it, is malformed. */
function isMissingFor(field: string, malformed: ReadonlySet<string>): boolean {
  if (malformed.has(field)) return true;
  if (field === 'html') return malformed.has('text') || malformed.has('templateId');
  if (field === 'subject') return malformed.has('templateId');
  return field === 'to' && (malformed.has('cc') || malformed.has('bcc'));
}

interface FileIssues {
  /** Issues that return INVALID_REQUEST. */
  issues: Issue[];
  /** Issues that return UNSUPPORTED_FILE_TYPE. */
  refusedTypes: Issue[];
}

type GivenFile = NonNullable<SendBody['attachments']>[number];

/**
 * Reads `attachments`. Invalid files are reported and omitted from the result. Missing properties are ignored, because the schema check has
 * already reported them.
 */
function readFiles(given: readonly (Partial<GivenFile> | undefined)[] | undefined, found: FileIssues): FileToCompose[] {
  if (given === undefined) return [];
  const files: FileToCompose[] = [];
  const contentIds = new Set<string>();
  for (let index = 0; index < given.length && found.issues.length < MAX_ISSUES; index += 1) {
    const file = given[index];
    if (file === undefined) continue;
    const { name, contentType, contentId, content: base64 } = file;
    const field = `attachments[${index}]`;
    const before = found.issues.length;
    const addIssue = (part: string, message: string | undefined): void => {
      if (message !== undefined) found.issues.push({ field: `${field}.${part}`, message });
    };
    if (name !== undefined) addIssue('name', fileNameIssue(name));
    if (contentType !== undefined && !isContentType(contentType))
      addIssue('contentType', 'must be a content type such as application/pdf');
    if (contentId !== undefined) {
      addIssue(
        'contentId',
        contentIds.has(contentId) ? 'is a duplicate; each file needs its own contentId' : contentIdIssue(contentId),
      );
      contentIds.add(contentId);
    }
    const content = base64 === undefined ? undefined : readBase64(base64);
    if (base64 !== undefined && content === undefined)
      addIssue('content', 'must be standard Base64 (RFC 4648 section 4) with padding; only line breaks are ignored');
    if (name === undefined || contentType === undefined) continue;
    const refused = refusedFileType({ name, contentType });
    if (refused !== undefined) {
      found.refusedTypes.push({ field, message: `${refused}; put the file into an archive, or link to it` });
    } else if (content !== undefined && found.issues.length === before)
      files.push({ name, contentType, content, ...(contentId !== undefined && { contentId }) });
  }
  return files;
}

/** Returns the issue of the Content-ID of a file, or undefined if it is valid. */
export function contentIdIssue(contentId: string): string | undefined {
  return /^[\x21-\x7e]+$/.test(contentId) && !/[<>"]/.test(contentId)
    ? undefined
    : 'must contain only visible ASCII characters, without spaces, quotes, or angle brackets';
}

/** Returns the bytes, or undefined if the text is not strict Base64. Line breaks are ignored, as in MIME (RFC 2045 section 6.8). */
function readBase64(given: string): Buffer | undefined {
  const text = /[\r\n]/.test(given) ? given.replaceAll(/[\r\n]+/g, '') : given;
  if (text.length % 4 !== 0) return undefined;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  // The decoder skips unknown characters, which the length reveals. It also accepts the URL-safe alphabet, which the length does not
  // reveal.
  if (text.includes('-') || text.includes('_')) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === (text.length / 4) * 3 - padding ? bytes : undefined;
}

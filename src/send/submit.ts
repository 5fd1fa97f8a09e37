/**
 * Accepts complete messages that clients submit, over every transport. A message is stored as submitted. Only the envelope decides who
 * receives it, and each recipient gets a separate message. Refuses senders that the account has not verified and invalid control headers.
 * One transaction stores everything, and a blob that no row refers to is deleted.
 */

import { setTimeout } from 'node:timers/promises';
import { ownerOf } from '../accounts/accounts.ts';
import { type Failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { newAscendingIds } from '../base/ids.ts';
import {
  type Answer,
  hashBody,
  type IdempotencyRecord,
  type InFlightKeys,
  once,
  readKey,
} from '../idempotency/idempotency.ts';
import { quotaExceeded } from '../limits/limits.ts';
import { type Address, sameAddressKey } from '../mail/address.ts';
import type { SubmittedMail } from '../mail/mime/submitted.ts';
import type { EmailDsn, EmailOptions, MessageDsn, ReportKind, Role } from '../messages/messages.ts';
import { createSandboxClock } from '../sandbox/sandbox.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import {
  type AcceptDependencies,
  type ComposedEmail,
  createAcceptEmails,
  type EmailsToAccept,
  type MailOrigin,
} from './accept-emails.ts';
import { DEFAULT_EXPIRY_SECONDS } from './check.ts';
import { type IsVerified, readOutcome, type SendingCaller, senderFailure, simulatesSuppressed } from './mail-header.ts';
import { type CopiesDependencies, createTrackCopies } from './submitted-copies.ts';

/** Endpoint of the idempotency keys of submitted mail, which are separate from those of the HTTP endpoints. */
const ENDPOINT = 'smtp';
const ACCEPTED = 202;
/**
 * How long a submission waits for an earlier one with its key that is still being stored. A client that lost its connection after the dot
 * reconnects immediately, and many clients treat 451 as final.
 */
const WAIT_FOR_FIRST_MS = 5_000;
const POLL_MS = 50;

interface SubmitDependencies extends AcceptDependencies, CopiesDependencies {
  inFlight: InFlightKeys;
  isVerified: IsVerified;
  /** 5,000 by default. */
  waitForFirstMs?: number;
}

/** The mail as it will be sent: its bytes, or the blob that holds them. */
export type SubmittedContent = Buffer | { blobKey: string; sizeBytes: number };

/** The delivery reports that a submitter requested (RFC 3461). */
export interface RequestedReports {
  envid: string | undefined;
  ret: EmailDsn['ret'] | undefined;
  /** Requests by normalized address; a recipient that is not in the map has neither NOTIFY nor ORCPT. */
  recipients: ReadonlyMap<string, { notify?: readonly ReportKind[]; originalRecipient?: string }>;
}

export interface Submission {
  caller: SendingCaller;
  nowMs: number;
  envelopeFrom: Address;
  /** 1 to 50, without duplicates. */
  recipients: readonly Address[];
  /** Time to send at, by the clock of the mode, or an interval from now. Undefined sends immediately. */
  hold?: { forSeconds: number } | { untilMs: number } | undefined;
  /** Undefined if the client sent no parameter of RFC 3461. */
  reports?: RequestedReports | undefined;
  /** Delivery reports to send if RCPT had no NOTIFY; none by default. */
  defaultReports?: 'failures' | undefined;
  mail: SubmittedMail;
  content: SubmittedContent;
  /** Returns the digest that submissions with the same Idempotency-Key must share; called only if the mail has a key. */
  digest(): Uint8Array;
  origin: MailOrigin;
  /** Name and address of an SMTP client for the Received field; undefined for mail that came over HTTP. */
  receivedFrom?: string;
}

export interface Submit {
  /** Returns why this caller may not send from the address; undefined if it may. */
  senderFailure(caller: Submission['caller'], from: Address): Promise<Failure | undefined>;
  /** Returns how far the clock of the caller's mode is ahead of real time, in ms. That clock sets a missing Date header. */
  clockOffsetMs(caller: Submission['caller']): Promise<number>;
  /**
   * Returns the first recipient's message id after the mail is on stable storage. If the mail repeats an earlier submission by its
   * Idempotency-Key, returns the id of that submission. Rejects with Unavailable if storage fails. `submit` takes over the blob of the
   * submission and deletes it if nothing refers to it.
   */
  submit(submission: Submission): Promise<Result<{ messageId: string }>>;
}

export function createSubmit(dependencies: SubmitDependencies): Submit {
  const { database, blobs, inFlight, isVerified, waitForFirstMs = WAIT_FOR_FIRST_MS } = dependencies;
  const acceptEmails = createAcceptEmails(dependencies);
  const trackCopies = createTrackCopies(dependencies);
  const sandboxClock = createSandboxClock(dependencies);

  const clockOffsetOf: Submit['clockOffsetMs'] = async ({ account, mode }) =>
    mode === 'live' ? 0 : sandboxClock.clockOffsetMs(account.id);

  const failureOf: Submit['senderFailure'] = (caller, from) => senderFailure(caller, from, isVerified);

  /** Stores the mail; returns undefined if another submission used the key in the meantime. */
  const store = async (
    submission: Pending,
    outcome: string | undefined,
    record: EmailsToAccept['idempotency'],
  ): Promise<Result<{ messageId: string; json: string } | undefined>> => {
    const { caller, mail } = submission;
    const { account, mode } = caller;
    const clockOffsetMs = await clockOffsetOf(caller);
    const nowMs = submission.nowMs + clockOffsetMs;
    const email = emailOf(submission, outcome);
    const isTracked = mail.track.opens || mail.track.clicks;
    const emails = isTracked
      ? await trackCopies(email, { accountId: account.id, mode, fromDomain: mail.from.domain, wanted: mail.track })
      : ok([email]);
    if (!emails.ok) return emails;
    submission.isBlobUsed = emails.value[0] === email;
    const sendAtMs = sendAtOf(submission, nowMs);
    const result = await acceptEmails({
      ...commonOf(submission, record),
      emails: emails.value,
      sendAtMs,
      nowMs,
      clockOffsetMs,
    });
    if (result.quota !== undefined) return refuse(quotaExceeded(result.quota));
    return ok(result.stored ? { messageId: result.recipients[0]!.messageId, json: result.answer } : undefined);
  };

  const keyed = async (submission: Pending, outcome: string | undefined, name: string) => {
    const { caller, nowMs } = submission;
    const key = { ...ownerOf({ caller }), endpoint: ENDPOINT, key: name };
    const bodyHash = hashOf(submission);
    const record: IdempotencyPart = { endpoint: ENDPOINT, key: name, bodyHash, status: ACCEPTED };
    const attempt = () =>
      once({ database, inFlight, key, body: { value: bodyHash }, nowMs }, async () => {
        const stored = await store(submission, outcome, record);
        if (!stored.ok) return stored;
        return stored.value && ok<Answer>({ status: ACCEPTED, json: stored.value.json, replayed: false });
      });
    const untilMs = performance.now() + waitForFirstMs;
    let answer = await attempt();
    while (!answer.ok && answer.failure.code === 'DUPLICATE_REQUEST_IN_PROGRESS' && performance.now() < untilMs) {
      await setTimeout(POLL_MS);
      answer = await attempt();
    }
    return answer.ok ? ok({ messageId: firstMessageId(answer.value.json) }) : answer;
  };

  const accept = async (submission: Pending): Promise<Result<{ messageId: string }>> => {
    const { from, sender } = submission.mail;
    let unverified = await failureOf(submission.caller, from);
    if (unverified === undefined && sender !== undefined && sender.address !== from.address) {
      unverified = await failureOf(submission.caller, sender);
    }
    const control = unverified ? refuse(unverified) : readControlHeaders(submission);
    if (!control.ok) return control;
    const { outcome, key } = control.value;
    if (key !== undefined) return keyed(submission, outcome, key);
    const stored = await store(submission, outcome, null);
    if (!stored.ok) return stored;
    if (stored.value === undefined)
      throw new Error('a submission without an idempotency key was treated as a repeated one');
    return ok({ messageId: stored.value.messageId });
  };

  return {
    senderFailure: failureOf,
    clockOffsetMs: clockOffsetOf,
    submit: async (given) => {
      const submission: Pending = { ...given, isBlobUsed: false };
      try {
        return await accept(submission);
      } finally {
        const { content, isBlobUsed } = submission;
        if (!isBlobUsed && !Buffer.isBuffer(content)) dropBlobs(blobs, [content.blobKey]);
      }
    },
  };
}

/** A submission whose blob is deleted at the end, unless an email to accept refers to it, because a row may then refer to it too. */
interface Pending extends Submission {
  isBlobUsed: boolean;
}

type IdempotencyPart = Pick<IdempotencyRecord, 'endpoint' | 'key' | 'bodyHash' | 'status'>;

function firstMessageId(json: string): string {
  return (JSON.parse(json) as { data: { messageId: string } }).data.messageId;
}

/** Reads the control headers. X-Sandbox-Outcome has no meaning in live mail and is dropped. */
function readControlHeaders({
  caller,
  mail,
}: Submission): Result<{ outcome: string | undefined; key: string | undefined }> {
  const issues: Issue[] = [];
  const given = caller.mode === 'sandbox' ? mail.sandboxOutcome : undefined;
  const outcome = given === undefined ? undefined : readOutcome(given, 'X-Sandbox-Outcome', issues);
  const key = readKey(mail.idempotencyKey === undefined ? [] : [mail.idempotencyKey]);
  if (!key.ok) issues.push(...key.failure.details);
  if (issues.length > 0 || !key.ok) return refuse(invalid(issues));
  return ok({ outcome, key: key.value });
}

/** Returns the time to send at; null, which means now, if it is in the past, as with `sendAt`. */
function sendAtOf({ hold }: Submission, nowMs: number): number | null {
  if (hold === undefined) return null;
  const atMs = 'untilMs' in hold ? hold.untilMs : nowMs + hold.forSeconds * 1000;
  return atMs > nowMs ? atMs : null;
}

/**
 * Hashes envelope, control headers, and content. The same mail to other recipients, from another sender, with other tags, for another time,
 * or with other delivery reports is a different submission.
 */
function hashOf(submission: Submission): Uint8Array {
  const { tags, metadata, track, sandboxOutcome } = submission.mail;
  const recipients = submission.recipients.map(sameAddressKey).sort();
  const control = [tags, Object.entries(metadata), track, sandboxOutcome];
  const held = submission.hold === undefined ? [] : [submission.hold];
  const reports = submission.reports === undefined ? [] : [reportsOf(submission.reports)];
  const envelope = JSON.stringify([sameAddressKey(submission.envelopeFrom), recipients, control, ...held, ...reports]);
  return hashBody(Buffer.concat([Buffer.from(envelope), submission.digest()]));
}

/**
 * Returns the requested delivery reports in an order that does not depend on that of the recipients. ENVID is left out, because a client
 * can generate it for each attempt.
 */
function reportsOf({ ret, recipients }: RequestedReports): unknown {
  const byRecipient = [...recipients].toSorted(([one], [other]) => (one < other ? -1 : 1));
  return { ret, byRecipient };
}

function commonOf(
  submission: Submission,
  idempotency: EmailsToAccept['idempotency'],
): Omit<EmailsToAccept, 'emails' | 'nowMs' | 'clockOffsetMs' | 'sendAtMs'> {
  const { caller, mail } = submission;
  const { account, mode } = caller;
  return {
    accountId: account.id,
    mode,
    source: 'smtp',
    origin: submission.origin,
    from: mail.fromText,
    retain: account.settings.retainContent,
    expiresAfterSeconds: DEFAULT_EXPIRY_SECONDS,
    idempotency,
  };
}

function emailOf(submission: Submission, outcome: string | undefined): ComposedEmail {
  const { caller, nowMs, mail, content, envelopeFrom } = submission;
  const options: EmailOptions = {
    requireTls: false,
    smtpUtf8: mail.smtpUtf8,
    eightBit: mail.eightBit,
    expiresAfterSeconds: DEFAULT_EXPIRY_SECONDS,
  };
  if (submission.receivedFrom !== undefined) options.receivedFrom = submission.receivedFrom;
  else options.receivedOver = 'HTTP';
  if (mail.tlsOptional) options.tlsOptional = true;
  if (outcome !== undefined) options.sandboxOutcome = outcome;
  const roleOf = rolesOf(mail.headerTo);
  const ids = newAscendingIds('msg', nowMs, submission.recipients.length);
  const stored = Buffer.isBuffer(content) ? { content } : { content: NO_BYTES, ...content };
  return {
    headerFrom: mail.fromText,
    headerTo: mail.headerTo,
    envelopeFrom: envelopeFrom.address,
    subject: mail.subject,
    headerMessageId: mail.headerMessageId,
    tags: mail.tags,
    metadata: mail.metadata,
    options,
    dsn: emailDsn(submission.reports),
    ...stored,
    recipients: submission.recipients.map((address, index) => ({
      messageId: ids[index]!,
      address,
      dsn: messageDsn(submission, address),
      role: roleOf(address),
      simulateSuppressed: simulatesSuppressed(caller.mode, address, outcome),
    })),
  };
}

const NO_BYTES = Buffer.alloc(0);

function emailDsn({ envid, ret }: Partial<RequestedReports> = {}): EmailDsn | undefined {
  if (envid === undefined && ret === undefined) return undefined;
  return { ...(envid !== undefined && { envid }), ...(ret !== undefined && { ret }) };
}

/** Returns the reports for a recipient; undefined if none. NOTIFY (also NEVER) takes precedence over the credential's setting. */
function messageDsn({ reports, defaultReports }: Submission, address: Address): MessageDsn | undefined {
  const requested = reports?.recipients.get(sameAddressKey(address));
  const notify: readonly ReportKind[] = requested?.notify ?? (defaultReports === 'failures' ? ['failure'] : []);
  if (notify.length === 0) return undefined;
  const { originalRecipient } = requested ?? {};
  return { notify, ...(originalRecipient !== undefined && { originalRecipient }) };
}

/** Returns a function that returns the role of an envelope recipient: 'to' or 'cc' if the header contains the address, otherwise 'bcc'. */
function rolesOf(headerTo: SubmittedMail['headerTo']): (address: Address) => Role {
  const to = new Set(headerTo.to.map(shownKey));
  const cc = new Set(headerTo.cc.map(shownKey));
  return (address) => {
    const key = sameAddressKey(address);
    if (to.has(key)) return 'to';
    return cc.has(key) ? 'cc' : 'bcc';
  };
}

/** Returns the normalized form of an address as the API shows it: bare, or in angle brackets after a name. */
function shownKey(shown: string): string {
  return sameAddressKey(shown.endsWith('>') ? shown.slice(shown.lastIndexOf('<') + 1, -1) : shown);
}

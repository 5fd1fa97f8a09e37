/**
 * Submitted mail from its last byte to accepted messages: what every transport of finished mail shares. The mail is stored as it
 * was submitted, and the envelope alone says who gets it; each recipient is a message of its own. Refuses senders that the
 * account has not verified and control headers that make no sense. Nothing is stored before the one transaction, and a
 * blob that ends up unnamed is removed.
 */

import { setTimeout } from 'node:timers/promises';
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
} from './accept-emails.ts';
import { DEFAULT_EXPIRY_SECONDS } from './check.ts';
import { type IsVerified, readOutcome, type SendingCaller, senderFailure, simulatesSuppressed } from './mail-header.ts';
import { type CopiesDependencies, createTrackCopies } from './submitted-copies.ts';

/** Keys of submitted mail are a space of their own beside those of the HTTP endpoints. */
const ENDPOINT = 'smtp';
const ACCEPTED = 202;
/**
 * How long a submission waits for an earlier one with its key that is still being stored: a client that lost its connection
 * behind the dot is back at once, and many of them take 451 for the end.
 */
const WAIT_FOR_FIRST_MS = 5_000;
const LOOK_EVERY_MS = 50;

interface SubmitDependencies extends AcceptDependencies, CopiesDependencies {
  inFlight: InFlightKeys;
  isVerified: IsVerified;
  /** Five seconds unless given. */
  waitForFirstMs?: number;
}

/** The mail as it is to leave: its bytes, or the blob that holds them. */
export type SubmittedContent = Buffer | { blobKey: string; sizeBytes: number };

/** The delivery reports that a submitter requested (RFC 3461). */
export interface RequestedReports {
  envid: string | undefined;
  ret: EmailDsn['ret'] | undefined;
  /** By the form in which addresses are compared; a recipient that is missing has neither NOTIFY nor ORCPT. */
  recipients: ReadonlyMap<string, { notify?: readonly ReportKind[]; originalRecipient?: string }>;
}

export interface Submission {
  caller: SendingCaller;
  nowMs: number;
  envelopeFrom: Address;
  /** 1 to 50, none twice. */
  recipients: readonly Address[];
  /** When it is to leave, by the clock of the mode: an interval from now, or a time. Undefined at once. */
  hold?: { forSeconds: number } | { untilMs: number } | undefined;
  /** Undefined without any parameter of RFC 3461. */
  reports?: RequestedReports | undefined;
  /** What senders are notified of where RCPT had no NOTIFY. Nothing unless given. */
  unasked?: 'failures' | undefined;
  mail: SubmittedMail;
  content: SubmittedContent;
  /** What two submissions with one Idempotency-Key must have in common; only asked for when the mail has a key. */
  digest(): Uint8Array;
  clientAddress?: string | undefined;
  /** Name and address of the submitter for the Received field. */
  receivedFrom: string;
}

export interface Submit {
  /** Why this caller may not send from the address; undefined when it may. */
  senderFailure(caller: Submission['caller'], from: Address): Promise<Failure | undefined>;
  /** What the caller's clock is ahead of the real time, in ms: the Date that a mail lacks is by that clock. */
  clockOffsetMs(caller: Submission['caller']): Promise<number>;
  /**
   * The first recipient's message id once the mail is on stable storage; that of the first submission when the mail repeats
   * one by its Idempotency-Key. Rejects with Unavailable when storage fails. A blob belongs to the submission from here on.
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

  /** Undefined in place of the id when another submission took the key meanwhile. */
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
    submission.isTaken = emails.value[0] === email;
    const sendAtMs = releaseOf(submission, nowMs);
    const result = await acceptEmails({
      ...commonOf(submission, record),
      emails: emails.value,
      sendAtMs,
      nowMs,
      clockOffsetMs,
    });
    return ok(result.stored ? { messageId: result.recipients[0]!.messageId, json: result.answer } : undefined);
  };

  const keyed = async (submission: Pending, outcome: string | undefined, name: string) => {
    const { caller, nowMs } = submission;
    const key = { accountId: caller.account.id, mode: caller.mode, endpoint: ENDPOINT, key: name };
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
      await setTimeout(LOOK_EVERY_MS);
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
    if (stored.value === undefined) throw new Error('a submission without a key found a record of it');
    return ok({ messageId: stored.value.messageId });
  };

  return {
    senderFailure: failureOf,
    clockOffsetMs: clockOffsetOf,
    submit: async (given) => {
      const submission: Pending = { ...given, isTaken: false };
      try {
        return await accept(submission);
      } finally {
        const { content, isTaken } = submission;
        if (!isTaken && !Buffer.isBuffer(content)) dropBlobs(blobs, [content.blobKey]);
      }
    },
  };
}

/** A submission whose blob is removed in the end, unless an email to accept names it: from then on a row may name it too. */
interface Pending extends Submission {
  isTaken: boolean;
}

type IdempotencyPart = Pick<IdempotencyRecord, 'endpoint' | 'key' | 'bodyHash' | 'status'>;

function firstMessageId(json: string): string {
  return (JSON.parse(json) as { data: { messageId: string } }).data.messageId;
}

/** What the control headers ask for. X-Sandbox-Outcome is without meaning in live mail, and dropped. */
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

/** A time that has passed means now, as with `sendAt`. */
function releaseOf({ hold }: Submission, nowMs: number): number | null {
  if (hold === undefined) return null;
  const atMs = 'untilMs' in hold ? hold.untilMs : nowMs + hold.forSeconds * 1000;
  return atMs > nowMs ? atMs : null;
}

/**
 * Envelope, control headers and content: the same mail to others, from another sender, with other tags or to be released otherwise is
 * another submission.
 */
function hashOf(submission: Submission): Uint8Array {
  const { tags, metadata, track, sandboxOutcome } = submission.mail;
  const recipients = submission.recipients.map(sameAddressKey).sort();
  const control = [tags, Object.entries(metadata), track, sandboxOutcome];
  const held = submission.hold === undefined ? [] : [submission.hold];
  const envelope = JSON.stringify([sameAddressKey(submission.envelopeFrom), recipients, control, ...held]);
  return hashBody(Buffer.concat([Buffer.from(envelope), submission.digest()]));
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
    clientAddress: submission.clientAddress,
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
    receivedFrom: submission.receivedFrom,
  };
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

/** NOTIFY decides, NEVER included; without it the credential's own setting does. Undefined where no report is wanted. */
function messageDsn({ reports, unasked }: Submission, address: Address): MessageDsn | undefined {
  const asked = reports?.recipients.get(sameAddressKey(address));
  const notify: readonly ReportKind[] = asked?.notify ?? (unasked === 'failures' ? ['failure'] : []);
  if (notify.length === 0) return undefined;
  const { originalRecipient } = asked ?? {};
  return { notify, ...(originalRecipient !== undefined && { originalRecipient }) };
}

/** An envelope recipient that the header names is 'to' or 'cc'; one that it does not name got a blind copy. */
function rolesOf(headerTo: SubmittedMail['headerTo']): (address: Address) => Role {
  const to = new Set(headerTo.to.map(shownKey));
  const cc = new Set(headerTo.cc.map(shownKey));
  return (address) => {
    const key = sameAddressKey(address);
    if (to.has(key)) return 'to';
    return cc.has(key) ? 'cc' : 'bcc';
  };
}

/** The compared form of an address as the API shows it: bare, or behind a name in angle brackets. */
function shownKey(shown: string): string {
  return sameAddressKey(shown.endsWith('>') ? shown.slice(shown.lastIndexOf('<') + 1, -1) : shown);
}

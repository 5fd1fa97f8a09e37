/**
 * Accepts composed emails; this is the last step of every send, over HTTP and SMTP. Stores the emails in one transaction, then passes them
 * directly to delivery if it has capacity, without reading them back. If it rejects, nothing was accepted, except with OutcomeUnknown.
 *
 *   blob (large content) → transaction with lease → dispatch
 */

import type { BatchUse } from '../attachments/attachments.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { RouteRequest } from '../http/route.ts';
import { type IdempotencyRecord, KEY_LIFETIME_MS } from '../idempotency/idempotency.ts';
import { type Address, sameAddressKey } from '../mail/address.ts';
import {
  type DeliveryJob,
  type DirectDispatch,
  type EmailDsn,
  type EmailOptions,
  INLINE_BYTES,
  type MessageDsn,
  RETAIN_MS,
  type Retain,
  type Role,
} from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import type { AddressHash } from '../suppressions/suppressions.ts';
import { FIRST_FENCE, LEASE_MS } from '../work/work.ts';
import {
  type Acceptance,
  type AcceptanceResult,
  type AcceptedEmail,
  type AcceptedRecipient,
  acceptOperation,
  laneOf,
} from './acceptance.ts';
import { acceptLargeOperation, type LargeAcceptanceResult } from './large-store.ts';

export interface EmailRecipient {
  messageId: string;
  address: Address;
  role: Role;
  simulateSuppressed: boolean;
  /** The normalized address, for comparison, if known. */
  key?: string | undefined;
  /** The delivery reports that the sender receives; none by default. */
  dsn?: MessageDsn | undefined;
}

/** One composed email, with the same bytes for all of its recipients. Every way to submit mail produces these. */
export interface ComposedEmail {
  headerFrom: string;
  headerTo: { to: string[]; cc: string[] };
  envelopeFrom: string;
  subject: string;
  headerMessageId: string;
  tags: string[];
  metadata: Record<string, string>;
  options: EmailOptions;
  /** Delivery report options of the submitter (ENVID and RET). */
  dsn?: EmailDsn | undefined;
  /** The stored template that the email was made from. */
  template?: { id: string; version: number } | undefined;
  content: Buffer;
  /** The blob that already holds the content; `content` is then empty, and `sizeBytes` is its length. */
  blobKey?: string;
  /** Size of the complete email if `options.files` are to be added to the content; by default the length of the content. */
  sizeBytes?: number;
  recipients: EmailRecipient[];
}

export interface AcceptDependencies {
  database: Database;
  blobs: Blobs;
  /** The delivery worker in this process, if there is one. */
  directDispatch?: DirectDispatch | undefined;
  clock: Clock;
  addressHash: AddressHash;
  /** Called after each commit, to update counters and to wake event streams and workers. */
  onAccepted?(accepted: Accepted): void;
}

/** The accepted messages, for counters and to wake event streams and workers. */
export interface Accepted {
  accountId: string;
  mode: Mode;
  source: EmailsToAccept['source'];
  recipients: AcceptanceResult['recipients'];
  /** Id of the HTTP request; undefined for mail from SMTP. */
  requestId: string | undefined;
  /** Number of messages that the delivery worker in this process already holds. */
  dispatched: number;
  /** Time from the arrival of the request to the commit. */
  tookMs: number;
}

/** Where the request for an email came from. Empty for the service's own mail. */
export interface MailOrigin {
  /** Id of the HTTP request, for the log. */
  requestId?: string;
  /** Address of the HTTP or SMTP client. */
  clientAddress?: string;
  /** The trace context of the request (base/trace.ts). */
  traceparent?: string | undefined;
}

/** Returns the origin of mail that came over HTTP. */
export function originOf({
  requestId,
  remoteAddress,
  traceparent,
}: Pick<RouteRequest, 'requestId' | 'remoteAddress' | 'traceparent'>): MailOrigin {
  return { requestId, clientAddress: remoteAddress, traceparent };
}

/** Emails composed from one request, and their common properties. */
export interface EmailsToAccept {
  accountId: string;
  mode: Mode;
  source: 'http' | 'smtp';
  origin: MailOrigin;
  /** Unix ms, by the clock of the mode, like `sendAtMs`. */
  nowMs: number;
  /** How far the clock of the mode is ahead of real time. */
  clockOffsetMs: number;
  /** The sender, as the response repeats it. */
  from: string;
  emails: ComposedEmail[];
  retain: Retain;
  sendAtMs: number | null;
  expiresAfterSeconds: number;
  idempotency: Pick<IdempotencyRecord, 'endpoint' | 'key' | 'bodyHash' | 'status'> | null;
  /** The upload batch with the files of the email; accepting the email uses it up. */
  submission?: Omit<BatchUse, 'accountId' | 'mode' | 'nowMs'>;
}

/** Stores the emails and passes them to delivery. Rejects with Unavailable if storage does not accept them. See AcceptanceResult. */
export type AcceptEmails = (given: EmailsToAccept) => Promise<AcceptanceResult | LargeAcceptanceResult>;

export function createAcceptEmails(dependencies: AcceptDependencies): AcceptEmails {
  const { database, blobs, directDispatch, clock, addressHash, onAccepted } = dependencies;
  return async (given) => {
    const blobKeys = hasLargeContent(given.emails) ? await putLargeContent(blobs, given.emails) : NO_BLOBS;
    // The lease does not start earlier, because checking files and storing content may take longer than a lease lasts. It does not start
    // at the commit either, because a process that was suspended may learn of the commit late.
    const leaseUntilMs = clock.now() + LEASE_MS;
    const acceptance = acceptanceOf(given, { blobKeys, leaseUntilMs, addressHash }, directDispatch);
    // If this throws, blobs are kept: the commit may have succeeded without a reply, and deleting the blob of a stored email would lose
    // mail.
    const result = await accept(database, given, acceptance);
    dropBlobs(blobs, result.stored ? result.unkeptBlobKeys : blobKeys);
    if (result.leased.length > 0) directDispatch?.dispatch(jobsOf(given, acceptance, result), leaseUntilMs);
    if (result.stored) {
      const { accountId, mode, source, nowMs, clockOffsetMs } = given;
      const { requestId } = given.origin;
      const { recipients, leased } = result;
      const tookMs = clock.now() + clockOffsetMs - nowMs;
      onAccepted?.({ accountId, mode, source, requestId, recipients, dispatched: leased.length, tookMs });
    }
    return result;
  };
}

function accept(
  database: Database,
  { accountId, mode, nowMs, clockOffsetMs, submission }: EmailsToAccept,
  acceptance: Acceptance,
): Promise<AcceptanceResult> {
  if (submission === undefined) return database.execute(acceptOperation, acceptance);
  return database.execute(acceptLargeOperation, {
    acceptance,
    use: { ...submission, accountId, mode, nowMs: nowMs - clockOffsetMs },
  });
}

const NO_BLOBS: readonly (string | null)[] = [];

/** Returns whether the content is, or must be, in a blob. */
function hasLargeContent(emails: ComposedEmail[]): boolean {
  for (const email of emails) if (email.blobKey !== undefined || email.content.length > INLINE_BYTES) return true;
  return false;
}

function putLargeContent(blobs: Blobs, emails: ComposedEmail[]): Promise<(string | null)[]> {
  return Promise.all(
    emails.map((email) => email.blobKey ?? (email.content.length > INLINE_BYTES ? blobs.put(email.content) : null)),
  );
}

function acceptanceOf(
  given: EmailsToAccept,
  {
    blobKeys,
    leaseUntilMs,
    addressHash,
  }: { blobKeys: readonly (string | null)[]; leaseUntilMs: number; addressHash: AddressHash },
  directDispatch: DirectDispatch | undefined,
): Acceptance {
  const { accountId, mode, nowMs, clockOffsetMs, sendAtMs, retain } = given;
  const startMs = sendAtMs ?? nowMs;
  let jobs = 0;
  let bytes = 0;
  for (const email of given.emails) {
    jobs += email.recipients.length;
    bytes += email.content.length;
  }
  return {
    accountId,
    mode,
    source: given.source,
    nowMs,
    clockOffsetMs,
    emails: given.emails.map((email, index) =>
      acceptedEmail(given, email, { blobKey: blobKeys[index] ?? null, addressHash }),
    ),
    retain,
    contentUntilMs: startMs - clockOffsetMs + RETAIN_MS[retain],
    sendAtMs,
    expiresAtMs: startMs + given.expiresAfterSeconds * 1000,
    from: given.from,
    idempotency: given.idempotency && { ...given.idempotency, expiresAtMs: nowMs - clockOffsetMs + KEY_LIFETIME_MS },
    leaseUntilMs: sendAtMs === null && directDispatch?.hasCapacity(jobs, bytes) ? leaseUntilMs + clockOffsetMs : null,
  };
}

function acceptedEmail(
  given: EmailsToAccept,
  email: ComposedEmail,
  { blobKey, addressHash }: { blobKey: string | null; addressHash: AddressHash },
): AcceptedEmail {
  return {
    headerFrom: email.headerFrom,
    headerTo: JSON.stringify(email.headerTo),
    envelopeFrom: email.envelopeFrom,
    subject: email.subject,
    headerMessageId: email.headerMessageId,
    tags: JSON.stringify(email.tags),
    metadata: JSON.stringify(email.metadata),
    options: JSON.stringify(email.options),
    templateId: email.template?.id ?? null,
    templateVersion: email.template?.version ?? null,
    sizeBytes: email.sizeBytes ?? email.content.length,
    content: blobKey === null ? email.content : null,
    blobKey,
    clientAddress: given.origin.clientAddress ?? null,
    traceparent: given.origin.traceparent ?? null,
    dsn: email.dsn === undefined ? null : JSON.stringify(email.dsn),
    recipients: email.recipients.map((recipient) => acceptedRecipient(given, recipient, addressHash)),
  };
}

function acceptedRecipient(
  given: EmailsToAccept,
  recipient: EmailRecipient,
  addressHash: AddressHash,
): AcceptedRecipient {
  const { address } = recipient;
  const suppressionKey = recipient.key ?? sameAddressKey(address);
  return {
    messageId: recipient.messageId,
    sendEventId: newId('evt', given.nowMs),
    rejectEventId: newId('evt', given.nowMs),
    email: address.address,
    suppressionKey,
    addressHash: addressHash(given.accountId, suppressionKey),
    role: recipient.role,
    lane: laneOf(given, address.domain),
    simulateSuppressed: recipient.simulateSuppressed,
    dsn: recipient.dsn === undefined ? null : JSON.stringify(recipient.dsn),
  };
}

/** Copies content that shares a buffer with other small emails (compose.ts), so a queued job does not keep the entire buffer allocated. */
function copyIfShared(content: Buffer): Buffer {
  if (content.buffer.byteLength <= 2 * content.length) return content;
  const copy = Buffer.allocUnsafeSlow(content.length);
  content.copy(copy);
  return copy;
}

/** Builds the delivery jobs from memory. They equal the jobs that a claim would read from the database. */
function jobsOf(given: EmailsToAccept, acceptance: Acceptance, result: AcceptanceResult): DeliveryJob[] {
  const jobs: DeliveryJob[] = [];
  let next = 0;
  for (const [index, email] of acceptance.emails.entries()) {
    const source = given.emails[index]!;
    const content = source.blobKey === undefined ? copyIfShared(source.content) : null;
    for (const recipient of email.recipients) {
      const lease = result.leased[next];
      if (lease?.messageId !== recipient.messageId) continue;
      next += 1;
      jobs.push({
        seq: lease.seq,
        fence: FIRST_FENCE,
        attempts: 0,
        crashes: 0,
        lane: recipient.lane,
        accountId: given.accountId,
        mode: given.mode,
        messageId: recipient.messageId,
        recipient: recipient.email,
        status: 'queued',
        createdAt: given.nowMs,
        clockOffsetMs: given.clockOffsetMs,
        expiresAt: acceptance.expiresAtMs,
        emailSeq: lease.emailSeq,
        envelopeFrom: email.envelopeFrom,
        headerFrom: email.headerFrom,
        headerMessageId: email.headerMessageId,
        sizeBytes: email.sizeBytes,
        options: source.options,
        retain: given.retain,
        source: given.source,
        content,
        blobKey: email.blobKey,
        traceparent: email.traceparent ?? null,
      });
    }
  }
  return jobs;
}

/**
 * The last step of every way to send, over HTTP and SMTP alike: composed emails go to stable storage in one transaction, and then,
 * where there is room, straight to the delivery without being read back. Nothing is accepted when this rejects.
 *
 *   blob (large content) → transaction with lease → hand-over
 */

import type { BatchUse } from '../attachments/attachments.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
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
import { FIRST_FENCE } from '../work/work.ts';
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
  /** The address in the form in which spellings are compared, where it is known. */
  key?: string | undefined;
  /** The delivery reports that its sender receives; none unless given. */
  dsn?: MessageDsn | undefined;
}

/** One composed email, the same bytes for all of its recipients: what every way to submit mail ends in, and is accepted from. */
export interface ComposedEmail {
  headerFrom: string;
  headerTo: { to: string[]; cc: string[] };
  envelopeFrom: string;
  subject: string;
  headerMessageId: string;
  tags: string[];
  metadata: Record<string, string>;
  options: EmailOptions;
  /** What its submitter asked of delivery reports. */
  dsn?: EmailDsn | undefined;
  /** The stored template that the mail was made of. */
  template?: { id: string; version: number } | undefined;
  content: Buffer;
  /** The blob that holds the content already; `content` is empty then, and `sizeBytes` is its length. */
  blobKey?: string;
  /** Of the whole mail, where `options.files` are to be added to the content; otherwise its length. */
  sizeBytes?: number;
  recipients: EmailRecipient[];
}

const LEASE_MS = 60_000;

export interface AcceptDependencies {
  database: Database;
  blobs: Blobs;
  /** The delivery of this process, if there is one. */
  directDispatch?: DirectDispatch | undefined;
  clock: Clock;
  /** Called after each commit: for counters, and so that what waits for events or work looks at once. */
  onAccepted?(accepted: Accepted): void;
}

/** What was just accepted, as counters and nudges want to know it. */
export interface Accepted {
  accountId: string;
  mode: Mode;
  source: EmailsToAccept['source'];
  recipients: AcceptanceResult['recipients'];
  /** Of the HTTP request; mail from SMTP has none. */
  requestId: string | undefined;
  /** Work that the delivery of this process has in hand already. */
  handedOver: number;
  /** From the arrival of the request to the commit. */
  tookMs: number;
}

/** Emails composed from one mail, and what holds for all of them. */
export interface EmailsToAccept {
  accountId: string;
  mode: Mode;
  source: 'http' | 'smtp';
  /** Of the HTTP request, for the log. */
  requestId?: string | undefined;
  /** Of the HTTP or SMTP client that hands the mail in; none of the service's own. */
  clientAddress?: string | undefined;
  /** With sendAtMs by the clock of the mode. */
  nowMs: number;
  /** What that clock is ahead of the real time. */
  clockOffsetMs: number;
  /** The sender as the answer repeats it. */
  from: string;
  emails: ComposedEmail[];
  retain: Retain;
  sendAtMs: number | null;
  expiresAfterSeconds: number;
  idempotency: Pick<IdempotencyRecord, 'endpoint' | 'key' | 'bodyHash' | 'status'> | null;
  /** The submission whose files the email is made of; used up together with the acceptance. */
  submission?: Omit<BatchUse, 'accountId' | 'mode' | 'nowMs'>;
}

/** Stores and hands over; rejects with Unavailable when the storage does not take it. See AcceptanceResult. */
export type AcceptEmails = (given: EmailsToAccept) => Promise<AcceptanceResult | LargeAcceptanceResult>;

export function createAcceptEmails(dependencies: AcceptDependencies): AcceptEmails {
  const { database, blobs, directDispatch, clock, onAccepted } = dependencies;
  return async (given) => {
    const blobKeys = hasLargeContent(given.emails) ? await putLargeContent(blobs, given.emails) : NO_BLOBS;
    // What came before may have taken longer than a lease lasts: files were looked at, content was stored. But not from the
    // commit on: that may be long ago, for a process that stood still since.
    const leaseUntilMs = clock.now() + LEASE_MS;
    const acceptance = acceptanceOf(given, { blobKeys, leaseUntilMs }, directDispatch);
    // What a lost answer leaves behind is an orphan at worst; removing the blob of a stored email would be a loss.
    const result = await accept(database, given, acceptance);
    dropBlobs(blobs, result.stored ? result.unkeptBlobKeys : blobKeys);
    if (result.leased.length > 0) directDispatch?.dispatch(jobsOf(given, acceptance, result), leaseUntilMs);
    if (result.stored) {
      const { accountId, mode, source, requestId, nowMs, clockOffsetMs } = given;
      const { recipients, leased } = result;
      const tookMs = clock.now() + clockOffsetMs - nowMs;
      onAccepted?.({ accountId, mode, source, requestId, recipients, handedOver: leased.length, tookMs });
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

/** Whether content stands, or has to stand, in a blob. */
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
  { blobKeys, leaseUntilMs }: { blobKeys: readonly (string | null)[]; leaseUntilMs: number },
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
    emails: given.emails.map((email, index) => acceptedEmail(given, email, blobKeys[index] ?? null)),
    retain,
    contentUntilMs: startMs - clockOffsetMs + RETAIN_MS[retain],
    sendAtMs,
    expiresAtMs: startMs + given.expiresAfterSeconds * 1000,
    from: given.from,
    idempotency: given.idempotency && { ...given.idempotency, expiresAtMs: nowMs - clockOffsetMs + KEY_LIFETIME_MS },
    leaseUntilMs: sendAtMs === null && directDispatch?.hasCapacity(jobs, bytes) ? leaseUntilMs + clockOffsetMs : null,
  };
}

function acceptedEmail(given: EmailsToAccept, email: ComposedEmail, blobKey: string | null): AcceptedEmail {
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
    clientAddress: given.clientAddress,
    dsn: email.dsn === undefined ? null : JSON.stringify(email.dsn),
    recipients: email.recipients.map((recipient) => acceptedRecipient(given, recipient)),
  };
}

function acceptedRecipient(given: EmailsToAccept, recipient: EmailRecipient): AcceptedRecipient {
  const { address } = recipient;
  return {
    messageId: recipient.messageId,
    sendEventId: newId('evt', given.nowMs),
    rejectEventId: newId('evt', given.nowMs),
    email: address.address,
    suppressionKey: recipient.key ?? sameAddressKey(address),
    role: recipient.role,
    lane: laneOf(given, address.domain),
    simulateSuppressed: recipient.simulateSuppressed,
    dsn: recipient.dsn === undefined ? null : JSON.stringify(recipient.dsn),
  };
}

/** Small mails share memory (compose.ts); one that may wait for long must not keep that of the others. */
function withoutNeighbours(content: Buffer): Buffer {
  if (content.buffer.byteLength <= 2 * content.length) return content;
  const own = Buffer.allocUnsafeSlow(content.length);
  content.copy(own);
  return own;
}

/** What the claims would read back from the database, from what is in memory. */
function jobsOf(given: EmailsToAccept, acceptance: Acceptance, result: AcceptanceResult): DeliveryJob[] {
  const jobs: DeliveryJob[] = [];
  let next = 0;
  for (const [index, email] of acceptance.emails.entries()) {
    const source = given.emails[index]!;
    const content = source.blobKey === undefined ? withoutNeighbours(source.content) : null;
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
      });
    }
  }
  return jobs;
}

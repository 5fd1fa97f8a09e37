/**
 * Resends a finished message: a new message with its own id, from the stored content, to the same recipient. Mail that was submitted over
 * HTTP gets a new Message-ID, since a mailbox would treat it as a duplicate of the first copy; mail from SMTP is kept as submitted.
 * Uploaded files are shared with the original. Suppressions are checked again.
 */

import { type Failure, failure, ok, type Result, refuse } from '../base/failure.ts';
import { newId, randomText } from '../base/ids.ts';
import type { IdempotencyRecord } from '../idempotency/idempotency.ts';
import { quotaExceeded } from '../limits/limits.ts';
import { sameAddressKey } from '../mail/address.ts';
import { endOfHeader, headerFields } from '../mail/mime/header-fields.ts';
import {
  type EmailOptions,
  findMailOperation,
  INLINE_BYTES,
  isUnfinished,
  type MessageKey,
  type MessageStatus,
  RETAIN_MS,
  type StoredMail,
} from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import { storedContentOf } from '../storage/blobs/stored-content.ts';
import type { Database } from '../storage/database.ts';
import type { AddressHash } from '../suppressions/suppressions.ts';
import type { MailOrigin } from './accept-emails.ts';
import { type Acceptance, type AcceptedEmail, laneOf } from './acceptance.ts';
import { acceptAgainOperation } from './large-store.ts';

interface Resend extends MessageKey {
  /** By the clock of the mode, and how far that clock is ahead of real time. */
  nowMs: number;
  clockOffsetMs: number;
  /** The origin of the request to resend, which replaces that of the original. */
  origin: MailOrigin;
  /** Stored together with the accepted message. */
  idempotency: IdempotencyRecord | null;
}

interface ResendDeps {
  /** With the origin of the request, so that the resend is recorded in the audit log. */
  database: Database;
  blobs: Blobs;
  addressHash: AddressHash;
}

/**
 * Returns the text of the /send response; undefined if a record of its key already exists. Fails with NOT_FOUND for an unknown message, and
 * with CONFLICT while it is unfinished (there would be two copies) or if its content was deleted.
 */
export async function resendMessage(deps: ResendDeps, resend: Resend): Promise<Result<string> | undefined> {
  const { accountId, mode, messageId, nowMs, clockOffsetMs } = resend;
  const mail = await deps.database.execute(findMailOperation, resend);
  if (!mail) return refuse(failure('NOT_FOUND', { message: 'No message has this id.' }));
  if (isUnfinished(mail.status)) return refuse(notSettled(mail.status));
  const stored = await storedContentOf(mail, deps.blobs);
  if (!stored) return refuse(noLongerKept());
  const email = await emailOf(deps, resend, { mail, stored });
  const { expiresAfterSeconds } = JSON.parse(mail.options) as EmailOptions;
  const acceptance: Acceptance = {
    accountId,
    mode,
    source: mail.source,
    nowMs,
    clockOffsetMs,
    emails: [email],
    retain: mail.retain,
    contentUntilMs: nowMs - clockOffsetMs + RETAIN_MS[mail.retain],
    sendAtMs: null,
    expiresAtMs: nowMs + expiresAfterSeconds * 1000,
    from: mail.header_from,
    idempotency: resend.idempotency,
    leaseUntilMs: null,
  };
  const of = { accountId, mode, messageId };
  const accepted = await deps.database.execute(acceptAgainOperation, { acceptance, of });
  if (!accepted?.stored) {
    dropBlobs(deps.blobs, [email.blobKey]);
    if (accepted?.quota !== undefined) return refuse(quotaExceeded(accepted.quota));
    return accepted ? undefined : refuse(noLongerKept());
  }
  // A blob that cannot be removed is an orphan and is swept later.
  dropBlobs(deps.blobs, accepted.unkeptBlobKeys);
  return ok(accepted.answer);
}

function notSettled(status: MessageStatus): Failure {
  const message = `The message is ${status} and is still being delivered. Resend it after delivery ends, or cancel it first.`;
  return failure('CONFLICT', { message });
}

function noLongerKept(): Failure {
  const message = 'The content of this message has been deleted. Send a new message with POST /send.';
  return failure('CONFLICT', { message });
}

/** Shifts the positions of files when the content before them changes length. */
function movedFiles(options: EmailOptions, byBytes: number): EmailOptions {
  if (!options.files || byBytes === 0) return options;
  return { ...options, files: options.files.map((file) => ({ ...file, at: file.at + byBytes })) };
}

async function emailOf(
  { blobs, addressHash }: Pick<ResendDeps, 'blobs' | 'addressHash'>,
  resend: Resend,
  { mail, stored }: { mail: StoredMail; stored: Uint8Array },
): Promise<AcceptedEmail> {
  const renewed = mail.source === 'http' ? withNewMessageId(stored, mail.header_message_id) : undefined;
  const content = renewed?.content ?? stored;
  const grownBytes = content.length - stored.length;
  const blobKey = content.length > INLINE_BYTES ? await blobs.put(content) : null;
  const domain = mail.recipient.slice(mail.recipient.lastIndexOf('@') + 1);
  const suppressionKey = sameAddressKey(mail.recipient);
  return {
    headerFrom: mail.header_from,
    headerTo: mail.header_to,
    envelopeFrom: mail.envelope_from,
    subject: mail.subject,
    headerMessageId: renewed?.messageId ?? mail.header_message_id,
    tags: mail.tags,
    metadata: mail.metadata,
    options: JSON.stringify(movedFiles(JSON.parse(mail.options) as EmailOptions, grownBytes)),
    templateId: mail.template_id,
    templateVersion: mail.template_version,
    sizeBytes: mail.size_bytes + grownBytes,
    content: blobKey === null ? content : null,
    blobKey,
    clientAddress: resend.origin.clientAddress ?? null,
    traceparent: resend.origin.traceparent ?? null,
    // The sender requested delivery reports for the original only.
    dsn: null,
    recipients: [
      {
        messageId: newId('msg', resend.nowMs - resend.clockOffsetMs),
        sendEventId: newId('evt', resend.nowMs),
        rejectEventId: newId('evt', resend.nowMs),
        email: mail.recipient,
        suppressionKey,
        addressHash: addressHash(resend.accountId, suppressionKey),
        role: mail.role,
        lane: laneOf(resend, domain),
        // The sandbox simulates the same outcome again.
        simulateSuppressed: resend.mode === 'sandbox' && mail.status === 'suppressed',
        dsn: null,
      },
    ],
  };
}

/** Returns the content with a new Message-ID of the same domain, or undefined if its header does not contain the old one. */
function withNewMessageId(content: Uint8Array, old: string): { content: Buffer; messageId: string } | undefined {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  const header = bytes.toString('latin1', 0, endOfHeader(bytes).headerEnd);
  const field = headerFields(header).find(({ name }) => name === 'message-id');
  const at = field ? header.slice(0, field.end).indexOf(old, field.colon) : -1;
  const domain = /@([^@>]+)>$/.exec(old)?.[1];
  if (at === -1 || domain === undefined) return undefined;
  const messageId = `<${randomText(26)}@${domain}>`;
  const rest = bytes.subarray(at + Buffer.byteLength(old));
  return { content: Buffer.concat([bytes.subarray(0, at), Buffer.from(messageId), rest]), messageId };
}

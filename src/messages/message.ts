/**
 * Defines the records of mail: an email is one composed content, and a message is one recipient's copy of it. Contains their tables (a new
 * column needs two migrations, a line here, its producer, and its reader), their representation in the API, and the delivery jobs.
 */
import { iso } from '../base/clock.ts';
import type { Mode } from '../base/mode.ts';
import { type TableRow, table } from '../storage/rows.ts';

export const MESSAGE_STATUSES = [
  'scheduled',
  'queued',
  'sending',
  'delayed',
  'delivered',
  'bounced',
  'complained',
  'suppressed',
  'cancelled',
] as const;
export type MessageStatus = (typeof MESSAGE_STATUSES)[number];

export type Role = 'to' | 'cc' | 'bcc';
export type Retain = 'none' | '7d' | '30d';

const DAY_MS = 86_400_000;
/** How long content is kept after sending. Content that is not retained is deleted when the message is finished, or after this time. */
export const RETAIN_MS: Readonly<Record<Retain, number>> = { none: 30 * DAY_MS, '7d': 7 * DAY_MS, '30d': 30 * DAY_MS };

/** The table of messages, and its columns that the audit log shows when a message changes. */
export const MESSAGE_TRAIL = { table: 'message', shows: ['status', 'send_at', 'next_attempt_at'] };

export function messageColumns({ accountId, mode, messageId }: { accountId: string; mode: Mode; messageId: string }) {
  return { account_id: accountId, mode, id: messageId };
}

/** The kind of work rows for delivery: `subject` is the message id, and `ref` is the number of the email. */
export const DELIVERY_WORK = 'delivery';

/** A file that is not part of the stored content: its Base64 lines are inserted before the byte at `at` when the mail is sent. */
export interface EmailFile {
  /** Offset in the stored content; files at the same offset follow each other in order. */
  at: number;
  blobKey: string;
  /** Size of the stored file; in the mail it takes up `base64SizeBytes(sizeBytes)` bytes. */
  sizeBytes: number;
  /** SHA-256 of the file, in hex. */
  sha256: string;
}

/** Properties of an email that delivery needs in addition to its bytes; stored as JSON. */
export interface EmailOptions {
  /** Whether the connection must be encrypted, or also have a certificate that is valid for the MX host (`verified`). */
  requireTls: boolean | 'verified';
  /** Ignores the TLS policy of the recipient's domain for this mail: `TLS-Required: No` (RFC 8689 §5). */
  tlsOptional?: true;
  /** Whether an address in the header is not ASCII, so the next server must offer SMTPUTF8 (RFC 6531). */
  smtpUtf8: boolean;
  /** Whether the content has bytes above 0x7F, so the next server must offer 8BITMIME (RFC 6152). */
  eightBit: boolean;
  /** Lifetime in seconds, counted from the later of acceptance and sendAt. */
  expiresAfterSeconds: number;
  /** Host or name of the submitter for the Received header, as it identified itself. */
  receivedFrom?: string;
  /** The protocol in the Received header of submitted mail that did not come over SMTP. */
  receivedOver?: 'HTTP';
  /** In the sandbox, the outcome requested with X-Sandbox-Outcome. */
  sandboxOutcome?: string;
  /** Uploaded files, in the order of the mail; the stored content contains everything else. */
  files?: EmailFile[];
}

/** An outcome that the sender of a message is notified of with a delivery report (RFC 3461 §4.1). */
export type ReportKind = 'success' | 'failure' | 'delay';

/** Delivery report options that the submitter of an email requested; stored as JSON. */
export interface EmailDsn {
  /** ENVID, decoded; it is included in events and returned in reports. */
  envid?: string;
  /** RET: whether a failure report returns the entire message; by default it returns only the headers. */
  ret?: 'full' | 'headers';
}

/** The reports that the sender of a message receives; stored as JSON if there are any. */
export interface MessageDsn {
  notify: readonly ReportKind[];
  /** ORCPT, decoded: an address type, a semicolon and the address. */
  originalRecipient?: string;
}

/** One row of `message` joined with its `email`, as the API reads it. */
export interface MessageRow {
  id: string;
  mode: Mode;
  status: MessageStatus;
  /** Above 0 while a worker holds the message's work row. */
  leased: number | null;
  recipient: string;
  role: Role;
  header_from: string;
  subject: string;
  tags: string;
  metadata: string;
  template_id: string | null;
  template_version: number | null;
  size_bytes: number;
  header_message_id: string;
  created_at: number;
  send_at: number | null;
  next_attempt_at: number | null;
  expires_at: number;
}

/** Content up to this size is stored in the database, larger content in a blob. */
export const INLINE_BYTES = 64 * 1024;

const UNFINISHED_STATUSES: readonly MessageStatus[] = ['scheduled', 'queued', 'sending', 'delayed'];
/** The same statuses as an SQL list. */
export const UNFINISHED = `(${UNFINISHED_STATUSES.map((status) => `'${status}'`).join(', ')})`;

/** Returns whether the message can still be delivered. */
export function isUnfinished(status: MessageStatus): boolean {
  return UNFINISHED_STATUSES.includes(status);
}

/** Returns the status as the API shows it: a message whose work is held by a worker is `sending`. */
export function shownStatus({ leased, status }: Pick<MessageRow, 'leased' | 'status'>): MessageStatus {
  return (leased ?? 0) > 0 && isUnfinished(status) ? 'sending' : status;
}

/** Returns a message as `GET /messages` shows it. */
export function messageBody(row: MessageRow): Record<string, unknown> {
  const body: Record<string, unknown> = {
    messageId: row.id,
    status: shownStatus(row),
    mode: row.mode,
    from: row.header_from,
    to: row.recipient,
    role: row.role,
    subject: row.subject,
    tags: JSON.parse(row.tags),
    metadata: JSON.parse(row.metadata),
  };
  if (row.template_id !== null) {
    body.templateId = row.template_id;
    body.templateVersion = row.template_version;
  }
  body.sizeBytes = row.size_bytes;
  body.headerMessageId = row.header_message_id;
  body.createdAt = iso(row.created_at);
  if (row.send_at !== null) body.sendAt = iso(row.send_at);
  if (row.next_attempt_at !== null && isUnfinished(row.status)) body.nextAttemptAt = iso(row.next_attempt_at);
  body.expiresAt = iso(row.expires_at);
  return body;
}

/** One message with everything that a delivery attempt needs. */
export interface DeliveryJob {
  seq: number;
  fence: number;
  /** Attempts recorded so far; the next one has number attempts + 1. */
  attempts: number;
  crashes: number;
  lane: string;
  accountId: string;
  mode: Mode;
  messageId: string;
  recipient: string;
  status: MessageStatus;
  /** Unix ms, by the clock of the mode. */
  createdAt: number;
  expiresAt: number;
  /** In the sandbox, how far that clock is ahead of real time; 0 by default. */
  clockOffsetMs?: number;
  emailSeq: number;
  envelopeFrom: string;
  headerFrom: string;
  headerMessageId: string;
  sizeBytes: number;
  options: EmailOptions;
  retain: Retain;
  source: 'http' | 'smtp';
  /** The bytes, or the key of the blob that holds them. */
  content: Uint8Array | null;
  /** The SHA-256 of `content`, if it was read from the database. */
  contentDigest?: Uint8Array | null;
  blobKey: string | null;
  /** The trace context in which the email was accepted (base/trace.ts). */
  traceparent: string | null;
  /** Set if the address was suppressed after the message was accepted; the message is then not sent. */
  suppressed?: true;
}

/** Detail of the Reject event for a suppressed address. */
export const SUPPRESSED = {
  reject: {
    reason: 'suppressed',
    owner: 'recipient',
    advice: 'The address is on the suppression list of this account; remove it there once the recipient agrees.',
    suppressed: true,
  },
};

/** Detail of the Reject event if the sandbox simulates a suppressed address, which is on no suppression list. */
export const SIMULATED_SUPPRESSED = {
  reject: {
    ...SUPPRESSED.reject,
    simulated: true,
    advice:
      'The sandbox simulates a suppressed address; there is nothing to remove. Live mail to such an address is not sent.',
  },
};

/**
 * Accepts jobs that were leased when they were created. It drops jobs above its capacity, which are claimed from the queue when their lease
 * expires.
 */
export interface DirectDispatch {
  /** Returns whether this many jobs and bytes can be passed now; called before the transaction that leases them. */
  hasCapacity(jobs: number, bytes: number): boolean;
  /** Delivers the jobs. Their leases are valid at least until `leaseUntilMs` (Unix ms, real time). */
  dispatch(jobs: DeliveryJob[], leaseUntilMs: number): void;
}

/** One composed email, shared by its recipients. Small content is in the row, larger content in the blob it names. */
export const EMAIL = table('email', {
  seq: 'int',
  accountId: 'text',
  mode: 'text',
  source: 'text',
  headerFrom: 'text',
  headerTo: 'text',
  envelopeFrom: 'text',
  subject: 'text',
  headerMessageId: 'text',
  tags: 'text',
  metadata: 'text',
  options: 'text',
  templateId: 'text?',
  templateVersion: 'int?',
  sizeBytes: 'int',
  content: 'bytes?',
  blobKey: 'text?',
  contentDigest: 'bytes?',
  createdAt: 'int',
  retain: 'text',
  contentUntil: 'int?',
  clientAddress: 'text?',
  dsn: 'text?',
  traceparent: 'text?',
});
export type EmailRow = TableRow<typeof EMAIL>;

/** One recipient's copy of an email. */
export const MESSAGE = table('message', {
  accountId: 'text',
  mode: 'text',
  id: 'text',
  emailSeq: 'int',
  recipient: 'text',
  role: 'text',
  status: 'text',
  attempts: 'int',
  workSeq: 'int?',
  sendAt: 'int?',
  nextAttemptAt: 'int?',
  expiresAt: 'int',
  createdAt: 'int',
  updatedAt: 'int',
  dsn: 'text?',
});

/** One attempt to deliver a message. */
export const ATTEMPT = table('attempt', {
  accountId: 'text',
  messageId: 'text',
  number: 'int',
  at: 'int',
  record: 'text',
});

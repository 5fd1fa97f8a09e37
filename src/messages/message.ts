/**
 * The records of mail: an email is one composed text, a message is one recipient's copy of it. Their tables (a new column is two
 * migrations, a line here, its producer and its reader), the answers of the API, and what the delivery is handed.
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
/** How long content is kept from the time of sending; of mail that is not retained only until it is settled, at most so long. */
export const RETAIN_MS: Readonly<Record<Retain, number>> = { none: 30 * DAY_MS, '7d': 7 * DAY_MS, '30d': 30 * DAY_MS };

/** What the audit log shows of a changed message, and how it is found. */
export const MESSAGE_TRAIL = { table: 'message', shows: ['status', 'send_at', 'next_attempt_at'] };

export function messageColumns({ accountId, mode, messageId }: { accountId: string; mode: Mode; messageId: string }) {
  return { account_id: accountId, mode, id: messageId };
}

/** The kind of work rows that deliver: subject is the message id, ref the email's number. */
export const DELIVERY_WORK = 'delivery';

/** A file that is no part of the stored content: its Base64 lines stand before the byte at `at` when the mail leaves. */
export interface EmailFile {
  /** Offset in the stored content; files at one place follow each other in their order. */
  at: number;
  blobKey: string;
  /** Of the file as it is stored; on the wire it has `base64SizeBytes` of it. */
  sizeBytes: number;
  /** SHA-256 of the file, in hex. */
  sha256: string;
}

/** What the delivery needs to know of an email beside its bytes; stored as JSON. */
export interface EmailOptions {
  /** What the connection must offer: encryption, or also a certificate that is valid for the exchanger. */
  requireTls: boolean | 'verified';
  /** What the recipient's domain asks of connections does not count for this mail: `TLS-Required: No` (RFC 8689 §5). */
  tlsOptional?: true;
  /** An address in the header is not ASCII: the next server must offer SMTPUTF8 (RFC 6531). */
  smtpUtf8: boolean;
  /** The content has bytes above 0x7F: the next server must offer 8BITMIME (RFC 6152). */
  eightBit: boolean;
  /** Lifetime in seconds, counted from the later of acceptance and sendAt. */
  expiresAfterSeconds: number;
  /** Host or name for the Received header, as the submitter showed itself. */
  receivedFrom?: string;
  /** Sandbox: the outcome asked for by X-Sandbox-Outcome. */
  sandboxOutcome?: string;
  /** Uploaded files, in the order in which they stand in the mail; the stored content is everything else. */
  files?: EmailFile[];
}

/** An outcome that the sender of a message is notified of with a delivery report (RFC 3461 §4.1). */
export type ReportKind = 'success' | 'failure' | 'delay';

/** What the submitter of an email asked of its delivery reports; stored as JSON. */
export interface EmailDsn {
  /** ENVID, decoded: shown in events, and returned in reports. */
  envid?: string;
  /** RET: whether a report of a failure returns the entire message. Only its header unless given. */
  ret?: 'full' | 'headers';
}

/** The reports that one message's sender receives; stored as JSON, and only where there are any. */
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
  /** Above 0 while somebody holds the message's work row. */
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

/** Content up to this size stands in the database; larger content is a blob. */
export const INLINE_BYTES = 64 * 1024;

const UNFINISHED_STATUSES: readonly MessageStatus[] = ['scheduled', 'queued', 'sending', 'delayed'];
/** The same as a list within a statement. */
export const UNFINISHED = `(${UNFINISHED_STATUSES.map((status) => `'${status}'`).join(', ')})`;

/** Whether the message will still be tried. */
export function isUnfinished(status: MessageStatus): boolean {
  return UNFINISHED_STATUSES.includes(status);
}

/** The status as it is shown: a message whose work is held by a worker right now is `sending`. */
export function shownStatus({ leased, status }: Pick<MessageRow, 'leased' | 'status'>): MessageStatus {
  return (leased ?? 0) > 0 && isUnfinished(status) ? 'sending' : status;
}

/** A message as `GET /messages` shows it. */
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

/** One message in the hands of the delivery, with all that an attempt needs. */
export interface DeliveryJob {
  seq: number;
  fence: number;
  /** Attempts settled so far; the next one has number attempts + 1. */
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
  /** Sandbox: by how much that clock is ahead of the real time; 0 unless given. */
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
  /** The SHA-256 of `content`, where that was read from the database. */
  contentDigest?: Uint8Array | null;
  blobKey: string | null;
  /** The address has come onto the suppression list since the message was accepted: it does not leave. */
  suppressed?: true;
}

/** What the Reject event says of a message to a suppressed address. */
export const SUPPRESSED = {
  reject: {
    reason: 'suppressed',
    owner: 'recipient',
    advice: 'The address is on the suppression list of this account; remove it there once the recipient agrees.',
    suppressed: true,
  },
};

/** The same where the sandbox plays it: the address is on no list. */
export const SIMULATED_SUPPRESSED = {
  reject: {
    ...SUPPRESSED.reject,
    advice:
      'The sandbox plays an address on the suppression list; nothing has to be removed. Live mail to such an address is not sent.',
  },
};

/** Takes over jobs that were leased while they were made; jobs it has no room for are left to their lease. */
export interface DirectDispatch {
  /** How many jobs and bytes may be handed over right now; asked before the transaction that leases them. */
  hasCapacity(jobs: number, bytes: number): boolean;
  /** `leaseUntilMs`: Unix ms, real time, up to which their leases hold for sure, however long ago they began. */
  dispatch(jobs: DeliveryJob[], leaseUntilMs: number): void;
}

/** One composed email: what several recipients share. Small content stands here, larger content in the blob it names. */
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
});
export type EmailRow = TableRow<typeof EMAIL>;

/** One recipient's copy. */
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

/** One try to deliver a message. */
export const ATTEMPT = table('attempt', {
  accountId: 'text',
  messageId: 'text',
  number: 'int',
  at: 'int',
  record: 'text',
});

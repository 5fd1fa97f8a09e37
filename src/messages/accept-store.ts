/**
 * The transaction of an accepted send: emails, messages, their events, their work, and the idempotency record, all or
 * nothing. Suppressed recipients are recognised here, inside the transaction, so that the answer and the record agree.
 */
import { loadedOnce } from '../base/loaded-once.ts';
import type { Mode } from '../base/mode.ts';
import { isEmbedded, operation } from '../storage/operation.ts';
import { acceptInARow } from './accept-embedded.ts';
import { acceptWire } from './accept-wire.ts';
import type { Retain, Role } from './message.ts';

export interface AcceptedRecipient {
  messageId: string;
  /** Ids for the Send event and, where it comes to that, the Reject event. */
  sendEventId: string;
  rejectEventId: string;
  /** Bare address as it is delivered to and shown. */
  email: string;
  /** Lower-case key of the address for the suppression list. */
  suppressionKey: string;
  role: Role;
  lane: string;
  /** Sandbox: the outcome `suppressed` was asked for; no suppression is looked up then. */
  simulateSuppressed: boolean;
}

export interface AcceptedEmail {
  headerFrom: string;
  /** JSON of what the header shows: `{"to":[…],"cc":[…]}`. */
  headerTo: string;
  envelopeFrom: string;
  subject: string;
  headerMessageId: string;
  tags: string;
  metadata: string;
  /** JSON of EmailOptions. */
  options: string;
  templateId: string | null;
  templateVersion: number | null;
  sizeBytes: number;
  content: Uint8Array | null;
  blobKey: string | null;
  recipients: AcceptedRecipient[];
}

export interface IdempotencyRecord {
  endpoint: string;
  key: string;
  bodyHash: Uint8Array;
  status: number;
  expiresAtMs: number;
}

export interface Acceptance {
  accountId: string;
  mode: Mode;
  source: 'http' | 'smtp';
  /** With sendAtMs and expiresAtMs by the clock of the account's mode. */
  nowMs: number;
  /** Sandbox: by how much that clock was ahead of the real time when it was read; 0 unless given. */
  clockOffsetMs?: number;
  /** Emails that differ per recipient (unsubscribe links) are several; otherwise there is one. */
  emails: AcceptedEmail[];
  retain: Retain;
  /** Real time. */
  contentUntilMs: number;
  sendAtMs: number | null;
  expiresAtMs: number;
  /** The sender as the answer repeats it. */
  from: string;
  idempotency: IdempotencyRecord | null;
  /** Lease for work that the caller's own delivery takes at once; null leaves it to the claims. */
  leaseUntilMs: number | null;
}

export interface RecipientAnswer {
  email: string;
  role: Role;
  status: 'queued' | 'scheduled' | 'suppressed';
  messageId: string;
}

export interface AcceptanceResult {
  /** False: a record with this key exists; nothing was stored. */
  stored: boolean;
  /** The whole answer body as text. */
  answer: string;
  recipients: RecipientAnswer[];
  /** Work rows that were leased to the caller, by message id. */
  leased: { messageId: string; seq: number; emailSeq: number }[];
  /** Blobs of emails that were settled at once and whose content is not to be kept: nothing names them. */
  unkeptBlobKeys: string[];
}

const onPostgres = loadedOnce(() => import('./accept-postgres.ts'));

export const acceptOperation = operation(
  'messages.accept',
  'write',
  async (tx, acceptance: Acceptance): Promise<AcceptanceResult> =>
    isEmbedded(tx) ? acceptInARow(tx, [acceptance])[0]! : (await onPostgres()).acceptAlone(tx, acceptance),
  {
    wire: acceptWire,
    inARow: acceptInARow,
    together: async (tx, calls) => (await onPostgres()).acceptTogether(tx, calls),
  },
);

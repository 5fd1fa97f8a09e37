/**
 * Runs the transaction that accepts sends. It stores emails, messages, events, work, and idempotency records, and stores each send entirely
 * or not at all. Concurrent sends share one transaction: it first reads everything they depend on, then writes all rows, many per
 * statement. Suppressed recipients and quotas are checked inside the transaction, so the response agrees with the stored state.
 */

import type { Mode } from '../base/mode.ts';
import { appendEvents, EVENT, type NewEvent } from '../events/events.ts';
import {
  IDEMPOTENCY,
  type IdempotencyKey,
  type IdempotencyRecord,
  keysInUse,
  keyText,
} from '../idempotency/idempotency.ts';
import { type QuotaReached, readQuotas } from '../limits/limits.ts';
import { domainToAscii } from '../mail/address.ts';
import {
  DELIVERY_WORK,
  type DueReport,
  EMAIL,
  type EmailRow,
  enqueueReports,
  MESSAGE,
  type Retain,
  type Role,
  SIMULATED_SUPPRESSED,
  SUPPRESSED,
} from '../messages/messages.ts';
import { SANDBOX_ITEM } from '../sandbox/sandbox.ts';
import { digestOfContent } from '../storage/blobs/stored-content.ts';
import { batch, list, nullable, record, serverTime, type Transaction } from '../storage/operation.ts';
import { insertMany, type TableRow, takeNumbers, withoutColumns } from '../storage/rows.ts';
import { type ListedAddress, suppressedUntil } from '../suppressions/suppressions.ts';
import { clockOffsets, enqueue, type NewWork, WORK } from '../work/work.ts';

export interface AcceptedRecipient {
  messageId: string;
  /** Ids for the Send event and, if needed, the Reject event. */
  sendEventId: string;
  rejectEventId: string;
  /** Bare address, as used for delivery and as displayed. */
  email: string;
  /** Lower-case address, as the suppression list compares it. */
  suppressionKey: string;
  /** Keyed hash of the address, which is how the list stores the addresses of erased recipients. */
  addressHash: string;
  role: Role;
  lane: string;
  /** Set in the sandbox if the outcome `suppressed` was requested. The suppression list is then not consulted. */
  simulateSuppressed: boolean;
  /** JSON of MessageDsn: the delivery reports that the sender receives. */
  dsn: string | null;
}

/** Columns of an email that come from its acceptance. */
const ACCEPTANCE_COLUMNS = [
  'seq',
  'accountId',
  'mode',
  'source',
  'createdAt',
  'retain',
  'contentUntil',
  'contentDigest',
] as const;

/**
 * `headerTo` is JSON of the addresses in the header, `{"to":[…],"cc":[…]}`; `options` is JSON of EmailOptions. Every caller sets every
 * column, so a new column does not compile until all of them do.
 */
export interface AcceptedEmail extends Required<Omit<EmailRow, (typeof ACCEPTANCE_COLUMNS)[number]>> {
  content: Uint8Array | null;
  blobKey: string | null;
  recipients: AcceptedRecipient[];
}

export interface Acceptance {
  accountId: string;
  mode: Mode;
  source: 'http' | 'smtp';
  /** Time by the clock of the account's mode; sendAtMs and expiresAtMs use the same clock. */
  nowMs: number;
  /** In the sandbox, how far the clock of `nowMs` was ahead of real time when it was read; otherwise 0. */
  clockOffsetMs: number;
  /** Several emails if they differ for each recipient, for example by unsubscribe links; otherwise one. */
  emails: AcceptedEmail[];
  retain: Retain;
  /** When the content may be deleted, in real time. */
  contentUntilMs: number;
  sendAtMs: number | null;
  expiresAtMs: number;
  /** The sender in the form that the response contains. */
  from: string;
  idempotency: IdempotencyRecord | null;
  /** End of the lease if the caller's own process delivers immediately; null leaves the work for any process to claim. */
  leaseUntilMs: number | null;
}

interface RecipientAnswer {
  email: string;
  role: Role;
  status: 'queued' | 'scheduled' | 'suppressed';
  messageId: string;
}

export interface AcceptanceResult {
  /** False if nothing was stored, because a record with this key exists or a quota is exceeded. */
  stored: boolean;
  /** The quota that the send would exceed. */
  quota?: QuotaReached | undefined;
  /** The complete response body as text. */
  answer: string;
  recipients: RecipientAnswer[];
  /** Work rows that are leased to the caller, by message id. */
  leased: { messageId: string; seq: number; emailSeq: number }[];
  /** Blobs of emails that were finished immediately and whose content is not kept; no row refers to them. */
  unkeptBlobKeys: string[];
}

/** Encodes an acceptance compactly, because it is the most frequent message to the storage thread. */
export const acceptanceCodec = record<Acceptance>({
  accountId: 'text',
  mode: 'text',
  source: 'text',
  nowMs: 'int',
  clockOffsetMs: 'int',
  emails: list(
    record<AcceptedEmail>({
      ...withoutColumns(EMAIL.columns, ACCEPTANCE_COLUMNS),
      recipients: list(
        record<AcceptedRecipient>({
          messageId: 'text',
          sendEventId: 'text',
          rejectEventId: 'text',
          email: 'text',
          suppressionKey: 'text',
          addressHash: 'text',
          role: 'text',
          lane: 'text',
          simulateSuppressed: 'json',
          dsn: 'text?',
        }),
      ),
    }),
  ),
  retain: 'text',
  contentUntilMs: 'int',
  sendAtMs: 'int?',
  expiresAtMs: 'int',
  from: 'text',
  idempotency: nullable(
    record<IdempotencyRecord>({
      endpoint: 'text',
      key: 'text',
      bodyHash: 'bytes',
      status: 'int',
      expiresAtMs: 'int',
    }),
  ),
  leaseUntilMs: 'int?',
});

export const acceptOperation = batch('send.accept', 'write', acceptMany, { codec: acceptanceCodec });

/** Stores one send within the transaction of another operation. */
export async function acceptWithin(tx: Transaction, call: Acceptance): Promise<AcceptanceResult> {
  return (await acceptMany(tx, [call]))[0]!;
}

/** Returns the queue lane of a message: one per account and domain, and one for the account's sandbox. Lanes are served in rotation. */
export function laneOf({ accountId, mode }: { accountId: string; mode: Mode }, domain: string): string {
  return `${accountId}/${mode === 'sandbox' ? 'sandbox' : (domainToAscii(domain) ?? domain)}`;
}

/** Returns the real time of acceptance; the clock of a sandbox may be ahead of it. */
function realNowMs({ nowMs, clockOffsetMs }: Acceptance): number {
  return nowMs - clockOffsetMs;
}

const countCopies = (emails: readonly AcceptedEmail[]): number =>
  emails.reduce((sum, email) => sum + email.recipients.length, 0);

async function acceptMany(tx: Transaction, calls: readonly Acceptance[]): Promise<AcceptanceResult[]> {
  const emails = calls.flatMap((call) => call.emails);
  const copies = countCopies(emails);
  const keys = calls.flatMap((call) => keyOf(call) ?? []);
  const [quotas, suppressed, inUse, offsetOf, serverMs, [emailSeqs, workSeqs, eventSeqs]] = await Promise.all([
    readQuotas(tx, calls),
    suppressedUntil(tx, calls.flatMap(addressesOf)),
    keysInUse(tx, keys, Math.max(...calls.map(realNowMs))),
    clockOffsets(tx, calls),
    calls.some((call) => call.leaseUntilMs !== null) ? serverTime(tx) : undefined,
    takeNumbers(tx, [EMAIL, emails.length], [WORK, copies], [EVENT, 2 * copies]),
  ]);
  const rows: Rows = {
    emails: [],
    messages: [],
    work: [],
    workSeqs: [],
    events: [],
    items: [],
    records: [],
    reports: [],
  };
  let email = 0;
  let work = 0;
  const results = calls.map((call): AcceptanceResult => {
    const key = keyOf(call);
    const text = key && keyText(key);
    if (text !== undefined && inUse.has(text)) return notStored();
    const quota = quotas.take({ ...call, messages: countCopies(call.emails) });
    if (quota !== undefined) return { ...notStored(), quota };
    if (text !== undefined) inUse.add(text);
    return addRows(call, rows, {
      nextEmailSeq: () => emailSeqs![email++]!,
      nextWorkSeq: () => workSeqs![work++]!,
      isSuppressed: (address) => suppressed(address) > realNowMs(call),
      clockOffsetMs: offsetOf(call),
      nowMs: serverMs ?? realNowMs(call),
    });
  });
  await Promise.all([
    quotas.write(),
    insertMany(tx, EMAIL, rows.emails),
    insertMany(tx, MESSAGE, rows.messages),
    enqueue(tx, rows.work, rows.workSeqs),
    appendEvents(tx, rows.events, eventSeqs),
    insertMany(tx, SANDBOX_ITEM, rows.items),
    insertMany(tx, IDEMPOTENCY, rows.records),
    enqueueReports(
      tx,
      rows.reports.map(({ eventIndex, ...report }) => ({ ...report, eventSeq: eventSeqs![eventIndex]! })),
    ),
  ]);
  return results;
}

function keyOf({ accountId, mode, idempotency }: Acceptance): IdempotencyKey | undefined {
  return idempotency ? { accountId, mode, endpoint: idempotency.endpoint, key: idempotency.key } : undefined;
}

function addressesOf({ accountId, mode, emails }: Acceptance): ListedAddress[] {
  return emails.flatMap(({ recipients }) =>
    recipients.flatMap(({ simulateSuppressed, suppressionKey: email, addressHash }) =>
      simulateSuppressed ? [] : [{ accountId, mode, email, addressHash }],
    ),
  );
}

/** The rows that one group of acceptances writes. */
interface Rows {
  emails: EmailRow[];
  messages: TableRow<typeof MESSAGE>[];
  work: NewWork[];
  workSeqs: number[];
  events: NewEvent[];
  items: TableRow<typeof SANDBOX_ITEM>[];
  records: TableRow<typeof IDEMPOTENCY>[];
  /** Reports for suppressed recipients; `eventIndex` is the index in `events`. */
  reports: (Omit<DueReport, 'eventSeq'> & { eventIndex: number })[];
}

/** Values that an acceptance needs from the database. */
interface AcceptanceContext {
  nextEmailSeq(): number;
  nextWorkSeq(): number;
  isSuppressed(address: ListedAddress): boolean;
  /** How far the clock of the mode is ahead of real time now. */
  clockOffsetMs: number;
  /** Real time by the clock that leases use. */
  nowMs: number;
}

/** Returns the result for a send that was not stored. */
export function notStored(): AcceptanceResult {
  return { stored: false, answer: '', recipients: [], leased: [], unkeptBlobKeys: [] };
}

function addRows(call: Acceptance, rows: Rows, context: AcceptanceContext): AcceptanceResult {
  const { accountId, mode, source, retain } = call;
  const result: AcceptanceResult = { stored: true, answer: '', recipients: [], leased: [], unkeptBlobKeys: [] };
  let firstEmailSeq: number | null = null;
  for (const email of call.emails) {
    const seq = context.nextEmailSeq();
    firstEmailSeq ??= seq;
    let isKept = retain !== 'none';
    for (const recipient of email.recipients) {
      const { simulateSuppressed, suppressionKey } = recipient;
      const isSuppressed = simulateSuppressed || context.isSuppressed({ accountId, mode, email: suppressionKey });
      if (!isSuppressed) isKept = true;
      addMessage({ call, recipient, emailSeq: seq, isSuppressed }, { rows, context, result });
    }
    // With retain none, the content is not stored if every message is already finished.
    const kept = isKept
      ? { contentUntil: call.contentUntilMs, contentDigest: email.content && digestOfContent(email.content) }
      : { contentUntil: null, contentDigest: null, content: null, blobKey: null };
    if (!isKept && email.blobKey !== null) result.unkeptBlobKeys.push(email.blobKey);
    rows.emails.push({ ...email, seq, accountId, mode, source, createdAt: realNowMs(call), retain, ...kept });
  }
  result.answer = sendAnswer(call, result.recipients);
  if (call.idempotency) {
    const { expiresAtMs, ...record } = call.idempotency;
    const own = { accountId, mode, body: result.answer, emailSeq: firstEmailSeq };
    rows.records.push({ ...record, ...own, createdAt: realNowMs(call), expiresAt: expiresAtMs });
  }
  return result;
}

interface NewMessage {
  call: Acceptance;
  recipient: AcceptedRecipient;
  emailSeq: number;
  isSuppressed: boolean;
}

/** Adds the message for one recipient: its first status, its due time, and the first events of its timeline. */
function addMessage(
  { call, recipient, emailSeq, isSuppressed }: NewMessage,
  { rows, context, result }: { rows: Rows; context: AcceptanceContext; result: AcceptanceResult },
): void {
  const { accountId, mode, nowMs, sendAtMs, leaseUntilMs } = call;
  const { messageId, role } = recipient;
  const status = isSuppressed ? 'suppressed' : sendAtMs === null ? 'queued' : 'scheduled';
  /** By the clock of the mode; a suppressed message is never due. */
  const dueMs = isSuppressed ? null : (sendAtMs ?? nowMs);
  const workSeq = dueMs === null ? null : context.nextWorkSeq();
  rows.messages.push({
    accountId,
    mode,
    id: messageId,
    emailSeq,
    recipient: recipient.email,
    role,
    status,
    attempts: 0,
    workSeq,
    sendAt: sendAtMs,
    nextAttemptAt: dueMs,
    expiresAt: call.expiresAtMs,
    createdAt: nowMs,
    updatedAt: nowMs,
    dsn: recipient.dsn,
  });
  const event = { accountId, mode, messageId };
  rows.events.push({ ...event, id: recipient.sendEventId, at: nowMs, type: 'Send', detail: {} });
  if (isSuppressed) {
    const detail = recipient.simulateSuppressed ? SIMULATED_SUPPRESSED : SUPPRESSED;
    const eventIndex = rows.events.length;
    rows.events.push({ ...event, id: recipient.rejectEventId, at: nowMs + 1, type: 'Reject', detail });
    const { dsn } = recipient;
    if (dsn !== null && mode === 'live') {
      rows.reports.push({ accountId, messageId, type: 'Reject', detail, atMs: nowMs + 1, dsn, eventIndex });
    }
  }
  if (mode === 'sandbox') {
    const outcome = isSuppressed ? 'Suppressed' : null;
    rows.items.push({ accountId, messageId, emailSeq, recipient: recipient.email, outcome, createdAt: nowMs });
  }
  result.recipients.push({ email: recipient.email, role, status, messageId });
  if (workSeq === null) return;
  const isLeased = status === 'queued' && leaseUntilMs !== null;
  rows.workSeqs.push(workSeq);
  rows.work.push({
    kind: DELIVERY_WORK,
    accountId,
    mode,
    subject: messageId,
    ref: emailSeq,
    lane: recipient.lane,
    isLeased,
    dueMs: isLeased ? context.nowMs + leaseUntilMs - nowMs : dueMs! - context.clockOffsetMs,
  });
  if (isLeased) result.leased.push({ messageId, seq: workSeq, emailSeq });
}

/** Returns the response of POST /send as JSON. Recipients are in the given order: to, cc, bcc. */
function sendAnswer({ from, emails }: Acceptance, recipients: RecipientAnswer[]): string {
  const status =
    (['queued', 'scheduled'] as const).find((one) => recipients.some((recipient) => recipient.status === one)) ??
    'suppressed';
  return JSON.stringify({
    success: true,
    data: {
      message: status,
      messageId: recipients[0]?.messageId,
      headerMessageId: emails[0]?.headerMessageId,
      from,
      status,
      totalRecipients: recipients.length,
      recipients,
    },
  });
}

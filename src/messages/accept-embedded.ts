/**
 * Acceptances of one commit group on the embedded database: what has to be known of all of them, then all rows, many in a
 * statement. What is looked up holds for the whole of the call, since nothing else runs in between.
 */
import { appendRows } from '../events/events.ts';
import { insertRows, rowsOf } from '../storage/insert-rows.ts';
import type { EmbeddedTransaction } from '../storage/operation.ts';
import { embeddedClockOffsetOf, enqueueRows, nextWorkSeq } from '../work/work.ts';
import {
  type CopyInsert,
  type EmailInsert,
  makeRows,
  noRows,
  notStored,
  type RecordInsert,
  realNowMs,
  recordKey,
} from './accept-rows.ts';
import type { Acceptance, AcceptanceResult, IdempotencyRecord } from './accept-store.ts';
import { isStillOwedHere } from './kept-answer.ts';

const EMAILS = rowsOf(
  'email',
  `seq, account_id, mode, source, header_from, header_to, envelope_from, subject, header_message_id, tags, metadata, options,
   template_id, template_version, size_bytes, content, blob_key, created_at, retain, content_until`,
  '?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?',
);
const MESSAGES = rowsOf(
  'message',
  `account_id, mode, id, email_seq, recipient, role, status, attempts, work_seq, send_at, next_attempt_at, expires_at,
   created_at, updated_at`,
  '?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?',
);
const ITEMS = rowsOf(
  'sandbox_item',
  'account_id, message_id, email_seq, recipient, outcome, created_at',
  '?, ?, ?, ?, ?, ?',
);
const RECORDS = rowsOf(
  'idempotency',
  'account_id, mode, endpoint, key, body_hash, status, body, email_seq, created_at, expires_at',
  '?, ?, ?, ?, ?, ?, ?, ?, ?, ?',
);

export function acceptInARow(tx: EmbeddedTransaction, calls: readonly Acceptance[]): AcceptanceResult[] {
  const rows = noRows();
  const suppressedUntilMs = suppressions(tx);
  const nextEmailSeq = counted(
    () => (tx.get<{ seq: number | null }>('SELECT max(seq) AS seq FROM email')?.seq ?? 0) + 1,
  );
  const nextWork = counted(() => nextWorkSeq(tx));
  const taken = new Set<string>();
  const results = calls.map((call): AcceptanceResult => {
    const key = recordKey(call);
    if (key !== undefined) {
      if (taken.has(key) || recordExists(tx, call, call.idempotency!)) return notStored();
      taken.add(key);
    }
    const clockOffsetMs = embeddedClockOffsetOf(tx, call);
    return makeRows(call, { rows, nextEmailSeq, nextWorkSeq: nextWork, suppressedUntilMs, clockOffsetMs });
  });
  insertRows(tx, EMAILS, rows.emails.map(emailRow));
  insertRows(tx, MESSAGES, rows.copies.map(messageRow));
  enqueueRows(tx, rows.work, rows.workSeqs);
  appendRows(tx, rows.events);
  insertRows(tx, ITEMS, rows.copies.filter((copy) => copy.acceptance.mode === 'sandbox').map(itemRow));
  insertRows(tx, RECORDS, rows.records.map(recordOf));
  return results;
}

/** One number after the other; the first is asked for when it is needed. */
function counted(first: () => number): () => number {
  let next: number | undefined;
  return () => {
    next = next === undefined ? first() : next + 1;
    return next;
  };
}

/** Most accounts suppress nobody at most times, and need one look for all of their recipients. */
function suppressions(tx: EmbeddedTransaction): (call: Acceptance, suppressionKey: string) => number {
  const hasAny = new Map<string, boolean>();
  return ({ accountId, mode }, suppressionKey) => {
    const owner = `${accountId} ${mode}`;
    let any = hasAny.get(owner);
    if (any === undefined) {
      any =
        tx.get('SELECT 1 AS found FROM suppression WHERE account_id = ? AND mode = ? LIMIT 1', accountId, mode) !==
        undefined;
      hasAny.set(owner, any);
    }
    if (!any) return 0;
    const row = tx.get<{ expires_at: number | null }>(
      'SELECT expires_at FROM suppression WHERE account_id = ? AND mode = ? AND email = ?',
      accountId,
      mode,
      suppressionKey,
    );
    return row === undefined ? 0 : (row.expires_at ?? Number.POSITIVE_INFINITY);
  };
}

/** A record past its time no longer counts once its messages are settled; it makes way for the new one then. */
function recordExists(tx: EmbeddedTransaction, call: Acceptance, record: IdempotencyRecord): boolean {
  const { accountId, mode } = call;
  const place = [accountId, mode, record.endpoint, record.key];
  const row = tx.get<{ body: string; expires_at: number }>(
    'SELECT body, expires_at FROM idempotency WHERE account_id = ? AND mode = ? AND endpoint = ? AND key = ?',
    ...place,
  );
  if (row === undefined) return false;
  if (row.expires_at > realNowMs(call) || isStillOwedHere(tx, { accountId, mode, body: row.body })) return true;
  tx.run('DELETE FROM idempotency WHERE account_id = ? AND mode = ? AND endpoint = ? AND key = ?', ...place);
  return false;
}

function emailRow({ acceptance, email, seq, isKept }: EmailInsert) {
  return [
    seq,
    acceptance.accountId,
    acceptance.mode,
    acceptance.source,
    email.headerFrom,
    email.headerTo,
    email.envelopeFrom,
    email.subject,
    email.headerMessageId,
    email.tags,
    email.metadata,
    email.options,
    email.templateId,
    email.templateVersion,
    email.sizeBytes,
    isKept ? email.content : null,
    isKept ? email.blobKey : null,
    realNowMs(acceptance),
    acceptance.retain,
    isKept ? acceptance.contentUntilMs : null,
  ];
}

function messageRow({ acceptance, recipient, emailSeq, workSeq, status, dueMs }: CopyInsert) {
  return [
    acceptance.accountId,
    acceptance.mode,
    recipient.messageId,
    emailSeq,
    recipient.email,
    recipient.role,
    status,
    workSeq,
    acceptance.sendAtMs,
    dueMs,
    acceptance.expiresAtMs,
    acceptance.nowMs,
    acceptance.nowMs,
  ];
}

function itemRow({ acceptance, recipient, emailSeq, status }: CopyInsert) {
  return [
    acceptance.accountId,
    recipient.messageId,
    emailSeq,
    recipient.email,
    status === 'suppressed' ? 'Suppressed' : null,
    acceptance.nowMs,
  ];
}

function recordOf({ acceptance, emailSeq, answer }: RecordInsert) {
  const record = acceptance.idempotency!;
  return [
    acceptance.accountId,
    acceptance.mode,
    record.endpoint,
    record.key,
    record.bodyHash,
    record.status,
    answer,
    emailSeq,
    realNowMs(acceptance),
    record.expiresAtMs,
  ];
}

/**
 * Acceptances that wait at the same moment, as one transaction of PostgreSQL in two round trips: what has to be known of
 * all of them, then all rows with the commit. Decides what `messages.accept` decides; a key that somebody else is using at
 * this moment, or that is past its time, makes each be accepted alone.
 */
import { appendMany } from '../events/events.ts';
import type { Transaction } from '../storage/operation.ts';
import { bigintArray, bytesArray, textArray } from '../storage/postgres-arrays.ts';
import { enqueueMany, lockedClockOffsetsOf } from '../work/work.ts';
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
import { isStillOwed } from './kept-answer.ts';

const addressKey = (acceptance: Acceptance, email: string): string =>
  `${acceptance.accountId} ${acceptance.mode} ${email}`;

export async function acceptTogether(tx: Transaction, calls: readonly Acceptance[]): Promise<AcceptanceResult[]> {
  const emails = calls.flatMap((call) => call.emails);
  const copies = emails.reduce((sum, email) => sum + email.recipients.length, 0);
  const [suppressedUntil, taken, clockOffsetOf, numbers] = await Promise.all([
    readSuppressions(tx, calls),
    readRecords(tx, calls),
    lockedClockOffsetsOf(tx, calls),
    tx.all<{ seq: number }>(
      'SELECT time_seq() AS seq FROM generate_series(1, CAST(? AS INTEGER))',
      emails.length + copies,
    ),
  ]);
  const rows = noRows();
  let used = 0;
  const nextSeq = (): number => numbers[used++]!.seq;
  const suppressedUntilMs = (call: Acceptance, email: string): number =>
    suppressedUntil.get(addressKey(call, email)) ?? 0;
  const results = calls.map((call): AcceptanceResult => {
    const key = recordKey(call);
    if (key !== undefined && taken.has(key)) return notStored();
    if (key !== undefined) taken.add(key);
    const clockOffsetMs = clockOffsetOf(call);
    return makeRows(call, { rows, nextEmailSeq: nextSeq, nextWorkSeq: nextSeq, suppressedUntilMs, clockOffsetMs });
  });
  insertEmails(tx, rows.emails);
  insertMessages(tx, rows.copies);
  if (rows.work.length > 0) void enqueueMany(tx, { rows: rows.work, numbers: rows.workSeqs });
  appendMany(tx, rows.events);
  insertSandboxItems(
    tx,
    rows.copies.filter((copy) => copy.acceptance.mode === 'sandbox'),
  );
  insertRecords(tx, rows.records);
  return results;
}

/** One acceptance whose key may be past its time: its record makes way for the new one once its messages are settled. */
export async function acceptAlone(tx: Transaction, call: Acceptance): Promise<AcceptanceResult> {
  if (call.idempotency && (await recordExists(tx, call, call.idempotency))) return notStored();
  return (await acceptTogether(tx, [call]))[0]!;
}

async function recordExists(tx: Transaction, call: Acceptance, record: IdempotencyRecord): Promise<boolean> {
  const { accountId, mode } = call;
  const place = [accountId, mode, record.endpoint, record.key];
  const row = await tx.get<{ body: string; expires_at: number }>(
    'SELECT body, expires_at FROM idempotency WHERE account_id = ? AND mode = ? AND endpoint = ? AND key = ?',
    ...place,
  );
  if (row === undefined) return false;
  if (row.expires_at > realNowMs(call) || (await isStillOwed(tx, { accountId, mode, body: row.body }))) return true;
  await tx.run('DELETE FROM idempotency WHERE account_id = ? AND mode = ? AND endpoint = ? AND key = ?', ...place);
  return false;
}

async function readSuppressions(tx: Transaction, calls: readonly Acceptance[]): Promise<Map<string, number>> {
  const asked = calls.flatMap((call) =>
    call.emails.flatMap((email) =>
      email.recipients.flatMap((one) => (one.simulateSuppressed ? [] : [{ call, email: one.suppressionKey }])),
    ),
  );
  const rows = await tx.all<{ account_id: string; mode: string; email: string; expires_at: number | null }>(
    `SELECT s.account_id, s.mode, s.email, s.expires_at
     FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[])) AS asked (account_id, mode, email)
       JOIN suppression s ON s.account_id = asked.account_id AND s.mode = asked.mode AND s.email = asked.email`,
    textArray(asked.map((one) => one.call.accountId)),
    textArray(asked.map((one) => one.call.mode)),
    textArray(asked.map((one) => one.email)),
  );
  return new Map(
    rows.map((row) => [`${row.account_id} ${row.mode} ${row.email}`, row.expires_at ?? Number.POSITIVE_INFINITY]),
  );
}

/** Keys that stand for an acceptance already. */
async function readRecords(tx: Transaction, calls: readonly Acceptance[]): Promise<Set<string>> {
  const keyed = calls.filter((call) => call.idempotency !== null);
  if (keyed.length === 0) return new Set();
  const rows = await tx.all<{ account_id: string; mode: string; endpoint: string; key: string; expires_at: number }>(
    `SELECT i.account_id, i.mode, i.endpoint, i.key, i.expires_at
     FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]))
         AS asked (account_id, mode, endpoint, key)
       JOIN idempotency i ON i.account_id = asked.account_id AND i.mode = asked.mode AND i.endpoint = asked.endpoint
         AND i.key = asked.key`,
    textArray(keyed.map((call) => call.accountId)),
    textArray(keyed.map((call) => call.mode)),
    textArray(keyed.map((call) => call.idempotency!.endpoint)),
    textArray(keyed.map((call) => call.idempotency!.key)),
  );
  const latestMs = Math.max(...keyed.map(realNowMs));
  if (rows.some((row) => row.expires_at <= latestMs)) {
    throw new Error('an idempotency record is past its time: whether it still counts is found out for each acceptance');
  }
  return new Set(rows.map((row) => JSON.stringify([row.account_id, row.mode, row.endpoint, row.key])));
}

function insertEmails(tx: Transaction, rows: EmailInsert[]): void {
  if (rows.length === 0) return;
  const texts = (pick: (row: EmailInsert) => string | null): Uint8Array => textArray(rows.map(pick));
  const numbers = (pick: (row: EmailInsert) => number | null): Uint8Array => bigintArray(rows.map(pick));
  void tx.run(
    `INSERT INTO email (seq, account_id, mode, source, header_from, header_to, envelope_from, subject, header_message_id,
       tags, metadata, options, template_id, template_version, size_bytes, content, blob_key, created_at, retain,
       content_until)
     SELECT * FROM unnest(CAST(? AS BIGINT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]),
       CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]),
       CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BYTEA[]), CAST(? AS TEXT[]),
       CAST(? AS BIGINT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]))`,
    numbers((row) => row.seq),
    texts((row) => row.acceptance.accountId),
    texts((row) => row.acceptance.mode),
    texts((row) => row.acceptance.source),
    texts((row) => row.email.headerFrom),
    texts((row) => row.email.headerTo),
    texts((row) => row.email.envelopeFrom),
    texts((row) => row.email.subject),
    texts((row) => row.email.headerMessageId),
    texts((row) => row.email.tags),
    texts((row) => row.email.metadata),
    texts((row) => row.email.options),
    texts((row) => row.email.templateId),
    numbers((row) => row.email.templateVersion),
    numbers((row) => row.email.sizeBytes),
    bytesArray(rows.map((row) => (row.isKept ? row.email.content : null))),
    texts((row) => (row.isKept ? row.email.blobKey : null)),
    numbers((row) => realNowMs(row.acceptance)),
    texts((row) => row.acceptance.retain),
    numbers((row) => (row.isKept ? row.acceptance.contentUntilMs : null)),
  );
}

function insertMessages(tx: Transaction, rows: CopyInsert[]): void {
  if (rows.length === 0) return;
  const texts = (pick: (row: CopyInsert) => string): Uint8Array => textArray(rows.map(pick));
  const numbers = (pick: (row: CopyInsert) => number | null): Uint8Array => bigintArray(rows.map(pick));
  void tx.run(
    `INSERT INTO message (account_id, mode, id, email_seq, recipient, role, status, attempts, work_seq, send_at,
       next_attempt_at, expires_at, created_at, updated_at)
     SELECT account_id, mode, id, email_seq, recipient, role, status, 0, work_seq, send_at, due, expires_at, at, at
     FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS TEXT[]),
         CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]),
         CAST(? AS BIGINT[]), CAST(? AS BIGINT[]))
       AS new (account_id, mode, id, email_seq, recipient, role, status, work_seq, send_at, due, expires_at, at)`,
    texts((row) => row.acceptance.accountId),
    texts((row) => row.acceptance.mode),
    texts((row) => row.recipient.messageId),
    numbers((row) => row.emailSeq),
    texts((row) => row.recipient.email),
    texts((row) => row.recipient.role),
    texts((row) => row.status),
    numbers((row) => row.workSeq),
    numbers((row) => row.acceptance.sendAtMs),
    numbers((row) => row.dueMs),
    numbers((row) => row.acceptance.expiresAtMs),
    numbers((row) => row.acceptance.nowMs),
  );
}

function insertSandboxItems(tx: Transaction, rows: CopyInsert[]): void {
  if (rows.length === 0) return;
  void tx.run(
    `INSERT INTO sandbox_item (account_id, message_id, email_seq, recipient, outcome, created_at)
     SELECT * FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]),
       CAST(? AS BIGINT[]))`,
    textArray(rows.map((row) => row.acceptance.accountId)),
    textArray(rows.map((row) => row.recipient.messageId)),
    bigintArray(rows.map((row) => row.emailSeq)),
    textArray(rows.map((row) => row.recipient.email)),
    textArray(rows.map((row) => (row.status === 'suppressed' ? 'Suppressed' : null))),
    bigintArray(rows.map((row) => row.acceptance.nowMs)),
  );
}

function insertRecords(tx: Transaction, rows: RecordInsert[]): void {
  if (rows.length === 0) return;
  const records = rows.map((row) => ({ ...row, record: row.acceptance.idempotency! }));
  void tx.run(
    `INSERT INTO idempotency (account_id, mode, endpoint, key, body_hash, status, body, email_seq, created_at, expires_at)
     SELECT * FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS BYTEA[]),
       CAST(? AS BIGINT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]))`,
    textArray(records.map((row) => row.acceptance.accountId)),
    textArray(records.map((row) => row.acceptance.mode)),
    textArray(records.map((row) => row.record.endpoint)),
    textArray(records.map((row) => row.record.key)),
    bytesArray(records.map((row) => row.record.bodyHash)),
    bigintArray(records.map((row) => row.record.status)),
    textArray(records.map((row) => row.answer)),
    bigintArray(records.map((row) => row.emailSeq)),
    bigintArray(records.map((row) => realNowMs(row.acceptance))),
    bigintArray(records.map((row) => row.record.expiresAtMs)),
  );
}

/**
 * Claiming and settling on PostgreSQL: what the operations of delivery-store.ts do, in few statements of many rows. A claim
 * is one round trip and the commit; any number of settles that wait at the same moment are three.
 */
import { appendEvents, type NewEvent } from '../events/events.ts';
import { sameAddressKey } from '../mail/address.ts';
import { locked, type Transaction } from '../storage/operation.ts';
import { bigintArray, textArray } from '../storage/postgres/arrays.ts';
import { suppress } from '../suppressions/suppressions.ts';
import * as queue from '../work/work.ts';
import type { Claimed, ClaimRequest, Settlement, SettleResult } from './delivery-store.ts';
import { dropFiles } from './file-store.ts';
import { type JobRow, jobOf } from './job-row.ts';
import { DELIVERY_WORK, type DeliveryJob } from './message.ts';
import { bouncedAddresses, giveBackSuspended } from './settle-store.ts';
import { transitionMany } from './state-machine.ts';

type ClaimedRow = queue.Work &
  Omit<JobRow, 'status'> & { status: JobRow['status'] | null; account_status: string | null };

type WholeRow = queue.Work & JobRow & { account_status: string | null };

export async function claimJobs(tx: Transaction, request: ClaimRequest): Promise<Claimed> {
  const statements = queue.claimStatements('postgres', { kind: DELIVERY_WORK, ...request });
  const claimed = await Promise.all(
    statements.map(({ sql, params }) =>
      tx.all<ClaimedRow>(
        `WITH claimed AS (${sql})
         SELECT c.*, m.status, m.recipient, m.created_at, m.expires_at, e.envelope_from, e.header_from,
           e.header_message_id, e.size_bytes, e.options, e.retain, e.source, e.content, e.blob_key,
           a.status AS account_status,
           CASE WHEN c.mode = 'sandbox' THEN
             (SELECT ahead_ms FROM sandbox_clock s WHERE s.account_id = c.account_id) END AS ahead_ms
         FROM claimed c
           LEFT JOIN message m ON m.account_id = c.account_id AND m.mode = c.mode AND m.id = c.subject
           LEFT JOIN email e ON e.seq = m.email_seq
           LEFT JOIN account a ON a.id = c.account_id`,
        ...params,
      ),
    ),
  );
  const rows = claimed.flat().sort((a, b) => a.seq - b.seq);
  const existing = rows.filter((row): row is WholeRow => row.status !== null && row.envelope_from !== null);
  const isHeldBack = (row: WholeRow): boolean =>
    row.mode === 'live' && row.account_status === 'suspended' && row.expires_at > request.nowMs;
  const heldBack = existing.filter(isHeldBack).map((work) => ({ work, expiresAt: work.expires_at }));
  await giveBackSuspended(tx, heldBack, request.nowMs);
  const whole = existing.filter((row) => !isHeldBack(row));
  const suppressed = await suppressedAmong(tx, whole, request.nowMs);
  // Both are written and removed together; a row that lost its message all the same must not stop the claims.
  for (const row of rows) if (!existing.includes(row as WholeRow)) await queue.finish(tx, row);
  const jobs = whole.map(
    (row): DeliveryJob => (suppressed.has(row.seq) ? { ...jobOf(row, row), suppressed: true } : jobOf(row, row)),
  );
  return { jobs, taken: rows.length };
}

/** Numbers of the rows whose address is on the list now. */
async function suppressedAmong(
  tx: Transaction,
  rows: readonly (queue.Work & JobRow)[],
  nowMs: number,
): Promise<ReadonlySet<number>> {
  if (rows.length === 0) return new Set();
  const found = await tx.all<{ seq: number }>(
    `SELECT job.seq FROM unnest(CAST(? AS BIGINT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[]))
         AS job (seq, account_id, mode, email)
       JOIN suppression s ON s.account_id = job.account_id AND s.mode = job.mode AND s.email = job.email
     WHERE s.expires_at IS NULL OR s.expires_at > ?`,
    bigintArray(rows.map((row) => row.seq)),
    textArray(rows.map((row) => row.account_id)),
    textArray(rows.map((row) => row.mode)),
    textArray(rows.map((row) => sameAddressKey(row.recipient))),
    nowMs,
  );
  return new Set(found.map((row) => row.seq));
}

/** Settles the lists of several calls; throws, and settles nothing, when a message is in no state that allows it. */
export async function settleTogether(tx: Transaction, calls: readonly Settlement[][]): Promise<SettleResult[]> {
  const given = calls.flat();
  const kept = await endLeases(tx, given);
  const settled = given.filter((one) => kept.has(one));
  const changedAtMs = await transitionMany(tx, settled);
  const events: NewEvent[] = [];
  for (const one of settled) {
    const at = changedAtMs.get(one.messageId);
    if (at === undefined) throw new Error(`message ${one.messageId} cannot become ${one.to}`);
    const { accountId, mode, messageId } = one;
    if (one.event) events.push({ ...one.event, accountId, mode, messageId, at });
  }
  const followed = settled.flatMap(({ followedBy, ...one }) =>
    followedBy ? [{ ...one, to: followedBy.to, attempts: null, nextAttemptAtMs: null, event: followedBy.event }] : [],
  );
  const followedAtMs = followed.length === 0 ? new Map() : await transitionMany(tx, followed);
  for (const { accountId, mode, messageId, event } of followed) {
    const at = followedAtMs.get(messageId);
    if (at !== undefined) events.push({ ...event, accountId, mode, messageId, at });
  }
  await appendEvents(tx, events);
  insertAttempts(tx, settled);
  recordSandboxOutcomes(tx, settled);
  const [blobs] = await Promise.all([dropContents(tx, settled), suppress(tx, bouncedAddresses(settled))]);
  return calls.map((call) => {
    const numbers = new Set(call.filter((one) => kept.has(one)).map((one) => one.emailSeq));
    const blobKeys: string[] = [];
    for (const [emailSeq, keys] of blobs) {
      // Each blob is told of once, though several calls may have settled copies of its email.
      if (!numbers.has(emailSeq)) continue;
      blobKeys.push(...keys);
      blobs.delete(emailSeq);
    }
    return { lost: call.filter((one) => !kept.has(one)).map((one) => one.seq), blobKeys };
  });
}

/** Ends or moves the work of all; answers those whose lease was still held. */
async function endLeases(tx: Transaction, given: readonly Settlement[]): Promise<ReadonlySet<Settlement>> {
  const bySeq = new Map<number, Settlement>();
  for (const one of given) {
    const other = bySeq.get(one.seq);
    if (!other || other.fence < one.fence) bySeq.set(one.seq, one);
  }
  const distinct = [...bySeq.values()];
  const delayed = distinct.filter((one) => one.to === 'delayed');
  const clockOffsetOf = await queue.clockOffsets(tx, delayed);
  const [finished, moved] = await Promise.all([
    queue.finishMany(
      tx,
      distinct.filter((one) => one.to !== 'delayed'),
    ),
    queue.rescheduleMany(
      tx,
      delayed.map((one) => ({
        seq: one.seq,
        fence: one.fence,
        dueMs: (one.nextAttemptAtMs ?? one.atMs) - clockOffsetOf(one),
        tried: one.attempt !== null,
      })),
    ),
  ]);
  return new Set(distinct.filter((one) => finished.has(one.seq) || moved.has(one.seq)));
}

function insertAttempts(tx: Transaction, settled: readonly Settlement[]): void {
  const rows = settled.filter((one) => one.attempt !== null);
  if (rows.length === 0) return;
  void tx.run(
    `INSERT INTO attempt (account_id, message_id, number, at, record)
     SELECT * FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS TEXT[]))
     ON CONFLICT (account_id, message_id, number) DO UPDATE SET at = excluded.at, record = excluded.record`,
    textArray(rows.map((one) => one.accountId)),
    textArray(rows.map((one) => one.messageId)),
    bigintArray(rows.map((one) => one.attempts)),
    bigintArray(rows.map((one) => one.atMs)),
    textArray(rows.map((one) => JSON.stringify(one.attempt))),
  );
}

function recordSandboxOutcomes(tx: Transaction, settled: readonly Settlement[]): void {
  const rows = settled.filter((one) => one.sandboxOutcome);
  if (rows.length === 0) return;
  void tx.run(
    `UPDATE sandbox_item SET outcome = new.outcome
     FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS TEXT[])) AS new (account_id, message_id, outcome)
     WHERE sandbox_item.account_id = new.account_id AND sandbox_item.message_id = new.message_id`,
    textArray(rows.map((one) => one.accountId)),
    textArray(rows.map((one) => one.messageId)),
    textArray(rows.map((one) => one.sandboxOutcome)),
  );
}

/** Removes the content of emails that are settled and not retained, and their files; answers the blobs to remove, by email. */
async function dropContents(tx: Transaction, settled: readonly Settlement[]): Promise<Map<number, string[]>> {
  const ended = settled.filter((one) => one.retain === 'none' && one.to !== 'delayed');
  if (ended.length === 0) return new Map();
  const numbers = [...new Set(ended.map((one) => one.emailSeq))].sort((a, b) => a - b);
  const seqs = [bigintArray(numbers), numbers[0]!, numbers.at(-1)!];
  // The bounds say which partitions are concerned, and spare the others.
  const these = 'seq = ANY (CAST(? AS BIGINT[])) AND seq >= ? AND seq <= ?';
  // Two copies that are settled at once: the one that comes later sees, in its second statement, that the other is finished.
  void tx.all(`SELECT 1 AS found FROM email WHERE ${these} ORDER BY seq ${locked(tx)}`, ...seqs);
  const rows = await tx.all<{ seq: number; blob_key: string | null }>(
    `UPDATE email SET content = NULL, blob_key = NULL, content_until = NULL
     FROM (SELECT seq, blob_key FROM email WHERE ${these} AND NOT EXISTS
             (SELECT 1 FROM message WHERE email_seq = email.seq AND status IN ('scheduled', 'queued', 'delayed'))) AS old
     WHERE email.seq = old.seq AND email.seq >= ? AND email.seq <= ? RETURNING old.seq, old.blob_key`,
    ...seqs,
    ...seqs.slice(1),
  );
  const files = await Promise.all(rows.map((row) => dropFiles(tx, row.seq)));
  return new Map(
    rows.map((row, i) => [row.seq, [...(row.blob_key === null ? [] : [row.blob_key]), ...files[i]!]] as const),
  );
}

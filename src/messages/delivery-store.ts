/**
 * The transactions of the delivery: claim due messages with all that an attempt needs, and settle what came of them.
 * Live mail of a suspended account is not handed out. A settle is all in one: work row, state, event, attempt, suppression,
 * and the content of mail that is not retained.
 */
import { loadedOnce } from '../base/loaded-once.ts';
import type { Mode } from '../base/mode.ts';
import { sameAddressKey } from '../mail/address.ts';
import { batch, eachCall, locked, operation, type Transaction } from '../storage/operation.ts';
import { findSuppression, suppress } from '../suppressions/suppressions.ts';
import * as queue from '../work/work.ts';
import { dropFiles } from './file-store.ts';
import { type JobRow, jobOf } from './job-row.ts';
import { DELIVERY_WORK, type DeliveryJob, type Retain } from './message.ts';
import { bouncedAddresses, giveBackSuspended } from './settle-store.ts';
import { transition } from './state-machine.ts';

export interface ClaimRequest {
  nowMs: number;
  leaseMs: number;
  limit: number;
  /** Whether one message in quarantine (held when workers died) may be among them. */
  quarantined: boolean;
  /** Whether rows that somebody else holds are passed over, though their lease has ended. */
  freeOnly?: boolean;
}

export interface Claimed {
  jobs: DeliveryJob[];
  /** Rows that were looked at, those of suspended accounts among them, which rest again: as many as asked for means that there may be more. */
  taken: number;
}

const onPostgres = loadedOnce(() => import('./delivery-postgres.ts'));

export const claimOperation = operation(
  'messages.claim',
  'write',
  async (tx, request: ClaimRequest): Promise<Claimed> => {
    if (tx.dialect === 'postgres') return (await onPostgres()).claimJobs(tx, request);
    const jobs: DeliveryJob[] = [];
    const heldBack: { work: queue.Work; expiresAt: number }[] = [];
    const statuses = new Map<string, string | undefined>();
    const claimed = await queue.claim(tx, { kind: DELIVERY_WORK, ...request });
    for (const work of claimed) {
      const row = await tx.get<JobRow>(
        `SELECT m.status, m.recipient, m.created_at, m.expires_at, e.envelope_from, e.header_from, e.header_message_id,
           e.size_bytes, e.options, e.retain, e.source, e.content, e.blob_key
         FROM message m JOIN email e ON e.seq = m.email_seq WHERE m.account_id = ? AND m.mode = ? AND m.id = ?`,
        work.account_id,
        work.mode,
        work.subject,
      );
      if (row && work.mode === 'sandbox') {
        row.ahead_ms = await queue.clockOffsetOf(tx, { accountId: work.account_id, mode: work.mode });
      }
      // Both are written and removed together; a row that lost its message all the same must not stop the claims.
      if (!row) await queue.finish(tx, work);
      // What has expired meanwhile is told so by the delivery, which does not let it leave either.
      else if (row.expires_at > request.nowMs && (await isSuspended(tx, work, statuses))) {
        heldBack.push({ work, expiresAt: row.expires_at });
      } else if (await isSuppressed(tx, work, { recipient: row.recipient, nowMs: request.nowMs })) {
        jobs.push({ ...jobOf(work, row), suppressed: true });
      } else jobs.push(jobOf(work, row));
    }
    await giveBackSuspended(tx, heldBack, request.nowMs);
    return { jobs, taken: claimed.length };
  },
);

/** Whether it is live mail of a suspended account; `known` keeps what was read for others of this claim. */
async function isSuspended(
  tx: Transaction,
  work: queue.Work,
  known: Map<string, string | undefined>,
): Promise<boolean> {
  if (work.mode !== 'live') return false;
  if (!known.has(work.account_id)) {
    const account = await tx.get<{ status: string }>('SELECT status FROM account WHERE id = ?', work.account_id);
    known.set(work.account_id, account?.status);
  }
  return known.get(work.account_id) === 'suspended';
}

/** Whether the address is on the list now; whoever accepted the message looked at the list of that time. */
export async function isSuppressed(
  tx: Transaction,
  { account_id: accountId, mode }: queue.Work,
  { recipient, nowMs }: { recipient: string; nowMs: number },
): Promise<boolean> {
  return (await findSuppression(tx, { accountId, mode, email: sameAddressKey(recipient), nowMs })) !== undefined;
}

/** One attempt as `GET /messages/{id}` shows it. */
export interface AttemptRecord {
  /** ISO time at which it began. */
  time: string;
  durationMs: number;
  host: string | null;
  address: string | null;
  /** Such as `TLSv1.3`, or null when the mail went in the clear or no connection was made. */
  tls: string | null;
  /** Why the mail went in the clear although the host offers TLS, in words. */
  tlsFallback?: string;
  dialogue: { atMs: number; direction: 'C' | 'S'; text: string }[];
  /** The reply that decided, or what happened instead of one. */
  reply: string | null;
  outcome: 'delivered' | 'delayed' | 'bounced';
}

export interface SettledEvent {
  id: string;
  type: 'Delivery' | 'DeliveryDelay' | 'Bounce' | 'Complaint' | 'Reject';
  detail: Record<string, unknown>;
}

export interface Settlement {
  seq: number;
  fence: number;
  accountId: string;
  mode: Mode;
  messageId: string;
  emailSeq: number;
  retain: Retain;
  /** As all times here by the clock of the mode. */
  atMs: number;
  /** Attempts made in all, this one included. */
  attempts: number;
  /** Null when none was made: the message was put off untried, or never left. */
  attempt: AttemptRecord | null;
  to: 'delivered' | 'delayed' | 'bounced' | 'suppressed';
  /** For `delayed`: when to try again. */
  nextAttemptAtMs: number | null;
  /** None for a delay that was reported before. */
  event: SettledEvent | null;
  /** Address key to put on the suppression list. */
  suppress: { email: string; untilMs: number | null } | null;
  /** Sandbox: a further outcome that follows at once (a complaint after the delivery). */
  followedBy: { to: 'complained'; event: SettledEvent } | null;
  /** Sandbox: what the virtual inbox shows. */
  sandboxOutcome: string | null;
}

export interface SettleResult {
  /** Rows whose lease had been lost: nothing of these was written. */
  lost: number[];
  /** Blobs that nothing refers to any more. */
  blobKeys: string[];
}

export const settleOperation = batch(
  'messages.settle',
  'write',
  async (tx, calls: readonly Settlement[][]): Promise<SettleResult[]> =>
    tx.dialect === 'postgres' ? settleTogether(tx, calls) : settleEach(tx, calls),
);

const settleEach = eachCall(async (tx, settlements: Settlement[]): Promise<SettleResult> => {
  const result: SettleResult = { lost: [], blobKeys: [] };
  for (const settlement of settlements) {
    const lease = { seq: settlement.seq, fence: settlement.fence };
    const held =
      settlement.to === 'delayed'
        ? await queue.reschedule(tx, lease, await dueMsOf(tx, settlement), { tried: settlement.attempt !== null })
        : await queue.finish(tx, lease);
    if (held) await applySettlement(tx, settlement, result.blobKeys);
    else result.lost.push(settlement.seq);
  }
  return result;
});

/** When the next attempt is due, in real time. */
async function dueMsOf(tx: Transaction, settlement: Settlement): Promise<number> {
  return (settlement.nextAttemptAtMs ?? settlement.atMs) - (await queue.clockOffsetOf(tx, settlement));
}

async function settleTogether(tx: Transaction, calls: readonly Settlement[][]): Promise<SettleResult[]> {
  return (await onPostgres()).settleTogether(tx, calls);
}

async function applySettlement(tx: Transaction, settlement: Settlement, blobKeys: string[]): Promise<void> {
  const { accountId, mode, messageId, atMs } = settlement;
  const changed = await transition(tx, {
    accountId,
    mode,
    messageId,
    to: settlement.to,
    atMs,
    attempts: settlement.attempts,
    nextAttemptAtMs: settlement.nextAttemptAtMs,
    ...(settlement.event ? { event: settlement.event } : {}),
  });
  if (!changed) throw new Error(`message ${messageId} cannot become ${settlement.to}`);
  if (settlement.followedBy) {
    await transition(tx, {
      accountId,
      mode,
      messageId,
      to: settlement.followedBy.to,
      atMs,
      event: settlement.followedBy.event,
    });
  }
  if (settlement.attempt) {
    await tx.run(
      `INSERT INTO attempt (account_id, message_id, number, at, record) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (account_id, message_id, number) DO UPDATE SET at = excluded.at, record = excluded.record`,
      accountId,
      messageId,
      settlement.attempts,
      atMs,
      JSON.stringify(settlement.attempt),
    );
  }
  await suppress(tx, bouncedAddresses([settlement]));
  if (settlement.sandboxOutcome) {
    await tx.run(
      'UPDATE sandbox_item SET outcome = ? WHERE account_id = ? AND message_id = ?',
      settlement.sandboxOutcome,
      accountId,
      messageId,
    );
  }
  if (settlement.retain === 'none' && settlement.to !== 'delayed') {
    blobKeys.push(...(await dropContent(tx, settlement.emailSeq)));
  }
}

/** Removes the content of an email and its files once none of its messages is unfinished; answers the blobs to remove. */
export async function dropContent(tx: Transaction, emailSeq: number): Promise<string[]> {
  // Two copies that are settled at once: the one that comes later sees that the other is finished.
  if (tx.dialect === 'postgres') await tx.get(`SELECT 1 AS found FROM email WHERE seq = ? ${locked(tx)}`, emailSeq);
  const row = await tx.get<{ blob_key: string | null }>(
    `SELECT blob_key FROM email WHERE seq = ? AND NOT EXISTS
       (SELECT 1 FROM message WHERE email_seq = ? AND status IN ('scheduled', 'queued', 'delayed'))`,
    emailSeq,
    emailSeq,
  );
  if (!row) return [];
  await tx.run('UPDATE email SET content = NULL, blob_key = NULL, content_until = NULL WHERE seq = ?', emailSeq);
  const files = await dropFiles(tx, emailSeq);
  return row.blob_key === null ? files : [row.blob_key, ...files];
}

/**
 * Stores erasures, and runs the transactions of their work. An erasure removes a recipient from one account and mode: queued messages
 * first, then everything else that contains the address. It proceeds in steps (find-store.ts finds the rows, remove-store.ts removes them).
 * Each step, its position, and the extended lease are committed in one transaction, so a crash repeats at most one step. The address is
 * stored encrypted until the erasure is completed; a hash of the address is kept.
 */
import { change } from '../audit/audit.ts';
import type { Owner } from '../base/mode.ts';
import { currentTime, locked, operation, type Transaction } from '../storage/operation.ts';
import { insertMany, type TableRow, table } from '../storage/rows.ts';
import { type SuppressionReason, suppress } from '../suppressions/suppressions.ts';
import { type ClaimLimits, claim, enqueue, finish, type Lease, markRunning, reschedule } from '../work/work.ts';

/** Kind of the work rows of erasures; their subject is the id of the erasure. */
export const ERASURE_WORK = 'erasure';

/** The records removed so far. */
export interface Removed {
  messages: number;
  events: number;
  inboundMessages: number;
}

/** The parts of an erasure, in order. `newMessages` covers the messages that were being accepted when it started. */
export const PARTS = [
  'messages',
  'receiving',
  'inbound',
  'refusedRequests',
  'responses',
  'agentRequests',
  'savedFilters',
  'newMessages',
  'webhookDeliveries',
] as const;
export type Part = (typeof PARTS)[number];

export interface Progress {
  part: Part;
  /** Key of the last row that was examined; null at the start of the part. */
  after: readonly (string | number)[] | null;
  /** Keys of blobs that no row references anymore, and that are still to be removed. */
  blobKeys: readonly string[];
  removed: Removed;
}

const START: Progress = {
  part: 'messages',
  after: null,
  blobKeys: [],
  removed: { messages: 0, events: 0, inboundMessages: 0 },
};

const ERASURE = table('erasure', {
  id: 'text',
  accountId: 'text',
  mode: 'text',
  addressHash: 'text',
  addressSealed: 'bytes?',
  isSuppressed: 'int',
  reason: 'text',
  progress: 'text',
  createdAt: 'int',
  completedAt: 'int?',
});

/** An erasure as the API shows it. */
export interface Erasure {
  id: string;
  createdAt: number;
  completedAt: number | null;
  /** JSON of Progress. */
  progress: string;
}

const SHOWN = 'id, created_at AS "createdAt", completed_at AS "completedAt", progress';

/** Context in which the address of an erasure is sealed. */
export const sealContext = (erasureId: string): string => `erasure:${erasureId}`;

export interface NewErasure extends Owner {
  id: string;
  /** The normalized address. */
  email: string;
  addressHash: string;
  addressSealed: Uint8Array;
  /** Unix ms, real time. */
  nowMs: number;
}

/**
 * Starts an erasure, or returns the one of this address that is in progress. The address is suppressed in the same transaction: by its
 * address until the erasure is completed, so that queued messages are not sent, and by its hash from then on.
 */
export const startErasureOperation = change(
  'erasure.start',
  async (tx, { email, ...given }: NewErasure): Promise<Erasure> => {
    const { id, accountId, mode, addressHash, nowMs } = given;
    const known = await tx.get<Erasure>(
      `SELECT ${SHOWN} FROM erasure WHERE account_id = ? AND mode = ? AND address_hash = ? AND completed_at IS NULL
       ORDER BY id LIMIT 1 ${locked(tx)}`,
      accountId,
      mode,
      addressHash,
    );
    if (known) return known;
    const manual = { reason: 'manual', sourceMessageId: null, expiresAt: null, createdAt: nowMs } as const;
    const [entry] = await suppress(tx, [{ accountId, mode, email, ...manual }]);
    const row: TableRow<typeof ERASURE> = {
      id,
      accountId,
      mode,
      addressHash,
      addressSealed: given.addressSealed,
      isSuppressed: 1,
      reason: await strongerReason(tx, given, entry!.reason),
      progress: JSON.stringify(START),
      createdAt: nowMs,
    };
    await insertMany(tx, ERASURE, [row]);
    await enqueue(tx, [{ kind: ERASURE_WORK, accountId, mode, subject: id, ref: 0, lane: id, dueMs: nowMs }]);
    return { id, createdAt: nowMs, completedAt: null, progress: row.progress };
  },
  { table: 'erasure', shows: ['created_at'], action: 'recipient.erase' },
);

/** Returns why the address is suppressed: the reason on the list, unless that is `manual` and an earlier erasure has another one. */
async function strongerReason(
  tx: Transaction,
  { accountId, mode, addressHash }: Pick<NewErasure, 'accountId' | 'mode' | 'addressHash'>,
  listed: SuppressionReason,
): Promise<SuppressionReason> {
  if (listed !== 'manual') return listed;
  const earlier = await tx.get<{ reason: SuppressionReason }>(
    `SELECT reason FROM erasure WHERE account_id = ? AND mode = ? AND address_hash = ? AND is_suppressed = 1
     ORDER BY id DESC LIMIT 1`,
    accountId,
    mode,
    addressHash,
  );
  return earlier?.reason ?? listed;
}

export interface ErasurePage extends Owner {
  /** Id of the last erasure of the previous page; null for the first page. */
  before: string | null;
  limit: number;
}

/** Returns erasures, newest first. */
export const listErasuresOperation = operation('erasure.list', 'read', (tx, page: ErasurePage) =>
  tx.all<Erasure>(
    `SELECT ${SHOWN} FROM erasure WHERE account_id = ? AND mode = ? AND id < ? ORDER BY id DESC LIMIT ?`,
    page.accountId,
    page.mode,
    page.before ?? 'ers_~',
    page.limit,
  ),
);

export const findErasureOperation = operation(
  'erasure.find',
  'read',
  async (tx, { id, accountId, mode }: Owner & { id: string }): Promise<Erasure | null> =>
    (await tx.get<Erasure>(
      `SELECT ${SHOWN} FROM erasure WHERE id = ? AND account_id = ? AND mode = ?`,
      id,
      accountId,
      mode,
    )) ?? null,
);

export interface ClaimedErasure extends Lease, Owner {
  id: string;
  attempts: number;
  /** How often the process crashed while it held this erasure, since its last completed step. */
  crashes: number;
  addressSealed: Uint8Array;
  /** JSON of Progress. */
  progress: string;
  createdAt: number;
}

/** Claims one erasure that is due. If it is already completed, finishes its work row and returns null. */
export const claimErasureOperation = operation(
  'erasure.claim',
  'write',
  async (tx, limits: Omit<ClaimLimits, 'limit' | 'quarantined'>): Promise<ClaimedErasure | null> => {
    const [work] = await claim(tx, { kind: ERASURE_WORK, ...limits, limit: 1, quarantined: true });
    if (work === undefined) return null;
    const { seq, fence, attempts, crashes, subject: id } = work;
    if (crashes > 0) await markRunning(tx, { leases: [work], running: true });
    const row = await tx.get<Owner & Pick<ClaimedErasure, 'addressSealed' | 'progress' | 'createdAt'>>(
      `SELECT account_id AS "accountId", mode, address_sealed AS "addressSealed", progress, created_at AS "createdAt"
       FROM erasure WHERE id = ? AND completed_at IS NULL`,
      id,
    );
    if (row !== undefined) return { seq, fence, id, attempts, crashes, ...row };
    await finish(tx, [work]);
    return null;
  },
);

export interface HeldErasure {
  id: string;
  lease: Lease;
  nowMs: number;
  leaseMs: number;
}

/** Extends the lease at the start of a step's transaction. Returns false if the lease was lost: then the step must change nothing. */
export async function hold(tx: Transaction, { lease, nowMs, leaseMs }: HeldErasure): Promise<boolean> {
  const now = currentTime(tx, nowMs);
  const held = await tx.run(
    `UPDATE work SET due = ${now.sql} + CAST(? AS BIGINT), crashes = 0 WHERE seq = ? AND fence = ? AND leased > 0`,
    ...now.params,
    leaseMs,
    lease.seq,
    lease.fence,
  );
  return held === 1;
}

/** Records the progress of an erasure at the end of a step's transaction. */
export async function recordProgress(tx: Transaction, { id }: HeldErasure, progress: Progress): Promise<void> {
  await tx.run('UPDATE erasure SET progress = ? WHERE id = ?', JSON.stringify(progress), id);
}

/** Records progress without removing rows; returns false if the lease was lost. */
export const advanceErasureOperation = operation(
  'erasure.advance',
  'write',
  async (tx, held: HeldErasure & { progress: Progress }): Promise<boolean> => {
    if (!(await hold(tx, held))) return false;
    await recordProgress(tx, held, held.progress);
    return true;
  },
);

/** Releases the lease of an erasure, which is due again at `dueMs`. */
export const postponeErasureOperation = operation(
  'erasure.postpone',
  'write',
  async (tx, { lease, dueMs }: { lease: Lease; dueMs: number }): Promise<void> => {
    await reschedule(tx, [{ ...lease, dueMs, tried: true }]);
  },
);

interface Completion extends Owner {
  id: string;
  lease: Lease;
  /** The normalized address. */
  email: string;
  progress: Progress;
  nowMs: number;
}

/**
 * Completes an erasure: removes the address from the suppression list and from the erasure itself. From then on, the address is suppressed
 * by its hash. Returns false if the lease was lost.
 */
export const completeErasureOperation = change(
  'erasure.complete',
  async (tx, { id, lease, accountId, mode, email, progress, nowMs }: Completion): Promise<boolean> => {
    if ((await finish(tx, [lease])).size === 0) return false;
    const entry = await tx.get<{ reason: SuppressionReason }>(
      'DELETE FROM suppression WHERE account_id = ? AND mode = ? AND email = ? RETURNING reason',
      accountId,
      mode,
      email,
    );
    await tx.run(
      'UPDATE erasure SET completed_at = ?, address_sealed = NULL, progress = ?, reason = coalesce(?, reason) WHERE id = ?',
      nowMs,
      JSON.stringify(progress),
      entry?.reason ?? null,
      id,
    );
    return true;
  },
  {
    action: 'recipient.erasure-completed',
    resourceId: ({ id }) => id,
    did: ({ progress }, isCompleted) => (isCompleted ? { removed: progress.removed } : undefined),
  },
);

/**
 * Leases on rows of work. A row is due at a time; whoever claims it holds it until the lease ends, and alone may finish
 * it: every claim raises the row's fence, and a settle that names an older fence changes nothing. A row whose lease ran
 * out was held by somebody who died or hung: taking it over counts as a crash. Knows nothing of mail.
 *
 *   due ──claim──▶ leased ──finish──▶ gone
 *    ▲               │ │
 *    │◀─reschedule───┘ └─lease ends──▶ due (crashes + 1)
 *    └──unhold── held ◀──hold── leased      (its lane is full; it keeps its place and is not claimed)
 *
 * Rows that crashed their holder twice are suspects: they are claimed one at a time, so that an innocent row that was
 * merely held while another one crashed the process is cleared, and only the guilty one reaches PARK_AFTER_CRASHES.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';

export const PARK_AFTER_CRASHES = 3;
const SUSPECT_AFTER_CRASHES = 2;

export interface NewWork {
  kind: string;
  accountId: string;
  mode: Mode;
  /** What the work is about: an id of the kind's own. */
  subject: string;
  /** A number of the kind's own. */
  ref: number;
  /** Rows of one lane wait behind each other; lanes do not. */
  lane: string;
  /** Unix ms; for a leased row the end of the lease. */
  dueMs: number;
  /** Handed to its worker by the transaction that makes it, without a claim. */
  leased: boolean;
}

export interface Work {
  seq: number;
  kind: string;
  account_id: string;
  mode: Mode;
  subject: string;
  ref: number;
  lane: string;
  fence: number;
  attempts: number;
  crashes: number;
}

/** A held row, as its holder names it. */
export interface Lease {
  seq: number;
  fence: number;
}

/** The fence of a row that was leased at its making. */
export const FIRST_FENCE = 1;

export function enqueue(tx: Transaction, work: NewWork): Promise<number> | number {
  return tx.insert(
    `INSERT INTO work (kind, account_id, mode, subject, ref, lane, due, leased, fence, attempts, crashes, held)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0)`,
    work.kind,
    work.accountId,
    work.mode,
    work.subject,
    work.ref,
    work.lane,
    work.dueMs,
    work.leased ? 1 : 0,
    work.leased ? FIRST_FENCE : 0,
  );
}

export interface Claim {
  kind: string;
  nowMs: number;
  leaseMs: number;
  limit: number;
  /** Whether the claimant may take one suspect (it must hold none already). */
  suspects: boolean;
}

const CLAIMED = 'seq, kind, account_id, mode, subject, ref, lane, fence, attempts, crashes';

/** Takes up to `limit` due rows, oldest first. */
export async function claim(tx: Transaction, options: Claim): Promise<Work[]> {
  const take = (condition: string, limit: number) =>
    tx.all<Work>(
      `UPDATE work SET crashes = crashes + leased, leased = 1, fence = fence + 1, due = ?
       WHERE seq IN (SELECT seq FROM work WHERE kind = ? AND held = 0 AND due <= ? AND ${condition}
                     ORDER BY due LIMIT ?)
       RETURNING ${CLAIMED}`,
      options.nowMs + options.leaseMs,
      options.kind,
      options.nowMs,
      limit,
    );
  const rows = await take(`crashes + leased < ${SUSPECT_AFTER_CRASHES}`, options.limit);
  if (options.suspects) rows.push(...(await take(`crashes + leased >= ${SUSPECT_AFTER_CRASHES}`, 1)));
  return rows.sort((a, b) => a.seq - b.seq);
}

export function isSuspect(work: { crashes: number }): boolean {
  return work.crashes >= SUSPECT_AFTER_CRASHES;
}

/** Ends the work; false when the lease was lost to somebody else, and then nothing has changed. */
export async function finish(tx: Transaction, lease: Lease): Promise<boolean> {
  return (await tx.run('DELETE FROM work WHERE seq = ? AND fence = ?', lease.seq, lease.fence)) === 1;
}

/** Gives the row back until `dueMs` with the attempt counted; false when the lease was lost. */
export async function reschedule(tx: Transaction, lease: Lease, dueMs: number): Promise<boolean> {
  const changed = await tx.run(
    'UPDATE work SET leased = 0, due = ?, attempts = attempts + 1, crashes = 0 WHERE seq = ? AND fence = ?',
    dueMs,
    lease.seq,
    lease.fence,
  );
  return changed === 1;
}

/** Gives rows back untried: no attempt is counted, no crash either. Leases that were lost are passed over. */
export async function release(tx: Transaction, leases: Lease[], dueMs: number): Promise<void> {
  for (const lease of leases) {
    await tx.run('UPDATE work SET leased = 0, due = ? WHERE seq = ? AND fence = ?', dueMs, lease.seq, lease.fence);
  }
}

/** Records that handling this row failed in our own code; it is due again at `dueMs` with one more crash. */
export async function recordCrash(tx: Transaction, lease: Lease, dueMs: number): Promise<boolean> {
  const changed = await tx.run(
    'UPDATE work SET leased = 0, due = ?, crashes = crashes + 1 WHERE seq = ? AND fence = ?',
    dueMs,
    lease.seq,
    lease.fence,
  );
  return changed === 1;
}

/** Keeps leases until `untilMs`; answers the numbers of the rows that were lost meanwhile. */
export async function extend(tx: Transaction, leases: Lease[], untilMs: number): Promise<number[]> {
  const lost: number[] = [];
  for (const lease of leases) {
    const changed = await tx.run(
      'UPDATE work SET due = ? WHERE seq = ? AND fence = ? AND leased = 1',
      untilMs,
      lease.seq,
      lease.fence,
    );
    if (changed === 0) lost.push(lease.seq);
  }
  return lost;
}

/** Sets claimed rows aside because their lane is full; they are not claimed again until unhold() frees their lane. */
export async function hold(tx: Transaction, leases: Lease[], dueMs: number): Promise<void> {
  for (const lease of leases) {
    await tx.run(
      'UPDATE work SET held = 1, leased = 0, due = ? WHERE seq = ? AND fence = ?',
      dueMs,
      lease.seq,
      lease.fence,
    );
  }
}

/** Lets up to `limit` held rows of a lane be claimed again, oldest first; answers how many. */
export async function unhold(tx: Transaction, lane: { kind: string; lane: string; limit: number }): Promise<number> {
  return tx.run(
    `UPDATE work SET held = 0 WHERE seq IN
       (SELECT seq FROM work WHERE kind = ? AND lane = ? AND held = 1 ORDER BY due LIMIT ?)`,
    lane.kind,
    lane.lane,
    lane.limit,
  );
}

/** A page of the lanes that have held rows. */
export interface LanePage {
  /** The last lane of the page before; empty for the first. */
  after: string;
  limit: number;
}

/** Names of lanes that have held rows in their order, by stepping through the index from lane to lane. */
export async function heldLanes(tx: Transaction, kind: string, page: LanePage): Promise<string[]> {
  const lanes: string[] = [];
  let { after } = page;
  while (lanes.length < page.limit) {
    const next = await tx.get<{ lane: string }>(
      'SELECT lane FROM work WHERE kind = ? AND held = 1 AND lane > ? ORDER BY lane LIMIT 1',
      kind,
      after,
    );
    if (!next) break;
    lanes.push(next.lane);
    after = next.lane;
  }
  return lanes;
}

/**
 * For the only process of a store, at its start: nobody else can hold a lease, so that all of them belong to the dead.
 * Rows are due at once, as takeovers. Answers how many.
 */
export const recoverOperation = operation('queue.recover', 'write', (tx, nowMs: number) =>
  tx.run('UPDATE work SET leased = 0, due = ?, crashes = crashes + 1 WHERE leased = 1', nowMs),
);

export interface Backlog {
  depth: number;
  /** Unix ms of the oldest due row, or undefined. */
  oldestDueMs: number | undefined;
}

export async function backlog(tx: Transaction, kind: string): Promise<Backlog> {
  const count = (await tx.get<{ n: number }>('SELECT count(*) AS n FROM work WHERE kind = ?', kind)) as { n: number };
  const oldest = await tx.get<{ due: number | null }>(
    'SELECT min(due) AS due FROM work WHERE kind = ? AND held = 0',
    kind,
  );
  return { depth: count.n, oldestDueMs: oldest?.due ?? undefined };
}

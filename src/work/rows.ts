/**
 * Leases on rows of work. A row is due at a time; whoever claims it holds it until the lease ends, and alone may finish
 * it: every claim raises the row's fence, and a settle that names an older fence changes nothing. Knows nothing of mail.
 *
 *   due ──claim──▶ leased ⇄ running ──finish──▶ gone
 *    ▲               │ │      (only rows that were in a crash before are marked as running)
 *    │◀─reschedule───┘ └─lease ends──▶ due
 *    └──resume── parked ◀──park── leased    (its lane is over its quota; it keeps its position and is not claimed)
 *
 * A lease that ran out was held by somebody who died or hung, and some row may be why: a poison message. To know which,
 * without a write for every attempt:
 *
 * - The first time, every row that was held counts a crash, whatever was being done with it.
 * - From then on its holder marks the row as running before it tries it, and takes the mark off when it is put back or has
 *   run for long without harm. Only a lease that ends while the row is marked counts. A row that merely waits stays as it is,
 *   however often its holders die. Few rows are marked at once (poison.ts), so that few are left to be tried alone.
 * - Rows with two crashes are in quarantine: a holder takes one at a time, and none while it is young, so that what else was
 *   running at the time is cleared, and a process that is killed again and again takes nobody along.
 * - At three a row is a dead letter: it is not tried any more. So a poison message costs three crashes. An innocent one would
 *   have to be in the first seconds of an attempt at two of them, at the second alone.
 * - A row that is settled starts again at none.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { bigintArray } from '../storage/postgres/arrays.ts';
import { freeClocks } from './clock-offset.ts';
import { FREE, HELD, RUNNING } from './lease-states.ts';

export const DEAD_LETTER_AFTER_CRASHES = 3;
const QUARANTINE_AFTER_CRASHES = 2;

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

/** What the end of a lease adds to `crashes`. */
const CRASH = `(CASE WHEN leased = ${RUNNING} OR (leased = ${HELD} AND crashes = 0) THEN 1 ELSE 0 END)`;

/** What a claim may take. */
export interface ClaimLimits {
  /** Unix ms. */
  nowMs: number;
  leaseMs: number;
  limit: number;
  /** Whether the claimant may take one row in quarantine (it must hold none already, and not be young). */
  quarantined: boolean;
  /** Passes over rows that somebody holds, though their lease has ended. */
  freeOnly?: boolean;
}

export interface Claim extends ClaimLimits {
  kind: string;
}

const CLAIMED = 'seq, kind, account_id, mode, subject, ref, lane, fence, attempts, crashes';

/** A statement that takes due rows and answers them with the columns of Work. */
export interface ClaimStatement {
  sql: string;
  params: SqlValue[];
}

/**
 * Condition on `seq`. On a shared database the rows are locked, those that others have locked are passed over, and the
 * choice is made exactly once (as a list, not as a join that could be scanned again and lock more).
 */
function oneOf(dialect: Transaction['dialect'], select: string): string {
  return dialect === 'postgres' ? `seq = ANY (ARRAY(${select} FOR UPDATE SKIP LOCKED))` : `seq IN (${select})`;
}

/**
 * What to run for a claim, in order. A shared database judges by its own clock, whatever the nodes believe, and passes
 * over rows that another node is taking at this moment.
 */
export function claimStatements(dialect: Transaction['dialect'], options: Claim): ClaimStatement[] {
  const shared = dialect === 'postgres';
  const take = (condition: string, limit: number): ClaimStatement => ({
    sql: `UPDATE work SET crashes = crashes + ${CRASH}, leased = ${HELD}, fence = fence + 1,
         due = ${shared ? 'now_ms() + CAST(? AS BIGINT)' : '?'}
       WHERE ${oneOf(
         dialect,
         `SELECT seq FROM work WHERE kind = ? AND held = 0
         AND due <= ${shared ? '(SELECT now_ms())' : '?'} AND ${condition}
         ${options.freeOnly ? `AND leased = ${FREE}` : ''} ORDER BY due LIMIT ?`,
       )}
       RETURNING ${CLAIMED}`,
    params: shared
      ? [options.leaseMs, options.kind, limit]
      : [options.nowMs + options.leaseMs, options.kind, options.nowMs, limit],
  });
  const statements = [take(`crashes + ${CRASH} < ${QUARANTINE_AFTER_CRASHES}`, options.limit)];
  if (options.quarantined) statements.push(take(`crashes + ${CRASH} >= ${QUARANTINE_AFTER_CRASHES}`, 1));
  return statements;
}

/** Takes up to `limit` due rows, oldest first. */
export async function claim(tx: Transaction, options: Claim): Promise<Work[]> {
  const rows: Work[] = [];
  for (const { sql, params } of claimStatements(tx.dialect, options))
    rows.push(...(await tx.all<Work>(sql, ...params)));
  return rows.sort((a, b) => a.seq - b.seq);
}

export function isQuarantined(work: { crashes: number }): boolean {
  return work.crashes >= QUARANTINE_AFTER_CRASHES;
}

/** Whether the row was held when a holder died: it is marked while it runs. */
export function wasInCrash(work: { crashes: number }): boolean {
  return work.crashes > 0;
}

interface LeaseUpdate {
  set: string;
  params: SqlValue[];
  /** A further condition, beginning with AND. */
  only?: string;
}

/** Changes rows that are still held under these fences; answers the numbers of those that were. */
async function update(tx: Transaction, leases: readonly Lease[], change: LeaseUpdate): Promise<Set<number>> {
  const { set, params, only = '' } = change;
  const changed = new Set<number>();
  if (tx.dialect === 'postgres') {
    if (leases.length === 0) return changed;
    // In the order of their numbers, so that two who change the same rows do not wait for each other in a ring.
    const sorted = leases.toSorted((a, b) => a.seq - b.seq);
    const rows = await tx.all<{ seq: number }>(
      `UPDATE work SET ${set} FROM unnest(CAST(? AS BIGINT[]), CAST(? AS BIGINT[])) AS lease (number, version)
       WHERE work.seq = lease.number AND work.fence = lease.version ${only} RETURNING work.seq`,
      ...params,
      bigintArray(sorted.map((one) => one.seq)),
      bigintArray(sorted.map((one) => one.fence)),
    );
    for (const { seq } of rows) changed.add(seq);
    return changed;
  }
  for (const { seq, fence } of leases) {
    const count = await tx.run(`UPDATE work SET ${set} WHERE seq = ? AND fence = ? ${only}`, ...params, seq, fence);
    if (count === 1) changed.add(seq);
  }
  return changed;
}

/** Marks rows as running, or as merely leased again. Leases that were lost are passed over. */
export async function markRunning(
  tx: Transaction,
  { leases, running }: { leases: Lease[]; running: boolean },
): Promise<void> {
  await update(tx, leases, { set: 'leased = ?', params: [running ? RUNNING : HELD], only: 'AND leased > 0' });
}

/** Ends the work; false when the lease was lost to somebody else, and then nothing has changed. */
export async function finish(tx: Transaction, lease: Lease): Promise<boolean> {
  return (await tx.run('DELETE FROM work WHERE seq = ? AND fence = ?', lease.seq, lease.fence)) === 1;
}

/**
 * Gives the row back until `dueMs` with the attempt counted, or untried with `tried: false`; false when the lease was lost, or
 * the row given back before: whoever does not know whether his transaction was committed may run it again.
 */
export async function reschedule(
  tx: Transaction,
  lease: Lease,
  dueMs: number,
  { tried } = { tried: true },
): Promise<boolean> {
  const changed = await tx.run(
    `UPDATE work SET leased = 0, due = ? ${tried ? ', attempts = attempts + 1, crashes = 0' : ''}
     WHERE seq = ? AND fence = ? AND leased > 0`,
    dueMs,
    lease.seq,
    lease.fence,
  );
  return changed === 1;
}

/** Ends many on a shared database; answers the numbers of those that were still held. */
export async function finishMany(tx: Transaction, leases: readonly Lease[]): Promise<ReadonlySet<number>> {
  if (leases.length === 0) return new Set();
  const rows = await tx.all<{ seq: number }>(
    `DELETE FROM work USING unnest(CAST(? AS BIGINT[]), CAST(? AS BIGINT[])) AS lease (number, version)
     WHERE work.seq = lease.number AND work.fence = lease.version RETURNING work.seq`,
    bigintArray(leases.map((one) => one.seq)),
    bigintArray(leases.map((one) => one.fence)),
  );
  return new Set(rows.map((row) => row.seq));
}

/** Gives many back on a shared database, each until its time, tried or not; answers the numbers of those that were still held. */
export async function rescheduleMany(
  tx: Transaction,
  rows: readonly (Lease & { dueMs: number; tried?: boolean })[],
): Promise<ReadonlySet<number>> {
  if (rows.length === 0) return new Set();
  const changed = await tx.all<{ seq: number }>(
    `UPDATE work SET leased = ${FREE}, due = lease.until, attempts = attempts + lease.tried,
       crashes = CASE WHEN lease.tried = 1 THEN 0 ELSE crashes END
     FROM unnest(CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]))
       AS lease (number, version, until, tried)
     WHERE work.seq = lease.number AND work.fence = lease.version AND work.leased > 0 RETURNING work.seq`,
    bigintArray(rows.map((one) => one.seq)),
    bigintArray(rows.map((one) => one.fence)),
    bigintArray(rows.map((one) => one.dueMs)),
    bigintArray(rows.map((one) => (one.tried === false ? 0 : 1))),
  );
  return new Set(changed.map((row) => row.seq));
}

/** Gives rows back untried: no attempt is counted, no crash either. Leases that were lost are passed over. */
export async function release(tx: Transaction, leases: Lease[], dueMs: number): Promise<void> {
  await update(tx, leases, { set: 'leased = 0, due = ?', params: [dueMs], only: 'AND leased > 0' });
}

/** Records that handling this row failed in our own code; it is due again at `dueMs` with one more crash. */
export async function recordCrash(tx: Transaction, lease: Lease, dueMs: number): Promise<boolean> {
  const set = 'leased = 0, due = ?, crashes = crashes + 1';
  const changed = await update(tx, [lease], { set, params: [dueMs], only: 'AND leased > 0' });
  return changed.size === 1;
}

export interface Extension {
  leases: Lease[];
  nowMs: number;
  leaseMs: number;
}

/** Keeps leases for `leaseMs` from now; answers the numbers of the rows that were lost meanwhile. */
export async function extend(tx: Transaction, { leases, nowMs, leaseMs }: Extension): Promise<number[]> {
  const until =
    tx.dialect === 'postgres'
      ? { set: 'due = now_ms() + CAST(? AS BIGINT)', params: [leaseMs] }
      : { set: 'due = ?', params: [nowMs + leaseMs] };
  const kept = await update(tx, leases, { ...until, only: 'AND leased > 0' });
  return leases.filter((lease) => !kept.has(lease.seq)).map((lease) => lease.seq);
}

/** Parks claimed rows, whose lane is over its quota: they are not claimed again until resume() frees their lane. */
export async function park(tx: Transaction, leases: Lease[], dueMs: number): Promise<void> {
  await update(tx, leases, { set: 'held = 1, leased = 0, due = ?', params: [dueMs], only: 'AND leased > 0' });
}

export interface ParkedLane {
  kind: string;
  lane: string;
  limit: number;
  nowMs: number;
}

/** Lets up to `limit` parked rows of a lane be claimed again, oldest first, all of them now; answers how many. */
export async function resume(tx: Transaction, lane: ParkedLane): Promise<number> {
  return tx.run(
    `UPDATE work SET held = 0, due = CASE WHEN due > ? THEN ? ELSE due END
     WHERE ${oneOf(tx.dialect, 'SELECT seq FROM work WHERE kind = ? AND lane = ? AND held = 1 ORDER BY due LIMIT ?')}`,
    lane.nowMs,
    lane.nowMs,
    lane.kind,
    lane.lane,
    lane.limit,
  );
}

/** A page of the lanes that have parked rows. */
export interface LanePage {
  kind: string;
  /** The last lane of the page before; empty for the first. */
  after: string;
  limit: number;
}

/** Names of lanes that have parked rows in their order, by stepping through the index from lane to lane. */
export async function parkedLanes(tx: Transaction, page: LanePage): Promise<string[]> {
  const lanes: string[] = [];
  let { after } = page;
  while (lanes.length < page.limit) {
    const next = await tx.get<{ lane: string }>(
      'SELECT lane FROM work WHERE kind = ? AND held = 1 AND lane > ? ORDER BY lane LIMIT 1',
      page.kind,
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
 * Rows are due at once, as take-overs. Answers how many.
 */
export const recoverOperation = operation('work.recover', 'write', async (tx, nowMs: number): Promise<number> => {
  await freeClocks(tx);
  return tx.run(`UPDATE work SET leased = 0, due = ?, crashes = crashes + ${CRASH} WHERE leased > 0`, nowMs);
});

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

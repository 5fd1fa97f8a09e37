/**
 * Manages leases on rows of work. A row has a due time. The process that claims it holds it until the lease ends, and only the holder
 * may finish it: every claim increments the row's fence, and a settlement with an older fence changes nothing. This module knows nothing
 * about email.
 *
 *   due ──claim──▶ leased ⇄ running ──finish──▶ deleted
 *    ▲               │ │      (only rows that were held at an earlier crash are marked as running)
 *    │◀─reschedule───┘ └─lease ends──▶ due
 *    └──resume── parked ◀──park── leased    (its lane is over its quota; it keeps its position and cannot be claimed)
 *                                           (a row that is held back for another one is kept in the same way)
 *
 * If a lease expires, its holder crashed or hung, possibly because of one row: a poison message. These rules find that row without a
 * write for every attempt:
 *
 * - The first time, the crash counter of every held row is incremented, whatever the row's state.
 * - After that, the holder marks the row as running before an attempt, and removes the mark when the row is put back or has run long
 *   enough without a crash. A lease that ends increments the counter only if the row is marked. The counter of a row that only waits
 *   stays the same, however often its holders crash. Few rows are marked at the same time (poison.ts), so few must be tried alone later.
 * - A row with two crashes is in quarantine. A holder claims one such row at a time, and none in its first seconds. So other rows that
 *   were running at the crash are cleared first, and a process that crashes repeatedly does not affect quarantined rows.
 * - A row with three crashes is a dead letter and is not retried. So a poison message costs three crashes. A harmless row becomes a dead
 *   letter only if it is in the first seconds of an attempt at two of these crashes, and runs alone at the second one.
 * - A row that is settled restarts at zero crashes.
 */
import type { Mode } from '../base/mode.ts';
import {
  currentTime,
  type Fragment,
  operation,
  type SqlValue,
  skipLocked,
  type Transaction,
} from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { clockOffsets, freeClocks, type Owner } from './clock.ts';
import { HELD, LEASED } from './enqueue.ts';

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
  /** Rows of one turn run one after the other, if their kind has turns. */
  turn: string | null;
}

/** Identifies a leased row and the claim that holds it. */
export interface Lease {
  seq: number;
  fence: number;
}

/** This SQL expression is the number that the end of a lease adds to `crashes`. */
const CRASH = `(CASE WHEN leased = ${LEASED.running} OR (leased = ${LEASED.taken} AND crashes = 0) THEN 1 ELSE 0 END)`;

export interface ClaimLimits {
  /** The current time in Unix ms; PostgreSQL uses the time of the database instead. */
  nowMs: number;
  leaseMs: number;
  limit: number;
  /** Whether the caller may claim one row in quarantine. It must hold no such row yet, and must have run for some time. */
  quarantined: boolean;
  /** Whether to skip rows that are still marked as leased, even if their lease has ended. */
  freeOnly?: boolean;
  /** Rows that have been due for longer are skipped (search-window.ts); undefined for a complete search. */
  lookBackMs?: number | undefined;
  /** If set, only these rows are claimed if they are free, whenever they are due and even if they are parked. */
  only?: Lease[];
}

export interface Claim extends ClaimLimits {
  kind: string;
}

/** A row as it was claimed. */
export interface ClaimedWork extends Work {
  /** The time since the row became due, in ms. It is 0 for selected rows, and always in the embedded database. */
  overdue_ms: number;
}

/** The extent of a claim. */
export interface ClaimExtent {
  /** If this is the requested number, there may be more. */
  rows: number;
  /** The time since the first row became due, in ms; 0 if there was none. */
  overdueMs: number;
}

export function takenOf(rows: readonly ClaimedWork[]): ClaimExtent {
  // Rows in quarantine are found in any case.
  const searched = rows.filter((row) => !isQuarantined(row));
  return { rows: rows.length, overdueMs: searched.reduce((most, row) => Math.max(most, row.overdue_ms), 0) };
}

const CLAIMED_COLUMNS = 'work.seq, kind, account_id, mode, subject, ref, lane, fence, attempts, crashes, turn';

/** Claims up to `limit` due rows, oldest first; skips rows that another node is claiming. */
export async function claim(tx: Transaction, options: Claim): Promise<ClaimedWork[]> {
  const now = currentTime(tx, options.nowMs);
  if (options.only) {
    const lease = rowset(tx, 'lease', LEASE, options.only);
    return tx.all<ClaimedWork>(
      `UPDATE work SET leased = ${LEASED.taken}, held = 0, fence = fence + 1, due = ${now.sql} + CAST(? AS BIGINT)
       WHERE leased = ${LEASED.free} AND (seq, fence) IN (SELECT lease.seq, lease.fence FROM ${lease.sql})
       RETURNING ${CLAIMED_COLUMNS}, 0 AS overdue_ms`,
      ...now.params,
      options.leaseMs,
      ...lease.params,
    );
  }
  // The embedded database cannot return it, and needs no search window.
  const overdueMs = tx.dialect === 'postgres' ? `${now.sql} - chosen.due` : '0';
  const claimWhere = async (condition: string, limit: number, since: Fragment = ANY_TIME): Promise<ClaimedWork[]> => {
    const chosen = await chosenRows(tx, {
      sql: `SELECT seq, due FROM work WHERE kind = ? AND held = 0 AND due <= ${now.sql} ${since.sql} AND ${condition}
         ${options.freeOnly ? `AND leased = ${LEASED.free}` : ''} ORDER BY due LIMIT ? ${skipLocked(tx)}`,
      params: [options.kind, ...now.params, ...since.params, limit],
    });
    if (chosen === undefined) return [];
    return tx.all<ClaimedWork>(
      `WITH chosen AS ${chosen.sql}
       UPDATE work SET crashes = crashes + ${CRASH}, leased = ${LEASED.taken}, fence = fence + 1,
         due = ${now.sql} + CAST(? AS BIGINT)
       FROM chosen WHERE work.seq = chosen.seq
       RETURNING ${CLAIMED_COLUMNS}, ${overdueMs} AS overdue_ms`,
      ...chosen.params,
      ...now.params,
      options.leaseMs,
    );
  };
  const rows = await Promise.all([
    claimWhere(`crashes + ${CRASH} < ${QUARANTINE_AFTER_CRASHES}`, options.limit, sinceOf(now, options.lookBackMs)),
    // The first condition is that of an index, which contains few rows.
    options.quarantined ? claimWhere(`crashes > 0 AND crashes + ${CRASH} >= ${QUARANTINE_AFTER_CRASHES}`, 1) : [],
  ]);
  return rows.flat().sort((a, b) => a.seq - b.seq);
}

const ANY_TIME: Fragment = { sql: '', params: [] };

/** Returns the condition that skips rows which have been due for longer than `lookBackMs`. */
function sinceOf(now: Fragment, lookBackMs: number | undefined): Fragment {
  if (lookBackMs === undefined) return ANY_TIME;
  return { sql: `AND due >= ${now.sql} - CAST(? AS BIGINT)`, params: [...now.params, lookBackMs] };
}

/**
 * Returns the rows to claim as a table for the claiming statement, or undefined if the embedded database has no due rows. The embedded
 * database is queried first, because idle processes poll every second and a subquery would make the claim of a single row slower.
 */
async function chosenRows(tx: Transaction, query: Fragment): Promise<Fragment | undefined> {
  if (tx.dialect === 'postgres') return { ...query, sql: `MATERIALIZED (${query.sql})` };
  const rows = await tx.all<{ seq: number }>(query.sql, ...query.params);
  if (rows.length === 0) return undefined;
  const found = rowset(tx, 'found', { seq: 'int' }, rows);
  return { ...found, sql: `(SELECT seq FROM ${found.sql})` };
}

export function isQuarantined(work: { crashes: number }): boolean {
  return work.crashes >= QUARANTINE_AFTER_CRASHES;
}

/** Returns whether the row was held at a crash. Such a row is marked while it runs. */
export function wasInCrash(work: { crashes: number }): boolean {
  return work.crashes > 0;
}

/** Sorts leases by row number, so two transactions that change the same rows cannot deadlock. */
function inOrder<T extends Lease>(leases: readonly T[]): T[] {
  return leases.toSorted((a, b) => a.seq - b.seq);
}

const LEASE = { seq: 'int', fence: 'int' } as const;

/** Updates the rows that are still leased with these fences; returns their numbers. */
async function update(
  tx: Transaction,
  leases: readonly Lease[],
  set: string,
  ...params: SqlValue[]
): Promise<Set<number>> {
  if (leases.length === 0) return new Set();
  const lease = rowset(tx, 'lease', LEASE, inOrder(leases));
  const rows = await tx.all<{ seq: number }>(
    `UPDATE work SET ${set} FROM ${lease.sql}
     WHERE work.seq = lease.seq AND work.fence = lease.fence AND work.leased > 0 RETURNING work.seq`,
    ...params,
    ...lease.params,
  );
  return new Set(rows.map((row) => row.seq));
}

/** Marks rows as running or, if `running` is false, as only leased. Skips leases that were lost. */
export async function markRunning(
  tx: Transaction,
  { leases, running }: { leases: Lease[]; running: boolean },
): Promise<void> {
  await update(tx, leases, 'leased = ?', running ? LEASED.running : LEASED.taken);
}

/** Deletes finished rows; returns the numbers of those that were still leased. Others stay unchanged. */
export async function finish(tx: Transaction, leases: readonly Lease[]): Promise<ReadonlySet<number>> {
  if (leases.length === 0) return new Set();
  const lease = rowset(tx, 'lease', LEASE, inOrder(leases));
  const rows = await tx.all<{ seq: number }>(
    `DELETE FROM work WHERE (seq, fence) IN (SELECT lease.seq, lease.fence FROM ${lease.sql}) RETURNING work.seq`,
    ...lease.params,
  );
  return new Set(rows.map((row) => row.seq));
}

/** A row to put back until `dueMs`. */
export interface RowToReschedule extends Lease {
  /** When the row is due again, in real time (Unix ms). */
  dueMs: number;
  /** Whether an attempt was made. A row that is deferred without one keeps its number of attempts. */
  tried: boolean;
  /** The reason for the deferral, defined by the kind of work. Rows can be counted and found by it. */
  cause?: string | null;
  /** When the attempt failed, by the clock of its mode. */
  failedAtMs?: number | null;
}

/**
 * Releases rows until they are due again; returns the numbers of those that were still leased. A caller that does not know whether its
 * transaction was committed can repeat it, because rows that were released before are not leased and stay unchanged.
 */
export async function reschedule(tx: Transaction, rows: readonly RowToReschedule[]): Promise<ReadonlySet<number>> {
  if (rows.length === 0) return new Set();
  const lease = rowset(
    tx,
    'lease',
    { ...LEASE, due: 'int', tried: 'int', cause: 'text?', failedAt: 'int?' },
    inOrder(rows).map(({ seq, fence, dueMs, tried, cause = null, failedAtMs: failedAt = null }) => ({
      seq,
      fence,
      due: dueMs,
      tried: tried ? 1 : 0,
      cause,
      failedAt,
    })),
  );
  const changed = await tx.all<{ seq: number }>(
    `UPDATE work SET leased = ${LEASED.free}, due = lease.due, attempts = attempts + lease.tried,
       crashes = CASE WHEN lease.tried = 1 THEN 0 ELSE crashes END, cause = lease.cause, failed_at = lease.failed_at
     FROM ${lease.sql} WHERE work.seq = lease.seq AND work.fence = lease.fence AND work.leased > 0 RETURNING work.seq`,
    ...lease.params,
  );
  return new Set(changed.map((row) => row.seq));
}

/** The result of processing a row. */
export interface WorkResult extends Lease, Owner, Pick<RowToReschedule, 'cause' | 'failedAtMs'> {
  /** When the row is retried, by the clock of its mode; null deletes the row. */
  againAtMs: number | null;
  tried: boolean;
}

/** Deletes rows or puts them back, as their results require; returns those of `items` whose lease was still held, in order. */
export async function settleLeases<T>(
  tx: Transaction,
  items: readonly T[],
  resultOf: (one: T) => WorkResult,
): Promise<T[]> {
  const bySeq = new Map<number, { one: T; result: WorkResult }>();
  for (const one of items) {
    const result = resultOf(one);
    const other = bySeq.get(result.seq)?.result;
    if (!other || other.fence < result.fence) bySeq.set(result.seq, { one, result });
  }
  const results = [...bySeq.values()].map(({ result }) => result);
  const retried = results.filter((result) => result.againAtMs !== null);
  const clockOffsetOf = await clockOffsets(tx, retried);
  const [ended, moved] = await Promise.all([
    finish(
      tx,
      results.filter((result) => result.againAtMs === null),
    ),
    reschedule(
      tx,
      retried.map((result) => ({ ...result, dueMs: result.againAtMs! - clockOffsetOf(result) })),
    ),
  ]);
  return [...bySeq].flatMap(([seq, { one }]) => (ended.has(seq) || moved.has(seq) ? [one] : []));
}

/** Releases rows without counting an attempt or a crash. Skips leases that were lost. */
export async function release(tx: Transaction, leases: readonly Lease[], dueMs: number): Promise<void> {
  await update(tx, leases, `leased = ${LEASED.free}, due = ?`, dueMs);
}

/** A row whose attempt failed because of a bug. */
export interface CrashedRow extends Lease {
  /** When the row is due again. */
  dueMs: number;
}

/** Releases rows and counts a crash for each; returns the numbers of those that were still leased. */
export async function recordCrashes(tx: Transaction, rows: readonly CrashedRow[]): Promise<ReadonlySet<number>> {
  const changed = new Set<number>();
  for (const row of rows) {
    for (const seq of await update(tx, [row], `leased = ${LEASED.free}, due = ?, crashes = crashes + 1`, row.dueMs))
      changed.add(seq);
  }
  return changed;
}

/** Extends leases to `leaseMs` from now; returns the numbers of the rows whose lease was lost. */
export const extendOperation = operation(
  'work.extend',
  'write',
  async (tx, { leases, nowMs, leaseMs }: { leases: Lease[]; nowMs: number; leaseMs: number }): Promise<number[]> => {
    const now = currentTime(tx, nowMs);
    const kept = await update(tx, leases, `due = ${now.sql} + CAST(? AS BIGINT)`, ...now.params, leaseMs);
    return leases.filter((lease) => !kept.has(lease.seq)).map((lease) => lease.seq);
  },
);

/** Parks claimed rows whose lane is over its quota. They cannot be claimed again until resume() frees them. */
export async function park(tx: Transaction, leases: readonly Lease[], dueMs: number): Promise<void> {
  await update(tx, leases, `held = ${HELD.parked}, leased = ${LEASED.free}, due = ?`, dueMs);
}

/** Holds claimed rows back until another row frees them. */
export async function holdBack(tx: Transaction, leases: readonly Lease[], dueMs: number): Promise<void> {
  await update(tx, leases, `held = ${HELD.behind}, leased = ${LEASED.free}, due = ?`, dueMs);
}

export interface ParkedLane {
  kind: string;
  lane: string;
  limit: number;
  nowMs: number;
  /** Rows that have been due for longer are not compared (search-window.ts); by default all are. */
  lookBackMs?: number | undefined;
}

/**
 * Makes up to `limit` parked rows of a lane claimable again, oldest first; returns their number. They are due before rows that were never
 * claimed, because their lane has capacity now. Otherwise they could wait for minutes after a million rows that would only be parked.
 */
export async function resume(
  tx: Transaction,
  { kind, lane, limit, nowMs, lookBackMs = nowMs }: ParkedLane,
): Promise<number> {
  return tx.run(
    `WITH chosen AS MATERIALIZED (SELECT seq FROM work WHERE kind = ? AND lane = ? AND held = 1 ORDER BY due LIMIT ?
       ${skipLocked(tx)}),
       first AS MATERIALIZED (SELECT min(due) AS due FROM work WHERE kind = ? AND held = 0 AND due >= ?)
     UPDATE work SET held = 0, due = (SELECT CASE WHEN first.due <= ? THEN first.due - 1 ELSE ? END FROM first)
     WHERE seq IN (SELECT seq FROM chosen)`,
    kind,
    lane,
    limit,
    kind,
    nowMs - lookBackMs,
    nowMs,
    nowMs,
  );
}

/** Selects a page of lanes with parked rows. */
export interface LanePage {
  kind: string;
  /** The last lane of the previous page; empty for the first page. */
  after: string;
  limit: number;
}

/** Returns the names of lanes with parked rows in order, by stepping through the index from lane to lane. */
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

/** Runs markRunning() for rows that were held at a crash. */
export const markRunningOperation = operation('work.markRunning', 'write', markRunning);

/** Rows to put back without an attempt. */
export interface RowsToPutBack {
  /** When parked and released rows are due, in Unix ms. */
  nowMs: number;
  /** These rows belong to lanes that are over their quota. */
  park?: Lease[];
  release?: Lease[];
  /** The attempts of these rows failed because of a bug. */
  crashed?: (Lease & { dueMs: number })[];
}

export const putBackOperation = operation('work.putBack', 'write', async (tx, rows: RowsToPutBack): Promise<void> => {
  await park(tx, rows.park ?? [], rows.nowMs);
  await release(tx, rows.release ?? [], rows.nowMs);
  await recordCrashes(tx, rows.crashed ?? []);
});

export interface ResumeRequest {
  kind: string;
  nowMs: number;
  lookBackMs?: number | undefined;
  lanes: { lane: string; limit: number }[];
}

/** Makes parked rows of these lanes claimable again; returns the number for each lane. */
export const resumeOperation = operation(
  'work.resume',
  'write',
  async (tx, { lanes, ...request }: ResumeRequest): Promise<number[]> => {
    const resumed: number[] = [];
    for (const lane of lanes) resumed.push(await resume(tx, { ...request, ...lane }));
    return resumed;
  },
);

/** Returns the names of the lanes with parked rows. */
export const parkedLanesOperation = operation('work.parkedLanes', 'read', (tx, page: LanePage) =>
  parkedLanes(tx, page),
);

/**
 * Ends all leases, when the only process of a database starts: they belong to processes that crashed. The rows are due immediately and
 * count a crash, as if their lease had expired. Returns their number.
 */
export const recoverOperation = operation('work.recover', 'write', async (tx, nowMs: number): Promise<number> => {
  await freeClocks(tx);
  return tx.run(`UPDATE work SET leased = 0, due = ?, crashes = crashes + ${CRASH} WHERE leased > 0`, nowMs);
});

export interface Backlog {
  depth: number;
  /** The earliest due time of a row that is not parked, in Unix ms; undefined if there is none. */
  oldestDueMs: number | undefined;
}

/** Returns the number of rows of a kind, and the earliest due time. */
export const backlogOperation = operation('work.backlog', 'read', async (tx, kind: string): Promise<Backlog> => {
  const row = await tx.get<{ depth: number; oldest: number | null }>(
    `SELECT (SELECT count(*) FROM work WHERE kind = ?) AS depth,
       (SELECT min(due) FROM work WHERE kind = ? AND held = 0) AS oldest`,
    kind,
    kind,
  );
  return { depth: row!.depth, oldestDueMs: row!.oldest ?? undefined };
});

/**
 * Endpoints with `ordered: true` get the events of a recipient one after the other. The work rows of such an endpoint carry a turn: the
 * recipient's address. A claimed row whose turn has an earlier row, or one that another process sends, is held back in the database and is
 * not claimed again until the row before it is done: delivered, finally failed, or no longer needed. So the order holds across nodes and
 * restarts, and a failed event that waits for its next attempt delays nothing but its own recipient. Rows of other endpoints have no turn.
 *
 * Invariant: in each turn, some row is not held back. The end of any row frees the first one that is held back, and a claimed row that
 * finds an earlier one held back, which no row in flight would free, frees it.
 */
import { turnSql, WEBHOOK_WORK } from '../events/events.ts';
import type { Fragment, Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { HELD, holdBack, type Work } from '../work/work.ts';

interface Place {
  seq: number;
  ref: number;
}

/** A claimed row of an ordered endpoint. */
export type TurnRow = Work & { turn: string };

function comparePlaces(a: Place, b: Place): number {
  return a.ref - b.ref || a.seq - b.seq;
}

/**
 * Lets the transactions that take or pass these turns run one after the other: otherwise one could hold a row back for another row whose
 * end is being recorded, and nothing would free it. The embedded database has one writer anyway.
 */
async function lockTurns(tx: Transaction, turns: readonly { webhookId: string; turn: string }[]): Promise<void> {
  if (tx.dialect !== 'postgres' || turns.length === 0) return;
  const keys = rowset(
    tx,
    'taken',
    { key: 'text' },
    turns.map(({ webhookId, turn }) => ({ key: `${webhookId} ${turn}` })),
  );
  // In one order, so that two nodes cannot deadlock.
  await tx.all(
    `SELECT pg_advisory_xact_lock(found.lock) FROM
       (SELECT DISTINCT hashtextextended(taken.key, 0) AS lock FROM ${keys.sql} ORDER BY 1) found`,
    ...keys.params,
  );
}

/** Until the transaction ends, none of these endpoints is replaced or removed. Call it before lockTurns(). */
export async function keepEndpoints(tx: Transaction, webhookIds: readonly string[]): Promise<void> {
  if (tx.dialect !== 'postgres') return;
  const ids = endpointIds(tx, webhookIds);
  await tx.all(
    `SELECT pg_advisory_xact_lock_shared(found.lock) FROM
       (SELECT DISTINCT hashtextextended(named.id, 0) AS lock FROM ${ids.sql} ORDER BY 1) found`,
    ...ids.params,
  );
}

function endpointIds(tx: Transaction, webhookIds: readonly string[]): Fragment {
  return rowset(
    tx,
    'named',
    { id: 'text' },
    webhookIds.map((id) => ({ id })),
  );
}

/**
 * Returns those of the endpoints that are ordered and enabled. Until the transaction ends, none stops being ordered, so that no row is held
 * back after endTurns() has freed the others. Call it before lockTurns().
 */
export async function orderedEndpoints(tx: Transaction, webhookIds: readonly string[]): Promise<ReadonlySet<string>> {
  await keepEndpoints(tx, webhookIds);
  const ids = endpointIds(tx, webhookIds);
  const found = await tx.all<{ id: string }>(
    `SELECT w.id FROM webhook w JOIN ${ids.sql} ON named.id = w.id WHERE w.ordered = 1 AND w.enabled = 1`,
    ...ids.params,
  );
  return new Set(found.map(({ id }) => id));
}

/** Returns the URLs of those of the endpoints that exist, by id. */
export async function endpointUrls(
  tx: Transaction,
  webhookIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const ids = endpointIds(tx, webhookIds);
  const found = await tx.all<{ id: string; url: string }>(
    `SELECT w.id, w.url FROM webhook w JOIN ${ids.sql} ON named.id = w.id`,
    ...ids.params,
  );
  return new Map(found.map(({ id, url }) => [id, url]));
}

/** Waits for transactions that called keepEndpoints(). Call it first in a transaction that replaces or removes the endpoint. */
export async function waitForEndpoint(tx: Transaction, webhookId: string): Promise<void> {
  if (tx.dialect === 'postgres') await tx.all('SELECT pg_advisory_xact_lock(hashtextextended(?, 0))', webhookId);
}

/** Holds back claimed rows that must wait for others of their turn; returns the others. */
export async function takeTurns(tx: Transaction, rows: readonly TurnRow[], nowMs: number): Promise<TurnRow[]> {
  await lockTurns(
    tx,
    rows.map(({ subject, turn }) => ({ webhookId: subject, turn })),
  );
  const turns = Map.groupBy(rows, ({ subject, turn }) => `${subject} ${turn}`);
  const first: TurnRow[] = [];
  const waiting: TurnRow[] = [];
  for (const own of turns.values()) {
    const [head, ...others] = own.toSorted(comparePlaces);
    waiting.push(...others);
    if (await mustWait(tx, head!, { own, nowMs })) waiting.push(head!);
    else first.push(head!);
  }
  await holdBack(tx, waiting, nowMs);
  return first;
}

/** Whether a row that was claimed together with `own` waits for a row of its turn that was not. */
async function mustWait(
  tx: Transaction,
  { subject, turn, ref, seq }: TurnRow,
  { own, nowMs }: { own: readonly Place[]; nowMs: number },
): Promise<boolean> {
  const claimed = rowset(
    tx,
    'claimed',
    { seq: 'int' },
    own.map((one) => ({ seq: one.seq })),
  );
  const earlier = '(ref < ? OR (ref = ? AND seq < ?))';
  const active = await tx.get(
    `SELECT seq FROM work WHERE kind = ? AND subject = ? AND turn = ? AND held < ${HELD.behind} AND (leased > 0 OR ${earlier})
       AND seq NOT IN (SELECT claimed.seq FROM ${claimed.sql}) LIMIT 1`,
    WEBHOOK_WORK,
    subject,
    turn,
    ref,
    ref,
    seq,
    ...claimed.params,
  );
  if (active) return true;
  const freed = await tx.run(
    `UPDATE work SET held = 0, due = ? WHERE seq = (SELECT seq FROM work WHERE kind = ? AND subject = ? AND turn = ?
       AND held = ${HELD.behind} AND ${earlier} ORDER BY ref, seq LIMIT 1)`,
    nowMs,
    WEBHOOK_WORK,
    subject,
    turn,
    ref,
    ref,
    seq,
  );
  return freed > 0;
}

/** A row whose attempt has ended. */
export interface FinishedRow {
  webhookId: string;
  turn: string | null;
  eventSeq: number;
  /** The row is retried later: then only earlier events, such as those of a replay, may come first. */
  isRetried: boolean;
}

/** Frees the next row of each turn; returns the number of freed rows. */
export async function passTurns(tx: Transaction, ended: readonly FinishedRow[], nowMs: number): Promise<number> {
  const inTurn = ended.filter((one): one is FinishedRow & { turn: string } => one.turn !== null);
  await lockTurns(tx, inTurn);
  let freed = 0;
  for (const { webhookId, turn, eventSeq, isRetried } of inTurn) {
    freed += await tx.run(
      `UPDATE work SET held = 0, due = ? WHERE seq = (SELECT seq FROM work WHERE kind = ? AND subject = ? AND turn = ?
         AND held = ${HELD.behind} AND ref < ? ORDER BY ref, seq LIMIT 1)`,
      nowMs,
      WEBHOOK_WORK,
      webhookId,
      turn,
      isRetried ? eventSeq : Number.MAX_SAFE_INTEGER,
    );
  }
  return freed;
}

/** Frees all rows of an endpoint that are held back, because it is no longer ordered, enabled, or there. */
export async function endTurns(tx: Transaction, webhookId: string, nowMs: number): Promise<void> {
  await tx.run(
    `UPDATE work SET held = 0, due = ? WHERE kind = ? AND subject = ? AND turn IS NOT NULL AND held = ${HELD.behind}`,
    nowMs,
    WEBHOOK_WORK,
    webhookId,
  );
}

/** Gives rows that were queued manually, for a retry or replay, their turn if the endpoint is ordered. */
export async function assignTurns(tx: Transaction, webhookId: string, seqs: readonly number[]): Promise<void> {
  const endpoint = await tx.get<{ ordered: number }>('SELECT ordered FROM webhook WHERE id = ?', webhookId);
  if (endpoint?.ordered !== 1) return;
  const queued = rowset(
    tx,
    'queued',
    { seq: 'int' },
    seqs.map((seq) => ({ seq })),
  );
  await tx.run(
    `UPDATE work SET turn = (SELECT ${turnSql('v')} FROM event v WHERE v.seq = work.ref)
     WHERE seq IN (SELECT queued.seq FROM ${queued.sql})`,
    ...queued.params,
  );
}

/**
 * Counts the event log of one account and mode. A step reads the events after the cursor, in an order that skips none
 * (src/events/read-store.ts), and counts them in memory. One transaction then moves the cursor and adds the counts. It moves the cursor
 * only from the place where the step started: if two nodes count the same events, only one adds them. If the process is killed, either the
 * complete step was added or nothing.
 */

import type { Mode } from '../base/mode.ts';
import { type EventPlace, logOrder } from '../events/events.ts';
import { mailboxProviderOf } from '../mail/mailbox-provider.ts';
import { type Fragment, operation, type Transaction } from '../storage/operation.ts';
import { insertMany, rowset } from '../storage/rows.ts';
import {
  addCounted,
  COUNTERS,
  type Counted,
  type CountedEvent,
  count,
  DETAILED,
  DIMENSIONS,
  type Dimension,
  emptyCounted,
  keyOf,
  OTHERS,
  PERIODS,
  type Period,
} from './counts.ts';
import { columnOf, countedOf, STATISTICS, STORED, type StoredRow, tableRowOf } from './table.ts';

/**
 * Maximum number of groups of a dimension that are stored by name in one period, so a different tag for each message does not fill the
 * table. The domains of mailbox providers are stored in addition, so that the sums by provider are complete.
 */
export const GROUPS_KEPT: Record<Period, number> = { hour: 100, day: 300 };

/**
 * Maximum number of counters that one step changes; only its last event may exceed it. Events from many hours, domains, and tags change
 * many counters.
 */
const MAX_COUNTERS = 500;

const START: EventPlace = { position: 0, seq: 0 };

export interface StatisticsOwner {
  accountId: string;
  mode: Mode;
}

/** Returns the place up to which a log is counted. */
export async function cursorOf(tx: Transaction, { accountId, mode }: StatisticsOwner): Promise<EventPlace> {
  const cursor = await tx.get<EventPlace>(
    'SELECT position, seq FROM statistics_cursor WHERE account_id = ? AND mode = ?',
    accountId,
    mode,
  );
  return cursor ?? START;
}

export interface UncountedEvents {
  after: EventPlace;
  limit: number;
  /** Includes events that earlier events may still precede. Their counts are not stored, and they are counted again later. */
  unsettled?: true;
}

/** Returns the first events after the place, in log order, with the properties of their messages that the statistics use. */
export async function uncountedEvents(
  tx: Transaction,
  { accountId, mode }: StatisticsOwner,
  { after, limit, unsettled }: UncountedEvents,
): Promise<(CountedEvent & EventPlace)[]> {
  const log = logOrder(tx);
  const isAfter: Fragment = log.comparePlace('>', after);
  const order = log.order('ASC');
  return tx.all<CountedEvent & EventPlace>(
    `SELECT ${log.position} AS position, v.seq, v.type, v.at, m.recipient, e.tags, e.template_id,
       CASE WHEN v.type IN (${DETAILED.map((type) => `'${type}'`).join(', ')}) THEN v.detail END AS detail
     FROM (SELECT * FROM event v WHERE v.account_id = ? AND v.mode = ? AND ${isAfter.sql} AND ${unsettled ? '1 = 1' : log.settled}
       ORDER BY ${order} LIMIT ?) v
     LEFT JOIN message m ON m.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id
     LEFT JOIN email e ON e.seq = m.email_seq ORDER BY ${order}`,
    accountId,
    mode,
    ...isAfter.params,
    limit,
  );
}

/** The counts that one step adds. */
export interface Step {
  owner: StatisticsOwner;
  from: EventPlace;
  to: EventPlace;
  /** Number of events counted, and the time of the last one. */
  events: number;
  lastAtMs: number;
  /** Whether the step reached the end of the log. */
  isLast: boolean;
  counted: Counted[];
}

/** Reads and counts the events after the cursor; null if there are none. */
export const countStepOperation = operation(
  'statistics.countStep',
  'read',
  async (tx, { owner, limit }: { owner: StatisticsOwner; limit: number }): Promise<Step | null> => {
    const from = await cursorOf(tx, owner);
    const found = await uncountedEvents(tx, owner, { after: from, limit });
    if (found.length === 0) return null;
    const periods = Object.keys(PERIODS) as Period[];
    const { counted, events } = count(found, { dimensions: DIMENSIONS, periods, countersAtMost: MAX_COUNTERS });
    const { position, seq, at: lastAtMs } = found[events - 1]!;
    const isLast = events === found.length && found.length < limit;
    return { owner, from, to: { position, seq }, events, lastAtMs, isLast, counted };
  },
);

/** Adds the counts of a step. Does nothing and returns false if another step moved the cursor in the meantime. */
export const addStepOperation = operation('statistics.addStep', 'write', async (tx, step: Step): Promise<boolean> => {
  const { owner, from, to } = step;
  if (!(await moveCursor(tx, owner, { from, to }))) return false;
  const counted = await addToStored(tx, owner, step.counted);
  const rows = counted.map((one) => tableRowOf(owner, one));
  const replaced = [...COUNTERS.map(columnOf), 'delivery_ms'].map((column) => `${column} = excluded.${column}`);
  await insertMany(
    tx,
    STATISTICS,
    rows,
    `ON CONFLICT (account_id, mode, dimension, period, start, group_value) DO UPDATE SET ${replaced.join(', ')}`,
  );
  return true;
});

/**
 * Moves the cursor; returns false if it is no longer at `from`. Locks the cursor's row, and thereby all counters of the account and mode,
 * until the transaction ends.
 */
async function moveCursor(
  tx: Transaction,
  { accountId, mode }: StatisticsOwner,
  { from, to }: { from: EventPlace; to: EventPlace },
): Promise<boolean> {
  if (from.seq === START.seq) {
    await tx.run(
      `INSERT INTO statistics_cursor (account_id, mode, position, seq) VALUES (?, ?, ?, ?)
       ON CONFLICT (account_id, mode) DO NOTHING`,
      accountId,
      mode,
      START.position,
      START.seq,
    );
  }
  const moved = await tx.run(
    'UPDATE statistics_cursor SET position = ?, seq = ? WHERE account_id = ? AND mode = ? AND position = ? AND seq = ?',
    to.position,
    to.seq,
    accountId,
    mode,
    from.position,
    from.seq,
  );
  return moved > 0;
}

/** Whether a group is stored by name in addition to the limit. */
function isAlwaysKept(dimension: Dimension, groupValue: string): boolean {
  if (dimension === 'none') return true;
  return dimension === 'recipientDomain' && mailboxProviderOf(groupValue) !== undefined;
}

/** Returns the changed rows with the counts added. Groups above the limit are added to the row for other groups of their period. */
async function addToStored(tx: Transaction, owner: StatisticsOwner, counted: readonly Counted[]): Promise<Counted[]> {
  const stored = await storedPeriods(tx, owner, counted);
  const changed = new Map<string, Counted>();
  for (const one of counted) {
    const { rows, names } = stored.get(periodKey(one))!;
    const isAlways = isAlwaysKept(one.dimension, one.groupValue);
    const isKept = isAlways || rows.has(one.groupValue) || names.size < GROUPS_KEPT[one.period];
    const groupValue = isKept ? one.groupValue : OTHERS;
    if (isKept && !isAlways) names.add(groupValue);
    const row = rows.get(groupValue) ?? emptyCounted({ ...one, groupValue });
    addCounted(row, one);
    rows.set(groupValue, row);
    changed.set(keyOf(row), row);
  }
  return [...changed.values()];
}

interface StoredPeriod {
  rows: Map<string, Counted>;
  /** Groups kept by name that count toward the limit. */
  names: Set<string>;
}

const periodKey = (one: Counted): string => keyOf({ ...one, groupValue: '' });

/**
 * Returns all groups of these few periods, with one statement per period: a join with a list of groups scans the table repeatedly while
 * PostgreSQL has no statistics for it, for example when an old log is counted.
 */
async function storedPeriods(
  tx: Transaction,
  { accountId, mode }: StatisticsOwner,
  counted: readonly Counted[],
): Promise<Map<string, StoredPeriod>> {
  const periods = new Map(counted.map((one) => [periodKey(one), one]));
  const read = async ([key, one]: [string, Counted]): Promise<[string, StoredPeriod]> => {
    const stored = await tx.all<StoredRow>(
      `SELECT ${STORED} FROM statistics s
       WHERE s.account_id = ? AND s.mode = ? AND s.dimension = ? AND s.period = ? AND s.start = ?`,
      accountId,
      mode,
      one.dimension,
      one.period,
      one.start,
    );
    const rows = new Map(stored.map((row) => [row.groupValue, countedOf(row)]));
    const limited = [...rows.keys()].filter((name) => name !== OTHERS && !isAlwaysKept(one.dimension, name));
    return [key, { rows, names: new Set(limited) }];
  };
  return new Map(await Promise.all([...periods].map(read)));
}

/** A log with events that are not counted yet. */
export interface StaleStatistics extends StatisticsOwner {
  /** Number of events, counted up to MAX_COUNTED_EVENTS. */
  events: number;
  /** Time of the first of these events, Unix ms. */
  sinceMs: number;
}

const MAX_COUNTED_EVENTS = 100_000;

export interface StaleStatisticsPage {
  behind: StaleStatistics[];
  /** Id of the account to continue after; null at the end. */
  next: string | null;
}

/** Returns the logs of the next accounts that have events after their cursors. */
export const staleStatisticsOperation = operation(
  'statistics.stale',
  'read',
  async (tx, { after, accounts }: { after: string; accounts: number }): Promise<StaleStatisticsPage> => {
    const ids = await tx.all<{ id: string }>(
      'SELECT id FROM account WHERE id > ? ORDER BY id LIMIT ?',
      after,
      accounts,
    );
    const log = logOrder(tx);
    const owners = rowset(
      tx,
      'owner',
      { accountId: 'text', mode: 'text' },
      ids.flatMap(({ id }) => (['live', 'sandbox'] as const).map((mode) => ({ accountId: id, mode }))),
    );
    const uncounted = `FROM event v WHERE v.account_id = o.account_id AND v.mode = o.mode AND ${log.settled}
      AND (${log.position}, v.seq) > (o.position, o.seq)`;
    const rows = await tx.all<{ accountId: string; mode: Mode; sinceMs: number | null; events: number }>(
      `SELECT * FROM (
         SELECT o.account_id AS "accountId", o.mode AS mode,
           (SELECT v.at ${uncounted} ORDER BY ${log.order('ASC')} LIMIT 1) AS "sinceMs",
           (SELECT count(*) FROM (SELECT 1 ${uncounted} LIMIT ${MAX_COUNTED_EVENTS}) AS uncounted) AS events
         FROM (SELECT owner.account_id, owner.mode, coalesce(c.position, 0) AS position, coalesce(c.seq, 0) AS seq
           FROM ${owners.sql} LEFT JOIN statistics_cursor c ON c.account_id = owner.account_id AND c.mode = owner.mode) AS o
       ) AS logs WHERE events > 0 ORDER BY 1, 2`,
      ...owners.params,
    );
    const isLast = ids.length < accounts;
    return { behind: rows.map((row) => ({ ...row, sinceMs: row.sinceMs! })), next: isLast ? null : ids.at(-1)!.id };
  },
);

/** Deletes counters of periods that started before `beforeMs`, up to `limit`. Returns how many it deleted. */
export const removeStatisticsOperation = operation(
  'statistics.remove',
  'write',
  async (tx, { beforeMs, limit }: { beforeMs: number; limit: number }): Promise<number> => {
    const key = 'account_id, mode, dimension, period, start, group_value';
    return tx.run(
      `DELETE FROM statistics WHERE (${key}) IN (SELECT ${key} FROM statistics WHERE start < ? LIMIT ?)`,
      beforeMs,
      limit,
    );
  },
);

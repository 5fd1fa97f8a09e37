/**
 * Reads the counters of one account and mode as of one moment: what is stored, plus the events that are not counted yet, so that the result
 * matches every event committed before. If too many events are not counted yet, there is no result instead of a wrong one.
 */
import type { EventPlace } from '../events/events.ts';
import { MAILBOX_DOMAINS, mailboxProviderOf } from '../mail/mailbox-provider.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import {
  addCounted,
  COUNTERS,
  type Counted,
  type Counter,
  count,
  type Dimension,
  emptyCounted,
  type GroupBy,
  OTHERS,
  PERIODS,
  type Period,
} from './counts.ts';
import { mergePacked, percentile } from './histogram.ts';
import { cursorOf, type StatisticsOwner, uncountedEvents } from './roll-up-store.ts';
import { columnOf, countedOf, STORED, type StoredRow } from './table.ts';

/** Maximum number of events that a call counts itself. */
const UNCOUNTED_AT_MOST = 5_000;

export interface StatisticsQuery extends StatisticsOwner {
  groupBy: GroupBy;
  period: Period;
  /** Unix ms, starts of periods; the second one is exclusive. */
  fromMs: number;
  untilMs: number;
  /** Number of named groups: those with the most accepted messages. Mailbox providers are all named. */
  groups: number;
}

export interface StatisticsBucket extends Record<Counter, number> {
  start: number;
  /** Null: all groups that are not named. */
  group: string | null;
  /** Milliseconds; null if nothing was delivered, and for the sum of other groups. */
  p50: number | null;
  p95: number | null;
}

/** Retries if a counting step interferes, before there is no result. */
const TRIES = 10;

/** Returns nonempty buckets, oldest first, within a period in the order of the groups; null if too many events are not counted yet. */
export const readStatisticsOperation = operation(
  'statistics.read',
  'read',
  async (tx, query: StatisticsQuery): Promise<StatisticsBucket[] | null> => {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const cursor = await cursorOf(tx, query);
      const buckets = await bucketsBehind(tx, query, cursor);
      // SQLite statements do not share a snapshot: events counted in between would appear twice.
      if ((await cursorOf(tx, query)).seq === cursor.seq) return buckets;
    }
    return null;
  },
);

export interface DomainReceivedMail {
  accountId: string;
  /** In A-labels. */
  domain: string;
  /** Unix ms, in the first and the last day of the range. */
  fromMs: number;
  untilMs: number;
}

/**
 * Returns whether a domain accepted live mail of an account in these days, according to the counters: they lack the last minute, and
 * domains that were not kept by name on a day.
 */
export const acceptedMailOperation = operation(
  'statistics.acceptedMail',
  'read',
  async (tx, { accountId, domain, fromMs, untilMs }: DomainReceivedMail): Promise<boolean> => {
    const first = Math.floor(fromMs / PERIODS.day);
    const count = Math.floor(untilMs / PERIODS.day) - first + 1;
    const days = Array.from({ length: count }, (_, index) => (first + index) * PERIODS.day);
    const found = await tx.get(
      `SELECT 1 AS found FROM statistics s WHERE s.account_id = ? AND s.mode = 'live' AND s.dimension = 'recipientDomain'
         AND s.period = 'day' AND s.start IN (${days.map(() => '?').join(', ')}) AND s.group_value = ? AND s.delivered > 0
       LIMIT 1`,
      accountId,
      ...days,
      domain,
    );
    return found !== undefined;
  },
);

export interface FailingLately {
  accountIds: string[];
  /** The account to continue after; null at the end. */
  next: string | null;
}

/** Returns, of the next accounts, those whose live mail had hard bounces or complaints since this hour. */
export const failingLatelyOperation = operation(
  'statistics.failingLately',
  'read',
  async (tx, requested: { after: string; accounts: number; fromMs: number }): Promise<FailingLately> => {
    const ids = await tx.all<{ id: string; failed: number }>(
      `SELECT a.id, CASE WHEN EXISTS (SELECT 1 FROM statistics s WHERE s.account_id = a.id AND s.mode = 'live'
         AND s.dimension = 'none' AND s.period = 'hour' AND s.start >= ? AND s.bounced_hard + s.complained > 0)
         THEN 1 ELSE 0 END AS failed
       FROM account a WHERE a.id > ? ORDER BY a.id LIMIT ?`,
      requested.fromMs,
      requested.after,
      requested.accounts,
    );
    const accountIds = ids.flatMap(({ id, failed }) => (failed === 1 ? [id] : []));
    return { accountIds, next: ids.length < requested.accounts ? null : ids.at(-1)!.id };
  },
);

export interface AnsweredCounts {
  answered: number;
  bouncedHard: number;
  complained: number;
}

/** Returns live mail of an account with a result, in the hours since each of these times, as far as counted. */
export const answeredOperation = operation(
  'statistics.answered',
  'read',
  (tx, { accountId, fromMs }: { accountId: string; fromMs: number[] }): Promise<AnsweredCounts[]> =>
    Promise.all(
      fromMs.map(async (from) => {
        const counts = await tx.get<AnsweredCounts>(
          `SELECT CAST(coalesce(sum(delivered + bounced_hard + bounced_soft + bounced_block), 0) AS BIGINT) AS answered,
             CAST(coalesce(sum(bounced_hard), 0) AS BIGINT) AS "bouncedHard",
             CAST(coalesce(sum(complained), 0) AS BIGINT) AS complained
           FROM statistics WHERE account_id = ? AND mode = 'live' AND dimension = 'none' AND period = 'hour' AND start >= ?`,
          accountId,
          Math.floor(from / PERIODS.hour) * PERIODS.hour,
        );
        return counts!;
      }),
    ),
);

async function bucketsBehind(
  tx: Transaction,
  query: StatisticsQuery,
  cursor: EventPlace,
): Promise<StatisticsBucket[] | null> {
  const uncounted = await uncountedOf(tx, query, cursor);
  if (uncounted === null) return null;
  const isByProvider = query.groupBy === 'mailboxProvider';
  const names = isByProvider ? [] : await namesOf(tx, query, uncounted);
  const stored = isByProvider
    ? await providerRows(tx, query)
    : [...(await namedRows(tx, query, names)), ...(await otherRows(tx, query, names))];
  const buckets = new Map(stored.map((row) => [`${row.start} ${row.groupValue}`, row]));
  for (const one of uncounted) {
    const name = isByProvider ? mailboxProviderOf(one.groupValue) : names.find((named) => named === one.groupValue);
    const groupValue = name ?? OTHERS;
    const key = `${one.start} ${groupValue}`;
    const bucket = buckets.get(key) ?? emptyCounted({ ...one, groupValue });
    addCounted(bucket, one);
    buckets.set(key, bucket);
  }
  const all = [...buckets.values()];
  const order = isByProvider ? byAccepted(all) : names;
  const rank = (one: Counted): number => (one.groupValue === OTHERS ? order.length : order.indexOf(one.groupValue));
  return all.sort((a, b) => a.start - b.start || rank(a) - rank(b)).map(bucketOf);
}

/** Returns the groups with the most accepted messages first. */
function byAccepted(buckets: readonly Counted[]): string[] {
  const accepted = new Map<string, number>();
  for (const one of buckets) accepted.set(one.groupValue, (accepted.get(one.groupValue) ?? 0) + one.accepted);
  accepted.delete(OTHERS);
  return [...accepted].sort(([a, most], [b, more]) => more - most || (a < b ? -1 : 1)).map(([group]) => group);
}

const dimensionOf = (groupBy: GroupBy): Dimension => (groupBy === 'mailboxProvider' ? 'recipientDomain' : groupBy);

function bucketOf({ start, groupValue, deliveryMs, dimension, period, ...counters }: Counted): StatisticsBucket {
  const isOthers = groupValue === OTHERS;
  const timeOf = (share: number): number | null => (isOthers ? null : percentile(deliveryMs, share));
  return { start, group: isOthers ? null : groupValue, ...counters, p50: timeOf(0.5), p95: timeOf(0.95) };
}

/** Returns the events in the range that are not counted yet; null if they are too many. */
async function uncountedOf(tx: Transaction, query: StatisticsQuery, after: EventPlace): Promise<Counted[] | null> {
  const limit = UNCOUNTED_AT_MOST + 1;
  const events = await uncountedEvents(tx, query, { after, limit, unsettled: true });
  if (events.length === limit) return null;
  const within = events.filter(({ at }) => at >= query.fromMs && at < query.untilMs);
  return count(within, { dimensions: [dimensionOf(query.groupBy)], periods: [query.period] }).counted;
}

function condition({ accountId, mode, groupBy, period, fromMs, untilMs }: StatisticsQuery): {
  sql: string;
  params: SqlValue[];
} {
  return {
    sql: 's.account_id = ? AND s.mode = ? AND s.dimension = ? AND s.period = ? AND s.start >= ? AND s.start < ?',
    params: [accountId, mode, dimensionOf(groupBy), period, fromMs, untilMs],
  };
}

/** Returns the names of the groups, those with the most accepted messages first. */
async function namesOf(tx: Transaction, query: StatisticsQuery, uncounted: Counted[]): Promise<string[]> {
  if (query.groupBy === 'none') return [''];
  const requested = condition(query);
  const stored = await tx.all<{ name: string }>(
    `SELECT s.group_value AS name FROM statistics s WHERE ${requested.sql} AND s.group_value <> '${OTHERS}'
     GROUP BY s.group_value ORDER BY sum(s.accepted) DESC, s.group_value LIMIT ?`,
    ...requested.params,
    query.groups,
  );
  // If stored groups are left out, no group that is only in uncounted events has more messages than they.
  const fresh = [...uncounted].sort((a, b) => b.accepted - a.accepted).map((one) => one.groupValue);
  return [...new Set([...stored.map(({ name }) => name), ...fresh])].slice(0, query.groups);
}

function namesRowset(tx: Transaction, names: readonly string[]) {
  return rowset(
    tx,
    'named',
    { name: 'text' },
    names.map((name) => ({ name })),
  );
}

async function namedRows(tx: Transaction, query: StatisticsQuery, names: string[]): Promise<Counted[]> {
  const requested = condition(query);
  const named = namesRowset(tx, names);
  const rows = await tx.all<StoredRow>(
    `SELECT ${STORED} FROM statistics s WHERE ${requested.sql} AND s.group_value IN (SELECT named.name FROM ${named.sql})`,
    ...requested.params,
    ...named.params,
  );
  return rows.map(countedOf);
}

const SUMS = COUNTERS.map((counter) => `CAST(sum(s.${columnOf(counter)}) AS BIGINT) AS "${counter}"`).join(', ');

/** Returns the sum of all unnamed groups, one row per period. */
async function otherRows(tx: Transaction, query: StatisticsQuery, names: readonly string[]): Promise<Counted[]> {
  if (query.groupBy === 'none') return [];
  const requested = condition(query);
  const named = namesRowset(tx, names);
  const rows = await tx.all<Pick<Counted, 'start' | Counter>>(
    `SELECT s.start, ${SUMS} FROM statistics s
     WHERE ${requested.sql} AND s.group_value NOT IN (SELECT named.name FROM ${named.sql}) GROUP BY s.start`,
    ...requested.params,
    ...named.params,
  );
  const { groupBy, period } = query;
  const dimension = dimensionOf(groupBy);
  return rows.map((row) => ({ ...row, dimension, period, groupValue: OTHERS, deliveryMs: new Map() }));
}

/**
 * Returns the sums of the mailbox providers and of all other domains, a row for each per period. Packed histograms are added directly,
 * because large accounts have rows of many domains in each of many hours.
 */
async function providerRows(tx: Transaction, query: StatisticsQuery): Promise<Counted[]> {
  const requested = condition(query);
  const listed = rowset(
    tx,
    'listed',
    { name: 'text' },
    MAILBOX_DOMAINS.map((name) => ({ name })),
  );
  const rows = await tx.all<Omit<StoredRow, 'dimension' | 'period'>>(
    `SELECT ${STORED} FROM statistics s WHERE ${requested.sql} AND s.group_value IN (SELECT listed.name FROM ${listed.sql})`,
    ...requested.params,
    ...listed.params,
  );
  const { period } = query;
  const sums = new Map<string, Counted>();
  for (const row of rows) {
    const groupValue = mailboxProviderOf(row.groupValue)!;
    const key = `${row.start} ${groupValue}`;
    let sum = sums.get(key);
    if (!sum) {
      sum = emptyCounted({ dimension: 'recipientDomain', period, start: row.start, groupValue });
      sums.set(key, sum);
    }
    for (const counter of COUNTERS) sum[counter] += row[counter];
    if (row.deliveryMs) mergePacked(sum.deliveryMs, row.deliveryMs);
  }
  return [...sums.values(), ...(await otherRows(tx, query, MAILBOX_DOMAINS))];
}

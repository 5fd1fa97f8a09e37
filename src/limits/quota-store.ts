/**
 * Enforces quotas: the number of messages that an account can send per day and per month (UTC), if an operator has set a maximum. Every
 * recipient is one message. Live and sandbox messages are counted separately, each by the clock of their mode. A send that would exceed a
 * quota is refused entirely, in the transaction that would have stored it, so the count is exact across all nodes. The messages of accounts
 * without a quota are not counted.
 */
import { type Failure, failure } from '../base/failure.ts';
import { idFloor } from '../base/ids.ts';
import type { Mode, Owner } from '../base/mode.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { QUOTA_NAMES, type QuotaName, type SetLimits } from './account-limits.ts';

const DAY_MS = 86_400_000;
/**
 * A send is counted when it is stored, which can be seconds after it arrived, and the clocks of nodes differ: times up to this long before
 * the counted period belong to that period. Earlier times start a period, because a clock was wrong or a sandbox clock was reset.
 */
const LATE_MS = 3_600_000;
/** Percentages at which the account is notified, the highest first. */
const LEVELS = [100, 80] as const;

type Level = 0 | (typeof LEVELS)[number];

/** The period of each quota; columns of `message_quota` start with its name. */
export const PERIODS = { messagesPerDay: 'day', messagesPerMonth: 'month' } as const satisfies Record<
  QuotaName,
  string
>;

export interface QuotaReached {
  quota: QuotaName;
  most: number;
  /** Messages that were counted in this period before this send. */
  used: number;
  /** Messages of the send that was refused. */
  asked: number;
  /** Ms until the period ends. */
  resetsInMs: number;
}

/** Returns QUOTA_EXCEEDED, with the seconds until the period ends. The message names what needs the messages. */
export function quotaExceeded(
  { quota, most, used, asked, resetsInMs }: QuotaReached,
  noun: 'email' | 'batch' = 'email',
): Failure {
  const period = PERIODS[quota];
  const left = Math.max(0, most - used);
  return failure('QUOTA_EXCEEDED', {
    message: `The account can send ${most} messages per ${period} (limits.${quota} in GET /account) and has ${left} left, but this ${noun} needs ${asked}. Retry after the ${period} ends (UTC), or ask your operator to raise the limit.`,
    retryAfterSeconds: Math.ceil(resetsInMs / 1000),
  });
}

/** Returns the start and end of the UTC day or month, in Unix ms. */
export function periodOf(quota: QuotaName, nowMs: number): { startMs: number; endMs: number } {
  if (quota === 'messagesPerDay') {
    const startMs = nowMs - (nowMs % DAY_MS);
    return { startMs, endMs: startMs + DAY_MS };
  }
  const now = new Date(nowMs);
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  return { startMs: Date.UTC(year, month), endMs: Date.UTC(year, month + 1) };
}

/** Returns the count of the period of this time, which is empty if the period is a new one. */
function countAt(quota: QuotaName, stored: Count, nowMs: number): Count {
  const isLate = nowMs < stored.startMs && stored.startMs - nowMs <= LATE_MS;
  const { startMs } = periodOf(quota, nowMs);
  return isLate || stored.startMs === startMs ? stored : { startMs, used: 0, level: 0, notified: 0 };
}

/** Returns the highest percentage in LEVELS that this use reaches; 0 if none. A quota of 0 is always used up. */
function levelOf(used: number, most: number): Level {
  return LEVELS.find((level) => used * 100 >= most * level) ?? 0;
}

interface Count {
  startMs: number;
  used: number;
  /** The level that this use reached, and the level that the account was notified of. */
  level: number;
  notified: number;
}

type Counts = Record<QuotaName, Count>;

interface CountRow {
  accountId: string;
  mode: Mode;
  dayStart: number;
  dayUsed: number;
  dayLevel: number;
  dayNotified: number;
  monthStart: number;
  monthUsed: number;
  monthLevel: number;
  monthNotified: number;
}

const COLUMNS = `q.account_id AS "accountId", q.mode, q.day_start AS "dayStart", q.day_used AS "dayUsed", q.day_level AS "dayLevel",
  q.day_notified AS "dayNotified", q.month_start AS "monthStart", q.month_used AS "monthUsed", q.month_level AS "monthLevel",
  q.month_notified AS "monthNotified"`;

function countsOf(row: CountRow | undefined): Counts {
  return {
    messagesPerDay: {
      startMs: row?.dayStart ?? 0,
      used: row?.dayUsed ?? 0,
      level: row?.dayLevel ?? 0,
      notified: row?.dayNotified ?? 0,
    },
    messagesPerMonth: {
      startMs: row?.monthStart ?? 0,
      used: row?.monthUsed ?? 0,
      level: row?.monthLevel ?? 0,
      notified: row?.monthNotified ?? 0,
    },
  };
}

async function writeCounts(
  tx: Transaction,
  { accountId, mode }: Owner,
  { messagesPerDay: day, messagesPerMonth: month }: Counts,
): Promise<void> {
  await tx.run(
    `INSERT INTO message_quota (account_id, mode, day_start, day_used, day_level, day_notified, month_start, month_used, month_level,
       month_notified)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (account_id, mode) DO UPDATE SET day_start = excluded.day_start, day_used = excluded.day_used,
       day_level = excluded.day_level, day_notified = excluded.day_notified, month_start = excluded.month_start,
       month_used = excluded.month_used, month_level = excluded.month_level, month_notified = excluded.month_notified`,
    accountId,
    mode,
    day.startMs,
    day.used,
    day.level,
    day.notified,
    month.startMs,
    month.used,
    month.level,
    month.notified,
  );
}

const keyOf = ({ accountId, mode }: Owner): string => `${mode} ${accountId}`;

export interface QuotaUse extends Owner {
  messages: number;
  /** Unix ms, by the clock of the mode. */
  nowMs: number;
}

export interface Quotas {
  /** Counts the messages if all of them fit into the quotas; otherwise counts none and returns the exceeded quota. */
  take(use: QuotaUse): QuotaReached | undefined;
  /** Stores the counts. */
  write(): Promise<void>;
}

const UNLIMITED: Quotas = { take: () => undefined, write: async () => undefined };

/** Reads the quotas of these accounts and locks the rows of accounts that have any, until the transaction ends. */
export async function readQuotas(tx: Transaction, owners: readonly Owner[]): Promise<Quotas> {
  const ids = [...new Set(owners.map(({ accountId }) => accountId))].map((id) => ({ id }));
  const requested = rowset(tx, 'requested', { id: 'text' }, ids);
  const accounts = await tx.all<{ id: string; limits: string }>(
    `SELECT a.id, a.limits FROM account a WHERE a.id IN (SELECT requested.id FROM ${requested.sql}) AND a.limits LIKE '%"messagesPer%'
     ORDER BY a.id ${locked(tx)}`,
    ...requested.params,
  );
  if (accounts.length === 0) return UNLIMITED;
  // This is a separate statement, so it sees what the previous holder of the lock has committed.
  const limited = rowset(tx, 'limited', { id: 'text' }, accounts);
  const rows = await tx.all<CountRow>(
    `SELECT ${COLUMNS} FROM message_quota q WHERE q.account_id IN (SELECT limited.id FROM ${limited.sql})`,
    ...limited.params,
  );
  const limits = new Map(accounts.map(({ id, limits }) => [id, JSON.parse(limits) as SetLimits]));
  const counts = new Map(rows.map((row) => [keyOf(row), countsOf(row)]));
  const changed = new Map<string, Owner>();
  return {
    take: ({ accountId, mode, messages, nowMs }) => {
      const set = limits.get(accountId);
      if (set === undefined) return undefined;
      const key = keyOf({ accountId, mode });
      const current = counts.get(key) ?? countsOf(undefined);
      counts.set(key, current);
      changed.set(key, { accountId, mode });
      return countMessages(current, set, { messages, nowMs });
    },
    write: async () => {
      for (const [key, owner] of changed) await writeCounts(tx, owner, counts.get(key)!);
    },
  };
}

function countMessages(
  counts: Counts,
  set: SetLimits,
  { messages, nowMs }: { messages: number; nowMs: number },
): QuotaReached | undefined {
  let reached: QuotaReached | undefined;
  for (const quota of QUOTA_NAMES) {
    const count = countAt(quota, counts[quota], nowMs);
    counts[quota] = count;
    const most = set[quota];
    if (most === undefined || count.used + messages <= most) continue;
    count.level = 100;
    const { endMs } = periodOf(quota, count.startMs);
    reached = { quota, most, used: count.used, asked: messages, resetsInMs: endMs - nowMs };
  }
  if (reached !== undefined) return reached;
  for (const quota of QUOTA_NAMES) {
    const count = counts[quota];
    const most = set[quota];
    count.used += messages;
    if (most !== undefined) count.level = Math.max(count.level, levelOf(count.used, most));
  }
  return undefined;
}

/**
 * Starts counting when an operator sets a quota: live messages that were accepted earlier in the period count too, up to the quota. A count
 * of this period never decreases, because it includes messages whose records were deleted since. Of a quota that was removed, the account
 * gets no more notices. The caller holds the lock on the account's row. Sandbox messages are counted from their next send.
 */
export async function recountQuotas(
  tx: Transaction,
  { accountId, limits, nowMs }: { accountId: string; limits: SetLimits; nowMs: number },
): Promise<void> {
  const owner = { accountId, mode: 'live' as const };
  const row = await tx.get<CountRow>(
    `SELECT ${COLUMNS} FROM message_quota q WHERE q.account_id = ? AND q.mode = 'live'`,
    accountId,
  );
  const counts = countsOf(row);
  for (const quota of QUOTA_NAMES) {
    const before = countAt(quota, counts[quota], nowMs);
    const most = limits[quota];
    if (most === undefined) {
      counts[quota] = { ...before, level: Math.min(before.level, before.notified) };
      continue;
    }
    const counted = await tx.get<{ n: number }>(
      `SELECT count(*) AS n FROM (SELECT 1 FROM message WHERE account_id = ? AND mode = 'live' AND id >= ? LIMIT ?) m`,
      accountId,
      idFloor('msg', before.startMs),
      most,
    );
    const used = Math.max(before.used, counted?.n ?? 0);
    const level = levelOf(used, most);
    counts[quota] = { ...before, used, level, notified: Math.min(before.notified, level) };
  }
  await writeCounts(tx, owner, counts);
}

export type QuotaUsage = Record<QuotaName, number | null>;

/** Returns the live messages that count toward each quota of an account in the current period; null if there is no quota. */
export const quotaUsageOperation = operation(
  'limits.quotaUsage',
  'read',
  async (tx, { accountId, nowMs }: { accountId: string; nowMs: number }): Promise<QuotaUsage> => {
    const account = await tx.get<{ limits: string }>('SELECT limits FROM account WHERE id = ?', accountId);
    const set = JSON.parse(account?.limits ?? '{}') as SetLimits;
    const row = await tx.get<CountRow>(
      `SELECT ${COLUMNS} FROM message_quota q WHERE q.account_id = ? AND q.mode = 'live'`,
      accountId,
    );
    const counts = countsOf(row);
    const usedOf = (quota: QuotaName): number | null => {
      if (set[quota] === undefined) return null;
      return countAt(quota, counts[quota], nowMs).used;
    };
    return { messagesPerDay: usedOf('messagesPerDay'), messagesPerMonth: usedOf('messagesPerMonth') };
  },
);

export interface QuotaNotice {
  accountId: string;
  quota: QuotaName;
  level: number;
  most: number;
  used: number;
  startMs: number;
}

/** Returns live quotas with a level that the account has not been notified of. */
export const quotaNoticesOperation = operation(
  'limits.quotaNotices',
  'read',
  async (tx, limit: number): Promise<QuotaNotice[]> => {
    const rows = await tx.all<CountRow & { limits: string }>(
      `SELECT ${COLUMNS}, a.limits FROM message_quota q JOIN account a ON a.id = q.account_id
       WHERE (q.day_level > q.day_notified OR q.month_level > q.month_notified) AND q.mode = 'live'
       ORDER BY q.account_id LIMIT ?`,
      limit,
    );
    return rows.flatMap(({ accountId, limits, ...row }) => {
      const set = JSON.parse(limits) as SetLimits;
      const counts = countsOf({ accountId, ...row });
      return QUOTA_NAMES.flatMap((quota) => {
        const { level, notified, used, startMs } = counts[quota];
        const most = set[quota];
        return most !== undefined && level > notified ? [{ accountId, quota, level, most, used, startMs }] : [];
      });
    });
  },
);

/** Records that a notice was sent; does nothing if its period has ended since. */
export const quotaNoticeGivenOperation = operation(
  'limits.quotaNoticeGiven',
  'write',
  async (tx, { accountId, quota, level, startMs }: QuotaNotice): Promise<void> => {
    const period = PERIODS[quota];
    await tx.run(
      `UPDATE message_quota SET ${period}_notified = ?
       WHERE account_id = ? AND mode = 'live' AND ${period}_start = ? AND ${period}_level >= ?`,
      level,
      accountId,
      startMs,
      level,
    );
  },
);

/**
 * Counts the messages of an account and their results, over the newest messages of one mode. Figures are exact at the time of the call;
 * above tens of thousands of messages, where counting is expensive, they are cached for a few seconds. Counting stops at a limit, so
 * figures of a huge account are lower bounds.
 */
import type { Clock } from '../base/clock.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import { type MessageCounts, messageCountsOperation } from './store.ts';
import { ADVICE, reaching, THRESHOLDS, type Thresholds } from './thresholds.ts';

const DAY_MS = 86_400_000;
const USAGE_DAYS = 30;
const HEALTH_DAYS = 7;
const COUNTED_AT_MOST = 100_000;
/** Counted again with each call: some milliseconds. */
const EXACT_UP_TO = 30_000;
const KEPT_MS = 5_000;
const ACCOUNTS_KEPT = 1_000;
/** `msg_` and the time part of an id. */
const TIME_PREFIX_LENGTH = 12;
const WAITING = ['queued', 'scheduled', 'delayed'];

export interface Usage {
  messagesToday: number;
  messagesLast30Days: number;
  /** Waiting: queued, scheduled or delayed. */
  queued: number;
}

interface Health {
  /** Good while there are too few messages to rate. */
  status: 'good' | 'warning' | 'critical';
  periodDays: number;
  messages: number;
  delivered: number;
  bounced: number;
  complained: number;
  queued: number;
  /** Shares of the messages that were delivered, bounced, or complained about. */
  bounceRate: number;
  complaintRate: number;
  thresholds: Thresholds;
  advice: string[];
}

interface Period {
  accountId: string;
  mode: Mode;
  days: number;
}

export interface UsageReader {
  usage(accountId: string, mode: Mode): Promise<Usage>;
  /** Uses the standard thresholds unless others are given. */
  health(accountId: string, mode: Mode, thresholds?: Thresholds): Promise<Health>;
}

export function createUsageReader(options: {
  database: Database;
  clock: Clock;
  /** Up to this number of messages each call counts again; default 30,000. */
  exactUpTo?: number;
}): UsageReader {
  const { database, clock } = options;
  const count = (period: Period): Promise<MessageCounts[]> => {
    const nowMs = clock.now();
    return database.execute(messageCountsOperation, {
      accountId: period.accountId,
      mode: period.mode,
      fromId: newId('msg', nowMs - period.days * DAY_MS).slice(0, TIME_PREFIX_LENGTH),
      recentMs: nowMs - (nowMs % DAY_MS),
      limit: COUNTED_AT_MOST,
    });
  };
  const cache = createFreshCache<Period, MessageCounts[]>({
    clock,
    maxAgeMs: KEPT_MS,
    limit: ACCOUNTS_KEPT,
    absentLimit: 0,
    read: count,
  });
  const large = new Set<string>();
  const counts = async (period: Period): Promise<MessageCounts[]> => {
    const key = `${period.accountId} ${period.mode} ${period.days}`;
    const kept = large.has(key) ? await cache.get(key, period) : undefined;
    const rows = kept ?? (await count(period));
    large.delete(key);
    if (total(rows, () => true) > (options.exactUpTo ?? EXACT_UP_TO)) large.add(key);
    if (large.size > ACCOUNTS_KEPT) large.delete(large.values().next().value as string);
    return rows;
  };

  return {
    usage: async (accountId, mode) => {
      const rows = await counts({ accountId, mode, days: USAGE_DAYS });
      return {
        messagesToday: rows.reduce((sum, row) => sum + row.recentMessages, 0),
        messagesLast30Days: total(rows, () => true),
        queued: total(rows, (status) => WAITING.includes(status)),
      };
    },
    health: async (accountId, mode, thresholds) =>
      healthOf(await counts({ accountId, mode, days: HEALTH_DAYS }), thresholds),
  };
}

function total(rows: MessageCounts[], wanted: (status: string) => boolean): number {
  return rows.reduce((sum, row) => (wanted(row.status) ? sum + row.messages : sum), 0);
}

const rounded = (share: number): number => Math.round(share * 10_000) / 10_000;

/** Compares the rates with the thresholds. */
export function healthOf(rows: MessageCounts[], thresholds: Thresholds = THRESHOLDS): Health {
  const of = (name: string): number => total(rows, (status) => status === name);
  const [delivered, bounced, complained] = [of('delivered'), of('bounced'), of('complained')];
  const settled = delivered + bounced + complained;
  const rates = {
    bounceRate: settled === 0 ? 0 : bounced / settled,
    complaintRate: settled === 0 ? 0 : complained / settled,
    answered: settled,
  };
  const high = reaching('warning', rates, thresholds);
  const isCritical = reaching('critical', rates, thresholds).length > 0;
  return {
    status: isCritical ? 'critical' : high.length > 0 ? 'warning' : 'good',
    periodDays: HEALTH_DAYS,
    messages: total(rows, () => true),
    delivered,
    bounced,
    complained,
    queued: total(rows, (status) => WAITING.includes(status)),
    bounceRate: rounded(rates.bounceRate),
    complaintRate: rounded(rates.complaintRate),
    thresholds,
    advice: high.map((name) => ADVICE[name]),
  };
}

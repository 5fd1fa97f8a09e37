/**
 * What an account has sent and how it fared, counted over the newest messages of one mode. The figures are exact as of the
 * call; only where counting has become dear, for tens of thousands of messages, are they kept for a few seconds. Counting
 * stops at a bound, so that the figures of a huge account are a floor.
 */
import type { Clock } from '../base/clock.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import { type MessageCounts, messageCountsOperation } from './store.ts';

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

/** From which share on a rate is high, and too high; nothing is said of fewer messages than `minimumMessages`. */
interface Threshold {
  warning: number;
  critical: number;
  /** Messages that were answered for, in the period. */
  minimumMessages: number;
}

/**
 * Complaints: 0.1 % is much and 0.3 % too much for Google and Yahoo (their rules for senders); bounces: 5 and 10 %, as Amazon SES puts
 * accounts under review and pauses them. Of a thousand messages one complaint is 0.1 %: of fewer it says nothing.
 */
export const THRESHOLDS = {
  bounceRate: { warning: 0.05, critical: 0.1, minimumMessages: 100 },
  complaintRate: { warning: 0.001, critical: 0.003, minimumMessages: 1_000 },
} as const satisfies Record<string, Threshold>;

interface Health {
  /** Good as long as there are too few messages to say more. */
  status: 'good' | 'warning' | 'critical';
  periodDays: number;
  messages: number;
  delivered: number;
  bounced: number;
  complained: number;
  queued: number;
  /** Shares of the messages that were answered for: delivered, bounced or complained. */
  bounceRate: number;
  complaintRate: number;
  thresholds: Record<keyof typeof THRESHOLDS, Threshold>;
  advice: string[];
}

interface Period {
  accountId: string;
  mode: Mode;
  days: number;
}

export interface UsageReader {
  usage(accountId: string, mode: Mode): Promise<Usage>;
  health(accountId: string, mode: Mode): Promise<Health>;
}

export function createUsageReader(options: {
  database: Database;
  clock: Clock;
  /** Messages up to which each call counts again; 30,000 by default. */
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
        messagesToday: rows.reduce((sum, row) => sum + row.sinceRecently, 0),
        messagesLast30Days: total(rows, () => true),
        queued: total(rows, (status) => WAITING.includes(status)),
      };
    },
    health: async (accountId, mode) => healthOf(await counts({ accountId, mode, days: HEALTH_DAYS })),
  };
}

function total(rows: MessageCounts[], wanted: (status: string) => boolean): number {
  return rows.reduce((sum, row) => (wanted(row.status) ? sum + row.messages : sum), 0);
}

const rounded = (share: number): number => Math.round(share * 10_000) / 10_000;

const ADVICE = {
  bounceRate: 'Many addresses do not exist: confirm addresses when they are entered, and stop writing to old ones.',
  complaintRate: 'Many recipients report the mail as spam: send only what they asked for, and make it easy to stop.',
} as const;

/** How the rates stand against the thresholds. */
export function healthOf(rows: MessageCounts[]): Health {
  const of = (name: string): number => total(rows, (status) => status === name);
  const [delivered, bounced, complained] = [of('delivered'), of('bounced'), of('complained')];
  const settled = delivered + bounced + complained;
  const rates = {
    bounceRate: settled === 0 ? 0 : bounced / settled,
    complaintRate: settled === 0 ? 0 : complained / settled,
  };
  const reaching = (level: 'warning' | 'critical') =>
    (['bounceRate', 'complaintRate'] as const).filter(
      (name) => settled >= THRESHOLDS[name].minimumMessages && rates[name] >= THRESHOLDS[name][level],
    );
  const high = reaching('warning');
  return {
    status: reaching('critical').length > 0 ? 'critical' : high.length > 0 ? 'warning' : 'good',
    periodDays: HEALTH_DAYS,
    messages: total(rows, () => true),
    delivered,
    bounced,
    complained,
    queued: total(rows, (status) => WAITING.includes(status)),
    bounceRate: rounded(rates.bounceRate),
    complaintRate: rounded(rates.complaintRate),
    thresholds: THRESHOLDS,
    advice: high.map((name) => ADVICE[name]),
  };
}

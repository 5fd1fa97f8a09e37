/**
 * Limits how many messages per day an address that is new to a large provider sends to it (warm-up-ramp.ts), counted across all nodes.
 * Messages over the share wait for the next day, or use another address that has capacity. Providers are those of providers.json: other
 * destinations receive too little mail to matter, or the operator's own file names them.
 *
 * A node takes one fiftieth of the day's share from the database at a time (at most 100 messages) before sending, so most messages need no
 * query. Messages that the provider accepted or permanently refused count, and those that hung between the final dot and its reply;
 * deferred ones do not. Shares unused for ten seconds, or at shutdown, are returned; after a crash they count as sent. When no usable
 * address has anything left, the destination is paused until midnight UTC, like one that asks for time (registry.ts), without an attempt
 * for queued messages: on all nodes, except those with an address that may still send.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { WarmUpStart } from '../../config.ts';
import type { Database } from '../../storage/database.ts';
import { warmingUp } from '../outcome/outcome.ts';
import type { Provider } from './providers.ts';
import type { SendLimits, Shares } from './shares.ts';
import { beginningOf, dayOf, shareOfDay } from './warm-up-ramp.ts';
import { returnWarmUpShareOperation, takeWarmUpShareOperation, type UnusedShare } from './warm-up-store.ts';

const BATCHES_A_DAY = 50;
const LARGEST_BATCH = 100;
const IDLE_MS = 10_000;
/** Without source addresses, all nodes count as one host. */
const HOST = '';

export interface WarmUp extends SendLimits {
  /**
   * Returns whether an address of this node may still send to the destination today. Without source addresses this is false, because all
   * nodes count as one host.
   */
  maySend(destination: string): boolean;
}

export interface WarmUpSettings {
  starts: readonly WarmUpStart[];
  /** POSTRIDER_SOURCE_ADDRESSES. */
  sources: readonly string[];
}

export interface WarmUpOptions extends WarmUpSettings {
  database: Database;
  clock: Clock;
  log: Log;
  /** The provider of providers.json with the name of this destination. */
  providerOf(destination: string): Provider | undefined;
}

interface Allotment {
  source: string;
  /** Day number of the warm-up. */
  dayNumber: number;
  share: number;
  left: number;
  /** The total taken by all nodes, as far as this node knows. */
  taken: number;
  isSpent: boolean;
}

interface Day {
  day: number;
  provider: string;
  /** Addresses with a share today; others are not limited. */
  sources: Map<string, Allotment>;
  isForAll: boolean;
  asking: Promise<void> | undefined;
  usedMs: number;
}

function wordsOf({ provider, sources }: Day): string {
  return [...sources.values()]
    .map(({ source, dayNumber, share, taken, left }) => {
      const from = source === HOST ? '' : ` from ${source}`;
      return `warm-up day ${dayNumber}: ${taken - left} of ${share} messages to ${provider} today${from}`;
    })
    .join('; ');
}

function batchOf(share: number, mails: number): number {
  return Math.max(mails, Math.min(LARGEST_BATCH, Math.floor(share / BATCHES_A_DAY)));
}

export function openWarmUp({ database, clock, log, starts, sources, providerOf }: WarmUpOptions): WarmUp {
  const days = new Map<string, Day>();
  const addresses = sources.length > 0 ? sources : [HOST];
  const forAll = starts.find(({ address }) => address === null);
  const startOf = (source: string): WarmUpStart | undefined =>
    starts.find(({ address }) => address === source) ?? forAll;

  const begin = (provider: string, day: number): Day => {
    const allotments = addresses.flatMap((source): Allotment[] => {
      const start = startOf(source);
      if (!start) return [];
      const dayNumber = Math.max(1, day - start.firstDay + 1);
      const share = shareOfDay(dayNumber);
      return share === undefined ? [] : [{ source, dayNumber, share, left: 0, taken: 0, isSpent: false }];
    });
    const bySource = new Map(allotments.map((one) => [one.source, one]));
    return { day, provider, sources: bySource, isForAll: bySource.size > 0, asking: undefined, usedMs: clock.now() };
  };

  const today = (destination: string): Day | undefined => {
    if (starts.length === 0 || !providerOf(destination)) return undefined;
    const day = dayOf(clock.now());
    let found = days.get(destination);
    if (found?.day !== day) {
      found = begin(destination, day);
      days.set(destination, found);
    }
    return found.isForAll ? found : undefined;
  };

  const ask = async (day: Day, wanting: readonly Allotment[], mails: number): Promise<void> => {
    const grants = await database.execute(takeWarmUpShareOperation, {
      provider: day.provider,
      day: day.day,
      sources: wanting.map(({ source, share }) => ({ source, share, wanted: batchOf(share, mails) })),
    });
    for (const { source, granted, taken } of grants) {
      const allotment = day.sources.get(source)!;
      allotment.left += granted;
      allotment.taken = taken;
      allotment.isSpent = granted === 0;
    }
  };

  const sharesOf = (day: Day): Shares => {
    const all = [...day.sources.values()];
    const isOver = (): boolean => dayOf(clock.now()) !== day.day;
    const allotmentOf = (source: string | undefined): Allotment | undefined => day.sources.get(source ?? HOST);
    const isUnknown = ({ left, isSpent }: Allotment): boolean => left === 0 && !isSpent;
    /** One query at a time: callers that arrive in the meantime use its result. */
    const askFor = async (wanting: () => readonly Allotment[], mails: number): Promise<void> => {
      day.usedMs = clock.now();
      while (wanting().length > 0 && !isOver()) {
        day.asking ??= ask(day, wanting(), mails).finally(() => {
          day.asking = undefined;
        });
        await day.asking;
      }
    };
    return {
      prepare: (mails) => askFor(() => all.filter(isUnknown), mails),
      hasCapacity: (source) => {
        const allotment = allotmentOf(source);
        return !allotment || allotment.left > 0 || !allotment.isSpent;
      },
      take: async (source, mails) => {
        const allotment = allotmentOf(source);
        if (!allotment) return mails;
        await askFor(() => (isUnknown(allotment) ? [allotment] : []), mails);
        const taken = isOver() ? 0 : Math.min(mails, allotment.left);
        allotment.left -= taken;
        return taken;
      },
      releaseUnused: (source, mails) => {
        const allotment = allotmentOf(source);
        if (allotment) allotment.left += mails;
      },
      untilMore: () => ({
        ms: Math.max(0, beginningOf(day.day + 1) - clock.now()),
        outcome: warmingUp(`${wordsOf(day)}; sending resumes at 00:00 UTC`),
      }),
    };
  };

  return {
    of: (destination) => {
      const day = today(destination);
      return day && sharesOf(day);
    },
    maySend: (destination) => {
      const day = today(destination);
      const shares = day && sharesOf(day);
      return sources.length > 0 && (shares === undefined || sources.some((source) => shares.hasCapacity(source)));
    },
    reasonOf: (destination) => {
      const day = today(destination);
      return day && [...day.sources.values()].some(({ taken }) => taken > 0) ? wordsOf(day) : undefined;
    },
    releaseUnused: async ({ all } = { all: false }) => {
      const idle = [...days.values()].filter(({ usedMs }) => all || clock.now() - usedMs >= IDLE_MS);
      const unused = idle.flatMap(({ provider, day, sources: own }) =>
        [...own.values()].filter(({ left }) => left > 0).map((allotment) => ({ provider, day, allotment })),
      );
      if (unused.length === 0) return;
      const given = unused.map(({ provider, day, allotment }): UnusedShare => {
        const mails = allotment.left;
        Object.assign(allotment, { left: 0, taken: allotment.taken - mails, isSpent: false });
        return { provider, source: allotment.source, day, mails };
      });
      await database.execute(returnWarmUpShareOperation, given).catch((error: unknown) => {
        log.warn({ error: (error as Error).message }, 'unused warm-up quota could not be returned');
      });
    },
  };
}

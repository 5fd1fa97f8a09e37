/**
 * Keeps mail through a relay within the limits of its route (`?perMinute=60&perDay=10000`), counted across all nodes: no more messages than
 * the limit in any 60 seconds, and in any 24 hours. A message to several recipients counts once per recipient.
 *
 * A node takes messages from the database before it sends them, some in advance while much of the limits is left. Those unused after a
 * second are returned; after a crash they count as sent. Messages count that the relay accepted or permanently refused, and all that reached
 * the final dot; messages deferred before it do not. When a limit is used up, the relay is paused on all nodes until a tenth of the
 * limit is available again, like a destination that asks for time (registry.ts), and queued messages are not charged an attempt.
 */
import { type Clock, iso } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { RelayLimitSettings } from '../../config.ts';
import type { Database } from '../../storage/database.ts';
import { relayLimitReached } from '../outcome/outcome.ts';
import { FALLBACK, RELAY } from '../routing/route.ts';
import { LIMIT_SPREAD_MS } from './pause-steps.ts';
import {
  type LimitGrant,
  type RelayLimit,
  returnRelayLimitOperation,
  takeRelayLimitOperation,
} from './relay-limit-store.ts';
import type { SendLimits, Shares } from './shares.ts';

/** Messages are sent in the second in which they were taken, so that each counts when it is sent. */
const TAKEN_FOR_MS = 1_000;
const MINUTE_MS = 60_000;
/** A relay whose limit of the day is used up is tried again after this time, since taken messages may have been returned. */
const LONGEST_PAUSE_MS = 60 * MINUTE_MS;

export interface RelayLimits extends SendLimits {
  /**
   * Returns when the next message that waits for a limit is due, if sending continues at `fromMs`: one after the other, as fast as the
   * limit per minute allows. Undefined without such a limit.
   */
  turnAfter(destination: string, fromMs: number): number | undefined;
}

export interface RelayLimitOptions {
  database: Database;
  clock: Clock;
  log: Log;
  relay: RelayLimitSettings | undefined;
  fallback: RelayLimitSettings | undefined;
  /** This process's part of limits that all nodes share. */
  share(): number;
}

/** Messages that were taken at one time and not sent yet. */
interface Taken {
  atMs: number;
  mails: number;
}

interface LimitedRelay {
  key: string;
  settings: RelayLimitSettings;
  limits: readonly RelayLimit[];
  allotment: Taken;
  /** Messages to return, by the time at which they were taken. */
  unused: Map<number, number>;
  last: LimitGrant | undefined;
  /** Unix ms of the last grant. */
  askedMs: number;
  asking: Promise<void> | undefined;
  /** Unix ms at which the next deferred message is due. */
  turnMs: number;
}

function addUnused({ unused }: LimitedRelay, { atMs, mails }: Taken): void {
  if (mails > 0) unused.set(atMs, (unused.get(atMs) ?? 0) + mails);
}

/** Sets messages aside that were taken too long ago to be sent as taken then. */
function keepUnused(one: LimitedRelay, isUnused: boolean): void {
  if (one.allotment.mails === 0 || !isUnused) return;
  addUnused(one, one.allotment);
  one.allotment = { atMs: 0, mails: 0 };
}

/** Unix ms at which sending continues: other messages that were taken may be returned until then. */
function continuesMs({ last, askedMs }: LimitedRelay): number {
  return last?.spent ? Math.min(last.spent.untilMs, askedMs + LONGEST_PAUSE_MS) : 0;
}

function limitsOf({ perMinute, perDay }: RelayLimitSettings): RelayLimit[] {
  return [
    ...(perMinute === undefined ? [] : [{ span: 'minute' as const, most: perMinute }]),
    ...(perDay === undefined ? [] : [{ span: 'day' as const, most: perDay }]),
  ];
}

const PARAMETERS = { minute: 'perMinute', day: 'perDay' } as const;
const SPAN_TEXTS = { minute: 'the last minute', day: 'the last 24 hours' } as const;

function nameOf(key: string): string {
  return key === FALLBACK ? 'fallback relay' : 'relay';
}

const countOf = (messages: number): string => `${messages} ${messages === 1 ? 'message' : 'messages'}`;

function spentText(key: string, { limit: { span, most }, untilMs }: NonNullable<LimitGrant['spent']>): string {
  return `${nameOf(key)} limit ${PARAMETERS[span]}=${most} reached: ${countOf(most)} in ${SPAN_TEXTS[span]}; sending resumes at ${iso(untilMs)}`;
}

export function openRelayLimits({ database, clock, log, relay, fallback, share }: RelayLimitOptions): RelayLimits {
  const settingsOf = [
    [RELAY, relay],
    [FALLBACK, fallback],
  ] as const;
  const all = new Map(
    settingsOf.flatMap(([key, settings]): [string, LimitedRelay][] => {
      const limits = settings ? limitsOf(settings) : [];
      if (!settings || limits.length === 0) return [];
      const allotment = { atMs: 0, mails: 0 };
      return [
        [
          key,
          {
            key,
            settings,
            limits,
            allotment: allotment,
            unused: new Map(),
            last: undefined,
            askedMs: 0,
            asking: undefined,
            turnMs: 0,
          },
        ],
      ];
    }),
  );

  const isOld = ({ atMs }: Taken): boolean => Math.abs(clock.now() - atMs) >= TAKEN_FOR_MS;
  const ask = async (one: LimitedRelay, wanted: number): Promise<void> => {
    const { key, limits } = one;
    const nowMs = clock.now();
    const grant = await database.execute(takeRelayLimitOperation, { relay: key, limits, wanted, nowMs });
    Object.assign(one, { last: grant, askedMs: nowMs });
    keepUnused(one, true);
    one.allotment = { atMs: nowMs, mails: grant.granted };
  };

  /** A clock that was set back does not prolong the wait: the limits are read again. */
  const isSpent = (one: LimitedRelay): boolean => {
    const nowMs = clock.now();
    return nowMs >= one.askedMs && nowMs < continuesMs(one);
  };

  /** One query at a time: callers that arrive in the meantime use its result. */
  const askFor = async (one: LimitedRelay, mails: number): Promise<void> => {
    keepUnused(one, isOld(one.allotment));
    while (one.allotment.mails === 0 && !isSpent(one)) {
      one.asking ??= ask(one, mails).finally(() => {
        one.asking = undefined;
      });
      await one.asking;
    }
  };

  const sharesOf = (one: LimitedRelay): Shares => {
    let takenMs = 0;
    return {
      prepare: (mails) => askFor(one, mails),
      hasCapacity: () => one.allotment.mails > 0 || !isSpent(one),
      take: async (_source, mails) => {
        let taken = 0;
        // Other callers may have taken everything that was granted.
        do {
          await askFor(one, mails);
          taken = Math.min(mails, one.allotment.mails);
        } while (taken === 0 && !isSpent(one));
        one.allotment.mails -= taken;
        takenMs = one.allotment.atMs;
        return taken;
      },
      releaseUnused: (_source, mails) => {
        addUnused(one, { atMs: takenMs, mails });
      },
      untilMore: () => {
        const ms = Math.min(LONGEST_PAUSE_MS, Math.max(0, continuesMs(one) - clock.now()));
        return { ms, outcome: relayLimitReached(spentText(one.key, one.last!.spent!)) };
      },
    };
  };

  return {
    of: (destination) => {
      const one = all.get(destination);
      return one && sharesOf(one);
    },
    reasonOf: (destination) => {
      const one = all.get(destination);
      if (!one?.last || clock.now() - one.askedMs >= MINUTE_MS) return undefined;
      return one.limits
        .map(({ span, most }, index) => `${one.last!.used[index]} of ${countOf(most)} in ${SPAN_TEXTS[span]}`)
        .join(', ');
    },
    turnAfter: (destination, fromMs) => {
      const one = all.get(destination);
      if (one?.settings.perMinute === undefined) return undefined;
      const isInSpread = one.turnMs >= fromMs && one.turnMs <= fromMs + LIMIT_SPREAD_MS;
      const turnMs = isInSpread ? one.turnMs : fromMs;
      one.turnMs = turnMs + MINUTE_MS / (one.settings.perMinute * share());
      return Math.round(turnMs);
    },
    releaseUnused: async ({ all: isAll } = { all: false }) => {
      for (const one of all.values()) keepUnused(one, isAll || isOld(one.allotment));
      const returned = [...all.values()].flatMap(({ key, limits, unused }) => {
        const mails = [...unused].map(([takenMs, count]) => ({ relay: key, limits, takenMs, mails: count }));
        unused.clear();
        return mails;
      });
      if (returned.length === 0) return;
      await database.execute(returnRelayLimitOperation, returned).catch((error: unknown) => {
        log.warn({ error: (error as Error).message }, 'unused relay quota could not be returned');
      });
    },
  };
}

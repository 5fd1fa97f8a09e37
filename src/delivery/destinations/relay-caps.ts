/**
 * Keeps mail through a relay within the caps of its route (`?perMinute=60&perDay=10000`), counted across all nodes: no more messages than
 * the cap in any 60 seconds, and in any 24 hours. A message to several recipients counts once per recipient.
 *
 * A node takes messages from the database before it sends them, some in advance while much of the caps is left. Those unused after a second
 * are returned; after a crash they count as sent. Messages that the relay accepted or permanently refused count, and those that hung
 * between the final dot and its reply; deferred ones do not. When a cap is used up, the relay is paused on all nodes until a tenth of the
 * cap is available again, like a destination that asks for time (registry.ts), and queued messages are not charged an attempt.
 */
import { type Clock, iso } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { RelayCapSettings } from '../../config.ts';
import type { Database } from '../../storage/database.ts';
import { capReached } from '../outcome/outcome.ts';
import { FALLBACK, RELAY } from '../routing/route.ts';
import { CAP_SPREAD_MS } from './pause-steps.ts';
import { type Cap, type CapGrant, returnRelayCapOperation, takeRelayCapOperation } from './relay-cap-store.ts';
import type { Rationing, Shares } from './shares.ts';

/** Messages are sent in the second in which they were taken, so that each counts when it is sent. */
const TAKEN_FOR_MS = 1_000;
const MINUTE_MS = 60_000;
/** A relay whose cap of the day is used up is tried again after this time, since taken messages may have been returned. */
const LONGEST_PAUSE_MS = 60 * MINUTE_MS;

export interface RelayCaps extends Rationing {
  /**
   * Returns when the next message that waits for a cap is due, if sending continues at `fromMs`: one after the other, as fast as the cap per
   * minute allows. Undefined without such a cap.
   */
  turnAfter(destination: string, fromMs: number): number | undefined;
}

export interface RelayCapOptions {
  database: Database;
  clock: Clock;
  log: Log;
  relay: RelayCapSettings | undefined;
  fallback: RelayCapSettings | undefined;
  /** This process's part of limits that all nodes share. */
  share(): number;
}

/** Messages that were taken at one time and not sent yet. */
interface Taken {
  atMs: number;
  mails: number;
}

interface CappedRelay {
  key: string;
  settings: RelayCapSettings;
  caps: readonly Cap[];
  inHand: Taken;
  /** Messages to return, by the time at which they were taken. */
  unused: Map<number, number>;
  last: CapGrant | undefined;
  /** Unix ms of the last grant. */
  askedMs: number;
  asking: Promise<void> | undefined;
  /** Unix ms at which the next deferred message is due. */
  turnMs: number;
}

function addUnused({ unused }: CappedRelay, { atMs, mails }: Taken): void {
  if (mails > 0) unused.set(atMs, (unused.get(atMs) ?? 0) + mails);
}

function capsOf({ perMinute, perDay }: RelayCapSettings): Cap[] {
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

function spentText(key: string, { cap: { span, most }, untilMs }: NonNullable<CapGrant['spent']>): string {
  return `${nameOf(key)} limit ${PARAMETERS[span]}=${most} reached: ${most} messages in ${SPAN_TEXTS[span]}; sending resumes at ${iso(untilMs)}`;
}

export function openRelayCaps({ database, clock, log, relay, fallback, share }: RelayCapOptions): RelayCaps {
  const settingsOf = [
    [RELAY, relay],
    [FALLBACK, fallback],
  ] as const;
  const all = new Map(
    settingsOf.flatMap(([key, settings]): [string, CappedRelay][] => {
      const caps = settings ? capsOf(settings) : [];
      if (!settings || caps.length === 0) return [];
      const inHand = { atMs: 0, mails: 0 };
      return [
        [
          key,
          { key, settings, caps, inHand, unused: new Map(), last: undefined, askedMs: 0, asking: undefined, turnMs: 0 },
        ],
      ];
    }),
  );

  const isOld = ({ atMs }: Taken): boolean => Math.abs(clock.now() - atMs) >= TAKEN_FOR_MS;
  /** Sets messages aside that were taken too long ago to be sent as taken then. */
  const setAside = (one: CappedRelay, isUnused: boolean): void => {
    if (one.inHand.mails === 0 || !isUnused) return;
    addUnused(one, one.inHand);
    one.inHand = { atMs: 0, mails: 0 };
  };

  const ask = async (one: CappedRelay, wanted: number): Promise<void> => {
    const { key, caps } = one;
    const nowMs = clock.now();
    const grant = await database.execute(takeRelayCapOperation, { relay: key, caps, wanted, nowMs });
    Object.assign(one, { last: grant, askedMs: nowMs });
    setAside(one, true);
    one.inHand = { atMs: nowMs, mails: grant.granted };
  };

  /** Unix ms at which sending continues: other messages that were taken may be returned until then. */
  const continuesMs = ({ last, askedMs }: CappedRelay): number =>
    last?.spent ? Math.min(last.spent.untilMs, askedMs + LONGEST_PAUSE_MS) : 0;
  const isSpent = (one: CappedRelay): boolean => clock.now() < continuesMs(one);

  /** One query at a time: callers that arrive in the meantime use its result. */
  const askFor = async (one: CappedRelay, mails: number): Promise<void> => {
    setAside(one, isOld(one.inHand));
    while (one.inHand.mails === 0 && !isSpent(one)) {
      one.asking ??= ask(one, mails).finally(() => {
        one.asking = undefined;
      });
      await one.asking;
    }
  };

  const sharesOf = (one: CappedRelay): Shares => {
    let takenMs = 0;
    return {
      prepare: (mails) => askFor(one, mails),
      hasCapacity: () => one.inHand.mails > 0 || !isSpent(one),
      take: async (_source, mails) => {
        await askFor(one, mails);
        const taken = Math.min(mails, one.inHand.mails);
        one.inHand.mails -= taken;
        takenMs = one.inHand.atMs;
        return taken;
      },
      giveBack: (_source, mails) => {
        addUnused(one, { atMs: takenMs, mails });
      },
      untilMore: () => {
        const ms = Math.max(0, continuesMs(one) - clock.now());
        return { ms, outcome: capReached(spentText(one.key, one.last!.spent!)) };
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
      return one.caps
        .map(({ span, most }, index) => `${one.last!.used[index]} of ${most} messages in ${SPAN_TEXTS[span]}`)
        .join(', ');
    },
    turnAfter: (destination, fromMs) => {
      const one = all.get(destination);
      if (one?.settings.perMinute === undefined) return undefined;
      const isInSpread = one.turnMs >= fromMs && one.turnMs <= fromMs + CAP_SPREAD_MS;
      const turnMs = isInSpread ? one.turnMs : fromMs;
      one.turnMs = turnMs + MINUTE_MS / (one.settings.perMinute * share());
      return Math.round(turnMs);
    },
    giveBack: async ({ all: isAll } = { all: false }) => {
      for (const one of all.values()) setAside(one, isAll || isOld(one.inHand));
      const returned = [...all.values()].flatMap(({ key, caps, unused }) => {
        const mails = [...unused].map(([takenMs, count]) => ({ relay: key, caps, takenMs, mails: count }));
        unused.clear();
        return mails;
      });
      if (returned.length === 0) return;
      await database.execute(returnRelayCapOperation, returned).catch((error: unknown) => {
        log.warn({ error: (error as Error).message }, 'unused relay quota could not be returned');
      });
    },
  };
}

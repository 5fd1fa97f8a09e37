/**
 * Pauses that all nodes keep, by way of the database: what one node hears of a destination, the others obey within about a second, a
 * restart begins with what was known before, and one session of all nodes together probes a destination whose pause is over.
 *
 * A change of this node is written at once, and again each second until the database has taken it; then what others changed is read,
 * and stands above what this node had. Nothing is claimed before the first reading.
 */
import type { Clock } from '../../base/clock.ts';
import { randomText } from '../../base/ids.ts';
import type { Log } from '../../base/log.ts';
import type { Database } from '../../storage/database.ts';
import type { Outcome } from '../outcome/outcome.ts';
import type { Pause } from './pause-steps.ts';
import {
  claimProbeOperation,
  type PauseRow,
  type ProbeGrant,
  type ReadPause,
  readPausesOperation,
  writePausesOperation,
} from './pause-store.ts';
import type { Destination, Destinations } from './registry.ts';

/** A change whose transaction ended late, or by a clock that differs, is not overlooked. */
const OVERLAP_MS = 10_000;
/** A node that probes renews its right; one that died loses it. */
const PROBE_MS = 60_000;

export interface SharedPauses {
  /** Resolves when this node knows the pauses of all nodes; rejects while the storage refuses. */
  loaded(): Promise<void>;
  readonly isLoaded: boolean;
  /** A pause of this destination began here, or was ended by a probe. Resolves when that was written, or could not be for now. */
  changed(destination: Destination): Promise<void>;
  /** Whether this node may probe a destination whose pause is over; asks for it where that is not known. */
  mayProbe(key: string): boolean;
  /** Writes and reads; to be called each second. Rejects when the storage refuses, and goes on with the next call then. */
  sync(): Promise<void>;
}

interface SharedPauseDeps {
  database: Database;
  clock: Clock;
  log: Log;
  destinations(): Destinations;
  /** Another node began a pause. */
  onBegan(destination: Destination): void;
  /** The operator ended this pause. */
  onResumed(destination: Destination, pause: Pause): void;
  /** This node may probe. */
  onMayProbe(key: string): void;
}

function rowOf({ key, pause }: Destination & { pause: Pause }): PauseRow {
  const { beganMs, untilMs, level, blockedMs = null, host, outcome } = pause;
  return {
    ...{ destination: key, beganAt: beganMs, untilAt: untilMs, level, blockedSince: blockedMs, host },
    outcome: JSON.stringify(outcome),
  };
}

function pauseOf({ beganAt, untilAt, level, blockedSince, host, outcome }: PauseRow): Omit<Pause, 'mailDueMs'> {
  return {
    ...{ beganMs: beganAt, untilMs: untilAt, level, host, outcome: JSON.parse(outcome) as Outcome },
    blockedMs: blockedSince ?? undefined,
  };
}

export function openSharedPauses(deps: SharedPauseDeps): SharedPauses {
  const { database, clock, log } = deps;
  const permits = openProbePermits(deps);
  const unwritten = new Set<Destination>();
  let readToMs = 0;
  let isLoaded = false;
  let running: Promise<void> | undefined;

  const write = async (): Promise<void> => {
    if (unwritten.size === 0) return;
    const changes = [...unwritten];
    unwritten.clear();
    const began = changes.flatMap((one) => (one.pause ? [rowOf({ ...one, pause: one.pause })] : []));
    const ended = changes.filter(({ pause }) => !pause).map(({ key }) => key);
    try {
      await database.execute(writePausesOperation, { began, ended, nowMs: clock.now() });
    } catch (error) {
      for (const one of changes) unwritten.add(one);
      throw error;
    }
  };

  const take = (row: ReadPause): void => {
    if (row.endedAt !== null && !isLoaded) return;
    const destination = deps.destinations().of(row.destination);
    if (unwritten.has(destination)) return;
    const taken = deps.destinations().takeOver(destination, row.endedAt === null ? pauseOf(row) : undefined);
    if (taken.kind === 'same') return;
    permits.forget(row.destination);
    if (taken.kind === 'began') deps.onBegan(destination);
    if (taken.kind === 'resumed') deps.onResumed(destination, taken.pause);
  };

  const once = async (): Promise<void> => {
    await write();
    const nowMs = clock.now();
    for (const row of await database.execute(readPausesOperation, Math.max(0, readToMs - OVERLAP_MS))) take(row);
    readToMs = nowMs;
    isLoaded = true;
    permits.renew();
  };

  const sync = (): Promise<void> => {
    running ??= once().finally(() => {
      running = undefined;
    });
    return running;
  };

  return {
    get isLoaded() {
      return isLoaded;
    },
    loaded: async () => {
      if (!isLoaded) await sync();
    },
    changed: async (destination) => {
      unwritten.add(destination);
      permits.forget(destination.key);
      try {
        await sync();
        if (unwritten.size > 0) await sync();
      } catch (error) {
        log.warn({ error: (error as Error).message }, 'a pause could not be written');
      }
    },
    mayProbe: permits.has,
    sync,
  };
}

interface ProbePermits {
  has(key: string): boolean;
  /** Extends those of probes that run. */
  renew(): void;
  forget(key: string): void;
}

function openProbePermits({ database, clock, log, destinations, onMayProbe }: SharedPauseDeps): ProbePermits {
  // The embedded database has one process.
  if (database.dialect === 'sqlite') return { has: () => true, renew: () => undefined, forget: () => undefined };
  const holder = randomText(20);
  const permits = new Map<string, ProbeGrant>();
  const asking = new Set<string>();

  const ask = async (key: string): Promise<void> => {
    asking.add(key);
    try {
      const nowMs = clock.now();
      const claim = { destination: key, holder, nowMs, untilMs: nowMs + PROBE_MS };
      const permit = await database.execute(claimProbeOperation, claim);
      permits.set(key, permit);
      if (permit.granted) onMayProbe(key);
    } catch (error) {
      log.warn({ destination: key, error: (error as Error).message }, 'the right to probe could not be asked for');
    } finally {
      asking.delete(key);
    }
  };

  return {
    has: (key) => {
      const permit = permits.get(key);
      if (permit && clock.now() < permit.untilMs) return permit.granted;
      permits.delete(key);
      if (!asking.has(key)) void ask(key);
      return false;
    },
    renew: () => {
      for (const [key, { granted, untilMs }] of permits) {
        if (clock.now() >= untilMs) permits.delete(key);
        const isShort = untilMs - clock.now() < PROBE_MS / 2;
        if (granted && isShort && destinations().of(key).active > 0 && !asking.has(key)) void ask(key);
      }
    },
    forget: (key) => permits.delete(key),
  };
}

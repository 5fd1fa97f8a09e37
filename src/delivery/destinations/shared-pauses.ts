/**
 * Shares pauses between all nodes through the database: what one node learns about a destination, the others apply within about a second, a
 * restart continues with the known pauses, and only one session across all nodes probes a destination whose pause has expired.
 *
 * A change of this node is written immediately, and again every second until the database accepts it. Then the changes of other nodes are
 * read, and override this node's state, except a pause for the warm-up of another node's addresses. Nothing is claimed before the first
 * read.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Database } from '../../storage/database.ts';
import type { Outcome } from '../outcome/outcome.ts';
import type { Pause, SharedPause } from './pause-steps.ts';
import { type PauseRow, type ReadPause, readPausesOperation, writePausesOperation } from './pause-store.ts';
import type { ProbePermits } from './probe-permits.ts';
import type { Destination, Registry } from './registry.ts';

/** Covers changes whose transaction ended late, or whose clock differs. */
const OVERLAP_MS = 10_000;

/** Another node started a pause, or the operator ended one. */
export type SharedChange =
  | { kind: 'began'; destination: Destination }
  | { kind: 'resumed'; destination: Destination; pause: Pause };

export interface SharedPauses {
  /** Resolves when this node knows the shared pauses; rejects while the storage fails. */
  loaded(): Promise<void>;
  readonly isLoaded: boolean;
  /**
   * Records that a pause of this destination started here, or was ended by a probe. Resolves when it was written, or could not be written
   * for now.
   */
  changed(destination: Destination): Promise<void>;
  /** Writes and reads; call every second. Rejects if the storage fails; the next call continues. */
  sync(): Promise<void>;
  /** Returns the changes that were read since the last call. */
  takeChanges(): SharedChange[];
}

interface SharedPauseDeps {
  database: Database;
  clock: Clock;
  log: Log;
  registry: Registry;
  permits: ProbePermits;
  /**
   * Returns whether a source address of this node may still send to the destination today; by default none may. Used if another node is
   * paused for its warm-up.
   */
  maySend?: (key: string) => boolean;
}

function rowOf(key: string, { beganMs, untilMs, level, blockedMs, host, outcome }: Pause): PauseRow {
  return {
    destination: key,
    beganAt: beganMs,
    untilAt: untilMs,
    level,
    blockedSince: blockedMs ?? null,
    host,
    outcome: JSON.stringify(outcome),
  };
}

function pauseOf({ beganAt, untilAt, level, blockedSince, host, outcome }: PauseRow): SharedPause {
  return {
    beganMs: beganAt,
    untilMs: untilAt,
    level,
    host,
    outcome: JSON.parse(outcome) as Outcome,
    blockedMs: blockedSince ?? undefined,
  };
}

export function openSharedPauses(deps: SharedPauseDeps): SharedPauses {
  const { database, clock, log, registry, permits, maySend = () => false } = deps;
  const unwritten = new Set<Destination>();
  /** The warm-up pauses of other nodes, at most one for each large provider. */
  const passedOver = new Map<string, SharedPause>();
  let found: SharedChange[] = [];
  let readToMs = 0;
  let isLoaded = false;
  let running: Promise<void> | undefined;

  const write = async (): Promise<void> => {
    if (unwritten.size === 0) return;
    const changes = [...unwritten];
    unwritten.clear();
    const began = changes.flatMap(({ key, pause }) => (pause ? [rowOf(key, pause)] : []));
    const ended = changes.filter(({ pause }) => !pause).map(({ key }) => key);
    try {
      await database.execute(writePausesOperation, { began, ended, nowMs: clock.now() });
    } catch (error) {
      for (const one of changes) unwritten.add(one);
      throw error;
    }
  };

  /** Leaves this destination open while the addresses of another node warm up; its deferred mail returns if the operator ends the pause. */
  const passOver = (destination: Destination, shared: SharedPause): void => {
    const before = passedOver.get(destination.key);
    passedOver.set(destination.key, shared);
    if (before?.beganMs !== shared.beganMs || shared.untilMs >= before.untilMs) return;
    found.push({ kind: 'resumed', destination, pause: { ...before, mailDueMs: before.untilMs } });
  };

  const adopt = (row: ReadPause): void => {
    if (row.endedAt !== null && !isLoaded) return;
    const destination = registry.of(row.destination);
    if (unwritten.has(destination)) return;
    const shared = row.endedAt === null ? pauseOf(row) : undefined;
    const isOwnWarmUp = destination.pause?.outcome.category === 'warm-up';
    if (shared?.outcome.category === 'warm-up' && !isOwnWarmUp && maySend(row.destination)) {
      passOver(destination, shared);
      return;
    }
    const adopted = registry.adopt(destination, shared);
    if (adopted.kind === 'same') return;
    permits.forget(row.destination);
    if (adopted.kind === 'began') found.push({ kind: 'began', destination });
    if (adopted.kind === 'resumed') found.push({ kind: 'resumed', destination, pause: adopted.pause });
  };

  const once = async (): Promise<void> => {
    await write();
    const nowMs = clock.now();
    for (const row of await database.execute(readPausesOperation, Math.max(0, readToMs - OVERLAP_MS))) adopt(row);
    readToMs = nowMs;
    isLoaded = true;
    permits.renew((key) => registry.of(key).active > 0);
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
        log.warn({ error: (error as Error).message }, 'destination pause could not be stored');
      }
    },
    sync,
    takeChanges: () => {
      const changes = found;
      found = [];
      return changes;
    },
  };
}

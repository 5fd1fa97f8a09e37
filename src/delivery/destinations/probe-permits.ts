/**
 * Only one session across all nodes probes a destination whose pause has expired: a node first requests the permit from the database. The
 * embedded database has one process and needs no permits.
 */
import { type Clock, JUMP_MS } from '../../base/clock.ts';
import { randomText } from '../../base/ids.ts';
import type { Log } from '../../base/log.ts';
import type { Database } from '../../storage/database.ts';
import { claimProbeOperation, type ProbeGrant } from './pause-store.ts';

/** A node that probes renews its permit; a node that died loses it. */
const PERMIT_MS = 60_000;

export interface ProbePermits {
  /** Whether this node may probe; if unknown, requests the permit for the next call. */
  isPermitted(key: string): boolean;
  /** Extends the permits of running probes. */
  renew(isProbing: (key: string) => boolean): void;
  forget(key: string): void;
}

export function openProbePermits(deps: { database: Database; clock: Clock; log: Log }): ProbePermits {
  const { database, clock, log } = deps;
  if (database.dialect === 'sqlite') {
    return { isPermitted: () => true, renew: () => undefined, forget: () => undefined };
  }
  const holder = randomText(20);
  const permits = new Map<string, ProbeGrant>();
  const asking = new Set<string>();

  const ask = async (key: string): Promise<void> => {
    asking.add(key);
    try {
      const nowMs = clock.now();
      const claim = { destination: key, holder, nowMs, untilMs: nowMs + PERMIT_MS };
      const { granted, untilMs } = await database.execute(claimProbeOperation, claim);
      permits.set(key, { granted, untilMs: Math.min(untilMs, claim.untilMs) });
    } catch (error) {
      log.warn(
        { destination: key, error: (error as Error).message },
        'probe of a paused destination could not be claimed',
      );
    } finally {
      asking.delete(key);
    }
  };

  return {
    isPermitted: (key) => {
      const permit = permits.get(key);
      const leftMs = permit ? permit.untilMs - clock.now() : 0;
      // An answer for longer is from before the clock was set back.
      if (permit && leftMs > 0 && leftMs <= PERMIT_MS + JUMP_MS) return permit.granted;
      permits.delete(key);
      if (!asking.has(key)) void ask(key);
      return false;
    },
    renew: (isProbing) => {
      for (const [key, { granted, untilMs }] of permits) {
        if (clock.now() >= untilMs) permits.delete(key);
        const isShort = untilMs - clock.now() < PERMIT_MS / 2;
        if (granted && isShort && isProbing(key) && !asking.has(key)) void ask(key);
      }
    },
    forget: (key) => permits.delete(key),
  };
}

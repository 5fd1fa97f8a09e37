/**
 * Mail that comes back when the operator has ended a pause: what was put off until its end is brought forward, a part each second, while
 * the destination is not paused again.
 */
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import type { Destinations } from './destinations.ts';
import type { Pause } from './pause-steps.ts';
import { bringForwardOperation } from './pause-store.ts';
import { SPREAD } from './results.ts';
import { isRelay } from './route.ts';

const BROUGHT_FORWARD_AT_ONCE = 5_000;

export interface Resumes {
  /** The operator ended this pause. */
  began(key: string, pause: Pause): void;
  /** To be called each second; rejects when the storage refuses, and goes on with the next call then. */
  bringForward(): Promise<void>;
}

interface ResumeDeps {
  database: Database;
  clock: Clock;
  destinations: Pick<Destinations, 'pauseOf'>;
  /** The domains whose mail counts for a destination. */
  domainsOf(key: string): readonly string[];
  /** Mail became due. */
  onResumed(): void;
}

export function openResumes({ database, clock, destinations, domainsOf, onResumed }: ResumeDeps): Resumes {
  /** Destinations whose mail comes back, with the time until which it was put off. */
  const returning = new Map<string, { fromMs: number; untilMs: number }>();

  const bringForward = async (key: string, span: { fromMs: number; untilMs: number }): Promise<void> => {
    const domains = isRelay(key) ? null : domainsOf(key);
    const mail = { ...span, domains, nowMs: clock.now(), limit: BROUGHT_FORWARD_AT_ONCE };
    // Some may have been put off while the pause was ended: it is over when none is found.
    if ((await database.execute(bringForwardOperation, mail)) === 0) returning.delete(key);
    else onResumed();
  };

  return {
    began: (key, { beganMs, mailDueMs }) => {
      const spreadMs = Math.round((mailDueMs - beganMs) * SPREAD);
      returning.set(key, { fromMs: mailDueMs, untilMs: mailDueMs + spreadMs });
    },
    bringForward: async () => {
      for (const [key, span] of returning) {
        if (destinations.pauseOf(key)) returning.delete(key);
        else await bringForward(key, span);
      }
    },
  };
}

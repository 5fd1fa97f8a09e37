/**
 * Ends pauses of this process that the operator has ended on any node. The destination is probed by one session then, as at the end
 * of a pause, and what was put off comes back while it is not paused again, a part each second.
 */
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import type { Destinations } from './destinations.ts';
import { SPREAD } from './results.ts';
import { askedResumesOperation, bringForwardOperation } from './resume-store.ts';
import { isRelay } from './route.ts';

const BROUGHT_FORWARD_AT_ONCE = 5_000;

export interface Resumes {
  /** To be called each second; rejects when the storage refuses, and goes on with the next call then. */
  look(): Promise<void>;
}

interface ResumeDeps {
  database: Database;
  clock: Clock;
  destinations: Destinations;
  /** The domains whose mail counts for a destination. */
  domainsOf(key: string): readonly string[];
  /** Mail became due. */
  onResumed(): void;
}

export function watchResumes({ database, clock, destinations, domainsOf, onResumed }: ResumeDeps): Resumes {
  /** Destinations whose mail comes back, with the time until which it was put off. */
  const returning = new Map<string, { fromMs: number; untilMs: number }>();

  const endPauses = async (): Promise<void> => {
    const began = destinations.paused().map(({ pause }) => pause!.beganMs);
    if (began.length === 0) return;
    const sinceMs = began.reduce((a, b) => Math.min(a, b));
    for (const { destination, askedAt } of await database.execute(askedResumesOperation, sinceMs)) {
      const ended = destinations.resume(destination, askedAt);
      if (!ended) continue;
      const { beganMs, mailDueMs } = ended;
      const spreadMs = Math.round((mailDueMs - beganMs) * SPREAD);
      returning.set(destination, { fromMs: mailDueMs, untilMs: mailDueMs + spreadMs });
    }
  };

  const bringForward = async (key: string, span: { fromMs: number; untilMs: number }): Promise<void> => {
    const domains = isRelay(key) ? null : domainsOf(key);
    const mail = { ...span, domains, nowMs: clock.now(), limit: BROUGHT_FORWARD_AT_ONCE };
    // Some may have been put off while the pause was ended: it is over when none is found.
    if ((await database.execute(bringForwardOperation, mail)) === 0) returning.delete(key);
    else onResumed();
  };

  return {
    look: async () => {
      await endPauses();
      for (const [key, span] of returning) {
        if (destinations.pauseOf(key)) returning.delete(key);
        else await bringForward(key, span);
      }
    },
  };
}

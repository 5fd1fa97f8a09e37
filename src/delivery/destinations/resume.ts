/**
 * Brings back mail after the operator ended a pause: mail deferred to its end becomes due, one page each second, unless the destination is
 * paused again. After a restart none of it is in memory, so the domains of a page are looked up first.
 */
import type { Clock } from '../../base/clock.ts';
import type { Database } from '../../storage/database.ts';
import { isRelay } from '../routing/route.ts';
import { areKnown, type Sets, spanOf } from './deferred-counts.ts';
import type { Pause } from './pause-steps.ts';
import { bringForwardOperation, type DeferredPage, type DeferredSpan, deferredPageOperation } from './pause-store.ts';
import type { Registry } from './registry.ts';

const BROUGHT_FORWARD_AT_ONCE = 5_000;

export interface Resumes {
  /** The operator ended this pause. */
  began(key: string, pause: Pause): void;
  /** Call every second; returns whether mail became due. Rejects if the storage fails; the next call continues. */
  bringForward(): Promise<boolean>;
}

interface ResumeDeps {
  database: Database;
  clock: Clock;
  registry: Pick<Registry, 'pauseOf'>;
  sets: Sets;
}

/** The position in the deferred mail. */
interface Walk extends DeferredSpan, Pick<DeferredPage, 'after'> {
  broughtForward: number;
}

export function openResumes({ database, clock, registry, sets }: ResumeDeps): Resumes {
  /** Destinations whose mail is being brought forward. */
  const returning = new Map<string, Walk>();

  const bringForward = async (key: string, walk: Walk): Promise<boolean> => {
    const { fromMs, untilMs, after } = walk;
    const page = await database.execute(deferredPageOperation, {
      fromMs,
      untilMs,
      after,
      limit: BROUGHT_FORWARD_AT_ONCE,
    });
    const domains = new Set(isRelay(key) ? [] : page.map(({ domain }) => domain));
    if (!areKnown(sets, domains)) return false;
    const isOfIt = (domain: string): boolean => isRelay(key) || sets.destinationOf(domain) === key;
    const seqs = page.filter(({ domain }) => isOfIt(domain)).map(({ seq }) => seq);
    if (seqs.length > 0) {
      const mail = { seqs, fromMs, untilMs, nowMs: clock.now() };
      walk.broughtForward += await database.execute(bringForwardOperation, mail);
    }
    if (page.length === BROUGHT_FORWARD_AT_ONCE) walk.after = page.at(-1)!;
    // More mail may have been deferred while the pause was being ended: this is done when a complete pass finds none.
    else if (walk.broughtForward === 0) returning.delete(key);
    else Object.assign(walk, { after: null, broughtForward: 0 });
    return seqs.length > 0;
  };

  return {
    began: (key, pause) => {
      returning.set(key, { ...spanOf(pause), after: null, broughtForward: 0 });
    },
    bringForward: async () => {
      let isDue = false;
      for (const [key, walk] of returning) {
        if (registry.pauseOf(key)) returning.delete(key);
        else if (await bringForward(key, walk)) isDue = true;
      }
      return isDue;
    },
  };
}

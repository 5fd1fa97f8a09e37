/**
 * Counts the mail deferred to the end of each pause, for operators: in the database, since none of it is in memory, every ten seconds while
 * a destination is paused, up to 50,000 messages for 5,000 domains.
 */
import type { Clock } from '../../base/clock.ts';
import type { Database } from '../../storage/database.ts';
import type { MxSets } from '../routing/mx-sets.ts';
import { isRelay } from '../routing/route.ts';
import { type Pause, spreadOf } from './pause-steps.ts';
import { type DeferredSpan, deferredByDomainOperation } from './pause-store.ts';
import type { Registry } from './registry.ts';

/** Paused destinations that are counted, out of those that a node publishes. */
export const PUBLISHED_PAUSED = 60;
const COUNTED_EVERY_MS = 10_000;
const COUNTED_ROWS = 50_000;
const COUNTED_DOMAINS = 5_000;
/** Domains that may be in their first lookup at the same time. */
const LOOKED_UP_AT_ONCE = 500;

export type Sets = Pick<MxSets, 'destinationOf' | 'lookUp' | 'isPending'>;

/** Returns when mail deferred by a pause is due again. */
export function spanOf(pause: Pick<Pause, 'beganMs' | 'mailDueMs' | 'outcome'>): DeferredSpan {
  return { fromMs: pause.mailDueMs, untilMs: pause.mailDueMs + spreadOf(pause) };
}

/** Whether the destinations of all these domains are known; looks up those that are not. */
export function areKnown(sets: Sets, domains: Iterable<string>): boolean {
  let pending = 0;
  for (const domain of domains) {
    sets.lookUp(domain);
    if (sets.isPending(domain)) pending += 1;
    if (pending === LOOKED_UP_AT_ONCE) break;
  }
  return pending === 0;
}

function sumOf(found: readonly { count: number }[]): number {
  return found.reduce((sum, { count }) => sum + count, 0);
}

export interface DeferredCounts {
  /** Call every second. Rejects if the storage fails; the next call counts again. */
  count(): Promise<void>;
  /** The last count. */
  of(key: string): number;
}

interface DeferredDeps {
  database: Database;
  clock: Clock;
  registry: Pick<Registry, 'paused'>;
  sets: Sets;
}

export function openDeferredCounts({ database, clock, registry, sets }: DeferredDeps): DeferredCounts {
  let counts = new Map<string, number>();
  let countedMs = Number.NEGATIVE_INFINITY;

  const countAll = async (): Promise<void> => {
    const counted = new Map<string, number>();
    const left = { rows: COUNTED_ROWS, domains: COUNTED_DOMAINS };
    let isComplete = true;
    for (const { key, pause } of registry.paused().slice(0, PUBLISHED_PAUSED)) {
      const found = await database.execute(deferredByDomainOperation, { ...spanOf(pause!), ...left });
      const domains = isRelay(key) ? [] : found.map(({ domain }) => domain);
      if (!areKnown(sets, domains)) isComplete = false;
      const own = found.filter(({ domain }) => isRelay(key) || sets.destinationOf(domain) === key);
      counted.set(key, sumOf(own));
      left.rows -= sumOf(found);
      left.domains -= found.length;
      if (left.rows <= 0 || left.domains <= 0) break;
    }
    counts = counted;
    // The results of the lookups are used by the next call.
    if (isComplete) countedMs = clock.now();
  };

  return {
    count: async () => {
      const now = clock.now();
      if (now >= countedMs && now < countedMs + COUNTED_EVERY_MS) return;
      await countAll();
    },
    of: (key) => counts.get(key) ?? 0,
  };
}

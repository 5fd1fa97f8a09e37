/**
 * The leases on the rows in this process's hand: kept while they wait or fly or are being settled. Always true: no row in
 * hand is claimed as if it were somebody else's, wherever the clock was set and however long the process stood still. Before
 * a claim, leases that may have run out are extended; a row that comes back all the same is known, and takes its new fence.
 */

import type { Database } from '../storage/database.ts';
import { extendOperation, type Lease, markRunningOperation } from '../work/work.ts';

export const LEASE_MS = 60_000;
/** Leases with less than this left are extended. */
const EXTEND_BELOW_MS = 40_000;
/** For so long after they were kept no lease can have run out. */
const TRUSTED_MS = 30_000;

export interface InHand extends Lease {
  /** Unix ms. */
  leaseUntilMs: number;
  lost: boolean;
}

export interface Leases<J extends InHand> {
  take(job: J): void;
  drop(job: J): void;
  /** Whether the claimed row is one of ours; it goes on under its new fence then. */
  adopt(row: Lease, leaseUntilMs: number): boolean;
  /** Extends what runs short at this time. Rejects when the storage refuses. */
  keep(nowMs: number): Promise<void>;
  /** Marks a row that was in a crash before as being sent, or as merely held. Rejects when the storage refuses. */
  mark(job: J, tried: boolean): Promise<void>;
  /** Makes sure that a claim at this time takes nothing that is ours. */
  beforeClaim(nowMs: number): Promise<void>;
}

/** `settling` are the rows whose results wait to be written. */
export function createLeases<J extends InHand>(database: Database, settling: () => Lease[]): Leases<J> {
  const inHand = new Map<number, J>();
  let keptAtMs = 0;

  const keep = async (nowMs: number): Promise<void> => {
    const untilMs = nowMs + LEASE_MS;
    const due: J[] = [];
    for (const job of inHand.values()) {
      const leftMs = job.leaseUntilMs - nowMs;
      // More than a whole lease is left only when the clock was set back.
      if (leftMs < EXTEND_BELOW_MS || leftMs > LEASE_MS) due.push(job);
    }
    const leases = due.map(({ seq, fence }) => ({ seq, fence }));
    if (Math.abs(nowMs - keptAtMs) > TRUSTED_MS) leases.push(...settling());
    if (leases.length > 0) {
      const lost = new Set(await database.execute(extendOperation, { leases, nowMs, leaseMs: LEASE_MS }));
      for (const [index, job] of due.entries()) {
        // A row that came back under a new fence meanwhile is not lost.
        if (job.fence !== leases[index]!.fence) continue;
        if (lost.has(job.seq)) job.lost = true;
        else job.leaseUntilMs = untilMs;
      }
    }
    keptAtMs = nowMs;
  };

  return {
    take: (job) => {
      inHand.set(job.seq, job);
    },
    drop: (job) => {
      inHand.delete(job.seq);
    },
    adopt: (row, leaseUntilMs) => {
      const job = inHand.get(row.seq);
      if (!job) return false;
      Object.assign(job, { fence: row.fence, leaseUntilMs, lost: false });
      return true;
    },
    keep,
    mark: ({ seq, fence }, tried) =>
      database.execute(markRunningOperation, { leases: [{ seq, fence }], running: tried }),
    beforeClaim: async (nowMs) => {
      if (Math.abs(nowMs - keptAtMs) > TRUSTED_MS) await keep(nowMs);
    },
  };
}

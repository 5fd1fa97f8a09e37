/** What holders do with their rows, whatever the kind of work: one operation each. Leases that were lost are passed over. */
import { operation } from '../storage/operation.ts';
import {
  backlog,
  extend,
  type LanePage,
  type Lease,
  markRunning,
  park,
  parkedLanes,
  recordCrashes,
  release,
  resume,
} from './rows.ts';

/** Keeps leases; answers the numbers of the rows that were lost. */
export const extendOperation = operation('work.extend', 'write', extend);

/** Marks rows that were in a crash before as running, or as merely leased. */
export const markRunningOperation = operation('work.markRunning', 'write', markRunning);

/** Rows that are put back without an attempt. */
export interface PutBack {
  /** Unix ms; parked and released rows are due then. */
  nowMs: number;
  /** Of lanes over their quota. */
  park?: Lease[];
  release?: Lease[];
  /** Our own code failed over these. */
  crashed?: (Lease & { dueMs: number })[];
}

export const putBackOperation = operation('work.putBack', 'write', async (tx, rows: PutBack): Promise<void> => {
  await park(tx, rows.park ?? [], rows.nowMs);
  await release(tx, rows.release ?? [], rows.nowMs);
  await recordCrashes(tx, rows.crashed ?? []);
});

export interface ResumeRequest {
  kind: string;
  nowMs: number;
  lanes: { lane: string; limit: number }[];
}

/** Lets parked rows of these lanes be claimed again; answers how many of each. */
export const resumeOperation = operation(
  'work.resume',
  'write',
  async (tx, { kind, nowMs, lanes }: ResumeRequest): Promise<number[]> => {
    const resumed: number[] = [];
    for (const lane of lanes) resumed.push(await resume(tx, { kind, nowMs, ...lane }));
    return resumed;
  },
);

/** Names of the lanes that have parked rows. */
export const parkedLanesOperation = operation('work.parkedLanes', 'read', (tx, page: LanePage) =>
  parkedLanes(tx, page),
);

/** Depth and age of what waits. */
export const backlogOperation = operation('work.backlog', 'read', (tx, kind: string) => backlog(tx, kind));

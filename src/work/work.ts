/**
 * The work engine's door: rows of work and the leases on them, whatever the kind. Knows nothing of mail.
 */
export { type ClampDue, clampDue } from './clamp-due.ts';
export { clockOffsetOf, clockOffsetSql, clockOffsets, moveClock, type Owner } from './clock-offset.ts';
export { Engine, type EngineOptions } from './engine.ts';
export { enqueue, FIRST_FENCE, type NewWork, WORK } from './enqueue.ts';
export type { Claimed, ClaimRequest, FairQueue, Item, Job, LaneGrant, State, WorkKind } from './kind.ts';
export { LEASE_MS } from './leases.ts';
export {
  type Backlog,
  type Claim,
  claim,
  DEAD_LETTER_AFTER_CRASHES,
  type Extension,
  finish,
  isQuarantined,
  type LanePage,
  type Lease,
  markRunning,
  type ParkedLane,
  park,
  parkedLanes,
  recordCrashes,
  recoverOperation,
  release,
  reschedule,
  resume,
  settleLeases,
  type Work,
} from './rows.ts';
export { freeSandboxRows, type OutstandingWork, outstandingWorkOf, type SandboxRow, take } from './sandbox-rows.ts';
export {
  backlogOperation,
  extendOperation,
  markRunningOperation,
  type PutBack,
  parkedLanesOperation,
  putBackOperation,
  type ResumeRequest,
  resumeOperation,
} from './store.ts';
export { isFreeOnly } from './take-over.ts';

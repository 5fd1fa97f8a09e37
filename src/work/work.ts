/** Public interface of the work engine: rows of work and the leases on them, independent of the kind of work. */

export { type ChosenKind, claimChosen, runChosen } from './chosen.ts';
export {
  type ClampDue,
  clampDue,
  clockOffsetOf,
  clockOffsetSql,
  clockOffsets,
  freeSandboxRows,
  moveClock,
  type Owner,
  outstandingWorkOf,
  type SandboxRow,
} from './clock.ts';
export { Engine, type EngineOptions } from './engine.ts';
export { enqueue, FIRST_FENCE, HELD, type NewWork, WORK } from './enqueue.ts';
export {
  type ClaimRequest,
  type ClaimResult,
  claimedItem,
  type FairQueue,
  type Item,
  type Job,
  type LaneGrant,
  type State,
  timeOf,
  type WorkKind,
} from './kind.ts';
export { Lanes } from './lanes.ts';
export { isFreeOnly, LEASE_MS } from './leases.ts';
export {
  backlogOperation,
  type Claim,
  type ClaimExtent,
  type ClaimLimits,
  claim,
  DEAD_LETTER_AFTER_CRASHES,
  extendOperation,
  finish,
  holdBack,
  type Lease,
  markRunning,
  markRunningOperation,
  park,
  parkedLanes,
  parkedLanesOperation,
  putBackOperation,
  type RowsToPutBack,
  recordCrashes,
  recoverOperation,
  release,
  reschedule,
  resume,
  resumeOperation,
  settleLeases,
  takenOf,
  type Work,
} from './store.ts';

/**
 * The sandbox: mail that is accepted like live mail but never sent. Selects the outcome that a message simulates, and keeps the time of an
 * account's sandbox.
 */
export {
  type AdvanceDeps,
  beginMove,
  clockIsBusy,
  MOVE_LEASE_MS,
  type SandboxKind,
  waitUntilQuiet,
} from './advance.ts';
export { createSandboxClock, type SandboxClock } from './clock.ts';
export type { MoveLease } from './clock-store.ts';
export {
  type SandboxOutcome,
  type SimulatedOutcome,
  simulatedOutcome,
} from './outcomes.ts';
export { recordOutcomes, removeSandboxItemsOperation, SANDBOX_ITEM } from './store.ts';

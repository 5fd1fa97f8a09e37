/**
 * The sandbox: mail that is accepted as if it were live and never leaves. Which outcome a message plays is decided here,
 * and what time it is for an account's sandbox.
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
  type SandboxPlay,
  sandboxPlay,
} from './outcomes.ts';
export { recordOutcomes, removeSandboxItemsOperation, SANDBOX_ITEM } from './store.ts';

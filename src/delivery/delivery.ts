/**
 * Delivery: from the queue to the next mail server, or to the simulated server of the sandbox. `outcome.ts` interprets replies,
 * `schedule.ts` orders the queue, and `worker.ts` connects the parts.
 */
export type { KeysFor, SigningKeys } from './attempt/prepare.ts';
export { resumeDestinationOperation } from './destinations/pause-store.ts';
export { PROVIDERS, type Providers, readProviders } from './destinations/providers.ts';
export {
  adviceWhileDelayed,
  type Cause,
  causeOf,
  destinationOf,
  type FailureFacts,
  readCause,
} from './outcome/cause.ts';
export { lateComplaint, lateFailure } from './record/reported.ts';
export { createReturnPaths, type ReturnPaths } from './routing/return-path.ts';
export type { Routing } from './routing/route.ts';
export { createOutcomeSimulator, createSandboxDeliveries, type OutcomeSimulator } from './sandbox/deliveries.ts';
export { createSandboxReset } from './sandbox/reset.ts';
export { type Delivery, type DeliveryDeps, type DeliveryState, startDelivery } from './worker.ts';

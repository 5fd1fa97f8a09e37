/**
 * The last hop: from the queue to the next mail server, or to the sandbox's simulation of one. `outcome.ts` says what a
 * server's answer means, `schedule.ts` whose turn it is, `worker.ts` how it all runs.
 */
export type { KeysFor, SigningKeys } from './attempt.ts';
export {
  adviceWhileDelayed,
  type Cause,
  causeOf,
  destinationOf,
  type FailureFacts,
  readCause,
} from './cause.ts';
export { resumeDestinationOperation } from './pause-store.ts';
export { PROVIDERS, type Providers, readProviders } from './providers.ts';
export { lateComplaint, lateFailure } from './reported.ts';
export { createReturnPaths, type ReturnPaths } from './return-path.ts';
export type { Routing } from './route.ts';
export { createPlayByHand, createSandboxDeliveries, type PlayByHand } from './sandbox-deliveries.ts';
export { createSandboxReset } from './sandbox-reset.ts';
export { type Delivery, type DeliveryDeps, type DeliveryState, startDelivery } from './worker.ts';

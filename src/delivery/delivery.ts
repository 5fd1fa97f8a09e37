/**
 * The last hop: from the queue to the next mail server, or to the sandbox's simulation of one. `outcome.ts` says what a
 * server's answer means, `schedule.ts` whose turn it is, `worker.ts` how it all runs.
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
export { createPlayByHand, createSandboxDeliveries, type PlayByHand } from './sandbox/deliveries.ts';
export { createSandboxReset } from './sandbox/reset.ts';
export { type Delivery, type DeliveryDeps, type DeliveryState, startDelivery } from './worker.ts';

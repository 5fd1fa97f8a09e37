/**
 * Webhooks: the endpoints that an account has registered, and the worker that sends them signed events until they are accepted or the
 * schedule ends.
 */

export { createSandboxWebhooks } from './attempt.ts';
export { deliveryIdOf } from './endpoints.ts';
export { removeWebhookDeliveriesOperation, retryDeliveryOperation } from './log-store.ts';
export { addressesOf, inboundFileUuid, resendNamesOf, typesOfResend } from './resend-payload.ts';
export { newSealedSecret, newSecret, secretKeyOf, signedHeaders } from './sign.ts';
export {
  createEndpointOperation,
  dropDeliveriesOperation,
  removeEndpointOperation,
  replaceEndpointOperation,
} from './store.ts';
export { startWebhooks, type WebhookDeps, type Webhooks } from './worker.ts';

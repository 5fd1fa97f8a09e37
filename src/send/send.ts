/**
 * The one intake: what every way to submit mail shares on the way to an accepted message.
 */
export { createSend, type SendDependencies } from './accept.ts';
export { type Answer, createClaims } from './idempotency.ts';
export type { Accepted } from './intake.ts';
export { createUnsubscribeLinks } from './unsubscribe-link.ts';

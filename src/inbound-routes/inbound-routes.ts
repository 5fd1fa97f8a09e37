/** Inbound routes: addresses of users that mail comes in for, what they learn of it, and what is kept. */
export { rawAnswer } from './files.ts';
export { createFindRoute, createHasRoutes } from './find-route.ts';
export { createRouteHandler } from './handler.ts';
export { createInboundLinks } from './links.ts';
export { createMailVerifier } from './mail-verifier.ts';
export { forgetInboundOperation, removeInboundMessagesOperation } from './message-store.ts';
export type { MxSettings } from './mx.ts';
export { startRouteChecks } from './recheck.ts';

/** The largest mail that a route takes. */
export const MAX_INBOUND_BYTES = 25_000_000;

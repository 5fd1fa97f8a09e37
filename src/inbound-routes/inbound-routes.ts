/** Inbound routes: addresses of users that receive mail, the events for it, and its stored content. */
export { rawAnswer } from './files.ts';
export { createFindRoute, createHasRoutes } from './find-route.ts';
export { createRouteHandler } from './handler.ts';
export { createInboundLinks } from './links.ts';
export { createMailVerifier } from './mail-verifier.ts';
export { forgetInboundOperation, removeInboundMessagesOperation } from './message-store.ts';
export type { MxSettings } from './mx.ts';
export { startRouteChecks } from './recheck.ts';

export const MAX_INBOUND_BYTES = 25_000_000;

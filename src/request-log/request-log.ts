/** The requests of an account in the last 30 days: recorded in the background, listed by `GET /requests`. */
export { createRequestLog, detailsOfItem, type LoggedRequest, type RequestLog } from './recorder.ts';
export { redactPath } from './redact.ts';
export { type RequestRemoval, removeRequestsOperation } from './store.ts';

/** How long requests are kept, unless events are kept for a shorter time. */
export const KEPT_DAYS = 30;

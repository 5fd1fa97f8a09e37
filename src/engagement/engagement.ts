/** What recipients do with a mail (opens, clicks, unsubscribes): the links that lead to it, their pages and their events. */
export { createTrackingLinks, type TrackingLinks } from './tracking.ts';
export { createUnsubscribeLinks, isHttps, type UnsubscribeLinks } from './unsubscribe-link.ts';

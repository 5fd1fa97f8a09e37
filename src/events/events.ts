/**
 * The log of what became of messages. An event is written in the transaction that changes the state it tells of, and is
 * never changed afterwards; the same row is the outbox of the webhooks.
 */

export { appendEvents, EVENT, type NewEvent, WEBHOOK_WORK } from './append.ts';
export {
  EVENT_TYPES,
  type EventRow,
  type EventType,
  eventBody,
} from './event.ts';
export { createFollowers, type Followers } from './follow.ts';
export { latestPlacesOperation } from './latest-store.ts';
export { type EventPlace, logOrder, readEventsOperation, timeline } from './read-store.ts';
export { forgetSegmentsOperation, noteSegmentOperation, rangesOfTime, type SeqRange } from './segment-store.ts';

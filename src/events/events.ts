/**
 * The log of what became of messages. An event is written in the transaction that changes the state it tells of, and is
 * never changed afterwards; the same row is the outbox of the webhooks.
 */
export {
  EVENT_TYPES,
  type EventRow,
  type EventType,
  eventBody,
} from './event.ts';
export { timeline } from './read-store.ts';
export { appendEvent, type NewEvent, WEBHOOK_WORK } from './store.ts';

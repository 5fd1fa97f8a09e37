/**
 * The log of events about messages. An event is written in the transaction that changes the state and is never changed afterwards; the same
 * row is the outbox for webhooks.
 */

export {
  appendEvents,
  detailFieldsOf,
  EVENT,
  EVENT_TYPES,
  type EventRow,
  type EventType,
  eventBody,
  inboundTopic,
  type NewEvent,
  SHARED_EVENT_TYPES,
  turnSql,
  WEBHOOK_WORK,
} from './event.ts';
export { LAG_WARN_SECONDS, startLogLag } from './log-lag.ts';
export {
  type EventPlace,
  fittingOf,
  forgetSegmentsOperation,
  latestPlacesOperation,
  logOrder,
  noteSegmentOperation,
  rangesOfTime,
  readEventsOperation,
  type SeqRange,
  timeline,
} from './read-store.ts';
export {
  eventCatalogue,
  SAMPLE_INBOUND,
  type SampleEvent,
  sampleDetail,
  sampleEvent,
} from './samples.ts';
export { createFollowers, type Followers } from './stream.ts';

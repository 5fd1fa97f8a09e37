/** Idempotency-Keys: one answer for each, given again to whoever repeats its request. */
export {
  type Answer,
  createInFlightKeys,
  createKeyedCalls,
  digestOfJson,
  hashBody,
  type IdempotencyRecord,
  type InFlightKeys,
  KEY_LIFETIME_MS,
  once,
  readKey,
} from './once.ts';
export { keepAnswerOperation, type StoredAnswer } from './store.ts';

/** Idempotency-Keys: one answer for each, given again to whoever repeats its request. */
export {
  type Answer,
  createInFlightKeys,
  createKeyedCalls,
  digestOfJson,
  hashBody,
  type InFlightKeys,
  KEY_LIFETIME_MS,
  once,
  readKey,
} from './once.ts';
export { IDEMPOTENCY, type IdempotencyRecord, keysInUse, keyText } from './record-store.ts';
export { type IdempotencyKey, keepAnswerOperation, type StoredAnswer } from './store.ts';

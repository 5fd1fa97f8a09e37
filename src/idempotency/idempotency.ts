/** Idempotency-Keys: one answer for each, given again to a repeated request. */
export {
  type Answer,
  createInFlightKeys,
  createKeyedCalls,
  digestOfJson,
  hashBody,
  type InFlightKeys,
  KEY_LIFETIME_MS,
  type KeyedCalls,
  once,
  readKey,
} from './once.ts';
export {
  type ExpiredRecord,
  IDEMPOTENCY,
  type IdempotencyKey,
  type IdempotencyRecord,
  keepAnswerOperation,
  keysInUse,
  keyText,
  removeExpiredOperation,
} from './store.ts';

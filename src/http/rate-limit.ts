/**
 * Requests per second and key: a bucket of tokens each, refilled steadily, that holds one second's worth. In memory and per process.
 * Full buckets are forgotten first; the number remembered is bounded, so that many keys cost no memory.
 */
import { type Failure, failure } from '../base/failure.ts';

interface Bucket {
  tokens: number;
  atMs: number;
}

export interface RateVerdict {
  failure?: Failure;
  /** RateLimit-Limit, -Remaining and -Reset (draft-ietf-httpapi-ratelimit-headers-06), for every answer. */
  headers: Record<string, string>;
}

export interface RateLimiter {
  /** Takes one token of this key; nowMs is monotonic. */
  take(keyId: string, nowMs: number): RateVerdict;
}

const MAX_KEYS = 10_000;

/** perSecond is at least 1. */
export function createRateLimiter(perSecond: number, maxKeys: number = MAX_KEYS): RateLimiter {
  const buckets = new Map<string, Bucket>();
  return {
    take(keyId, nowMs) {
      const known = buckets.get(keyId);
      const bucket = known ?? { tokens: perSecond, atMs: nowMs };
      bucket.tokens = Math.min(perSecond, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * perSecond);
      bucket.atMs = nowMs;
      // Taken out and put back: the map's order is then the order of last use, and the first key is the least used.
      if (known !== undefined) buckets.delete(keyId);
      else if (buckets.size >= maxKeys) buckets.delete(buckets.keys().next().value ?? '');
      buckets.set(keyId, bucket);
      const granted = bucket.tokens >= 1;
      if (granted) bucket.tokens -= 1;
      const resetSeconds = Math.max(1, Math.ceil((perSecond - bucket.tokens) / perSecond));
      const headers = {
        'RateLimit-Limit': String(perSecond),
        'RateLimit-Remaining': String(Math.floor(bucket.tokens)),
        'RateLimit-Reset': String(resetSeconds),
      };
      if (granted) return { headers };
      const retryAfterSeconds = Math.max(1, Math.ceil((1 - bucket.tokens) / perSecond));
      return { headers, failure: failure('RATE_LIMITED', { retryAfterSeconds }) };
    },
  };
}

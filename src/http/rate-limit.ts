/**
 * Requests per second and key: a bucket of tokens each, refilled steadily, that holds one second's worth. In memory; of a
 * limit that holds for several processes together each grants its share, so that a balancer should spread the requests.
 * Full buckets are forgotten first; the number remembered is bounded, so that many keys cost no memory.
 */
import { type Failure, failure } from '../base/failure.ts';

interface Bucket {
  tokens: number;
  atMs: number;
}

interface RateDecision {
  failure?: Failure;
  /** RateLimit-Limit, -Remaining and -Reset (draft-ietf-httpapi-ratelimit-headers-06), for every answer. */
  headers: Record<string, string>;
}

export interface RateLimiter {
  /** Takes one token of this key; nowMs is monotonic. */
  take(keyId: string, nowMs: number): RateDecision;
}

const MAX_KEYS = 10_000;

interface RateLimiterOptions {
  /** Keys remembered. */
  maxKeys?: number;
  /** The part of the limit that is this process's: above 0, at most 1. */
  share?(): number;
}

/** perSecond is at least 1. */
export function createRateLimiter(perSecond: number, options: RateLimiterOptions = {}): RateLimiter {
  const { maxKeys = MAX_KEYS, share = () => 1 } = options;
  const buckets = new Map<string, Bucket>();
  return {
    take(keyId, nowMs) {
      const rate = perSecond * share();
      const capacity = Math.max(1, rate);
      const known = buckets.get(keyId);
      const bucket = known ?? { tokens: capacity, atMs: nowMs };
      bucket.tokens = Math.min(capacity, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * rate);
      bucket.atMs = nowMs;
      // Taken out and put back: the map's order is then the order of last use, and the first key is the least used.
      if (known !== undefined) buckets.delete(keyId);
      else if (buckets.size >= maxKeys) buckets.delete(buckets.keys().next().value ?? '');
      buckets.set(keyId, bucket);
      const granted = bucket.tokens >= 1;
      if (granted) bucket.tokens -= 1;
      const resetSeconds = Math.max(1, Math.ceil((capacity - bucket.tokens) / rate));
      const headers = {
        'RateLimit-Limit': String(perSecond),
        'RateLimit-Remaining': String(Math.floor(bucket.tokens)),
        'RateLimit-Reset': String(resetSeconds),
      };
      if (granted) return { headers };
      const retryAfterSeconds = Math.max(1, Math.ceil((1 - bucket.tokens) / rate));
      return { headers, failure: failure('RATE_LIMITED', { retryAfterSeconds }) };
    },
  };
}

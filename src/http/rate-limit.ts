/**
 * Requests per second and key, as token buckets that hold one second's worth and refill steadily. Buckets are in memory: if several
 * processes share a limit, each grants its share, so a load balancer should distribute requests evenly. The number of buckets is limited;
 * full ones are evicted first.
 */
import { type Failure, failure } from '../base/failure.ts';

interface Bucket {
  tokens: number;
  atMs: number;
}

interface RateDecision {
  failure?: Failure;
  /** RateLimit-Limit, -Remaining, and -Reset (draft-ietf-httpapi-ratelimit-headers-06), for every response. */
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
      // Deletes and inserts again, so that the map is ordered by last use and the first key is the least recently used.
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

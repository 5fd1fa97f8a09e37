/**
 * What an account may hold open at once in this process: event streams, waits for the inbox. Each acquires a permit and releases it
 * when it ends, however it ends; while the account has none left the next one is refused with 429. Of a cap that holds for several
 * nodes together each grants its share, at least one.
 */
import { type Failure, failure } from '../base/failure.ts';
import { type CapName, type Caps, capsOf } from './account-caps.ts';

type OpenAtOnce = Extract<CapName, 'eventStreams' | 'inboxWaits'>;

const RETRY_SECONDS = 5;
const NOUNS: Record<OpenAtOnce, string> = { eventStreams: 'event streams', inboxWaits: 'waits for the inbox' };

/** A RefusalAnswer of the HTTP surface. */
export interface NoPermit {
  ok: false;
  failure: Failure;
  headers: Record<string, string>;
}

export interface ConcurrencyLimiter {
  /** Calling `release` again changes nothing. */
  acquire(account: { id: string; limits: Partial<Caps> }): { ok: true; release(): void } | NoPermit;
}

/** `share` is the part of the cap that is this process's: above 0, at most 1. */
export function createConcurrencyLimiter(cap: OpenAtOnce, share: () => number): ConcurrencyLimiter {
  const open = new Map<string, number>();
  return {
    acquire: ({ id, limits }) => {
      const most = capsOf(limits)[cap];
      const has = open.get(id) ?? 0;
      if (has >= Math.min(most, Math.max(1, Math.floor(most * share())))) return refusal(cap, most);
      open.set(id, has + 1);
      let isReleased = false;
      const release = (): void => {
        if (isReleased) return;
        isReleased = true;
        const left = (open.get(id) ?? 1) - 1;
        if (left === 0) open.delete(id);
        else open.set(id, left);
      };
      return { ok: true, release };
    },
  };
}

function refusal(cap: OpenAtOnce, most: number): NoPermit {
  const message = `This account may hold ${most} ${NOUNS[cap]} open at once (limits.${cap} of GET /account); end one first.`;
  const headers = {
    'RateLimit-Limit': String(most),
    'RateLimit-Remaining': '0',
    'RateLimit-Reset': String(RETRY_SECONDS),
  };
  return { ok: false, failure: failure('RATE_LIMITED', { message, retryAfterSeconds: RETRY_SECONDS }), headers };
}

/**
 * Decides which successful requests are recorded. If all accounts together make more requests than this node records in a second, the
 * accounts share that number: accounts below their share are recorded completely, and the others are sampled. An account's rate is
 * that of the second before, so a decision costs one lookup.
 */

/** An overloaded node records one request in this many. */
const OVERLOADED_EVERY = 100;

interface Seen {
  /** Requests of this second. */
  count: number;
  /** Requests since the account became active, so that a slow account has its part too. */
  total: number;
  /** One request in this many is recorded. */
  every: number;
}

export interface Sampling {
  /** Returns whether to record this request of the account. */
  admits(accountId: string): boolean;
  /** Starts the next second. */
  tick(isOverloaded: boolean): void;
}

export function createSampling(perSecond: number): Sampling {
  let accounts = new Map<string, Seen>();
  let leastEvery = 1;

  return {
    admits: (accountId) => {
      let seen = accounts.get(accountId);
      if (seen === undefined) {
        seen = { count: 0, total: 0, every: leastEvery };
        accounts.set(accountId, seen);
      }
      seen.count += 1;
      seen.total += 1;
      return seen.total % seen.every === 0;
    },
    tick: (isOverloaded) => {
      leastEvery = isOverloaded ? OVERLOADED_EVERY : 1;
      const active = [...accounts].filter(([, { count }]) => count > 0);
      accounts = new Map();
      let left = perSecond;
      // The share that quiet accounts do not use is left for the others.
      for (const [index, [accountId, { count, total }]] of active
        .toSorted((a, b) => a[1].count - b[1].count)
        .entries()) {
        const share = Math.max(1, left / (active.length - index));
        const every = Math.max(leastEvery, Math.ceil(count / share));
        left -= Math.min(count, share);
        accounts.set(accountId, { count: 0, total, every });
      }
    },
  };
}

/**
 * Slows down those who guess passwords. After some failures from one address its next log-ins are checked one after the other,
 * with a delay between them that doubles with each failure, however many connections it opens; those who would wait too
 * long are turned away. A success forgets the failures, and so does time. Other addresses notice nothing, and a log-in
 * that was right a moment ago never comes here.
 */

const FREE_FAILURES = 5;
const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 8_000;
const LONGEST_WAIT_MS = 16_000;
/** From this many failures on each further one closes its connection. */
const CLOSING_FAILURES = 10;
const FORGET_MS = 600_000;
const ADDRESSES_KEPT = 10_000;

interface Suspect {
  failures: number;
  lastFailureMs: number;
  /** When the next log-in may be checked. */
  freeAtMs: number;
}

export interface LoginGuard {
  /** Milliseconds until a log-in from this address may be checked; undefined turns it away. Takes the turn. */
  enter(address: string): number | undefined;
  /** Answers whether the connection is to be closed. */
  failed(address: string): boolean;
  succeeded(address: string): void;
  /** Whether a log-in from this address succeeded of late. */
  knows(address: string): boolean;
}

/** `nowMs` is monotonic. */
export function createLoginGuard(nowMs: () => number = () => performance.now()): LoginGuard {
  const suspects = new Map<string, Suspect>();
  const friends = new Map<string, number>();

  const suspectAt = (address: string): Suspect | undefined => {
    const suspect = suspects.get(address);
    if (suspect === undefined || nowMs() - suspect.lastFailureMs < FORGET_MS) return suspect;
    suspects.delete(address);
    return undefined;
  };

  return {
    enter: (address) => {
      const suspect = suspectAt(address);
      if (suspect === undefined || suspect.failures < FREE_FAILURES) return 0;
      const now = nowMs();
      const delayMs = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (suspect.failures - FREE_FAILURES));
      const turnMs = Math.max(now, suspect.freeAtMs) + delayMs;
      if (turnMs - now > LONGEST_WAIT_MS) return undefined;
      suspect.freeAtMs = turnMs;
      return turnMs - now;
    },
    failed: (address) => {
      const suspect = suspectAt(address) ?? { failures: 0, lastFailureMs: 0, freeAtMs: 0 };
      suspect.failures += 1;
      suspect.lastFailureMs = nowMs();
      keep(suspects, address, suspect);
      return suspect.failures >= CLOSING_FAILURES;
    },
    succeeded: (address) => {
      suspects.delete(address);
      keep(friends, address, nowMs());
    },
    knows: (address) => {
      const sinceMs = friends.get(address);
      return sinceMs !== undefined && nowMs() - sinceMs < FORGET_MS;
    },
  };
}

/** Puts the entry behind all others; the one that was touched longest ago makes way. */
function keep<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > ADDRESSES_KEPT) map.delete(map.keys().next().value as string);
}

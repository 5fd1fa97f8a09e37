/**
 * Slows down those who guess passwords. A few log-ins from one address are checked at a time: those under way count as if they had
 * failed already. After some failures the next ones are checked one after the other, with a delay between them that doubles with
 * each failure, however many connections it opens; those who would wait too long are turned away. A success forgets the
 * failures of its user name, and time forgets all. Other addresses notice nothing, and a log-in that was right a moment ago never
 * waits here.
 */

const FREE_FAILURES = 5;
const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 8_000;
const LONGEST_WAIT_MS = 16_000;
/** From this many failures on each further one closes its connection. */
const CLOSING_FAILURES = 10;
const FORGET_MS = 600_000;
const ADDRESSES_KEPT = 10_000;
/** User names of one address whose failures are counted by name; those of all others only time forgets. */
const NAMES_KEPT = 10;
const LONGEST_NAME = 48;
/** No user name: those hold no controls. */
const OTHERS = '\n';

interface Suspect {
  failures: number;
  byName: Map<string, number>;
  lastFailureMs: number;
  /** When the next log-in may be checked. */
  freeAtMs: number;
  /** Log-ins that may be checked and are not decided. */
  underWay: number;
  /** Wakes those who wait until one of these is decided. */
  waiting: (() => void)[];
}

/** A log-in that may be checked; exactly one of these is to be called in the end. */
export interface LoginAttempt {
  /** Answers whether the connection is to be closed. */
  failed(): boolean;
  succeeded(): void;
  /** It could not be checked. */
  undecided(): void;
}

export interface LoginGuard {
  /** Resolves when a log-in from this address may be checked; undefined turns it away. */
  enter(address: string, username: string): Promise<LoginAttempt | undefined>;
  /** A log-in that did not have to be checked. */
  succeeded(address: string, username: string): void;
  /** Whether a log-in from this address succeeded of late. */
  knows(address: string): boolean;
}

export interface LoginGuardOptions {
  /** Monotonic. */
  nowMs?(): number;
  pause?(ms: number): Promise<void>;
}

export function createLoginGuard(options: LoginGuardOptions = {}): LoginGuard {
  const { nowMs = () => performance.now(), pause = sleep } = options;
  const suspects = new Map<string, Suspect>();
  const friends = new Map<string, number>();

  const suspectAt = (address: string): Suspect => {
    const known = suspects.get(address);
    if (known !== undefined) {
      if (nowMs() - known.lastFailureMs >= FORGET_MS) forgetAll(known);
      return known;
    }
    const suspect = newSuspect();
    keep(suspects, address, suspect);
    return suspect;
  };

  const tidy = (address: string): void => {
    const suspect = suspects.get(address);
    if (suspect?.failures === 0 && suspect.underWay === 0 && suspect.waiting.length === 0) suspects.delete(address);
  };

  const succeeded = (address: string, username: string): void => {
    const suspect = suspects.get(address);
    if (suspect !== undefined) forgetName(suspect, username);
    tidy(address);
    keep(friends, address, nowMs());
  };

  /** Takes the turn; undefined when it would come too late. */
  const turnMs = (suspect: Suspect): number | undefined => {
    if (suspect.failures < FREE_FAILURES) return 0;
    const now = nowMs();
    const doublings = suspect.failures + suspect.underWay - FREE_FAILURES;
    const startMs = Math.max(now, suspect.freeAtMs) + Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** doublings);
    if (startMs - now > LONGEST_WAIT_MS) return undefined;
    suspect.freeAtMs = startMs;
    return startMs - now;
  };

  return {
    enter: async (address, username) => {
      let suspect = suspectAt(address);
      while (suspect.failures < FREE_FAILURES && suspect.failures + suspect.underWay >= FREE_FAILURES) {
        const { waiting } = suspect;
        await new Promise<void>((resolve) => waiting.push(resolve));
        suspect = suspectAt(address);
      }
      const waitMs = turnMs(suspect);
      if (waitMs === undefined) return undefined;
      suspect.underWay += 1;
      if (waitMs > 0) await pause(waitMs);
      const decided = (): void => {
        suspect.underWay -= 1;
        for (const wake of suspect.waiting.splice(0)) wake();
      };
      return {
        failed: () => {
          noteFailure(suspect, username, nowMs());
          keep(suspects, address, suspect);
          decided();
          return suspect.failures >= CLOSING_FAILURES;
        },
        succeeded: () => {
          decided();
          succeeded(address, username);
        },
        undecided: () => {
          decided();
          tidy(address);
        },
      };
    },
    succeeded,
    knows: (address) => {
      const sinceMs = friends.get(address);
      return sinceMs !== undefined && nowMs() - sinceMs < FORGET_MS;
    },
  };
}

/** Holds up no process that ends. */
function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

function newSuspect(): Suspect {
  return { failures: 0, byName: new Map(), lastFailureMs: 0, freeAtMs: 0, underWay: 0, waiting: [] };
}

function noteFailure(suspect: Suspect, username: string, nowMs: number): void {
  const name = username.slice(0, LONGEST_NAME);
  const counted = suspect.byName.has(name) || suspect.byName.size < NAMES_KEPT ? name : OTHERS;
  suspect.byName.set(counted, (suspect.byName.get(counted) ?? 0) + 1);
  suspect.failures += 1;
  suspect.lastFailureMs = nowMs;
}

function forgetName(suspect: Suspect, username: string): void {
  const name = username.slice(0, LONGEST_NAME);
  suspect.failures -= suspect.byName.get(name) ?? 0;
  suspect.byName.delete(name);
}

function forgetAll(suspect: Suspect): void {
  suspect.failures = 0;
  suspect.byName.clear();
}

/** Puts the entry behind all others; the one that was touched longest ago makes way. */
function keep<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > ADDRESSES_KEPT) map.delete(map.keys().next().value as string);
}

/**
 * Slows down password guessing. A few logins from one address are checked at a time: those in progress count as failures. After some
 * failures the next ones are checked one by one, with a delay that doubles with each failure, on any number of connections; logins that
 * would wait too long are refused. A success clears the failures of its user name, and time clears all. Other addresses are not affected
 * unless they guess the same user name, and a login that succeeded recently never waits here.
 *
 * Guesses of one user name from many addresses pass a second gate of the same kind. Failures are counted for the name, whether or not such
 * a user exists. Addresses that the name logged in from within a week are not delayed and not counted. No success clears these failures,
 * only time does: the owner's logins in between allow no additional guesses. Memory is limited: a flood of names that are tried a few times
 * evicts others of that kind, and never one that is being slowed down.
 */

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 8_000;
const LONGEST_WAIT_MS = 16_000;
const FORGET_MS = 600_000;

interface Gate {
  failures: number;
  lastFailureMs: number;
  /** When the next log-in may be checked. */
  freeAtMs: number;
  /** Logins being checked. */
  underWay: number;
  /** Wakes the logins that wait until one of these is decided. */
  waiting: (() => void)[];
}

function newGate(): Gate {
  return { failures: 0, lastFailureMs: 0, freeAtMs: 0, underWay: 0, waiting: [] };
}

function isIdle(gate: Gate): boolean {
  return gate.failures === 0 && gate.underWay === 0 && gate.waiting.length === 0;
}

/** Returns how long a login has to wait, undefined if it is refused; it is in progress from here on, until `decided`. */
function delayOf(gate: Gate, freeFailures: number, now: number): number | undefined {
  if (gate.failures < freeFailures) return 0;
  const doublings = gate.failures + gate.underWay - freeFailures;
  const startMs = Math.max(now, gate.freeAtMs) + Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** doublings);
  if (startMs - now > LONGEST_WAIT_MS) return undefined;
  gate.freeAtMs = startMs;
  return startMs - now;
}

/** Returns the gate that was passed, once the login may be checked; undefined refuses it. `find` looks the gate up. */
async function pass<G extends Gate>(
  find: () => G,
  options: { freeFailures: number; nowMs(): number; pause(ms: number): Promise<void> },
): Promise<G | undefined> {
  const { freeFailures, nowMs, pause } = options;
  let gate = find();
  while (gate.failures < freeFailures && gate.failures + gate.underWay >= freeFailures) {
    const { waiting } = gate;
    await new Promise<void>((resolve) => waiting.push(resolve));
    gate = find();
  }
  const waitMs = delayOf(gate, freeFailures, nowMs());
  if (waitMs === undefined) return undefined;
  gate.underWay += 1;
  if (waitMs > 0) await pause(waitMs);
  return gate;
}

/** A login that passed is decided: the next one may pass. */
function decided(gate: Gate): void {
  gate.underWay -= 1;
  for (const wake of gate.waiting.splice(0)) wake();
}

/** Moves the entry to the end; the least recently used one is evicted. */
function keep<V>(map: Map<string, V>, key: string, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > most) map.delete(map.keys().next().value as string);
}

const FREE_NAME_FAILURES = 10;
const NAMES_KEPT = 10_000;
const LONGEST_NAME = 48;
const KNOWN_MS = 7 * 86_400_000;
const ADDRESSES_OF_NAME = 20;

interface NameGuard {
  /** Returns the gate of the name; undefined for an address that the name logged in from recently. */
  gateOf(address: string, username: string): Gate | undefined;
  failed(username: string, gate: Gate): void;
  /** Deletes an empty gate. */
  tidy(username: string): void;
  succeeded(address: string, username: string): void;
}

function createNameGuard(nowMs: () => number): NameGuard {
  const tried = new Map<string, Gate>();
  const slowed = new Map<string, Gate>();
  const known = new Map<string, Map<string, number>>();
  const nameOf = (username: string): string => username.slice(0, LONGEST_NAME);

  const isKnown = (address: string, name: string): boolean => {
    const sinceMs = known.get(name)?.get(address);
    return sinceMs !== undefined && nowMs() - sinceMs < KNOWN_MS;
  };

  return {
    gateOf: (address, username) => {
      const name = nameOf(username);
      if (isKnown(address, name)) return undefined;
      const gate = slowed.get(name) ?? tried.get(name) ?? newGate();
      if (!slowed.has(name)) keep(tried, name, gate, NAMES_KEPT);
      return gate;
    },
    failed: (username, gate) => {
      const name = nameOf(username);
      const isSlowed = gate.failures >= FREE_NAME_FAILURES;
      (isSlowed ? tried : slowed).delete(name);
      keep(isSlowed ? slowed : tried, name, gate, NAMES_KEPT);
    },
    tidy: (username) => {
      const gate = tried.get(nameOf(username));
      if (gate !== undefined && isIdle(gate)) tried.delete(nameOf(username));
    },
    succeeded: (address, username) => {
      const addresses = known.get(nameOf(username)) ?? new Map<string, number>();
      keep(addresses, address, nowMs(), ADDRESSES_OF_NAME);
      keep(known, nameOf(username), addresses, NAMES_KEPT);
    },
  };
}

const FREE_FAILURES = 5;
/** From this many failures on, each further one closes its connection. */
const CLOSING_FAILURES = 10;
const ADDRESSES_KEPT = 10_000;
/** Number of user names per address whose failures are counted by name; failures of all others are only cleared by time. */
const NAMES_OF_ADDRESS = 10;
/** Not a valid user name: those have no control characters. */
const OTHERS = '\n';

interface AddressGate extends Gate {
  byName: Map<string, number>;
}

/** A login that may be checked; exactly one of these must be called in the end. */
export interface LoginAttempt {
  /** Returns whether to close the connection. */
  failed(): boolean;
  succeeded(): void;
  /** It could not be checked. */
  undecided(): void;
}

export interface LoginGuard {
  /** Resolves when a login from this address may be checked; undefined refuses it. */
  enter(address: string, username: string): Promise<LoginAttempt | undefined>;
  /** A login that did not need a check. */
  succeeded(address: string, username: string): void;
  /** Whether a login from this address succeeded recently. */
  knows(address: string): boolean;
}

interface LoginGuardOptions {
  /** Monotonic. */
  nowMs?(): number;
  pause?(ms: number): Promise<void>;
}

export function createLoginGuard(options: LoginGuardOptions = {}): LoginGuard {
  const { nowMs = () => performance.now(), pause = sleep } = options;
  const gates = new Map<string, AddressGate>();
  const friends = new Map<string, number>();
  const names = createNameGuard(nowMs);

  /** Resets a record whose failures are old. */
  const aged = <G extends Gate>(gate: G, forget: (gate: G) => void): G => {
    if (gate.failures > 0 && nowMs() - gate.lastFailureMs >= FORGET_MS) forget(gate);
    return gate;
  };

  const gateOf = (address: string): AddressGate => {
    const known = gates.get(address);
    if (known !== undefined) return aged(known, forgetAll);
    const gate = { ...newGate(), byName: new Map<string, number>() };
    keep(gates, address, gate, ADDRESSES_KEPT);
    return gate;
  };

  const tidy = (address: string): void => {
    const gate = gates.get(address);
    if (gate !== undefined && isIdle(gate)) gates.delete(address);
  };

  const succeeded = (address: string, username: string): void => {
    const gate = gates.get(address);
    if (gate !== undefined) forgetName(gate, username);
    tidy(address);
    keep(friends, address, nowMs(), ADDRESSES_KEPT);
    names.succeeded(address, username);
  };

  /** Returns 'own' for the name's own addresses, where it is not counted. */
  const passName = async (address: string, username: string): Promise<Gate | 'own' | undefined> => {
    if (names.gateOf(address, username) === undefined) return 'own';
    const find = (): Gate => aged(names.gateOf(address, username) ?? newGate(), (gate) => (gate.failures = 0));
    return pass(find, { freeFailures: FREE_NAME_FAILURES, nowMs, pause });
  };

  return {
    enter: async (address, username) => {
      const gate = await pass(() => gateOf(address), { freeFailures: FREE_FAILURES, nowMs, pause });
      if (gate === undefined) return undefined;
      const ofName = await passName(address, username);
      const over = (): void => {
        decided(gate);
        if (typeof ofName === 'object') decided(ofName);
      };
      const dropped = (): void => {
        tidy(address);
        names.tidy(username);
      };
      if (ofName === undefined) {
        over();
        dropped();
        return undefined;
      }
      return {
        failed: () => {
          noteFailure(gate, username, nowMs());
          keep(gates, address, gate, ADDRESSES_KEPT);
          if (ofName !== 'own') {
            ofName.failures += 1;
            ofName.lastFailureMs = nowMs();
            names.failed(username, ofName);
          }
          over();
          return gate.failures >= CLOSING_FAILURES;
        },
        succeeded: () => {
          over();
          succeeded(address, username);
          names.tidy(username);
        },
        undecided: () => {
          over();
          dropped();
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

/** Does not keep a stopping process alive. */
function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

function noteFailure(gate: AddressGate, username: string, nowMs: number): void {
  const name = username.slice(0, LONGEST_NAME);
  const counted = gate.byName.has(name) || gate.byName.size < NAMES_OF_ADDRESS ? name : OTHERS;
  gate.byName.set(counted, (gate.byName.get(counted) ?? 0) + 1);
  gate.failures += 1;
  gate.lastFailureMs = nowMs;
}

function forgetName(gate: AddressGate, username: string): void {
  const name = username.slice(0, LONGEST_NAME);
  gate.failures -= gate.byName.get(name) ?? 0;
  gate.byName.delete(name);
}

function forgetAll(gate: AddressGate): void {
  gate.failures = 0;
  gate.byName.clear();
}

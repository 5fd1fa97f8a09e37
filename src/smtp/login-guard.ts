/**
 * Slows down password guessing. Only a few logins from one address are checked at the same time, because logins in progress count as
 * failures. After 5 failures, logins from the address are checked one by one, on any number of connections, with a delay that doubles with
 * each failure. Logins that would wait too long are refused. A successful login clears the failures of its user name, and all failures
 * expire 10 minutes after the last one. Other addresses are not affected unless they guess the same user name. A login whose credentials
 * were verified recently is not delayed.
 *
 * Guesses of one user name from many addresses pass a second gate of the same kind. It counts failures per name, whether or not such a user
 * exists. Addresses from which the name logged in within the last week are not delayed and not counted. A successful login does not clear
 * these failures, they only expire, so the owner's logins do not allow additional guesses. Memory is limited: a flood of names that are
 * tried a few times evicts other such names, and never a name that is being slowed down.
 */

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 8_000;
const MAX_WAIT_MS = 16_000;
const FORGET_MS = 600_000;

interface Gate {
  failures: number;
  lastFailureMs: number;
  /** Time from which the next login can be checked. */
  freeAtMs: number;
  /** Number of logins that are being checked. */
  inProgress: number;
  /** Callbacks that wake the waiting logins when one of the logins in progress ends. */
  waiting: (() => void)[];
}

function newGate(): Gate {
  return { failures: 0, lastFailureMs: 0, freeAtMs: 0, inProgress: 0, waiting: [] };
}

function isIdle(gate: Gate): boolean {
  return gate.failures === 0 && gate.inProgress === 0 && gate.waiting.length === 0;
}

/** Returns how long a login must wait, in ms; undefined if the login is refused. */
function delayOf(gate: Gate, freeFailures: number, now: number): number | undefined {
  if (gate.failures < freeFailures) return 0;
  const doublings = gate.failures + gate.inProgress - freeFailures;
  const startMs = Math.max(now, gate.freeAtMs) + Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** doublings);
  if (startMs - now > MAX_WAIT_MS) return undefined;
  gate.freeAtMs = startMs;
  return startMs - now;
}

/**
 * Waits until the login can be checked and returns its gate; undefined if the login is refused. The login counts as in progress until
 * `endLogin` is called. `find` looks up the gate.
 */
async function pass<G extends Gate>(
  find: () => G,
  options: { freeFailures: number; nowMs(): number; pause(ms: number): Promise<void> },
): Promise<G | undefined> {
  const { freeFailures, nowMs, pause } = options;
  let gate = find();
  while (gate.failures < freeFailures && gate.failures + gate.inProgress >= freeFailures) {
    const { waiting } = gate;
    await new Promise<void>((resolve) => waiting.push(resolve));
    gate = find();
  }
  const waitMs = delayOf(gate, freeFailures, nowMs());
  if (waitMs === undefined) return undefined;
  gate.inProgress += 1;
  if (waitMs > 0) await pause(waitMs);
  return gate;
}

/** Ends a login that passed the gate, and wakes the waiting logins. */
function endLogin(gate: Gate): void {
  gate.inProgress -= 1;
  for (const wake of gate.waiting.splice(0)) wake();
}

/** Moves the entry to the end, and evicts the least recently used entry if there are too many. */
function keep<V>(map: Map<string, V>, key: string, value: V, limit: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > limit) map.delete(map.keys().next().value as string);
}

const FREE_NAME_FAILURES = 10;
const NAMES_KEPT = 10_000;
const MAX_NAME_LENGTH = 48;
const KNOWN_MS = 7 * 86_400_000;
const ADDRESSES_OF_NAME = 20;

interface NameGuard {
  /** Returns the gate of the name; undefined if the name logged in from this address recently. */
  gateOf(address: string, username: string): Gate | undefined;
  failed(username: string, gate: Gate): void;
  /** Deletes the gate of the name if it has no failures and no logins. */
  tidy(username: string): void;
  succeeded(address: string, username: string): void;
}

function createNameGuard(nowMs: () => number): NameGuard {
  const tried = new Map<string, Gate>();
  const slowed = new Map<string, Gate>();
  const known = new Map<string, Map<string, number>>();
  const nameOf = (username: string): string => username.slice(0, MAX_NAME_LENGTH);

  const isKnown = (address: string, name: string): boolean => {
    const loginMs = known.get(name)?.get(address);
    return loginMs !== undefined && nowMs() - loginMs < KNOWN_MS;
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
/** From this number of failures, each failure closes its connection. */
const CLOSING_FAILURES = 10;
const ADDRESSES_KEPT = 10_000;
/** Number of user names per address whose failures are counted separately; failures of all other names only expire. */
const NAMES_OF_ADDRESS = 10;
/** Key of the failures of all other names. It is not a valid user name, because user names have no control characters. */
const OTHERS = '\n';

interface AddressGate extends Gate {
  byName: Map<string, number>;
}

/** A login that can be checked. The caller must call exactly one of these methods when it is done. */
export interface LoginAttempt {
  /** Records a failed login; returns whether to close the connection. */
  failed(): boolean;
  succeeded(): void;
  /** Ends the attempt without a result, because the login could not be checked. */
  undecided(): void;
}

export interface LoginGuard {
  /** Resolves when a login from this address can be checked, or with undefined if the login is refused. */
  enter(address: string, username: string): Promise<LoginAttempt | undefined>;
  /** Records a successful login that did not need a check. */
  succeeded(address: string, username: string): void;
  /** Returns whether a login from this address succeeded within the last 10 minutes. */
  knows(address: string): boolean;
}

interface LoginGuardOptions {
  /** Returns the time of a monotonic clock. */
  nowMs?(): number;
  pause?(ms: number): Promise<void>;
}

export function createLoginGuard(options: LoginGuardOptions = {}): LoginGuard {
  const { nowMs = () => performance.now(), pause = sleep } = options;
  const gates = new Map<string, AddressGate>();
  const recentLogins = new Map<string, number>();
  const names = createNameGuard(nowMs);

  /** Returns the gate, and first clears its failures if they have expired. */
  const withoutExpired = <G extends Gate>(gate: G, forget: (gate: G) => void): G => {
    if (gate.failures > 0 && nowMs() - gate.lastFailureMs >= FORGET_MS) forget(gate);
    return gate;
  };

  const gateOf = (address: string): AddressGate => {
    const known = gates.get(address);
    if (known !== undefined) return withoutExpired(known, forgetAll);
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
    keep(recentLogins, address, nowMs(), ADDRESSES_KEPT);
    names.succeeded(address, username);
  };

  /** Returns 'own' if the name logged in from this address recently: its failures are then not counted for the name. */
  const passName = async (address: string, username: string): Promise<Gate | 'own' | undefined> => {
    if (names.gateOf(address, username) === undefined) return 'own';
    const find = (): Gate =>
      withoutExpired(names.gateOf(address, username) ?? newGate(), (gate) => (gate.failures = 0));
    return pass(find, { freeFailures: FREE_NAME_FAILURES, nowMs, pause });
  };

  return {
    enter: async (address, username) => {
      const gate = await pass(() => gateOf(address), { freeFailures: FREE_FAILURES, nowMs, pause });
      if (gate === undefined) return undefined;
      const nameGate = await passName(address, username);
      const endBoth = (): void => {
        endLogin(gate);
        if (typeof nameGate === 'object') endLogin(nameGate);
      };
      const tidyBoth = (): void => {
        tidy(address);
        names.tidy(username);
      };
      if (nameGate === undefined) {
        endBoth();
        tidyBoth();
        return undefined;
      }
      return {
        failed: () => {
          recordFailure(gate, username, nowMs());
          keep(gates, address, gate, ADDRESSES_KEPT);
          if (nameGate !== 'own') {
            nameGate.failures += 1;
            nameGate.lastFailureMs = nowMs();
            names.failed(username, nameGate);
          }
          endBoth();
          return gate.failures >= CLOSING_FAILURES;
        },
        succeeded: () => {
          endBoth();
          succeeded(address, username);
          names.tidy(username);
        },
        undecided: () => {
          endBoth();
          tidyBoth();
        },
      };
    },
    succeeded,
    knows: (address) => {
      const loginMs = recentLogins.get(address);
      return loginMs !== undefined && nowMs() - loginMs < FORGET_MS;
    },
  };
}

/** Waits without keeping a stopping process alive. */
function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

function recordFailure(gate: AddressGate, username: string, nowMs: number): void {
  const name = username.slice(0, MAX_NAME_LENGTH);
  const counted = gate.byName.has(name) || gate.byName.size < NAMES_OF_ADDRESS ? name : OTHERS;
  gate.byName.set(counted, (gate.byName.get(counted) ?? 0) + 1);
  gate.failures += 1;
  gate.lastFailureMs = nowMs;
}

function forgetName(gate: AddressGate, username: string): void {
  const name = username.slice(0, MAX_NAME_LENGTH);
  gate.failures -= gate.byName.get(name) ?? 0;
  gate.byName.delete(name);
}

function forgetAll(gate: AddressGate): void {
  gate.failures = 0;
  gate.byName.clear();
}

/**
 * Slows down those who guess passwords. A few log-ins from one address are checked at a time: those under way count as if they had
 * failed already. After some failures the next ones are checked one after the other, with a delay between them that doubles with
 * each failure, however many connections it opens; those who would wait too long are turned away. A success forgets the
 * failures of its user name, and time forgets all. Other addresses notice nothing unless they guess at the same user name
 * (name-guard.ts), and a log-in that was right a moment ago never waits here.
 */
import { decided, FORGET_MS, type Gate, isIdle, keep, newGate, pass } from './gate.ts';
import { createNameGuard, FREE_NAME_FAILURES } from './name-guard.ts';

const FREE_FAILURES = 5;
/** From this many failures on each further one closes its connection. */
const CLOSING_FAILURES = 10;
const ADDRESSES_KEPT = 10_000;
/** User names of one address whose failures are counted by name; those of all others only time forgets. */
const NAMES_KEPT = 10;
const LONGEST_NAME = 48;
/** No user name: those hold no controls. */
const OTHERS = '\n';

interface AddressGate extends Gate {
  byName: Map<string, number>;
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
  const gates = new Map<string, AddressGate>();
  const friends = new Map<string, number>();
  const names = createNameGuard(nowMs);

  /** A record whose failures are old is as good as new. */
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

  /** Undefined where the name does not count, for its own addresses. */
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

/** Holds up no process that ends. */
function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}

function noteFailure(gate: AddressGate, username: string, nowMs: number): void {
  const name = username.slice(0, LONGEST_NAME);
  const counted = gate.byName.has(name) || gate.byName.size < NAMES_KEPT ? name : OTHERS;
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

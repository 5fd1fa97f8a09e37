/**
 * Slows down those who guess at one user name from many addresses. Failures are counted for the name, whether there is such a user
 * or not; after some, guesses from all addresses that are strange to it are checked one after the other, with growing delays, and
 * those that would wait too long are turned away. Addresses that the name logged in from within a week are not held up and do not count.
 * No success forgets failures, time does: the owner's log-ins in between allow no further guesses. Memory is bounded: a flood of
 * names that are tried a few times drives out others of that kind, and never one that is being slowed.
 */
import { type Gate, isIdle, keep, newGate } from './gate.ts';

export const FREE_NAME_FAILURES = 10;
const NAMES_KEPT = 10_000;
const LONGEST_NAME = 48;
const KNOWN_MS = 7 * 86_400_000;
const ADDRESSES_OF_NAME = 20;

export interface NameGuard {
  /** The gate of the name; undefined for an address that the name logged in from of late. */
  gateOf(address: string, username: string): Gate | undefined;
  failed(username: string, gate: Gate): void;
  /** Forgets a gate that holds nothing. */
  tidy(username: string): void;
  succeeded(address: string, username: string): void;
}

export function createNameGuard(nowMs: () => number): NameGuard {
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

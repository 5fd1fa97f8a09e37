/**
 * The addresses of this machine from which connections go out: in turn, each of the family of the peer. Without any the system
 * chooses, by its routes.
 */
import { isIP } from 'node:net';

export interface SourceAddresses {
  /** Whether there is one for this peer: where only IPv4 is named, nothing goes out by IPv6. */
  reach(address: string): boolean;
  /**
   * The next in turn of those that may be used, for a connection to this peer; undefined leaves the choice to the system, where none are named.
   */
  nextFor(address: string, mayUse?: (source: string) => boolean): string | undefined;
  /** Whether one of those for this peer may be used; without any, whether the system's choice may. */
  hasOneFor(address: string, mayUse: (source: string | undefined) => boolean): boolean;
}

export function openSourceAddresses(addresses: readonly string[]): SourceAddresses {
  const turns = new Map<number, string[]>();
  for (const address of addresses) turns.set(isIP(address), [...(turns.get(isIP(address)) ?? []), address]);
  return {
    reach: (address) => turns.size === 0 || turns.has(isIP(address)),
    nextFor: (address, mayUse = () => true) => {
      const turn = turns.get(isIP(address)) ?? [];
      // Where one is used up between two looks, its peers see one connection more.
      const next = turn.find(mayUse) ?? turn[0];
      if (next !== undefined) turn.push(...turn.splice(turn.indexOf(next), 1));
      return next;
    },
    hasOneFor: (address, mayUse) =>
      turns.size === 0 ? mayUse(undefined) : (turns.get(isIP(address)) ?? []).some(mayUse),
  };
}

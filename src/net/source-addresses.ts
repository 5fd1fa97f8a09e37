/**
 * The addresses of this machine from which connections go out: in turn, each of the family of the peer. Without any the system
 * chooses, by its routes.
 */
import { isIP } from 'node:net';

export interface SourceAddresses {
  /** Whether there is one for this peer: where only IPv4 is named, nothing goes out by IPv6. */
  reach(address: string): boolean;
  /** The next in turn for a connection to this peer; undefined leaves the choice to the system. */
  nextFor(address: string): string | undefined;
}

export function openSourceAddresses(addresses: readonly string[]): SourceAddresses {
  const turns = new Map<number, string[]>();
  for (const address of addresses) turns.set(isIP(address), [...(turns.get(isIP(address)) ?? []), address]);
  return {
    reach: (address) => turns.size === 0 || turns.has(isIP(address)),
    nextFor: (address) => {
      const turn = turns.get(isIP(address));
      const next = turn?.shift();
      if (next !== undefined) turn!.push(next);
      return next;
    },
  };
}

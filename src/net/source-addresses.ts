/**
 * The local addresses for outgoing connections: used in turn, by the peer's address family. Without any the system chooses.
 */
import { isIP } from 'node:net';

export interface SourceAddresses {
  /** Whether there is an address for this peer: if only IPv4 addresses are configured, no connection uses IPv6. */
  reach(address: string): boolean;
  /**
   * Returns the next usable address in turn for a connection to this peer; undefined leaves the choice to the system if none are
   * configured.
   */
  nextFor(address: string, mayUse?: (source: string) => boolean): string | undefined;
  /** Whether one of the addresses for this peer may be used; without any, whether the system's choice may. */
  hasOneFor(address: string, mayUse: (source: string | undefined) => boolean): boolean;
}

export function openSourceAddresses(addresses: readonly string[]): SourceAddresses {
  const turns = new Map<number, string[]>();
  for (const address of addresses) turns.set(isIP(address), [...(turns.get(isIP(address)) ?? []), address]);
  return {
    reach: (address) => turns.size === 0 || turns.has(isIP(address)),
    nextFor: (address, mayUse = () => true) => {
      const turn = turns.get(isIP(address)) ?? [];
      // If its limit was reached between two checks, the peers see one connection more.
      const next = turn.find(mayUse) ?? turn[0];
      if (next !== undefined) turn.push(...turn.splice(turn.indexOf(next), 1));
      return next;
    },
    hasOneFor: (address, mayUse) => turns.get(isIP(address))?.some(mayUse) ?? mayUse(undefined),
  };
}

/** Explains to operators which rule sets the current connection limit of a destination. */

import type { ConnectionLimits } from './limits.ts';
import type { Destination } from './registry.ts';

export interface LimitState {
  limits: ConnectionLimits;
  /** Connections allowed now. */
  limit: number;
  proven: boolean;
  /** Whose limits apply: a provider of providers.json, or the relay. */
  owner: string;
  /** How much is used of a daily share or of the limits of a relay. */
  ration?: string | undefined;
}

/** Returns the rest of a sentence that starts with the number of connections. */
export function limitReason(destination: Destination, state: LimitState): string {
  const reason = reasonOfConnections(destination, state);
  return state.ration === undefined ? reason : `${reason}; ${state.ration}`;
}

function reasonOfConnections({ pause, learned }: Destination, { limits, limit, proven, owner }: LimitState): string {
  if (!proven) {
    return pause
      ? 'resumes after one successful probe'
      : 'starts with one connection (no response in the last 10 minutes)';
  }
  if (learned) return `its server rejected more than ${learned.limit} connections`;
  if (limit >= limits.ceiling) return `the limit of ${owner}`;
  return `each success adds one, up to ${limits.ceiling} for ${owner}`;
}

/** Which rule sets the limit on connections that a destination has now, in words for operators. */

import type { ConnectionLimits } from './limits.ts';
import type { Destination } from './registry.ts';

export interface LimitState {
  limits: ConnectionLimits;
  /** Connections that it may have now. */
  limit: number;
  /** Whether it answered lately. */
  proven: boolean;
  /** Whose limits these are: a provider of providers.json, or the relay. */
  owner: string;
  /** How far the share of today is used, while addresses warm up. */
  warmUp?: string | undefined;
}

/** Returns the rule that sets the limit, as text for operators. */
export function limitReason(destination: Destination, state: LimitState): string {
  const reason = reasonOfConnections(destination, state);
  return state.warmUp === undefined ? reason : `${reason}; ${state.warmUp}`;
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

/** What the operator routes share: their dependencies, their definition, and in whose name they make changes. */
import type { TSchema } from 'typebox';
import type { Caller, CallerCache, LoginCache } from '../accounts/accounts.ts';
import { changedBy } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import {
  type CallerKey,
  defineRoute,
  type RouteAccess,
  type RouteDefinition,
  type RouteRequest,
} from '../http/route.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import type { OperatorKeys } from './keys.ts';

export interface OperatorRouteDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  /** The authentication cache: changes here must apply to the very next request. */
  callers: Pick<CallerCache, 'evictAccount'>;
  logins: Pick<LoginCache, 'evictAccount'>;
  operatorKeys: Pick<OperatorKeys, 'evict'>;
  nodes: Pick<Nodes, 'list'>;
  /** Returns the report of `postrider doctor`. */
  doctor(): Promise<unknown>;
  /** Number of queued messages, from a recent count. */
  queueDepth(): number;
  /** POSTRIDER_ROUTE is set: all live mail goes to one relay. */
  isRelayed: boolean;
  /** Called when mail may be due. */
  nudge(): void;
}

/**
 * Defines a route whose caller is an operator or an operator key. Its `access` makes sure of that, so the type of the caller can differ
 * from other routes.
 */
export function operatorRoute<B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: Omit<RouteDefinition<CallerKey, B, Q>, 'access' | 'tag'> & { access?: Omit<RouteAccess, 'auth'> },
): RouteDefinition<Caller> {
  const access: RouteAccess = { ...definition.access, auth: 'operator' };
  return defineRoute<CallerKey, B, Q>({ ...definition, access, tag: 'operator' }) as RouteDefinition<never>;
}

type OperatorRequester = Pick<RouteRequest<CallerKey>, 'caller' | 'remoteAddress' | 'requestId'>;

/** The database with changes in the operator's name; audit log rows belong to the changed account. */
export function operatorChanges(
  { database, clock }: Pick<OperatorRouteDeps, 'database' | 'clock'>,
  { caller, remoteAddress, requestId }: OperatorRequester,
  accountId: string | null,
): Database {
  const { actor } = caller;
  return changedBy(database, {
    actor,
    accountId,
    mode: null,
    atMs: clock.now(),
    address: remoteAddress,
    requestId,
  });
}

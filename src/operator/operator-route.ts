/** What the routes of operators share: what they need, how they are defined, and in whose name they change something. */
import type { TSchema } from 'typebox';
import type { Caller, KnownCallers, KnownLogins } from '../accounts/accounts.ts';
import { changedBy } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { type CallerKey, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';

export interface OperatorRouteDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  /** What authentication remembers: what changes here is to be felt by the very next request. */
  callers: Pick<KnownCallers, 'evictAccount'>;
  logins: Pick<KnownLogins, 'evictAccount'>;
  nodes: Pick<Nodes, 'list'>;
  /** What `postrider doctor` says. */
  doctor(): Promise<unknown>;
  /** Messages in the queue, counted a moment ago. */
  queueDepth(): number;
  /** POSTRIDER_ROUTE is set: all live mail goes to one relay. */
  isRelayed: boolean;
  /** Mail may be due. */
  nudge(): void;
}

/** A route whose caller is an operator; the pipeline hands it one by its `auth`, whatever callers the other routes have. */
export function operatorRoute<B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: Omit<RouteDefinition<CallerKey, B, Q>, 'auth' | 'tag'>,
): RouteDefinition<Caller> {
  return defineRoute<CallerKey, B, Q>({ ...definition, auth: 'operator', tag: 'operator' }) as RouteDefinition<never>;
}

type AskedByOperator = Pick<RouteRequest<CallerKey>, 'caller' | 'remoteAddress' | 'requestId'>;

/** The database in the hands of the operator; the rows of the audit log are of the account that is changed. */
export function operatorChanges(
  { database, clock }: Pick<OperatorRouteDeps, 'database' | 'clock'>,
  { caller, remoteAddress, requestId }: AskedByOperator,
  accountId: string | null,
): Database {
  const { actor } = caller;
  return changedBy(database, {
    ...{ actor, accountId, mode: null, atMs: clock.now() },
    ...{ address: remoteAddress, requestId },
  });
}

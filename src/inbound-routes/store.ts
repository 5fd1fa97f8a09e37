/**
 * Stores inbound routes, and finds the route for an address. A route is active while its account has verified the route's domain or a
 * parent domain. An account that deletes a domain no longer receives mail for it, and another account that verifies the domain can. In the
 * sandbox no domain needs to be verified, and routes receive no mail from outside.
 *
 * A route with a url has its own webhook (src/webhooks), which is created, changed, and deleted in the same transaction.
 */
import { change } from '../audit/audit.ts';
import type { Mode, Owner } from '../base/mode.ts';
import { checkLimit, type LimitReached } from '../limits/limits.ts';
import {
  batch,
  type Fragment,
  findOperation,
  locked,
  operation,
  runWithin,
  type Transaction,
} from '../storage/operation.ts';
import { isSameRow } from '../storage/rows.ts';
import type {
  createEndpointOperation,
  removeEndpointOperation,
  replaceEndpointOperation,
} from '../webhooks/webhooks.ts';
import { type Match, wantedLocals } from './match.ts';

// Each operation is looked up by name: the index of src/webhooks would load more modules than a database thread needs.
const endpoints = {
  create: () => findOperation('webhooks.create') as typeof createEndpointOperation,
  replace: () => findOperation('webhooks.replace') as typeof replaceEndpointOperation,
  remove: () => findOperation('webhooks.remove') as typeof removeEndpointOperation,
};

export type MxStatus = 'verified' | 'missing' | 'different' | 'unknown' | 'pending';

export type RouteKey = Owner & { id: string };

export interface InboundRoute {
  id: string;
  accountId: string;
  mode: Mode;
  local: string;
  domain: string;
  webhookId: string | null;
  url: string | null;
  /** 1 if webhooks that subscribe to Inbound receive its events; otherwise 0. */
  events: number;
  maxBytes: number;
  mxStatus: MxStatus;
  /** JSON array. */
  mxFound: string | null;
  checkedAt: number | null;
  createdAt: number;
  updatedAt: number;
}

const COLUMNS = `r.id, r.account_id AS "accountId", r.mode, r.local_part AS "local", r.domain, r.webhook_id AS "webhookId", w.url, r.events,
  r.max_bytes AS "maxBytes", r.mx_status AS "mxStatus", r.mx_found AS "mxFound", r.checked_at AS "checkedAt", r.created_at AS "createdAt",
  r.updated_at AS "updatedAt"`;
const JOINED = 'FROM inbound_route r LEFT JOIN webhook w ON w.id = r.webhook_id';
const TRAIL = {
  table: 'inbound_route',
  shows: ['local_part', 'domain', 'webhook_id', 'events', 'max_bytes', 'mx_status'],
};

export interface MxCheck {
  status: MxStatus;
  found: string[] | null;
  checkedAt: number | null;
}

/** The domains that permit an account to use a route. The account must have verified at least one of them. */
export interface RequiredDomains {
  /** The domain and its parent domains. */
  names: readonly string[];
  /** Unix ms; a domain whose record has been missing since before this time does not count. */
  failingAfterMs: number;
}

/** Returns the SQL condition that the account in this column has verified one of the names. */
function verifiedCondition(accountColumn: string, { names, failingAfterMs }: RequiredDomains): Fragment {
  // A single label has no parent domains.
  if (names.length === 0) return { sql: '1 = 0', params: [] };
  return {
    sql: `EXISTS (SELECT 1 FROM domain d WHERE d.account_id = ${accountColumn} AND d.domain IN (${names.map(() => '?').join(', ')})
      AND (d.status = 'verified' OR (d.status = 'failing' AND coalesce(d.failing_since, 0) > ?)))`,
    params: [...names, failingAfterMs],
  };
}

export interface RouteFields extends Match {
  requiredDomains: RequiredDomains;
  events: boolean;
  maxBytes: number;
  mx: MxCheck;
  nowMs: number;
  /** The route that the fields were derived from. If it has changed since, the result is 'outdated'. */
  basis?: InboundRoute;
  /** Target of the route's own webhook; null for none. `id` and `secretSealed` are for a new one. */
  endpoint: { id: string; url: string; secretSealed: Uint8Array } | null;
}

export type RouteRefusal = 'domain-not-verified' | 'taken' | 'taken-elsewhere';
export type WriteResult = InboundRoute | LimitReached | { refused: RouteRefusal };

async function readRoute(tx: Transaction, { id, accountId, mode }: RouteKey): Promise<InboundRoute | undefined> {
  return tx.get<InboundRoute>(
    `SELECT ${COLUMNS} ${JOINED} WHERE r.id = ? AND r.account_id = ? AND r.mode = ?`,
    id,
    accountId,
    mode,
  );
}

async function lockAccount(tx: Transaction, { accountId }: RouteKey): Promise<void> {
  await tx.get(`SELECT 1 AS found FROM account WHERE id = ? ${locked(tx)}`, accountId);
}

/** Returns why the account cannot use the match; undefined if it can. Locks the account until the transaction ends. */
async function refusalOf(
  tx: Transaction,
  key: RouteKey,
  { local, domain, requiredDomains }: RouteFields,
): Promise<RouteRefusal | undefined> {
  await lockAccount(tx, key);
  const own = await tx.get(
    'SELECT 1 AS found FROM inbound_route WHERE account_id = ? AND mode = ? AND domain = ? AND local_part = ? AND id <> ?',
    key.accountId,
    key.mode,
    domain,
    local,
    key.id,
  );
  if (own) return 'taken';
  if (key.mode === 'sandbox') return undefined;
  const ownCover = verifiedCondition('a.id', requiredDomains);
  const ownSql = `SELECT 1 AS found FROM account a WHERE a.id = ? AND ${ownCover.sql}`;
  if (!(await tx.get(ownSql, key.accountId, ...ownCover.params))) return 'domain-not-verified';
  const otherCover = verifiedCondition('r.account_id', requiredDomains);
  const taken = await tx.get(
    `SELECT 1 AS found FROM inbound_route r WHERE r.domain = ? AND r.local_part = ? AND r.mode = 'live' AND r.account_id <> ?
       AND ${otherCover.sql} LIMIT 1`,
    domain,
    local,
    key.accountId,
    ...otherCover.params,
  );
  return taken ? 'taken-elsewhere' : undefined;
}

export const createRouteOperation = change(
  'inboundRoutes.create',
  async (tx, route: RouteKey & RouteFields): Promise<WriteResult> => {
    const { id, accountId, mode, endpoint, nowMs } = route;
    const reached = await checkLimit(tx, { accountId, limit: 'inboundRoutes', nowMs });
    if (reached) return reached;
    const refused = await refusalOf(tx, route, route);
    if (refused) return { refused };
    const webhook = endpoint && (await createEndpoint(tx, route, { ...route, endpoint }));
    if (webhook && 'limit' in webhook) return webhook;
    await tx.run(
      `INSERT INTO inbound_route (id, account_id, mode, local_part, domain, webhook_id, events, max_bytes, mx_status, mx_found, checked_at,
         created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      id,
      accountId,
      mode,
      route.local,
      route.domain,
      endpoint?.id ?? null,
      route.events ? 1 : 0,
      route.maxBytes,
      route.mx.status,
      JSON.stringify(route.mx.found),
      route.mx.checkedAt,
      route.nowMs,
      route.nowMs,
    );
    return (await readRoute(tx, route))!;
  },
  { ...TRAIL, action: 'inbound-route.create' },
);

type WithEndpoint = RouteFields & { endpoint: NonNullable<RouteFields['endpoint']> };

function createEndpoint(tx: Transaction, { id, accountId, mode }: RouteKey, { endpoint, nowMs }: WithEndpoint) {
  return runWithin(tx, endpoints.create(), {
    ...endpoint,
    accountId,
    mode,
    nowMs,
    inboundRouteId: id,
    events: '["Inbound"]',
    enabled: null,
  });
}

/** Replaces a route; returns undefined if it does not exist. The route keeps its webhook while it has a url. */
export const replaceRouteOperation = change(
  'inboundRoutes.replace',
  async (tx, toWrite: RouteKey & RouteFields): Promise<WriteResult | 'outdated' | undefined> => {
    await lockAccount(tx, toWrite);
    const current = await readRoute(tx, toWrite);
    if (!current) return undefined;
    if (toWrite.basis !== undefined && !isSameRow(current, toWrite.basis)) return 'outdated';
    const refused = await refusalOf(tx, toWrite, toWrite);
    if (refused) return { refused };
    const webhookId = await writeEndpoint(tx, current, toWrite);
    if (typeof webhookId === 'object' && webhookId !== null) return webhookId;
    await tx.run(
      `UPDATE inbound_route SET local_part = ?, domain = ?, webhook_id = ?, events = ?, max_bytes = ?, mx_status = ?, mx_found = ?,
         checked_at = ?, updated_at = ? WHERE id = ?`,
      toWrite.local,
      toWrite.domain,
      webhookId,
      toWrite.events ? 1 : 0,
      toWrite.maxBytes,
      toWrite.mx.status,
      JSON.stringify(toWrite.mx.found),
      toWrite.mx.checkedAt,
      toWrite.nowMs,
      toWrite.id,
    );
    return readRoute(tx, toWrite);
  },
  { ...TRAIL, action: 'inbound-route.replace' },
);

async function writeEndpoint(
  tx: Transaction,
  { webhookId, accountId, mode }: InboundRoute,
  toWrite: RouteKey & RouteFields,
): Promise<string | null | LimitReached> {
  const { endpoint, nowMs } = toWrite;
  if (endpoint === null) {
    if (webhookId !== null) await runWithin(tx, endpoints.remove(), { id: webhookId, accountId, mode });
    return null;
  }
  if (webhookId === null) {
    const created = await createEndpoint(tx, toWrite, { ...toWrite, endpoint });
    return 'limit' in created ? created : endpoint.id;
  }
  await runWithin(tx, endpoints.replace(), {
    id: webhookId,
    accountId,
    mode,
    nowMs,
    url: endpoint.url,
    events: '["Inbound"]',
    enabled: null,
    secretSealed: null,
  });
  return webhookId;
}

/** Deletes a route and its webhook. Returns the id of the webhook, whose deliveries must still be deleted; null if no route exists. */
export const removeRouteOperation = change(
  'inboundRoutes.remove',
  async (tx, key: RouteKey): Promise<{ webhookId: string | null } | null> => {
    const current = await readRoute(tx, key);
    if (!current) return null;
    const { accountId, mode, webhookId } = current;
    if (webhookId !== null) await runWithin(tx, endpoints.remove(), { id: webhookId, accountId, mode });
    await tx.run('DELETE FROM inbound_route WHERE id = ?', key.id);
    return { webhookId };
  },
  { ...TRAIL, action: 'inbound-route.delete' },
);

export const recordMxOperation = change(
  'inboundRoutes.recordMx',
  async (tx, { mx, ...key }: RouteKey & { mx: MxCheck }): Promise<InboundRoute | undefined> => {
    await tx.run(
      'UPDATE inbound_route SET mx_status = ?, mx_found = ?, checked_at = ? WHERE id = ? AND account_id = ? AND mode = ?',
      mx.status,
      JSON.stringify(mx.found),
      mx.checkedAt,
      key.id,
      key.accountId,
      key.mode,
    );
    return readRoute(tx, key);
  },
  { ...TRAIL, action: 'inbound-route.check' },
);

export const findRouteOperation = operation('inboundRoutes.find', 'read', (tx, key: RouteKey) => readRoute(tx, key));

/** Lists routes, newest first; `before` is the last id of the previous page. */
export const listRoutesOperation = operation(
  'inboundRoutes.list',
  'read',
  (tx, { accountId, mode, before, limit }: Owner & { before: string | null; limit: number }) =>
    tx.all<InboundRoute>(
      `SELECT ${COLUMNS} ${JOINED} WHERE r.account_id = ? AND r.mode = ? AND r.id < ? ORDER BY r.id DESC LIMIT ?`,
      accountId,
      mode,
      before ?? 'inr_~',
      limit,
    ),
);

export interface WantedAddress {
  local: string;
  /** A-labels, lower case. */
  domain: string;
  requiredDomains: RequiredDomains;
}

export interface MatchedRoute {
  routeId: string;
  accountId: string;
  maxBytes: number;
  /** Limits that an operator has set for the account (JSON). */
  limits: string;
  /** The status of the account. */
  accountStatus: string;
}

/**
 * Returns the live routes for these addresses, with null for addresses without one. Routes of active accounts take precedence over those of
 * suspended ones. The same statement runs once per address, whether its route exists, does not exist, or has an unverified domain, so the
 * time does not reveal which addresses exist.
 */
export const matchRoutesOperation = batch(
  'inboundRoutes.match',
  'read',
  async (tx, wanted: readonly WantedAddress[]): Promise<(MatchedRoute | null)[]> => {
    const found: (MatchedRoute | null)[] = [];
    for (const { local, domain, requiredDomains } of wanted) {
      const locals = wantedLocals(local);
      const verified = verifiedCondition('r.account_id', requiredDomains);
      const route = await tx.get<MatchedRoute>(
        `SELECT r.id AS "routeId", r.account_id AS "accountId", r.max_bytes AS "maxBytes", a.limits, a.status AS "accountStatus"
         FROM inbound_route r JOIN account a ON a.id = r.account_id
         WHERE r.domain = ? AND r.local_part IN (?, ?, ?) AND r.mode = 'live' AND ${verified.sql}
         ORDER BY CASE a.status WHEN 'active' THEN 0 ELSE 1 END, CASE r.local_part WHEN ? THEN 0 WHEN ? THEN 1 ELSE 2 END,
           r.created_at LIMIT 1`,
        domain,
        ...locals,
        ...verified.params,
        ...locals.slice(0, 2),
      );
      found.push(route ?? null);
    }
    return found;
  },
);

/** Returns whether the domain (A-labels) has live routes, also of suspended accounts, whose mail is deferred. */
export const hasRoutesOperation = operation(
  'inboundRoutes.hasRoutes',
  'read',
  async (tx, { domain, requiredDomains }: { domain: string; requiredDomains: RequiredDomains }): Promise<boolean> => {
    const verified = verifiedCondition('r.account_id', requiredDomains);
    const found = await tx.get(
      `SELECT 1 AS found FROM inbound_route r WHERE r.domain = ? AND r.mode = 'live' AND ${verified.sql} LIMIT 1`,
      domain,
      ...verified.params,
    );
    return found !== undefined;
  },
);

/** Returns the sandbox route of an account for the address. */
export const matchSandboxRouteOperation = operation(
  'inboundRoutes.matchSandbox',
  'read',
  async (tx, { accountId, local, domain }: { accountId: string; local: string; domain: string }) => {
    const locals = wantedLocals(local);
    return tx.get<{ routeId: string; maxBytes: number }>(
      `SELECT r.id AS "routeId", r.max_bytes AS "maxBytes" FROM inbound_route r
       WHERE r.account_id = ? AND r.mode = 'sandbox' AND r.domain = ? AND r.local_part IN (?, ?, ?)
       ORDER BY CASE r.local_part WHEN ? THEN 0 WHEN ? THEN 1 ELSE 2 END LIMIT 1`,
      accountId,
      domain,
      ...locals,
      ...locals.slice(0, 2),
    );
  },
);

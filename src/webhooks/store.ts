/**
 * Creates, lists, replaces, and removes webhook endpoints and rotates their secrets, always within one account and mode. If an endpoint is
 * removed or disabled, the worker ends its queued events when it next claims them.
 */
import { change } from '../audit/audit.ts';
import type { Mode, Owner } from '../base/mode.ts';
import { inboundTopic } from '../events/events.ts';
import { checkLimit, type LimitReached } from '../limits/limits.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { isSameRow, rowset } from '../storage/rows.ts';
import { type EndpointRow, ROTATION_MS, type ShownEndpoint } from './endpoints.ts';
import { endTurns, waitForEndpoint } from './turns.ts';

const SHOWN =
  'id, mode, url, events, description, enabled, failing_since, disabled_reason, inbound_route_id, created_at, updated_at, format, format_events, header_names, ordered, max_batch';

export interface EndpointFields {
  url: string;
  /** JSON array. */
  events: string;
  /** If omitted, the description is unchanged; it is null in a new endpoint. */
  description?: string | null;
  /** If null, the status is unchanged; a new endpoint is enabled. */
  enabled: boolean | null;
  /** If omitted, unchanged; a new endpoint is not ordered. */
  ordered?: boolean;
  /** The most events of a request. If omitted, unchanged; 1 in a new endpoint. */
  maxBatch?: number;
  /** The service whose payload the endpoint receives; null for the payload of Postrider, which a new endpoint receives. If omitted, unchanged. */
  format?: EndpointFormat | null;
  /** The customer's headers. If omitted, they are unchanged; a new endpoint has none. */
  headers?: { names: string | null; sealed: Uint8Array | null };
}

/** The payload format of another service. */
export interface EndpointFormat {
  name: 'resend';
  /** JSON array of that service's event names. */
  events: string;
}

export type NewEndpoint = Owner &
  EndpointFields & {
    id: string;
    secretSealed: Uint8Array;
    nowMs: number;
    /** Set if the endpoint receives only the mail of one inbound route. */
    inboundRouteId?: string;
  };

const ENDPOINT = {
  table: 'webhook',
  shows: ['url', 'events', 'description', 'enabled', 'ordered', 'max_batch', 'header_names', 'previous_secret_until'],
  compares: ['headers_sealed'],
};

export const createEndpointOperation = change(
  'webhooks.create',
  async (tx, endpoint: NewEndpoint): Promise<ShownEndpoint | LimitReached> => {
    const { accountId, nowMs } = endpoint;
    const reached = await checkLimit(tx, { accountId, limit: 'webhooks', nowMs });
    if (reached) return reached;
    const row = await tx.get<EndpointRow>(
      `INSERT INTO webhook (id, account_id, mode, url, events, description, enabled, secret_sealed, created_at, updated_at, inbound_route_id, format, format_events, header_names,
         headers_sealed, ordered, max_batch)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING ${SHOWN}`,
      endpoint.id,
      endpoint.accountId,
      endpoint.mode,
      endpoint.url,
      endpoint.events,
      endpoint.description ?? null,
      endpoint.enabled === false ? 0 : 1,
      endpoint.secretSealed,
      endpoint.nowMs,
      endpoint.nowMs,
      endpoint.inboundRouteId ?? null,
      endpoint.format?.name ?? null,
      endpoint.format?.events ?? null,
      endpoint.headers?.names ?? null,
      endpoint.headers?.sealed ?? null,
      endpoint.ordered ? 1 : 0,
      endpoint.maxBatch ?? 1,
    );
    await subscribe(tx, { ...endpoint, enabled: row!.enabled, ordered: row!.ordered });
    return { ...(row as EndpointRow), nextAttemptAtMs: null };
  },
  { ...ENDPOINT, action: 'webhook.create' },
);

/**
 * Adds the next attempts. Only endpoints that are enabled and failing have one, so that others cost nothing. It is the first entry of an
 * index, however many deliveries are pending.
 */
async function withNextAttempts(tx: Transaction, rows: readonly EndpointRow[]): Promise<ShownEndpoint[]> {
  const failing = rows.flatMap(({ id, enabled, failing_since }) =>
    enabled === 1 && failing_since !== null ? [{ id }] : [],
  );
  const next = new Map<string, number | null>();
  if (failing.length > 0) {
    const ids = rowset(tx, 'failing', { id: 'text' }, failing);
    const found = await tx.all<{ id: string; atMs: number | null }>(
      `SELECT failing.id, (SELECT min(d.next_attempt_at) FROM webhook_delivery d
         WHERE d.webhook_id = failing.id AND d.status = 'pending') AS "atMs" FROM ${ids.sql}`,
      ...ids.params,
    );
    for (const { id, atMs } of found) next.set(id, atMs);
  }
  return rows.map((row) => ({ ...row, nextAttemptAtMs: next.get(row.id) ?? null }));
}

async function withNextAttempt(tx: Transaction, row: EndpointRow): Promise<ShownEndpoint> {
  return (await withNextAttempts(tx, [row]))[0]!;
}

export const listEndpointsOperation = operation(
  'webhooks.list',
  'read',
  async (tx, page: Owner & { before: string | null; limit: number }) => {
    const rows = await tx.all<EndpointRow>(
      `SELECT ${SHOWN} FROM webhook WHERE account_id = ? AND mode = ? ${page.before === null ? '' : 'AND id < ?'}
       ORDER BY id DESC LIMIT ?`,
      page.accountId,
      page.mode,
      ...(page.before === null ? [] : [page.before]),
      page.limit,
    );
    return withNextAttempts(tx, rows);
  },
);

export type EndpointKey = Owner & { id: string };

/** Returns the row, or undefined if the account has no endpoint with this id in this mode. */
export async function findEndpoint(tx: Transaction, key: EndpointKey, lock = ''): Promise<EndpointRow | undefined> {
  return tx.get<EndpointRow>(
    `SELECT ${SHOWN} FROM webhook WHERE id = ? AND account_id = ? AND mode = ? ${lock}`,
    key.id,
    key.accountId,
    key.mode,
  );
}

export const findEndpointOperation = operation('webhooks.find', 'read', (tx, key: EndpointKey) =>
  findEndpoint(tx, key),
);

/** Returns the endpoint with its next attempt, for the API. */
export const showEndpointOperation = operation(
  'webhooks.show',
  'read',
  async (tx, key: EndpointKey): Promise<ShownEndpoint | undefined> => {
    const row = await findEndpoint(tx, key);
    return row && withNextAttempt(tx, row);
  },
);

export interface EndpointTarget {
  id: string;
  url: string;
  secret_sealed: Uint8Array;
  previous_secret_sealed: Uint8Array | null;
  /** Unix ms until which the previous secret also signs. */
  previous_secret_until: number | null;
  /** The service whose payload the endpoint receives; null if it receives the payload of Postrider. */
  format: EndpointFormat['name'] | null;
  /** JSON array of that service's event names. */
  format_events: string | null;
  headers_sealed: Uint8Array | null;
  ordered: number;
  /** The most events of a request. */
  max_batch: number;
}

export const TARGET =
  'id, url, secret_sealed, previous_secret_sealed, previous_secret_until, format, format_events, headers_sealed, ordered, max_batch';

/** Returns the data that a test event needs, such as the URL and the secrets. */
export const findTargetOperation = operation('webhooks.target', 'read', (tx, key: EndpointKey) =>
  tx.get<EndpointTarget>(
    `SELECT ${TARGET} FROM webhook WHERE id = ? AND account_id = ? AND mode = ?`,
    key.id,
    key.accountId,
    key.mode,
  ),
);

export type Replacement = EndpointKey &
  EndpointFields & {
    secretSealed: Uint8Array | null;
    nowMs: number;
    /** The endpoint that the fields were derived from. If it has changed since, the result is `outdated`. */
    basis?: EndpointRow;
  };

/**
 * Replaces the endpoint. A new secret rotates the present one. Another URL clears the failures, which are those of the previous one.
 * Enabling a disabled endpoint clears them too, and the reason for which it was disabled. Returns undefined if the endpoint does not exist.
 */
export const replaceEndpointOperation = change(
  'webhooks.replace',
  async (tx, change: Replacement): Promise<ShownEndpoint | 'outdated' | undefined> => {
    await waitForEndpoint(tx, change.id);
    if (change.basis !== undefined) {
      const present = await findEndpoint(tx, change, locked(tx));
      if (!present || !isSameRow(present, change.basis)) return present && 'outdated';
    }
    const enabled = change.enabled === null ? null : change.enabled ? 1 : 0;
    const isFormatGiven = change.format === undefined ? 0 : 1;
    const row = await tx.get<EndpointRow>(
      `UPDATE webhook SET url = ?, events = ?, description = CASE WHEN CAST(? AS INTEGER) = 1 THEN CAST(? AS TEXT) ELSE description END, enabled = coalesce(?, enabled), ordered = coalesce(?, ordered), max_batch = coalesce(?, max_batch), updated_at = ?,
         format = CASE WHEN CAST(? AS INTEGER) = 1 THEN CAST(? AS TEXT) ELSE format END,
         format_events = CASE WHEN CAST(? AS INTEGER) = 1 THEN CAST(? AS TEXT) ELSE format_events END,
         failing_since = CASE WHEN url <> ? OR (enabled = 0 AND CAST(? AS INTEGER) = 1) THEN NULL ELSE failing_since END,
         disabled_reason = CASE WHEN CAST(? AS INTEGER) = 1 THEN NULL ELSE disabled_reason END
       WHERE id = ? AND account_id = ? AND mode = ? RETURNING ${SHOWN}`,
      change.url,
      change.events,
      change.description === undefined ? 0 : 1,
      change.description ?? null,
      enabled,
      change.ordered === undefined ? null : change.ordered ? 1 : 0,
      change.maxBatch ?? null,
      change.nowMs,
      isFormatGiven,
      change.format?.name ?? null,
      isFormatGiven,
      change.format?.events ?? null,
      change.url,
      enabled,
      enabled,
      change.id,
      change.accountId,
      change.mode,
    );
    if (row && change.headers) {
      await tx.run(
        'UPDATE webhook SET header_names = ?, headers_sealed = ? WHERE id = ?',
        change.headers.names,
        change.headers.sealed,
        change.id,
      );
      row.header_names = change.headers.names;
    }
    if (row) {
      const inboundRouteId = row.inbound_route_id ?? undefined;
      await subscribe(tx, { ...change, enabled: row.enabled, ordered: row.ordered, inboundRouteId });
      if (change.enabled === false || change.ordered === false) await endTurns(tx, row.id, change.nowMs);
    }
    if (row && change.secretSealed) await rotate(tx, { ...change, secretSealed: change.secretSealed });
    return row && withNextAttempt(tx, row);
  },
  { ...ENDPOINT, action: 'webhook.replace' },
);

export type Rotation = EndpointKey & { secretSealed: Uint8Array; nowMs: number };

async function rotate(tx: Transaction, rotation: Rotation): Promise<EndpointRow | undefined> {
  return tx.get<EndpointRow>(
    `UPDATE webhook SET previous_secret_sealed = secret_sealed, previous_secret_until = ?, secret_sealed = ?,
       updated_at = ?
     WHERE id = ? AND account_id = ? AND mode = ? RETURNING ${SHOWN}`,
    rotation.nowMs + ROTATION_MS,
    rotation.secretSealed,
    rotation.nowMs,
    rotation.id,
    rotation.accountId,
    rotation.mode,
  );
}

/** Sets a new secret. The previous secret also signs for another 24 h. Returns undefined if the endpoint does not exist. */
export const rotateSecretOperation = change(
  'webhooks.rotate',
  async (tx, rotation: Rotation): Promise<ShownEndpoint | undefined> => {
    const row = await rotate(tx, rotation);
    return row && withNextAttempt(tx, row);
  },
  { ...ENDPOINT, action: 'webhook.rotate-secret' },
);

/** Removes the endpoint. Returns false if it does not exist. dropDeliveriesOperation then removes its delivery records; no more are added. */
export const removeEndpointOperation = change(
  'webhooks.remove',
  async (tx, key: EndpointKey) => {
    // Results that are being recorded are recorded first, so that dropDeliveriesOperation removes their records.
    await waitForEndpoint(tx, key.id);
    const changed = await tx.run(
      'DELETE FROM webhook WHERE id = ? AND account_id = ? AND mode = ?',
      key.id,
      key.accountId,
      key.mode,
    );
    if (changed === 1) {
      await unsubscribe(tx, key.id);
      // The worker ends them.
      await endTurns(tx, key.id, 0);
    }
    return changed === 1;
  },
  { ...ENDPOINT, action: 'webhook.delete' },
);

/** Removes up to `limit` delivery records of a removed endpoint. Returns the number of removed records. */
export const dropDeliveriesOperation = operation(
  'webhooks.dropDeliveries',
  'write',
  (tx, drop: { webhookId: string; limit: number }) =>
    tx.run(
      `DELETE FROM webhook_delivery WHERE webhook_id = ? AND id IN
         (SELECT id FROM webhook_delivery WHERE webhook_id = ? LIMIT ?)`,
      drop.webhookId,
      drop.webhookId,
      drop.limit,
    ),
);

export interface Subscribed {
  id: string;
  accountId: string;
  mode: Mode;
  /** JSON array of event types. */
  events: string;
  enabled: number;
  ordered: number;
  inboundRouteId?: string | undefined;
}

/** Removes the subscriptions of the endpoint. */
export async function unsubscribe(tx: Transaction, webhookId: string): Promise<void> {
  await tx.run('DELETE FROM webhook_subscription WHERE webhook_id = ?', webhookId);
}

/** Updates the subscriptions to match the endpoint. */
export async function subscribe(tx: Transaction, endpoint: Subscribed): Promise<void> {
  await unsubscribe(tx, endpoint.id);
  if (endpoint.enabled === 0) return;
  const { inboundRouteId } = endpoint;
  const types =
    inboundRouteId === undefined ? (JSON.parse(endpoint.events) as string[]) : [inboundTopic(inboundRouteId)];
  for (const type of new Set(types)) {
    await tx.run(
      'INSERT INTO webhook_subscription (account_id, mode, event_type, webhook_id, ordered) VALUES (?, ?, ?, ?, ?)',
      endpoint.accountId,
      endpoint.mode,
      type,
      endpoint.id,
      endpoint.ordered,
    );
  }
}

/** The rows of the audit log: read in pages, removed after 400 days. They are written by change.ts alone. */
import type { Actor } from '../base/actor.ts';
import { operation, type SqlValue } from '../storage/operation.ts';

export interface AuditRow {
  id: string;
  accountId: string | null;
  mode: string | null;
  at: number;
  actorKind: Actor['kind'];
  actorId: string | null;
  actorName: string | null;
  address: string | null;
  requestId: string | null;
  action: string;
  resource: string;
  resourceId: string | null;
  /** JSON. */
  beforeChange: string | null;
  afterChange: string | null;
}

export interface AuditPage {
  /** Null: entries of all accounts, for the operator. */
  accountId: string | null;
  /** Only entries that concern this mode, or no mode. */
  mode: 'sandbox' | null;
  action: string | null;
  resource: string | null;
  /** Any of these; null for all resources. */
  resourceIds: readonly [string, string] | null;
  /** Id of a user or key. */
  actorId: string | null;
  /** Ids from this one on, and below that one. */
  fromId: string;
  belowId: string;
  limit: number;
}

const COLUMNS = `id, account_id AS "accountId", mode, at, actor_kind AS "actorKind", actor_id AS "actorId", actor_name AS "actorName",
  address, request_id AS "requestId", action, resource, resource_id AS "resourceId", before_change AS "beforeChange",
  after_change AS "afterChange"`;

/** Newest first. */
export const auditOperation = operation('audit.list', 'read', async (tx, page: AuditPage): Promise<AuditRow[]> => {
  const wanted: [condition: string, ...values: SqlValue[]][] = [
    ['id >= ?', page.fromId],
    ['id < ?', page.belowId],
    ['account_id = ?', page.accountId],
    ['mode = ?', page.mode],
    ['action = ?', page.action],
    ['resource = ?', page.resource],
    ['resource_id IN (?, ?)', ...(page.resourceIds ?? [null])],
    ['actor_id = ?', page.actorId],
  ];
  const requested = wanted.filter(([, value]) => value !== null);
  return tx.all<AuditRow>(
    `SELECT ${COLUMNS} FROM audit WHERE ${requested.map(([condition]) => condition).join(' AND ')} ORDER BY id DESC LIMIT ?`,
    ...requested.flatMap(([, ...values]) => values),
    page.limit,
  );
});

/** Deletes entries older than this time, which the database's triggers enforce too; returns how many. */
export const removeAuditOperation = operation(
  'audit.remove',
  'write',
  (tx, { beforeMs, limit }: { beforeMs: number; limit: number }) =>
    tx.run('DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ? ORDER BY id LIMIT ?)', beforeMs, limit),
);

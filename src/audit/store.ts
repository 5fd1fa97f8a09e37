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
  /** Null: of all accounts, for the operator. */
  accountId: string | null;
  /** Only what concerns this mode, or none. */
  mode: 'sandbox' | null;
  action: string | null;
  resource: string | null;
  resourceId: string | null;
  /** Id of a user or key. */
  actorId: string | null;
  /** Ids from here, and below there. */
  fromId: string;
  belowId: string;
  limit: number;
}

const COLUMNS = `id, account_id AS "accountId", mode, at, actor_kind AS "actorKind", actor_id AS "actorId", actor_name AS "actorName",
  address, request_id AS "requestId", action, resource, resource_id AS "resourceId", before_change AS "beforeChange",
  after_change AS "afterChange"`;

/** Newest first. */
export const auditOperation = operation('audit.list', 'read', async (tx, page: AuditPage): Promise<AuditRow[]> => {
  const wanted: [condition: string, value: SqlValue][] = [
    ['id >= ?', page.fromId],
    ['id < ?', page.belowId],
    ['account_id = ?', page.accountId],
    ['mode = ?', page.mode],
    ['action = ?', page.action],
    ['resource = ?', page.resource],
    ['resource_id = ?', page.resourceId],
    ['actor_id = ?', page.actorId],
  ];
  const asked = wanted.filter(([, value]) => value !== null);
  return tx.all<AuditRow>(
    `SELECT ${COLUMNS} FROM audit WHERE ${asked.map(([condition]) => condition).join(' AND ')} ORDER BY id DESC LIMIT ?`,
    ...asked.map(([, value]) => value),
    page.limit,
  );
});

/** Of rows made before this time, as the database's triggers know it too; answers how many went. */
export const removeAuditOperation = operation(
  'audit.remove',
  'write',
  (tx, { beforeMs, limit }: { beforeMs: number; limit: number }) =>
    tx.run('DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ? ORDER BY id LIMIT ?)', beforeMs, limit),
);

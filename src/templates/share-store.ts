/**
 * Stores the links that show a rendered template to anyone who has them. Each row has a snapshot of the template as it was rendered when
 * the link was created, so later versions do not appear in an old link. A link works while its row exists, so deleting the row revokes
 * it immediately. Rows are deleted with their template, and by housekeeping once they have expired. The token of a link is not stored.
 */
import { change } from '../audit/audit.ts';
import { iso } from '../base/clock.ts';
import type { Mode } from '../base/mode.ts';
import type { ShareTimes } from '../http/share-links.ts';
import { operation } from '../storage/operation.ts';
import { insertMany, table } from '../storage/rows.ts';
import { findTemplate, lockAccount, type TemplateKey } from './store.ts';

/** A link without its snapshot. */
export interface TemplateShareRow extends ShareTimes, TemplateKey {
  id: string;
  /** Name of the template at that time. */
  name: string;
  /** Null if the content was not saved as a version. */
  version: number | null;
}

export interface SharedSnapshot {
  subject: string | null;
  html: string | null;
  text: string | null;
}

const SHARE = table('template_share', {
  id: 'text',
  accountId: 'text',
  mode: 'text',
  templateId: 'text',
  name: 'text',
  version: 'int?',
  subject: 'text?',
  html: 'text?',
  text: 'text?',
  createdAt: 'int',
  expiresAt: 'int',
  createdByKind: 'text',
  createdById: 'text?',
  createdByName: 'text?',
});

const COLUMNS = `id, account_id AS "accountId", mode, template_id AS "templateId", name, version, created_at AS "createdAt",
  expires_at AS "expiresAt", created_by_kind AS "createdByKind", created_by_id AS "createdById", created_by_name AS "createdByName"`;

interface NewShare {
  share: TemplateShareRow & SharedSnapshot;
  /** Maximum number of valid links of a template. */
  most: number;
}

/** Stores a link. Two calls at the same time do not exceed the limit, and a deleted template gets no link. */
export const createTemplateShareOperation = change(
  'templates.createShare',
  async (tx, { share, most }: NewShare): Promise<'created' | 'not-found' | 'limit'> => {
    await lockAccount(tx, share.accountId);
    if ((await findTemplate(tx, share)) === undefined) return 'not-found';
    const valid = await tx.get<{ n: number }>(
      'SELECT count(*) AS n FROM template_share WHERE template_id = ? AND account_id = ? AND mode = ? AND expires_at > ?',
      share.templateId,
      share.accountId,
      share.mode,
      share.createdAt,
    );
    if ((valid?.n ?? 0) >= most) return 'limit';
    await insertMany(tx, SHARE, [share]);
    return 'created';
  },
  {
    action: 'template.share',
    resourceId: ({ share }) => share.templateId,
    did: ({ share }, outcome) => (outcome === 'created' ? auditFields(share) : undefined),
  },
);

function auditFields({ id, version, expiresAt }: TemplateShareRow) {
  return { shareId: id, version, expiresAt: iso(expiresAt) };
}

export interface TemplateShareKey {
  accountId: string;
  mode: Mode;
  id: string;
}

/** Finds a link with its snapshot; undefined if it was revoked or deleted. */
export const findTemplateShareOperation = operation(
  'templates.findShare',
  'read',
  (tx, { id, accountId, mode }: TemplateShareKey) =>
    tx.get<TemplateShareRow & SharedSnapshot>(
      `SELECT ${COLUMNS}, subject, html, text FROM template_share WHERE id = ? AND account_id = ? AND mode = ?`,
      id,
      accountId,
      mode,
    ),
);

export interface TemplateSharePage {
  accountId: string;
  mode: Mode;
  /** Only links of this template; null for all. */
  templateId: string | null;
  /** Id of the last link of the previous page; null for the first page. */
  before: string | null;
  limit: number;
  nowMs: number;
}

/** Returns valid links without their snapshots, newest first. */
export const listTemplateSharesOperation = operation('templates.listShares', 'read', (tx, page: TemplateSharePage) => {
  const ofTemplate = page.templateId === null ? '' : 'template_id = ? AND';
  return tx.all<TemplateShareRow>(
    `SELECT ${COLUMNS} FROM template_share WHERE ${ofTemplate} account_id = ? AND mode = ? AND expires_at > ? AND id < ?
     ORDER BY id DESC LIMIT ?`,
    ...(page.templateId === null ? [] : [page.templateId]),
    page.accountId,
    page.mode,
    page.nowMs,
    page.before ?? 'shr_~',
    page.limit,
  );
});

/** Deletes a valid link, so that it stops working; returns undefined if there is no such link. */
export const revokeTemplateShareOperation = change(
  'templates.revokeShare',
  async (
    tx,
    { id, accountId, mode, nowMs }: TemplateShareKey & { nowMs: number },
  ): Promise<TemplateShareRow | undefined> =>
    tx.get<TemplateShareRow>(
      `DELETE FROM template_share WHERE id = ? AND account_id = ? AND mode = ? AND expires_at > ? RETURNING ${COLUMNS}`,
      id,
      accountId,
      mode,
      nowMs,
    ),
  {
    action: 'template.revoke-share',
    resourceId: (_key, revoked) => revoked?.templateId ?? null,
    did: (_key, revoked) => revoked && { ...auditFields(revoked), revoked: true },
  },
);

/** Deletes links that have expired; returns how many. */
export const removeTemplateSharesOperation = operation(
  'templates.removeShares',
  'write',
  (tx, { nowMs, limit }: { nowMs: number; limit: number }) =>
    tx.run(
      'DELETE FROM template_share WHERE id IN (SELECT id FROM template_share WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)',
      nowMs,
      limit,
    ),
);

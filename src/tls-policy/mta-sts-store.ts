/** The rows of MTA-STS policies: one for each recipient's domain that has published one, until it expires. Times in Unix ms. */
import { batch, operation, type Transaction } from '../storage/operation.ts';
import { insertMany, rowset, type TableRow, table } from '../storage/rows.ts';

const MTA_STS_POLICY = table('mta_sts_policy', {
  domain: 'text',
  /** The id in the DNS when it was fetched. */
  policyId: 'text',
  mode: 'text',
  /** JSON list of patterns. */
  mx: 'text',
  /** Seconds, as published. */
  maxAge: 'int',
  /** When the policy host was last asked, whatever came of it. */
  checkedAt: 'int',
  /** When mail last went by it, to a day. */
  usedAt: 'int',
  expiresAt: 'int',
});
export type StsRow = TableRow<typeof MTA_STS_POLICY>;

const COLUMNS = `p.domain, p.policy_id AS "policyId", p.mode, p.mx, p.max_age AS "maxAge", p.checked_at AS "checkedAt",
  p.used_at AS "usedAt", p.expires_at AS "expiresAt"`;

/** The policy that is kept for a domain, expired or not. */
export const findStsPolicyOperation = batch('tlsPolicy.find', 'read', async (tx, domains: readonly string[]) => {
  const names = [...new Set(domains)].map((domain) => ({ domain }));
  const asked = rowset(tx, 'asked', { domain: 'text' }, names);
  const rows = await tx.all<StsRow>(
    `SELECT ${COLUMNS} FROM ${asked.sql} JOIN mta_sts_policy p ON p.domain = asked.domain`,
    ...asked.params,
  );
  const found = new Map(rows.map((row) => [row.domain, row]));
  return domains.map((domain): StsRow | null => found.get(domain) ?? null);
});

const REPLACE = `ON CONFLICT (domain) DO UPDATE SET policy_id = excluded.policy_id, mode = excluded.mode, mx = excluded.mx,
  max_age = excluded.max_age, checked_at = excluded.checked_at, used_at = excluded.used_at, expires_at = excluded.expires_at`;

/** Keeps a policy that was just fetched, in place of the one before. */
export const keepStsPolicyOperation = operation('tlsPolicy.keep', 'write', (tx, row: StsRow) =>
  insertMany(tx, MTA_STS_POLICY, [row], REPLACE),
);

/** Notes that a policy was looked at: used by mail, or asked for in vain. */
export const noteStsPolicyOperation = operation(
  'tlsPolicy.note',
  'write',
  async (tx, { domain, ...at }: { domain: string; usedAt?: number; checkedAt?: number }): Promise<void> => {
    const { usedAt = null, checkedAt = null } = at;
    await tx.run(
      'UPDATE mta_sts_policy SET used_at = coalesce(?, used_at), checked_at = coalesce(?, checked_at) WHERE domain = ?',
      ...[usedAt, checkedAt, domain],
    );
  },
);

/** Policies that have not been fetched lately and are still used, those that waited longest first. */
export const staleStsPoliciesOperation = operation(
  'tlsPolicy.stale',
  'read',
  (tx, asked: { checkedBefore: number; usedAfter: number; nowMs: number; limit: number }) =>
    tx.all<StsRow>(
      `SELECT ${COLUMNS} FROM mta_sts_policy p WHERE p.checked_at < ? AND p.used_at > ? AND p.expires_at > ?
       ORDER BY p.checked_at, p.domain LIMIT ?`,
      ...[asked.checkedBefore, asked.usedAfter, asked.nowMs, asked.limit],
    ),
);

/** Removes what has expired; answers how many. */
export const removeStsPoliciesOperation = operation(
  'tlsPolicy.remove',
  'write',
  (tx: Transaction, { nowMs, limit }: { nowMs: number; limit: number }) =>
    tx.run(
      `DELETE FROM mta_sts_policy WHERE domain IN
         (SELECT domain FROM mta_sts_policy WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
      ...[nowMs, limit],
    ),
);

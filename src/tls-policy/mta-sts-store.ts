/** The rows of MTA-STS policies: one for each recipient domain with a policy, until it expires. Times in Unix ms. */
import { batch, operation, type Transaction } from '../storage/operation.ts';
import { insertMany, rowset, type TableRow, table } from '../storage/rows.ts';

const MTA_STS_POLICY = table('mta_sts_policy', {
  domain: 'text',
  /** The id in the DNS at the time of the fetch. */
  policyId: 'text',
  mode: 'text',
  /** JSON list of patterns. */
  mx: 'text',
  /** Seconds, as published. */
  maxAge: 'int',
  /** When the policy was last requested from the policy host, successfully or not. */
  checkedAt: 'int',
  /** When mail last used it, to the day. */
  usedAt: 'int',
  expiresAt: 'int',
});
export type StsRow = TableRow<typeof MTA_STS_POLICY>;

const COLUMNS = `p.domain, p.policy_id AS "policyId", p.mode, p.mx, p.max_age AS "maxAge", p.checked_at AS "checkedAt",
  p.used_at AS "usedAt", p.expires_at AS "expiresAt"`;

/** Returns the stored policy of a domain, expired or not. */
export const findStsPolicyOperation = batch('tlsPolicy.find', 'read', async (tx, domains: readonly string[]) => {
  const names = [...new Set(domains)].map((domain) => ({ domain }));
  const requested = rowset(tx, 'wanted', { domain: 'text' }, names);
  const rows = await tx.all<StsRow>(
    `SELECT ${COLUMNS} FROM ${requested.sql} JOIN mta_sts_policy p ON p.domain = wanted.domain`,
    ...requested.params,
  );
  const found = new Map(rows.map((row) => [row.domain, row]));
  return domains.map((domain): StsRow | null => found.get(domain) ?? null);
});

const REPLACE = `ON CONFLICT (domain) DO UPDATE SET policy_id = excluded.policy_id, mode = excluded.mode, mx = excluded.mx,
  max_age = excluded.max_age, checked_at = excluded.checked_at, used_at = excluded.used_at, expires_at = excluded.expires_at`;

/** Stores a fetched policy, replacing the previous one. */
export const keepStsPolicyOperation = operation('tlsPolicy.keep', 'write', (tx, row: StsRow) =>
  insertMany(tx, MTA_STS_POLICY, [row], REPLACE),
);

/** Records that a policy was used by mail, or that a fetch failed. */
export const noteStsPolicyOperation = operation(
  'tlsPolicy.note',
  'write',
  async (tx, { domain, ...at }: { domain: string; usedAt?: number; checkedAt?: number }): Promise<void> => {
    const { usedAt = null, checkedAt = null } = at;
    await tx.run(
      'UPDATE mta_sts_policy SET used_at = coalesce(?, used_at), checked_at = coalesce(?, checked_at) WHERE domain = ?',
      usedAt,
      checkedAt,
      domain,
    );
  },
);

/** Returns policies in use that were not fetched recently, the oldest first. */
export const staleStsPoliciesOperation = operation(
  'tlsPolicy.stale',
  'read',
  (tx, requested: { checkedBefore: number; usedAfter: number; nowMs: number; limit: number }) =>
    tx.all<StsRow>(
      `SELECT ${COLUMNS} FROM mta_sts_policy p WHERE p.checked_at < ? AND p.used_at > ? AND p.expires_at > ?
       ORDER BY p.checked_at, p.domain LIMIT ?`,
      requested.checkedBefore,
      requested.usedAfter,
      requested.nowMs,
      requested.limit,
    ),
);

/** Removes expired policies; returns how many. */
export const removeStsPoliciesOperation = operation(
  'tlsPolicy.remove',
  'write',
  (tx: Transaction, { nowMs, limit }: { nowMs: number; limit: number }) =>
    tx.run(
      `DELETE FROM mta_sts_policy WHERE domain IN
         (SELECT domain FROM mta_sts_policy WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
      nowMs,
      limit,
    ),
);

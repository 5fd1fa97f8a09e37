/** Stores when and from where API keys and SMTP credentials were last used. Only active ones have a row. */
import { operation, shared, type Transaction } from '../storage/operation.ts';
import { insertMany, rowset, type TableRow, table } from '../storage/rows.ts';

const COLUMNS = { credentialId: 'text', usedAt: 'int', address: 'text' } as const;
const CREDENTIAL_USE = table('credential_use', COLUMNS);

/** The last use of a key or credential. */
export type CredentialUse = TableRow<typeof CREDENTIAL_USE>;

/** Returns the ids of those that are not revoked. A revocation waits until the transaction ends, and then deletes the use. */
async function activeIn(
  tx: Transaction,
  holder: 'api_key' | 'smtp_credential',
  uses: readonly CredentialUse[],
): Promise<string[]> {
  const used = rowset(tx, 'used', COLUMNS, uses);
  const rows = await tx.all<{ id: string }>(
    `SELECT id FROM ${holder} WHERE id IN (SELECT credential_id FROM ${used.sql}) AND revoked_at IS NULL
     ORDER BY id ${shared(tx)}`,
    ...used.params,
  );
  return rows.map(({ id }) => id);
}

/** Records the uses of keys and credentials, one use for each; a stored use that is not older stays. */
export const recordUsesOperation = operation(
  'accounts.recordUses',
  'write',
  async (tx, uses: readonly CredentialUse[]): Promise<void> => {
    const active = new Set([
      ...(await activeIn(tx, 'api_key', uses)),
      ...(await activeIn(tx, 'smtp_credential', uses)),
    ]);
    // In the order of their ids, so that nodes that record the same keys do not wait for each other in a circle.
    const rows = uses
      .filter(({ credentialId }) => active.has(credentialId))
      .sort((a, b) => (a.credentialId < b.credentialId ? -1 : 1));
    await insertMany(
      tx,
      CREDENTIAL_USE,
      rows,
      `ON CONFLICT (credential_id) DO UPDATE SET used_at = excluded.used_at, address = excluded.address
       WHERE credential_use.used_at < excluded.used_at`,
    );
  },
);

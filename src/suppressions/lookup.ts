/** Who of many recipients is suppressed, within the transaction of whoever writes to them. */
import type { Mode } from '../base/mode.ts';
import type { Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';

export interface ListedAddress {
  accountId: string;
  mode: Mode;
  /** The key that addresses are compared by. */
  email: string;
}

const keyOf = ({ accountId, mode, email }: ListedAddress): string => `${accountId} ${mode} ${email}`;

/** Until when an address that was asked for is suppressed, in Unix ms; 0 when it is not, infinite when for good. */
export async function suppressedUntil(
  tx: Transaction,
  addresses: readonly ListedAddress[],
): Promise<(address: ListedAddress) => number> {
  if (addresses.length === 0) return () => 0;
  const asked = rowset(tx, 'asked', { accountId: 'text', mode: 'text', email: 'text' }, addresses);
  const rows = await tx.all<ListedAddress & { expiresAt: number | null }>(
    `SELECT s.account_id AS "accountId", s.mode, s.email, s.expires_at AS "expiresAt" FROM ${asked.sql}
       JOIN suppression s ON s.account_id = asked.account_id AND s.mode = asked.mode AND s.email = asked.email`,
    ...asked.params,
  );
  const ends = new Map(rows.map((row) => [keyOf(row), row.expiresAt ?? Number.POSITIVE_INFINITY]));
  return (address) => ends.get(keyOf(address)) ?? 0;
}

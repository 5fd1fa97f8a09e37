/** What the looks at the MX of live routes read and write: by domain, since all routes of one have the same record. */
import { operation } from '../storage/operation.ts';
import type { MxStatus } from './store.ts';

interface DueLooks {
  nowMs: number;
  /** From one look to the next, at least and at most. */
  leastMs: number;
  mostMs: number;
  limit: number;
}

/**
 * The domain of each live route whose MX is due, the longest ago first: of a route that is active after `mostMs`, of a pending one after a
 * quarter of the time since it was written, within `leastMs` and `mostMs`. Reads all routes: 20 ms for 100,000, and 150 ms if grouped.
 */
export const dueLooksOperation = operation(
  'inboundRoutes.dueLooks',
  'read',
  async (tx, { nowMs, leastMs, mostMs, limit }: DueLooks): Promise<string[]> => {
    const rows = await tx.all<{ domain: string }>(
      `SELECT domain FROM inbound_route WHERE mode = 'live' AND (coalesce(checked_at, 0) <= ? OR (mx_status <> 'verified'
         AND checked_at <= ? AND checked_at + (checked_at - updated_at) / 4 <= ?))
       ORDER BY checked_at LIMIT ?`,
      ...[nowMs - mostMs, nowMs - leastMs, nowMs, limit],
    );
    return rows.map(({ domain }) => domain);
  },
);

interface MxLook {
  domain: string;
  /** `unknown` where the DNS did not answer, which leaves the routes as they were. */
  status: MxStatus;
  found: string[] | null;
  nowMs: number;
}

/** Records a look for all live routes of the domain. */
export const recordLookOperation = operation(
  'inboundRoutes.recordLook',
  'write',
  async (tx, { domain, status, found, nowMs }: MxLook): Promise<void> => {
    const live = `WHERE domain = ? AND mode = 'live'`;
    await tx.run(`UPDATE inbound_route SET checked_at = ? ${live}`, nowMs, domain);
    if (status === 'unknown') return;
    await tx.run(`UPDATE inbound_route SET mx_status = ?, mx_found = ? ${live}`, status, JSON.stringify(found), domain);
  },
);

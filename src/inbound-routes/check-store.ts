/** Queries for the MX checks of live routes, grouped by domain, because all routes of a domain share its record. */
import { CLOCK_TOLERANCE_MS } from '../base/clock.ts';
import { operation } from '../storage/operation.ts';
import type { MxStatus } from './store.ts';

interface DueMxChecks {
  nowMs: number;
  /** Minimum and maximum interval between checks. */
  leastMs: number;
  mostMs: number;
  limit: number;
}

/**
 * Returns the domains of live routes whose MX check is due, least recently checked first: for active routes after `mostMs`, for pending
 * ones after a quarter of their age, between `leastMs` and `mostMs`. A check in the future is due too: the clock was wrong when it was
 * made. Reads all routes (20 ms for 100,000).
 */
export const dueMxChecksOperation = operation(
  'inboundRoutes.dueMxChecks',
  'read',
  async (tx, { nowMs, leastMs, mostMs, limit }: DueMxChecks): Promise<string[]> => {
    const rows = await tx.all<{ domain: string }>(
      `SELECT domain FROM inbound_route WHERE mode = 'live' AND (coalesce(checked_at, 0) <= ? OR checked_at > ?
         OR (mx_status <> 'verified' AND checked_at <= ? AND checked_at + (checked_at - updated_at) / 4 <= ?))
       ORDER BY checked_at LIMIT ?`,
      nowMs - mostMs,
      nowMs + CLOCK_TOLERANCE_MS,
      nowMs - leastMs,
      nowMs,
      limit,
    );
    return rows.map(({ domain }) => domain);
  },
);

interface MxLook {
  domain: string;
  /** `unknown` if the DNS lookup failed, which leaves the routes unchanged. */
  status: MxStatus;
  found: string[] | null;
  nowMs: number;
}

/** Records a check for all live routes of the domain. */
export const recordMxCheckOperation = operation(
  'inboundRoutes.recordMxCheck',
  'write',
  async (tx, { domain, status, found, nowMs }: MxLook): Promise<void> => {
    const live = `WHERE domain = ? AND mode = 'live'`;
    await tx.run(`UPDATE inbound_route SET checked_at = ? ${live}`, nowMs, domain);
    if (status === 'unknown') return;
    await tx.run(`UPDATE inbound_route SET mx_status = ?, mx_found = ? ${live}`, status, JSON.stringify(found), domain);
  },
);

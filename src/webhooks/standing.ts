/**
 * How an endpoint stands: since when nothing but failures came from it, and that it is disabled when it wants or deserves no
 * more. Written in the transaction that records the results.
 */
import type { Mode } from '../base/mode.ts';
import type { Transaction } from '../storage/operation.ts';
import { enqueueNotice } from './notice-store.ts';
import { unsubscribe } from './subscriptions.ts';
import type { Settled } from './work-store.ts';

/** After so long with nothing but failures an endpoint is disabled. */
const DISABLE_AFTER_MS = 5 * 24 * 3_600_000;

/** What one settle says of an endpoint. */
interface Standing {
  succeeded: boolean;
  gone: boolean;
  /** By the clock of the mode. */
  atMs: number;
}

function note(standings: Map<string, Standing>, settled: Settled): void {
  const standing = standings.get(settled.webhookId) ?? { succeeded: false, gone: false, atMs: settled.atMs };
  standing.succeeded ||= settled.result === 'succeeded';
  standing.gone ||= settled.result === 'gone';
  standing.atMs = Math.max(standing.atMs, settled.atMs);
  standings.set(settled.webhookId, standing);
}

/** Keeps the standing of every endpoint that was tried; answers those that were disabled. `nowMs` is real time. */
export async function keepStandings(tx: Transaction, tried: readonly Settled[], nowMs: number): Promise<string[]> {
  const standings = new Map<string, Standing>();
  for (const settled of tried) note(standings, settled);
  const disabled: string[] = [];
  // In one order, so that two nodes do not wait for each other.
  for (const [webhookId, standing] of [...standings].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (await keepStanding(tx, webhookId, { ...standing, nowMs })) disabled.push(webhookId);
  }
  return disabled;
}

/** Keeps `failing_since`, and disables an endpoint that wants or deserves no more; answers whether it did. */
async function keepStanding(
  tx: Transaction,
  webhookId: string,
  standing: Standing & { nowMs: number },
): Promise<boolean> {
  const { nowMs } = standing;
  if (standing.gone) {
    return disable(tx, { webhookId, reason: 'the endpoint answered 410 Gone', nowMs });
  }
  if (standing.succeeded) {
    await tx.run('UPDATE webhook SET failing_since = NULL WHERE id = ? AND failing_since IS NOT NULL', webhookId);
    return false;
  }
  const row = await tx.get<{ failing_since: number }>(
    'UPDATE webhook SET failing_since = coalesce(failing_since, ?) WHERE id = ? AND enabled = 1 RETURNING failing_since',
    standing.atMs,
    webhookId,
  );
  if (!row || standing.atMs - row.failing_since < DISABLE_AFTER_MS) return false;
  return disable(tx, { webhookId, reason: 'nothing but failures for five days', nowMs });
}

async function disable(
  tx: Transaction,
  { webhookId, reason, nowMs }: { webhookId: string; reason: string; nowMs: number },
): Promise<boolean> {
  const row = await tx.get<{ account_id: string; mode: Mode }>(
    `UPDATE webhook SET enabled = 0, disabled_reason = ?, updated_at = ? WHERE id = ? AND enabled = 1
     RETURNING account_id, mode`,
    reason,
    nowMs,
    webhookId,
  );
  if (!row) return false;
  await unsubscribe(tx, webhookId);
  await enqueueNotice(tx, { webhookId, accountId: row.account_id, mode: row.mode, nowMs });
  return true;
}

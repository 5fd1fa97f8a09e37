/**
 * The health of an endpoint: since when nothing but failures came from it, and that it is disabled when it wants or deserves no
 * more. Written in the transaction that records the results.
 */
import type { Mode } from '../base/mode.ts';
import type { Transaction } from '../storage/operation.ts';
import type { Settled } from './job.ts';
import { enqueueNotice } from './notice-store.ts';
import { unsubscribe } from './subscriptions.ts';

/** After so long with nothing but failures an endpoint is disabled. */
const DISABLE_AFTER_MS = 5 * 24 * 3_600_000;

/** What one settle says of an endpoint. */
interface Health {
  succeeded: boolean;
  gone: boolean;
  /** By the clock of the mode. */
  atMs: number;
}

function note(healths: Map<string, Health>, settled: Settled): void {
  const health = healths.get(settled.webhookId) ?? { succeeded: false, gone: false, atMs: settled.atMs };
  health.succeeded ||= settled.result === 'succeeded';
  health.gone ||= settled.result === 'gone';
  health.atMs = Math.max(health.atMs, settled.atMs);
  healths.set(settled.webhookId, health);
}

/** Keeps the health of every endpoint that was tried; answers those that were disabled. `nowMs` is real time. */
export async function recordHealth(tx: Transaction, tried: readonly Settled[], nowMs: number): Promise<string[]> {
  const healths = new Map<string, Health>();
  for (const settled of tried) note(healths, settled);
  const disabled: string[] = [];
  // In one order, so that two nodes do not wait for each other.
  for (const [webhookId, health] of [...healths].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (await recordHealthOf(tx, webhookId, { ...health, nowMs })) disabled.push(webhookId);
  }
  return disabled;
}

/** Keeps `failing_since`, and disables an endpoint that wants or deserves no more; answers whether it did. */
async function recordHealthOf(
  tx: Transaction,
  webhookId: string,
  health: Health & { nowMs: number },
): Promise<boolean> {
  const { nowMs } = health;
  if (health.gone) {
    return disable(tx, { webhookId, reason: 'the endpoint answered 410 Gone', nowMs });
  }
  if (health.succeeded) {
    await tx.run('UPDATE webhook SET failing_since = NULL WHERE id = ? AND failing_since IS NOT NULL', webhookId);
    return false;
  }
  const row = await tx.get<{ failing_since: number }>(
    'UPDATE webhook SET failing_since = coalesce(failing_since, ?) WHERE id = ? AND enabled = 1 RETURNING failing_since',
    health.atMs,
    webhookId,
  );
  if (!row || health.atMs - row.failing_since < DISABLE_AFTER_MS) return false;
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

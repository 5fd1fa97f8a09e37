/**
 * Which endpoint wants which type of event, as events look it up when they are written. Kept in the transactions that make,
 * change, disable and remove an endpoint, so that it always says what the endpoint says.
 */
import type { Mode } from '../base/mode.ts';
import type { Transaction } from '../storage/operation.ts';

export interface Subscribed {
  id: string;
  accountId: string;
  mode: Mode;
  /** JSON array of event types. */
  events: string;
  enabled: number;
}

/** Nothing more is sent to the endpoint. */
export async function unsubscribe(tx: Transaction, webhookId: string): Promise<void> {
  await tx.run('DELETE FROM webhook_subscription WHERE webhook_id = ?', webhookId);
}

/** Brings the subscriptions in line with the endpoint as it is now. */
export async function subscribe(tx: Transaction, endpoint: Subscribed): Promise<void> {
  await unsubscribe(tx, endpoint.id);
  if (endpoint.enabled === 0) return;
  for (const type of new Set(JSON.parse(endpoint.events) as string[])) {
    await tx.run(
      'INSERT INTO webhook_subscription (account_id, mode, event_type, webhook_id) VALUES (?, ?, ?, ?)',
      endpoint.accountId,
      endpoint.mode,
      type,
      endpoint.id,
    );
  }
}

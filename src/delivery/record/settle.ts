/**
 * Settles what came of attempts, all in one: work row, state, event, attempt, suppression, and the content of mail that is not
 * retained. Results that wait at the same moment are settled together; a row whose lease was lost changes nothing.
 */
import type { Mode } from '../../base/mode.ts';
import { ATTEMPT, dropContents, type Retain, transitionMany } from '../../messages/messages.ts';
import { recordOutcomes } from '../../sandbox/sandbox.ts';
import { batch, type Transaction } from '../../storage/operation.ts';
import { insertMany } from '../../storage/rows.ts';
import { type SuppressionEntry, suppress } from '../../suppressions/suppressions.ts';
import { settleLeases } from '../../work/work.ts';
import type { TlsPolicyName } from '../routing/hosts.ts';

/** How one attempt went, beside its outcome. */
export interface AttemptFacts {
  startedAtMs: number;
  durationMs: number;
  host: string | null;
  address: string | null;
  /** Our address, if the settings name some. */
  sourceAddress?: string | undefined;
  /** Such as `TLSv1.3`; null if the message went in the clear or no connection was made. */
  tls: string | null;
  /** Why the message went in the clear although the host offers TLS, in words. */
  tlsFallback?: string | undefined;
  /** The policy that the connection had to meet. */
  tlsPolicy?: TlsPolicyName | undefined;
  tlsCipher?: string | undefined;
  /** The name in the peer's certificate. */
  tlsPeerName?: string | undefined;
  dialogue: { atMs: number; direction: 'C' | 'S'; text: string }[];
}

/** One attempt as `GET /messages/{id}` shows it. */
export interface AttemptRecord extends Omit<AttemptFacts, 'startedAtMs'> {
  /** ISO time at which it began. */
  time: string;
  /** The reply that decided, or what happened instead of one. */
  reply: string | null;
  outcome: 'delivered' | 'delayed' | 'bounced';
}

export interface SettledEvent {
  id: string;
  type: 'Delivery' | 'DeliveryDelay' | 'Bounce' | 'Complaint' | 'Reject';
  detail: Record<string, unknown>;
}

export interface Settlement {
  seq: number;
  fence: number;
  accountId: string;
  mode: Mode;
  messageId: string;
  emailSeq: number;
  retain: Retain;
  /** As all times here by the clock of the mode. */
  atMs: number;
  /** Attempts made in all, this one included. */
  attempts: number;
  /** Null when none was made: the message was put off untried, or never left. */
  attempt: AttemptRecord | null;
  to: 'delivered' | 'delayed' | 'bounced' | 'suppressed';
  /** For `delayed`: when to try again. */
  nextAttemptAtMs: number | null;
  /** For `delayed`: what it has in common with others that wait. */
  cause?: string | null;
  /** None for a delay that was reported before. */
  event: SettledEvent | null;
  /** Address key to put on the suppression list. */
  suppress: { email: string; untilMs: number | null } | null;
  /** Sandbox: a further outcome that follows at once (a complaint after the delivery). */
  followedBy: { to: 'complained'; event: SettledEvent } | null;
  /** Sandbox: what the virtual inbox shows. */
  sandboxOutcome: string | null;
}

export interface SettleResult {
  /** Rows whose lease had been lost: nothing of these was written. */
  lost: number[];
  /** Blobs that nothing refers to any more. */
  blobKeys: string[];
}

export const settleOperation = batch('delivery.settle', 'write', settleMany);

/** Settles the lists of several calls; throws, and settles nothing, when a message is in no state that allows it. */
async function settleMany(tx: Transaction, calls: readonly Settlement[][]): Promise<SettleResult[]> {
  const settled = await settleLeases(tx, calls.flat(), ({ seq, fence, accountId, mode, ...one }) => ({
    ...{ seq, fence, accountId, mode, tried: one.attempt !== null },
    againAtMs: one.to === 'delayed' ? (one.nextAttemptAtMs ?? one.atMs) : null,
    ...{ cause: one.cause ?? null, failedAtMs: one.atMs },
  }));
  const kept = new Set(settled);
  const changed = await transitionMany(tx, settled);
  for (const { messageId, to } of settled)
    if (!changed.has(messageId)) throw new Error(`message ${messageId} cannot become ${to}`);
  await transitionMany(
    tx,
    settled.flatMap(({ accountId, mode, messageId, atMs, followedBy }) =>
      followedBy ? [{ accountId, mode, messageId, atMs, ...followedBy }] : [],
    ),
  );
  const tried = settled.filter((one) => one.attempt !== null);
  const ended = settled.filter((one) => one.retain === 'none' && one.to !== 'delayed');
  const [blobs] = await Promise.all([
    dropContents(
      tx,
      ended.map((one) => one.emailSeq),
    ),
    insertMany(
      tx,
      ATTEMPT,
      tried.map(({ accountId, messageId, attempts: number, atMs: at, attempt }) => ({
        ...{ accountId, messageId, number, at, record: JSON.stringify(attempt) },
      })),
      'ON CONFLICT (account_id, message_id, number) DO UPDATE SET at = excluded.at, record = excluded.record',
    ),
    recordOutcomes(
      tx,
      settled.flatMap(({ accountId, messageId, sandboxOutcome: outcome }) =>
        outcome ? [{ accountId, messageId, outcome }] : [],
      ),
    ),
    suppress(tx, settled.flatMap(bounced)),
  ]);
  return calls.map((call) => {
    const numbers = new Set(call.filter((one) => kept.has(one)).map((one) => one.emailSeq));
    const blobKeys: string[] = [];
    for (const [emailSeq, keys] of blobs) {
      // Each blob is named once, though several calls may have settled copies of its email.
      if (!numbers.has(emailSeq)) continue;
      blobKeys.push(...keys);
      blobs.delete(emailSeq);
    }
    return { lost: call.filter((one) => !kept.has(one)).map((one) => one.seq), blobKeys };
  });
}

/** What a bounce puts on the suppression list. */
function bounced({ accountId, mode, messageId, atMs, suppress: entry }: Settlement): SuppressionEntry[] {
  if (!entry) return [];
  const { email, untilMs: expiresAt } = entry;
  return [{ accountId, mode, email, expiresAt, reason: 'bounce', sourceMessageId: messageId, createdAt: atMs }];
}

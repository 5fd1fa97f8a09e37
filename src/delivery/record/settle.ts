/**
 * Settles the results of attempts in one transaction: work row, state, event, attempt, suppression, and the content of messages that are
 * not retained. Results that wait at the same moment are settled together; a row whose lease was lost changes nothing.
 */
import type { Mode } from '../../base/mode.ts';
import { ATTEMPT, dropContents, type Retain, transitionMany } from '../../messages/messages.ts';
import { recordOutcomes } from '../../sandbox/sandbox.ts';
import { batch, type Transaction } from '../../storage/operation.ts';
import { insertMany } from '../../storage/rows.ts';
import { type SuppressionEntry, suppress } from '../../suppressions/suppressions.ts';
import { settleLeases } from '../../work/work.ts';
import type { TlsPolicyName } from '../routing/hosts.ts';

/** The details of one attempt, in addition to its outcome. */
export interface AttemptFacts {
  startedAtMs: number;
  durationMs: number;
  host: string | null;
  address: string | null;
  /** The local address, if source addresses are configured. */
  sourceAddress?: string | undefined;
  /** For example `TLSv1.3`; null if the message was sent unencrypted or no connection was made. */
  tls: string | null;
  /** Why the message was sent unencrypted although the host offers TLS, as text. */
  tlsFallback?: string | undefined;
  /** The policy that the connection had to meet. */
  tlsPolicy?: TlsPolicyName | undefined;
  tlsCipher?: string | undefined;
  /** The group of the key exchange, such as `X25519MLKEM768`. */
  tlsKeyExchange?: string | undefined;
  /** The name in the peer's certificate. */
  tlsPeerName?: string | undefined;
  dialogue: { atMs: number; direction: 'C' | 'S'; text: string }[];
}

/** One attempt as `GET /messages/{id}` shows it. */
export interface AttemptRecord extends Omit<AttemptFacts, 'startedAtMs'> {
  /** ISO time at which it started. */
  time: string;
  /** The deciding reply, or what happened instead of a reply. */
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
  /** Unix ms by the clock of the mode, as all times here. */
  atMs: number;
  /** Attempts made so far, including this one. */
  attempts: number;
  /** Null if none was made: the message was deferred without an attempt, or never sent. */
  attempt: AttemptRecord | null;
  to: 'delivered' | 'delayed' | 'bounced' | 'suppressed';
  /** For `delayed`: the time of the next attempt. */
  nextAttemptAtMs: number | null;
  /** For `delayed`: the cause that groups it with other waiting messages. */
  cause?: string | null;
  /** Null for a delay that was already reported. */
  event: SettledEvent | null;
  /** Address key to put on the suppression list. */
  suppress: { email: string; untilMs: number | null } | null;
  /** Sandbox: another outcome that follows immediately (a complaint after the delivery). */
  followedBy: { to: 'complained'; event: SettledEvent } | null;
  /** Sandbox: what the virtual inbox shows. */
  sandboxOutcome: string | null;
}

export interface SettleResult {
  /** Rows whose lease was lost: nothing was written for them. */
  lost: number[];
  /** Blobs without any remaining reference. */
  blobKeys: string[];
}

export const settleOperation = batch('delivery.settle', 'write', settleMany);

/** Settles the lists of several calls. Throws, and settles nothing, if the state of a message does not allow it. */
async function settleMany(tx: Transaction, calls: readonly Settlement[][]): Promise<SettleResult[]> {
  const settled = await settleLeases(tx, calls.flat(), ({ seq, fence, accountId, mode, ...one }) => ({
    seq,
    fence,
    accountId,
    mode,
    tried: one.attempt !== null,
    againAtMs: one.to === 'delayed' ? (one.nextAttemptAtMs ?? one.atMs) : null,
    cause: one.cause ?? null,
    failedAtMs: one.atMs,
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
        accountId,
        messageId,
        number,
        at,
        record: JSON.stringify(attempt),
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
      // Each blob is listed once, even if several calls settled copies of its email.
      if (!numbers.has(emailSeq)) continue;
      blobKeys.push(...keys);
      blobs.delete(emailSeq);
    }
    return { lost: call.filter((one) => !kept.has(one)).map((one) => one.seq), blobKeys };
  });
}

/** Returns the suppression entry of a bounce. */
function bounced({ accountId, mode, messageId, atMs, suppress: entry }: Settlement): SuppressionEntry[] {
  if (!entry) return [];
  const { email, untilMs: expiresAt } = entry;
  return [{ accountId, mode, email, expiresAt, reason: 'bounce', sourceMessageId: messageId, createdAt: atMs }];
}

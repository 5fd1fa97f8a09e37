/**
 * Stores recipients' actions: unsubscribing, opens, and clicks. Each action appends one event: unsubscribing again changes nothing, and
 * opens and clicks are limited per message, because anyone who has the message can repeat them.
 */

import type { Mode } from '../base/mode.ts';
import { appendToTimeline, isUnfinished, type MessageStatus } from '../messages/messages.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { findSuppression, suppress } from '../suppressions/suppressions.ts';
import { clockOffsetOf } from '../work/work.ts';

/** One recipient's copy of a message. */
export interface Copy {
  accountId: string;
  mode: Mode;
  messageId: string;
}

/** The same open or click within this time counts once. */
const COLLAPSE_MS = 60_000;
/** Maximum events of one kind per message, not counting bots. */
const MAX_BY_PEOPLE = 100;
const MAX_BY_BOTS = 20;
/** An open or click within this time after the delivery comes from a scanner. */
const SCAN_MS = 2_000;

/** Returns the sender in the message's header; undefined if the message is no longer kept. */
export const senderOfOperation = operation(
  'engagement.senderOf',
  'read',
  async (tx, { accountId, mode, messageId }: Copy): Promise<string | undefined> => {
    const row = await tx.get<{ header_from: string }>(
      `SELECT e.header_from FROM message m JOIN email e ON e.seq = m.email_seq
       WHERE m.account_id = ? AND m.mode = ? AND m.id = ?`,
      accountId,
      mode,
      messageId,
    );
    return row?.header_from;
  },
);

export interface UnsubscribeRequest extends Copy {
  /** In the form used to compare addresses. */
  email: string;
  /** Its keyed hash; only needed if the message may no longer exist. */
  addressHash?: string;
  method: 'page' | 'one-click' | 'mail';
  eventId: string;
  nowMs: number;
}

/**
 * Suppresses the address permanently, replacing a weaker reason; returns whether the suppression or the event is new. An erased address is
 * suppressed already, and is not stored again.
 */
export async function unsubscribe(tx: Transaction, one: UnsubscribeRequest): Promise<boolean> {
  const { accountId, mode, messageId } = one;
  await lockMessage(tx, one);
  const known = await findSuppression(tx, one);
  if (known?.isErased) return false;
  const isWished = known?.expiresAt === null && (known.reason === 'unsubscribe' || known.reason === 'complaint');
  if (isWished && (await hasEvent(tx, one, 'Unsubscribe'))) return false;
  if (!isWished) {
    const { email, nowMs: createdAt } = one;
    const entry = { email, reason: 'unsubscribe' as const, sourceMessageId: messageId, expiresAt: null, createdAt };
    await suppress(tx, [{ accountId, mode, ...entry }]);
  }
  return appendToTimeline(tx, {
    accountId,
    mode,
    messageId,
    atMs: one.nowMs + (await clockOffsetOf(tx, one)),
    event: { id: one.eventId, type: 'Unsubscribe', detail: { unsubscribe: { method: one.method } } },
  });
}

export const unsubscribeOperation = operation('engagement.unsubscribe', 'write', unsubscribe);

async function hasEvent(tx: Transaction, { accountId, mode, messageId }: Copy, type: string): Promise<boolean> {
  const row = await tx.get(
    'SELECT 1 AS found FROM event WHERE message_id = ? AND account_id = ? AND mode = ? AND type = ? LIMIT 1',
    messageId,
    accountId,
    mode,
    type,
  );
  return row !== undefined;
}

/** Serializes the same action at two nodes: the later transaction sees the other's event. */
async function lockMessage(tx: Transaction, { accountId, mode, messageId }: Copy): Promise<void> {
  if (tx.dialect === 'sqlite') return;
  await tx.get(
    `SELECT 1 AS found FROM message WHERE account_id = ? AND mode = ? AND id = ? ${locked(tx)}`,
    accountId,
    mode,
    messageId,
  );
}

export interface TrackingRecord extends Copy {
  kind: 'open' | 'click';
  /** Set for a click. */
  url: string | null;
  isBot: boolean;
  userAgent: string;
  eventId: string;
  nowMs: number;
}

interface Detail {
  url?: string;
  machine: boolean;
}

/** Appends the event of an open or click; false if it is a repetition, above the limit, or for an unknown message. */
export const trackOperation = operation(
  'engagement.track',
  'write',
  async (tx, one: TrackingRecord): Promise<boolean> => {
    const { accountId, mode, messageId, kind } = one;
    await lockMessage(tx, one);
    const nowMs = one.nowMs + (await clockOffsetOf(tx, one));
    const type = kind === 'open' ? 'Open' : 'Click';
    const earlier = await tx.all<{ at: number; detail: string }>(
      'SELECT at, detail FROM event WHERE message_id = ? AND account_id = ? AND mode = ? AND type = ? ORDER BY seq',
      messageId,
      accountId,
      mode,
      type,
    );
    const machine = one.isBot || (mode === 'live' && (await isWithinScan(tx, one)));
    const alike = earlier
      .map(({ at, detail }) => ({ at, ...(JSON.parse(detail) as Record<typeof kind, Detail>)[kind] }))
      .filter((other) => other.machine === machine);
    if (alike.length >= (machine ? MAX_BY_BOTS : MAX_BY_PEOPLE)) return false;
    const isSame = (other: (typeof alike)[number]): boolean =>
      other.url === (one.url ?? undefined) && nowMs - other.at < COLLAPSE_MS;
    if (alike.some(isSame)) return false;
    const detail = { ...(one.url !== null && { url: one.url }), machine, userAgent: one.userAgent };
    return appendToTimeline(tx, {
      accountId,
      mode,
      messageId,
      atMs: nowMs,
      event: { id: one.eventId, type, detail: { [kind]: detail } },
    });
  },
);

/**
 * Returns whether only a scanner can have seen the message: it is being delivered, or was just delivered. A finished message without a
 * delivery was resent: its links name the original.
 */
async function isWithinScan(tx: Transaction, { accountId, mode, messageId, nowMs }: TrackingRecord): Promise<boolean> {
  const row = await tx.get<{ status: MessageStatus; at: number | null }>(
    `SELECT m.status, (SELECT e.at FROM event e
       WHERE e.message_id = m.id AND e.account_id = m.account_id AND e.mode = m.mode AND e.type = 'Delivery' LIMIT 1) AS at
     FROM message m WHERE m.account_id = ? AND m.mode = ? AND m.id = ?`,
    accountId,
    mode,
    messageId,
  );
  if (row === undefined) return false;
  return row.at === null ? isUnfinished(row.status) : nowMs - row.at < SCAN_MS;
}

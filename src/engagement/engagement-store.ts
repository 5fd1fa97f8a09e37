/**
 * What recipients do with a mail, as rows: they unsubscribe, open, click. An event of it is appended once for each thing done:
 * an unsubscribing that is repeated changes nothing, and openings and clicks are bounded for each message, since
 * anybody who has the mail can repeat them without end.
 */

import type { Mode } from '../base/mode.ts';
import { appendToTimeline } from '../messages/messages.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { findSuppression, suppress } from '../suppressions/suppressions.ts';
import { clockOffsetOf } from '../work/work.ts';

/** One recipient's copy of a mail. */
export interface Copy {
  accountId: string;
  mode: Mode;
  messageId: string;
}

/** Within this time the same open or click again is the same one. */
const COLLAPSE_MS = 60_000;
/** Events of one kind and message; those of bots come on top. */
const MAX_BY_PEOPLE = 100;
const MAX_BY_BOTS = 20;
/** What opens or clicks within this time of the delivery is a scanner on the way to the mailbox. */
const SCAN_MS = 2_000;

/** Who sent a message, as its header shows it; undefined when it is not kept any more. */
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

export interface Unsubscribing extends Copy {
  /** In the form in which addresses are compared. */
  email: string;
  method: 'page' | 'one-click' | 'mail';
  eventId: string;
  nowMs: number;
}

/**
 * Suppresses the address for good, also where it is suppressed for a reason that is weaker than the recipient's own word; answers
 * whether that, or the event, is new.
 */
export async function unsubscribe(tx: Transaction, one: Unsubscribing): Promise<boolean> {
  const { accountId, mode, messageId } = one;
  await lockMessage(tx, one);
  const known = await findSuppression(tx, one);
  const isWished = known?.expiresAt === null && (known.reason === 'unsubscribe' || known.reason === 'complaint');
  if (isWished && (await hasEvent(tx, one, 'Unsubscribe'))) return false;
  if (!isWished) {
    const { email, nowMs: createdAt } = one;
    const entry = { email, reason: 'unsubscribe' as const, sourceMessageId: messageId, expiresAt: null, createdAt };
    await suppress(tx, [{ accountId, mode, ...entry }]);
  }
  return appendToTimeline(tx, {
    ...{ accountId, mode, messageId, atMs: one.nowMs + (await clockOffsetOf(tx, one)) },
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

/** The same engagement at two nodes at once is one: the later transaction sees what the other has appended. */
async function lockMessage(tx: Transaction, { accountId, mode, messageId }: Copy): Promise<void> {
  if (tx.dialect === 'sqlite') return;
  await tx.get(
    `SELECT 1 AS found FROM message WHERE account_id = ? AND mode = ? AND id = ? ${locked(tx)}`,
    accountId,
    mode,
    messageId,
  );
}

export interface Tracked extends Copy {
  kind: 'open' | 'click';
  /** Of a click. */
  url: string | null;
  /** The request itself looks like a bot's. */
  isBot: boolean;
  userAgent: string;
  eventId: string;
  nowMs: number;
}

interface Detail {
  url?: string;
  machine: boolean;
}

/** Appends the event of an opening or a click; false when it is a repetition, one too many, or of no message. */
export const trackOperation = operation('engagement.track', 'write', async (tx, one: Tracked): Promise<boolean> => {
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
    ...{ accountId, mode, messageId, atMs: nowMs },
    event: { id: one.eventId, type, detail: { [kind]: detail } },
  });
});

/** Before the delivery is recorded, nobody but a bot on its way can have seen the mail. */
async function isWithinScan(tx: Transaction, { accountId, mode, messageId, nowMs }: Tracked): Promise<boolean> {
  const row = await tx.get<{ at: number }>(
    `SELECT at FROM event WHERE message_id = ? AND account_id = ? AND mode = ? AND type = 'Delivery' LIMIT 1`,
    messageId,
    accountId,
    mode,
  );
  return row === undefined || nowMs - row.at < SCAN_MS;
}

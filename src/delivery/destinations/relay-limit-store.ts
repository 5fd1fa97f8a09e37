/**
 * How many messages all nodes together have sent, or may still send, through a relay: counted in slots, so that any 60 seconds and any 24
 * hours stay within the limits. Messages are taken before they are sent, so a crash never exceeds a limit. A slot is removed when its span
 * has ended.
 */
import { locked, operation, type Transaction } from '../../storage/operation.ts';

export type Span = 'minute' | 'day';

/** A slot counts until the span after its end is over: sending through a used-up limit takes up to one slot longer than the span. */
const SPANS: Readonly<Record<Span, { lengthMs: number; slotMs: number }>> = {
  minute: { lengthMs: 60_000, slotMs: 1_000 },
  day: { lengthMs: 86_400_000, slotMs: 600_000 },
};
/** More than the requested messages are granted only from this part of what is left: a node that does not use them delays others little. */
const SPARE_PART = 1 / 20;
const MOST_SPARE = 100;
/** Sending through a used-up limit continues when this part of it is available again, not for each message. */
const CONTINUES_PART = 1 / 10;
/** Serializes the nodes that take messages of one relay. */
const LOCK = 'lock';

export interface RelayLimit {
  span: Span;
  most: number;
}

export interface CapRequest {
  relay: string;
  limits: readonly RelayLimit[];
  wanted: number;
  nowMs: number;
}

export interface LimitGrant {
  /** 0 if nothing is left; may exceed the request. */
  granted: number;
  /** Messages in the span of each limit, including this call. */
  used: number[];
  /** The limit that is used up for the longest time, and when sending continues. */
  spent: { limit: RelayLimit; untilMs: number } | null;
}

interface SlotRow {
  slot: number;
  mails: number;
}

/** Takes messages from all limits of a relay, or none. */
export const takeRelayLimitOperation = operation(
  'delivery.takeRelayLimit',
  'write',
  async (tx, { relay, limits, wanted, nowMs }: CapRequest): Promise<LimitGrant> => {
    await tx.run(
      'INSERT INTO relay_limit (relay, span, slot, mails) VALUES (?, ?, 0, 0) ON CONFLICT (relay, span, slot) DO NOTHING',
      relay,
      LOCK,
    );
    await tx.get(`SELECT mails FROM relay_limit WHERE relay = ? AND span = ? ${locked(tx)}`, relay, LOCK);
    const slots: SlotRow[][] = [];
    for (const { span } of limits) slots.push(await slotsOf(tx, { relay, span, nowMs }));
    const used = slots.map((rows) => rows.reduce((sum, { mails }) => sum + mails, 0));
    const left = Math.max(0, Math.min(...limits.map(({ most }, index) => most - used[index]!)));
    const spare = Math.min(MOST_SPARE, Math.floor(left * SPARE_PART));
    const granted = Math.min(left, Math.max(wanted, spare));
    if (granted > 0) {
      for (const { span } of limits) {
        await tx.run(
          `INSERT INTO relay_limit (relay, span, slot, mails) VALUES (?, ?, ?, ?)
           ON CONFLICT (relay, span, slot) DO UPDATE SET mails = relay_limit.mails + excluded.mails`,
          relay,
          span,
          slotAt(span, nowMs),
          granted,
        );
      }
      return { granted, used: used.map((mails) => mails + granted), spent: null };
    }
    const ends = limits.flatMap((limit, index) =>
      used[index]! < limit.most ? [] : [{ limit, untilMs: continuesAt(limit, slots[index]!) }],
    );
    return { granted, used, spent: ends.toSorted((a, b) => b.untilMs - a.untilMs)[0]! };
  },
);

function slotAt(span: Span, atMs: number): number {
  return Math.floor(atMs / SPANS[span].slotMs);
}

/** Reads the slots that count now, oldest first, and removes the others: also those ahead of a clock that was set back. */
async function slotsOf(
  tx: Transaction,
  { relay, span, nowMs }: { relay: string; span: Span; nowMs: number },
): Promise<SlotRow[]> {
  const { lengthMs, slotMs } = SPANS[span];
  const before = slotAt(span, nowMs) - lengthMs / slotMs;
  await tx.run(
    'DELETE FROM relay_limit WHERE relay = ? AND span = ? AND (slot < ? OR slot > ?)',
    relay,
    span,
    before,
    slotAt(span, nowMs + lengthMs),
  );
  return tx.all<SlotRow>('SELECT slot, mails FROM relay_limit WHERE relay = ? AND span = ? ORDER BY slot', relay, span);
}

/** Returns the Unix ms at which a part of a used-up limit is available again. */
function continuesAt({ span, most }: RelayLimit, slots: readonly SlotRow[]): number {
  const { lengthMs, slotMs } = SPANS[span];
  let left = most - slots.reduce((sum, { mails }) => sum + mails, 0);
  for (const { slot, mails } of slots) {
    left += mails;
    if (left >= Math.ceil(most * CONTINUES_PART)) return (slot + 1) * slotMs + lengthMs;
  }
  throw new Error(`a limit of ${most} messages per ${span} has no slots`);
}

export interface UnusedMails {
  relay: string;
  limits: readonly RelayLimit[];
  /** Unix ms at which they were taken. */
  takenMs: number;
  mails: number;
}

/** Returns messages that were taken but not sent. */
export const returnRelayLimitOperation = operation(
  'delivery.returnRelayLimit',
  'write',
  async (tx, unused: readonly UnusedMails[]): Promise<void> => {
    for (const { relay, limits, takenMs, mails } of unused) {
      for (const { span } of limits) {
        await tx.run(
          'UPDATE relay_limit SET mails = mails - ? WHERE relay = ? AND span = ? AND slot = ?',
          mails,
          relay,
          span,
          slotAt(span, takenMs),
        );
      }
    }
  },
);

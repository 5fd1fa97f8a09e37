/**
 * Mends the schedule of deliveries after the clock was set back. Leaves alone what a user scheduled, and what somebody holds.
 */
import { operation } from '../storage/operation.ts';
import { DELIVERY_WORK } from './message.ts';

export interface ClampDue {
  nowMs: number;
  /** Index n - 1: the longest that a message may wait after its attempt n, in ms; the last one holds for all further. */
  latestMs: number[];
  /** The longest that a message waits after a crash. */
  crashPauseMs: number;
}

/** Brings forward what is due later than its schedule can have said; answers how many. */
export const clampDueOperation = operation(
  'messages.clampDue',
  'write',
  async (tx, { nowMs, latestMs, crashPauseMs }: ClampDue): Promise<number> => {
    let changed = 0;
    for (const [index, waitMs] of latestMs.entries()) {
      const last = index === latestMs.length - 1;
      changed += await tx.run(
        `UPDATE work SET due = ? WHERE kind = ? AND held = 0 AND due > ? AND leased = 0
           AND attempts ${last ? '>=' : '='} ? AND attempts > 0`,
        nowMs + waitMs,
        DELIVERY_WORK,
        nowMs + waitMs,
        index + 1,
      );
    }
    // Never tried: due since it was accepted, or at the time a user asked for; after a crash a little later.
    const own = `FROM message m WHERE m.account_id = work.account_id AND m.mode = work.mode AND m.id = work.subject`;
    changed += await tx.run(
      `UPDATE work SET due = (SELECT CASE WHEN m.send_at > CAST(? AS BIGINT) THEN m.send_at ELSE CAST(? AS BIGINT) END ${own})
       WHERE kind = ? AND held = 0 AND leased = 0 AND attempts = 0 AND due > ?
         AND due > CASE WHEN crashes > 0 THEN CAST(? AS BIGINT) ELSE CAST(? AS BIGINT) END
         AND EXISTS (SELECT 1 ${own} AND m.status IN ('queued', 'scheduled') AND coalesce(m.send_at, 0) < work.due)`,
      nowMs,
      nowMs,
      DELIVERY_WORK,
      nowMs,
      nowMs + crashPauseMs,
      nowMs,
    );
    return changed;
  },
);

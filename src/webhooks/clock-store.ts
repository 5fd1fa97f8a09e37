/** Mends the schedule of webhook deliveries after the clock was set back. Leaves alone what somebody holds. */
import { WEBHOOK_WORK } from '../events/events.ts';
import { operation } from '../storage/operation.ts';

export interface ClampDue {
  nowMs: number;
  /** Index n - 1: the longest that a delivery may wait after its attempt n, in ms. */
  latestMs: number[];
  /** The longest that it waits after a crash. */
  crashPauseMs: number;
}

/** Brings forward what is due later than its schedule can have said; answers how many. */
export const clampDueOperation = operation(
  'webhooks.clampDue',
  'write',
  async (tx, { nowMs, latestMs, crashPauseMs }: ClampDue): Promise<number> => {
    let changed = 0;
    for (const [index, waitMs] of latestMs.entries()) {
      changed += await tx.run(
        `UPDATE work SET due = ? WHERE kind = ? AND held = 0 AND due > ? AND leased = 0 AND attempts = ?`,
        nowMs + waitMs,
        WEBHOOK_WORK,
        nowMs + waitMs,
        index + 1,
      );
    }
    // Never tried: due since its event, or a little after a crash.
    changed += await tx.run(
      `UPDATE work SET due = ? WHERE kind = ? AND held = 0 AND leased = 0 AND attempts = 0 AND due > ?
         AND due > CASE WHEN crashes > 0 THEN CAST(? AS BIGINT) ELSE CAST(? AS BIGINT) END`,
      nowMs,
      WEBHOOK_WORK,
      nowMs,
      nowMs + crashPauseMs,
      nowMs,
    );
    return changed;
  },
);

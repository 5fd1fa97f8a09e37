/** Brings a schedule back in order after the clock was set back. Leaves alone what somebody holds. */
import type { Transaction } from '../storage/operation.ts';

export interface ClampDue {
  nowMs: number;
  /** Index n - 1: the longest that a row may wait after its attempt n, in ms; the last one holds for all further. */
  latestMs: number[];
  /** The longest that a row waits after a crash. */
  crashPauseMs: number;
}

export interface ClampKind {
  kind: string;
  /** SQL: Unix ms before which a row that was never tried may not be due, or NULL when it is to be left alone. */
  notBefore: string;
}

/** Brings forward what is due later than its schedule can have said; answers how many. */
export async function clampDue(
  tx: Transaction,
  { kind, notBefore }: ClampKind,
  { nowMs, latestMs, crashPauseMs }: ClampDue,
): Promise<number> {
  let changed = 0;
  for (const [index, waitMs] of latestMs.entries()) {
    const last = index === latestMs.length - 1;
    changed += await tx.run(
      `UPDATE work SET due = ? WHERE kind = ? AND held = 0 AND due > ? AND leased = 0
         AND attempts ${last ? '>=' : '='} ? AND attempts > 0`,
      nowMs + waitMs,
      kind,
      nowMs + waitMs,
      index + 1,
    );
  }
  // Never tried: due since it was made, or at the time a user asked for; after a crash a little later.
  changed += await tx.run(
    `UPDATE work SET due = CASE WHEN ${notBefore} > CAST(? AS BIGINT) THEN ${notBefore} ELSE CAST(? AS BIGINT) END
     WHERE kind = ? AND held = 0 AND leased = 0 AND attempts = 0 AND due > ?
       AND due > CASE WHEN crashes > 0 THEN CAST(? AS BIGINT) ELSE CAST(? AS BIGINT) END AND ${notBefore} < due`,
    nowMs,
    nowMs,
    kind,
    nowMs,
    nowMs + crashPauseMs,
    nowMs,
  );
  return changed;
}

/**
 * Where in the log a time is. Events are numbered nearly, but not exactly, in the order of their times: clocks are set, the
 * sandbox's runs ahead. So the log is cut into segments, and each keeps the first and last time in it; what may hold
 * an event of a time asked for is read, and nothing that does is ever left out. The last segment is open: its times are not known.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { timeSeqFloor } from '../storage/time-seq.ts';

const EVENTS_IN_SEGMENT = 1_024;
/** Longer than any transaction of a shared database lives: below this no event is still to come. */
const SETTLED_MS = 3_600_000;

/** Notes the times of the next segment, once it is full; answers whether it did, and there may be another. */
export const noteSegmentOperation = operation(
  'events.noteSegment',
  'write',
  async (tx, { nowMs, events = EVENTS_IN_SEGMENT }: { nowMs: number; events?: number }): Promise<boolean> => {
    const times = (['live', 'sandbox'] as const)
      .flatMap((mode) => ['min', 'max'].map((pick) => `${pick}(CASE WHEN mode = '${mode}' THEN at END)`))
      .join(', ');
    const settled = tx.dialect === 'postgres' ? timeSeqFloor(nowMs - SETTLED_MS) : Number.MAX_SAFE_INTEGER;
    const noted = await tx.run(
      `INSERT INTO event_stretch (last_seq, first_seq, live_from, live_until, sandbox_from, sandbox_until)
       SELECT max(seq), min(seq), ${times} FROM (
         SELECT seq, mode, at FROM event WHERE seq > coalesce((SELECT max(last_seq) FROM event_stretch), -1)
         ORDER BY seq LIMIT ?) AS segment
       HAVING count(*) = ? AND max(seq) < ?
       ON CONFLICT (last_seq) DO NOTHING`,
      events,
      events,
      settled,
    );
    return noted > 0;
  },
);

/** Forgets the segments before the oldest event there is. */
export const forgetSegmentsOperation = operation(
  'events.forgetSegments',
  'write',
  async (tx, _: null): Promise<number> =>
    tx.run('DELETE FROM event_stretch WHERE last_seq < (SELECT seq FROM event ORDER BY seq LIMIT 1)'),
);

/** A part of the log by numbers, both ends included. */
export interface SeqRange {
  from: number;
  to: number;
}

/** The parts of the log, oldest first and at most two, outside of which no event of the mode has a time asked for. */
export async function rangesOfTime(
  tx: Transaction,
  { mode, sinceMs, untilMs }: { mode: Mode; sinceMs: number | null; untilMs: number | null },
): Promise<SeqRange[]> {
  const found = await tx.get<{ first: number | null; last: number | null; noted: number | null }>(
    `SELECT min(CASE WHEN ${mode}_until >= ? AND ${mode}_from <= ? THEN first_seq END) AS first,
       max(CASE WHEN ${mode}_until >= ? AND ${mode}_from <= ? THEN last_seq END) AS last, max(last_seq) AS noted
     FROM event_stretch`,
    sinceMs ?? Number.MIN_SAFE_INTEGER,
    untilMs ?? Number.MAX_SAFE_INTEGER,
    sinceMs ?? Number.MIN_SAFE_INTEGER,
    untilMs ?? Number.MAX_SAFE_INTEGER,
  );
  const { first = null, last = null, noted = null } = found ?? {};
  const open = { from: (noted ?? -1) + 1, to: Number.MAX_SAFE_INTEGER };
  if (first === null || last === null) return [open];
  return last === noted ? [{ from: first, to: open.to }] : [{ from: first, to: last }, open];
}

/** Where the log ends for somebody who follows it: for many accounts at once, so that all who wait cost one look. */
import type { Mode } from '../base/mode.ts';
import { operation } from '../storage/operation.ts';
import { textArray } from '../storage/postgres/arrays.ts';
import { type EventPlace, SETTLED } from './read-store.ts';

export interface LogOwner {
  accountId: string;
  mode: Mode;
}

/** The place before every event. */
export const BEGINNING: EventPlace = { position: 0, seq: 0 };

/**
 * Whether the place lies behind everything that this database ever counted: it is of another one, or of a time that a backup was
 * taken back from. Nobody would notice while following from there, until the count has come to it.
 */
export const isBehindEndOperation = operation(
  'events.isBehindEnd',
  'read',
  async (tx, place: EventPlace): Promise<boolean> => {
    const row = await tx.get<{ last: number }>(
      tx.dialect === 'postgres'
        ? `SELECT (SELECT xid_offset FROM event_order WHERE id = 1)
             + CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT) AS last`
        : "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0) AS last",
    );
    return place.position > (row?.last ?? 0);
  },
);

/** Last places, in the order of the owners; nothing is ever added before them. */
export const latestPlacesOperation = operation(
  'events.latest',
  'read',
  async (tx, owners: LogOwner[]): Promise<EventPlace[]> => {
    if (tx.dialect === 'postgres') {
      const rows = await tx.all<{ position: number | null; seq: number | null }>(
        `SELECT last.position, last.seq
         FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[])) WITH ORDINALITY AS owner (account_id, mode, place)
           LEFT JOIN LATERAL (SELECT v.position, v.seq FROM event v
             WHERE v.account_id = owner.account_id AND v.mode = owner.mode AND ${SETTLED}
             ORDER BY v.position DESC, v.seq DESC LIMIT 1) AS last ON TRUE
         ORDER BY owner.place`,
        textArray(owners.map((one) => one.accountId)),
        textArray(owners.map((one) => one.mode)),
      );
      return rows.map(({ position, seq }) => (position === null || seq === null ? BEGINNING : { position, seq }));
    }
    const places: EventPlace[] = [];
    for (const { accountId, mode } of owners) {
      const row = await tx.get<{ seq: number }>(
        'SELECT seq FROM event WHERE account_id = ? AND mode = ? ORDER BY seq DESC LIMIT 1',
        accountId,
        mode,
      );
      places.push(row ? { position: row.seq, seq: row.seq } : BEGINNING);
    }
    return places;
  },
);

/** Where the log ends for somebody who follows it: for many accounts at once, so that all who wait cost one look. */
import type { Mode } from '../base/mode.ts';
import { operation } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { type EventPlace, logOrder } from './read-store.ts';

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
    const log = logOrder(tx);
    const last = (column: string): string =>
      `(SELECT ${column} FROM event v WHERE v.account_id = owner.account_id AND v.mode = owner.mode AND ${log.settled}
         ORDER BY ${log.order('DESC')} LIMIT 1)`;
    const owner = rowset(
      tx,
      'owner',
      { number: 'int', accountId: 'text', mode: 'text' },
      owners.map((one, number) => ({ number, ...one })),
    );
    const rows = await tx.all<{ position: number | null; seq: number | null }>(
      `SELECT ${last(log.position)} AS position, ${last('v.seq')} AS seq FROM ${owner.sql} ORDER BY owner.number`,
      ...owner.params,
    );
    return rows.map(({ position, seq }) => (position === null || seq === null ? BEGINNING : { position, seq }));
  },
);

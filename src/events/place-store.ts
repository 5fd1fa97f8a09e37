/**
 * Finds the place of an event in the log by its id: clients have ids from webhooks or events and continue after them. The id contains the
 * time of its event, which narrows down the part of the log to search.
 */

import { timeOfId } from '../base/ids.ts';
import type { Owner } from '../base/mode.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { BEGINNING, type EventPage, type EventPlace, logOrder, rangesOfTime } from './read-store.ts';

/** Returns the last place up to this one before which all events are committed; an earlier event may still be committed later. */
async function settledPlace(tx: Transaction, { accountId, mode }: Owner, place: EventPlace): Promise<EventPlace> {
  const log = logOrder(tx);
  const upTo = log.comparePlace('<=', place);
  const found = await tx.get<EventPlace>(
    `SELECT ${log.position} AS position, v.seq FROM event v
     WHERE v.account_id = ? AND v.mode = ? AND ${upTo.sql} AND ${log.settled} ORDER BY ${log.order('DESC')} LIMIT 1`,
    accountId,
    mode,
    ...upTo.params,
  );
  return found ?? BEGINNING;
}

/** Returns the place to continue after the event, in this order; null if the owner has no event with this id. */
export const placeOfEventOperation = operation(
  'events.placeOf',
  'read',
  async (
    tx,
    { id, order, ...owner }: Owner & Pick<EventPage, 'order'> & { id: string },
  ): Promise<EventPlace | null> => {
    const atMs = timeOfId(id);
    if (atMs === undefined) return null;
    const { accountId, mode } = owner;
    for (const { from, to } of await rangesOfTime(tx, { mode, sinceMs: atMs, untilMs: atMs })) {
      const place = await tx.get<EventPlace>(
        `SELECT ${logOrder(tx).position} AS position, v.seq FROM event v
         WHERE v.account_id = ? AND v.mode = ? AND v.seq >= ? AND v.seq <= ? AND v.at = ? AND v.id = ?`,
        accountId,
        mode,
        from,
        to,
        atMs,
        id,
      );
      if (place !== undefined) return order === 'asc' ? settledPlace(tx, owner, place) : place;
    }
    return null;
  },
);

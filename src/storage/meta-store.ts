/**
 * Facts about the database as a whole: short texts under a key.
 *
 * On PostgreSQL, events are ordered by transaction ids, which start again in another cluster. A database that was restored into one has
 * positions that its transactions have not reached yet. The offset between the two is then raised, so that new events come after the
 * existing ones and followers miss nothing.
 */
import { operation, type Transaction } from './operation.ts';

export const metaOperation = operation('meta.get', 'read', async (tx, key: string): Promise<string | null> => {
  const row = await tx.get<{ value: string }>('SELECT value FROM meta WHERE key = ?', key);
  return row?.value ?? null;
});

/** Sets the value unless the key exists; returns the stored value. */
export const metaOnceOperation = operation(
  'meta.setOnce',
  'write',
  async (tx, entry: { key: string; value: string }): Promise<string> => {
    await tx.run('INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING', entry.key, entry.value);
    const row = await tx.get<{ value: string }>('SELECT value FROM meta WHERE key = ?', entry.key);
    return (row as { value: string }).value;
  },
);

export const setMetaOperation = operation('meta.set', 'write', async (tx, entry: { key: string; value: string }) => {
  await tx.run(
    'INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
    ...[entry.key, entry.value],
  );
});

/** Number of events to examine: more than concurrent transactions can have written. */
const LOOKED_AT = 1_000;

/** Returns how far the last events are ahead of the cluster's transactions; 0 or less is normal. */
async function excess(tx: Transaction): Promise<number> {
  const row = await tx.get<{ excess: number | null }>(
    `SELECT max(position) + 1 - (SELECT xid_offset FROM event_order WHERE id = 1)
       - CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT) AS excess
     FROM (SELECT position FROM event ORDER BY seq DESC LIMIT ${LOOKED_AT}) AS last`,
  );
  return row?.excess ?? 0;
}

/** Runs when a server database is opened; returns whether the offset had to be raised. SQLite does not need it. */
export const alignEventOrderOperation = operation('storage.alignEventOrder', 'write', async (tx, _: null) => {
  if (tx.dialect === 'sqlite' || (await excess(tx)) <= 0) return false;
  await tx.get('SELECT xid_offset FROM event_order WHERE id = 1 FOR UPDATE');
  const missing = await excess(tx);
  if (missing > 0) await tx.run('UPDATE event_order SET xid_offset = xid_offset + ?', missing);
  return missing > 0;
});

/** The oldest transaction in progress on the server, which blocks the log of events. */
export interface LogBlocker {
  /** Its id; null if no transaction blocks the log. */
  xid: number | null;
  /** Its database; null if the server hides it, as it does for sessions of other users without pg_read_all_stats. */
  database: string | null;
  /** How long it has been open, in seconds; null if the server hides it. */
  seconds: number | null;
}

/**
 * Reads which transaction blocks the log. Events that were written after it started are read only when it ends. A snapshot has one
 * oldest transaction for all databases of a server, so one in another database blocks the log too.
 */
export const logBlockerOperation = operation('storage.logBlocker', 'read', async (tx, _: null): Promise<LogBlocker> => {
  const none = { xid: null, database: null, seconds: null };
  if (tx.dialect === 'sqlite') return none;
  const row = await tx.get<LogBlocker>(
    `SELECT o.xid, w.database, CAST(floor(date_part('epoch', clock_timestamp() - w.since)) AS BIGINT) AS seconds
     FROM (SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT) AS xid,
       CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT) AS next) o
     LEFT JOIN (
       SELECT backend_xid AS id, datname AS database, xact_start AS since FROM pg_stat_activity
       UNION ALL SELECT transaction, database, prepared FROM pg_prepared_xacts
     ) w ON CAST(CAST(w.id AS TEXT) AS BIGINT) = o.xid % 4294967296
     WHERE o.xid < o.next LIMIT 1`,
  );
  return row ?? none;
});

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

interface Entry {
  key: string;
  value: string;
}

async function setOnce(tx: Transaction, { key, value }: Entry): Promise<string> {
  await tx.run('INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING', key, value);
  const row = await tx.get<{ value: string }>('SELECT value FROM meta WHERE key = ?', key);
  return (row as { value: string }).value;
}

/** Sets the value unless the key exists; returns the stored value. */
export const metaOnceOperation = operation('meta.setOnce', 'write', (tx, entry: Entry) => setOnce(tx, entry));

async function setValue(tx: Transaction, { key, value }: Entry): Promise<void> {
  await tx.run(
    'INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
    key,
    value,
  );
}

export const setMetaOperation = operation('meta.set', 'write', (tx, entry: Entry) => setValue(tx, entry));

/** When a copy of the secret key was last compared with the one in use, in Unix ms. */
export const SECRET_KEY_COMPARED = 'secret-key-compared';

/** The record of the secret key in the database. */
export interface SecretKeyRecord {
  /** An HMAC of the key; null before the first key. */
  check: string | null;
  /** The key of all stored secrets, encrypted with the secret key; null if it is the secret key itself. */
  dataKey: string | null;
}

const CHECK_KEY = 'secret-key-check';
const DATA_KEY = 'data-key';

export const secretKeyOperation = operation('meta.secretKey', 'read', async (tx, _: null): Promise<SecretKeyRecord> => {
  const rows = await tx.all<{ key: string; value: string }>(
    'SELECT key, value FROM meta WHERE key IN (?, ?)',
    CHECK_KEY,
    DATA_KEY,
  );
  const recorded = (key: string): string | null => rows.find((row) => row.key === key)?.value ?? null;
  return { check: recorded(CHECK_KEY), dataKey: recorded(DATA_KEY) };
});

/** Records the first secret key unless there is one; returns the recorded check. */
export const firstSecretKeyOperation = operation('meta.firstSecretKey', 'write', (tx, check: string) =>
  setOnce(tx, { key: CHECK_KEY, value: check }),
);

/** Replaces the secret key that has the check `from`; returns false if another one is recorded. */
export const rotateSecretKeyOperation = operation(
  'meta.rotateSecretKey',
  'write',
  async (tx, { from, to, dataKey }: { from: string; to: string; dataKey: string }): Promise<boolean> => {
    const changed = await tx.run('UPDATE meta SET value = ? WHERE key = ? AND value = ?', to, CHECK_KEY, from);
    if (changed === 0) return false;
    await setValue(tx, { key: DATA_KEY, value: dataKey });
    // The copy that was confirmed is one of the previous key.
    await tx.run('DELETE FROM meta WHERE key = ?', SECRET_KEY_COMPARED);
    return true;
  },
);

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

/**
 * Reads two causes of a slow PostgreSQL server: dead rows that VACUUM cannot remove because something holds an old snapshot, and
 * write-ahead log that a replication slot retains.
 */
import type { Running } from '../base/lifecycle.ts';
import type { Database } from './database.ts';
import { operation } from './operation.ts';

/** The holder of the oldest snapshot. VACUUM keeps all rows that were deleted since. */
export interface SnapshotHolder {
  kind: 'session' | 'prepared transaction' | 'replication slot';
  /** Name of the slot or of the prepared transaction; application and process ID of the session. */
  name: string;
  /** Number of transactions that began since. */
  transactions: number;
}

/** Estimates of the statistics collector. */
export interface TableRows {
  table: string;
  live: number;
  dead: number;
}

export interface SlotRetention {
  slot: string;
  /** 1 while a consumer is connected. */
  active: 0 | 1;
  /** Bytes of write-ahead log that the server keeps for it. */
  retainedBytes: number;
}

export interface ServerHealth {
  /** Null if there is none, or if the server hides it: sessions of other users are visible with pg_read_all_stats only. */
  holder: SnapshotHolder | null;
  tables: TableRows[];
  slots: SlotRetention[];
}

/** Reads the health of a PostgreSQL server; null for SQLite, which has none of these. */
export const serverHealthOperation = operation(
  'storage.serverHealth',
  'read',
  async (tx, _: null): Promise<ServerHealth | null> => {
    if (tx.dialect === 'sqlite') return null;
    const holder = await tx.get<SnapshotHolder>(
      `SELECT kind, name, CAST(age AS BIGINT) AS transactions FROM (
         SELECT 'session' AS kind, concat_ws(' ', nullif(application_name, ''), 'pid ' || pid) AS name, age(backend_xmin) AS age
         FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
         UNION ALL SELECT 'prepared transaction', gid, age(transaction) FROM pg_prepared_xacts
         UNION ALL SELECT 'replication slot', CAST(slot_name AS TEXT), greatest(age(xmin), age(catalog_xmin))
         FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
       ) AS holder ORDER BY age DESC LIMIT 1`,
    );
    const tables = await tx.all<TableRows>(
      `SELECT CAST(relname AS TEXT) AS "table", n_live_tup AS live, n_dead_tup AS dead FROM pg_stat_user_tables
       WHERE schemaname = current_schema() ORDER BY relname`,
    );
    const slots = await tx.all<SlotRetention>(
      `SELECT CAST(slot_name AS TEXT) AS slot, CAST(active AS INT) AS active,
         CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS BIGINT) AS "retainedBytes"
       FROM pg_replication_slots WHERE restart_lsn IS NOT NULL ORDER BY slot_name`,
    );
    return { holder: holder ?? null, tables, slots };
  },
);

const CHECK_MS = 60_000;

interface HealthWatch extends Running {
  /** Undefined with SQLite, on other nodes than the chosen one, and before the first look. */
  health(): ServerHealth | undefined;
}

/** Reads the health of the server once a minute on the chosen node, for the metrics. */
export function startHealthWatch({ database, isChosen }: { database: Database; isChosen(): boolean }): HealthWatch {
  let health: ServerHealth | undefined;
  if (database.dialect === 'sqlite') return { health: () => undefined, stop: async () => undefined };
  const look = async (): Promise<void> => {
    health = (isChosen() && (await database.execute(serverHealthOperation, null))) || undefined;
  };
  let looking: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    if (database.state().ready) looking = look().catch(() => undefined);
  }, CHECK_MS);
  timer.unref();
  return {
    health: () => health,
    stop: async () => {
      clearInterval(timer);
      await looking;
    },
  };
}

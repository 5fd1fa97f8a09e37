/**
 * A real, migrated database: the embedded one with its real threads, in its own directory, or one on a real PostgreSQL. close() closes and
 * removes it.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { silentLog } from '../../src/base/log.ts';
import { makePartitions } from '../../src/messages/partition-store.ts';
import type { Database } from '../../src/storage/database.ts';
import { connectPostgres } from '../../src/storage/postgres/connection.ts';
import { openPostgresDatabase } from '../../src/storage/postgres/database.ts';
import { migratePostgres } from '../../src/storage/postgres/migrate.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { embeddedDatabase } from './embedded-database.ts';
import { preparedPostgres } from './temp-postgres.ts';

export type Dialect = Database['dialect'];
export const DIALECTS: readonly Dialect[] = ['sqlite', 'postgres'];

export interface TempDatabase {
  database: Database;
  /** A data directory; it contains the embedded database. */
  folder: string;
  /** URL of a database on a server. */
  url: string | undefined;
  /** Removes all rows. */
  empty(): Promise<void>;
  close(): Promise<void>;
}

/** `through` connects to the server by another way than its own port, for example a pooler. */
export async function tempDatabase(
  dialect: Dialect = 'sqlite',
  through: (url: string) => string = (url) => url,
): Promise<TempDatabase> {
  if (dialect === 'sqlite') return { ...(await embeddedDatabase()), url: undefined };
  const folder = await mkdtemp(path.join(os.tmpdir(), 'postrider-test-'));
  const { drop, ...opened } = await openServer(through);
  return {
    ...opened,
    folder,
    close: async () => {
      await opened.database.close();
      await drop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

interface Opened {
  database: Database;
  url: string;
  empty(): Promise<void>;
  drop(): Promise<void>;
}

async function migrate(url: string): Promise<void> {
  const address = parsePostgresUrl(url);
  await migratePostgres({ address, log: silentLog, nowMs: Date.now() });
  const database = await openPostgresDatabase({ address, log: silentLog });
  await makePartitions(database, { nowMs: Date.now() });
  await database.close();
}

async function openServer(through: (url: string) => string): Promise<Opened> {
  const made = await preparedPostgres(migrate);
  const url = through(made.url);
  const address = parsePostgresUrl(url);
  const empty = async (): Promise<void> => {
    const { client, destroy } = await connectPostgres(address);
    try {
      const { rows } = await client.query<{ name: string }>(
        `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
           AND NOT relispartition AND relname NOT IN ('migration', 'event_order')`,
      );
      const deletions = rows.map(({ name }) => `DELETE FROM ${name};`).join(' ');
      await client.query(`BEGIN; SET LOCAL session_replication_role = replica; ${deletions} COMMIT`);
    } finally {
      destroy();
    }
  };
  const database = await openPostgresDatabase({ address, log: silentLog });
  return { database, url, empty, drop: made.drop };
}

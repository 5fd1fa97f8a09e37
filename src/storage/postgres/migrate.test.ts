/** Migrations of PostgreSQL while another node uses the tables. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { type TempPostgres, tempPostgres } from '../../../test/kit/temp-postgres.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { silentLog } from '../../base/log.ts';
import { listMigrations } from '../migrate.ts';
import { migratePostgres } from './migrate.ts';
import { parsePostgresUrl } from './url.ts';

/** Locks account, then user_session. */
const LOCKS_TWO_TABLES = 55;

let postgres: TempPostgres;

before(async () => {
  postgres = await tempPostgres();
});
after(() => postgres.drop());

test('a migration that deadlocks with a node of the earlier version is tried again', async (t) => {
  const node = new pg.Client({ connectionString: postgres.url });
  await node.connect();
  t.after(() => node.end());
  await node.query(
    'CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)',
  );
  for (const { number, name, sql } of listMigrations('postgres').slice(0, LOCKS_TWO_TABLES - 1)) {
    await node.query(sql);
    await node.query('INSERT INTO migration VALUES ($1, $2, 0)', [number, name]);
  }
  // The server ends the transaction whose wait it examines first. This must be the migration.
  await node.query("BEGIN; SET LOCAL deadlock_timeout = '60s'");
  await node.query('SELECT count(*) FROM user_session');
  const warnings: unknown[] = [];
  const log = { ...silentLog, warn: (fields: unknown) => warnings.push(fields) } as unknown as typeof silentLog;
  const migrated = migratePostgres({ address: parsePostgresUrl(postgres.url), log, nowMs: 1 });
  await waitUntil('the migration to wait for user_session', async () => {
    const { rows } = await node.query(
      "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'user_session'::regclass",
    );
    return rows.length > 0;
  });
  await node.query('SELECT count(*) FROM account');
  await node.query('COMMIT');

  const names = listMigrations('postgres').map(({ name }) => name);
  assert.deepEqual(await migrated, names.slice(LOCKS_TWO_TABLES - 1));
  assert.deepEqual(warnings, [{ error: 'deadlock detected' }]);
});

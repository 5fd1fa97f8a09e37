/** Opening a server database whose tables are locked. */
import assert from 'node:assert/strict';
import os from 'node:os';
import test from 'node:test';
import pg from 'pg';
import { tempPostgres } from '../../test/kit/temp-postgres.ts';
import { systemClock } from '../base/clock.ts';
import { type Log, silentLog } from '../base/log.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import { parsePostgresUrl } from '../storage/postgres/url.ts';
import { openDatabase } from './open-database.ts';

test("a dump that locks the tables does not block a start if next week's partition exists", async (t) => {
  const { url, drop } = await tempPostgres();
  t.after(drop);
  const warnings: string[] = [];
  const open = () =>
    openDatabase({
      config: { databaseUrl: parsePostgresUrl(url) },
      directory: dataDirectory(os.tmpdir()),
      clock: systemClock,
      log: { ...silentLog, warn: (_: unknown, text: string) => warnings.push(text) } as unknown as Log,
      onBroken: () => undefined,
    });
  await (await open()).close();
  const dump = new pg.Client({ connectionString: url });
  dump.on('error', () => undefined);
  await dump.connect();
  t.after(() => dump.end());
  const { rows } = await dump.query("SELECT relname FROM pg_class WHERE relname ~ '^event_[0-9]{8}$' ORDER BY relname");
  assert.ok(rows.length > 5);
  await dump.query(`DROP TABLE ${rows.at(-1).relname}`);
  await dump.query('BEGIN');
  await dump.query('LOCK TABLE event, event_rest IN ACCESS SHARE MODE');
  await (await open()).close();
  assert.deepEqual(warnings, ['partitions not created at startup; housekeeping will create them']);
  await dump.query('ROLLBACK');
  await (await open()).close();
  assert.equal(warnings.length, 1);
  const after = await dump.query("SELECT relname FROM pg_class WHERE relname ~ '^event_[0-9]{8}$' ORDER BY relname");
  assert.deepEqual(after.rows, rows);
});

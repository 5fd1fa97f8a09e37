/** A transaction in another database of the server blocks the event log, and is measured and reported. */
import assert from 'node:assert/strict';
import test from 'node:test';
import pg from 'pg';
import { writeOperation } from '../../test/kit/storage-operations.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { type Log, silentLog } from '../base/log.ts';
import { logBlockerOperation } from '../storage/meta-store.ts';
import { LAG_WARN_SECONDS, startLogLag } from './log-lag.ts';

test('a transaction in another database is measured, and logged once', async (t) => {
  const [here, elsewhere] = [await tempDatabase('postgres'), await tempDatabase('postgres')];
  t.after(here.close);
  t.after(elsewhere.close);
  const other = new pg.Client({ connectionString: elsewhere.url! });
  await other.connect();
  await other.query('BEGIN');
  const { rows } = await other.query('SELECT pg_current_xact_id()::text AS xid, current_database() AS name');
  // Nothing is blocked until a later transaction has ended.
  await here.database.execute(writeOperation, 'later');
  // Test files that share the server may have older transactions open for a moment.
  await waitUntil('the transaction to be the oldest', async () => {
    const { xid } = await here.database.execute(logBlockerOperation, null);
    return String(xid) === rows[0].xid;
  });
  assert.equal((await here.database.execute(logBlockerOperation, null)).database, rows[0].name);
  const warned: object[] = [];
  let nowMs = 1_000_000;
  const log = { ...silentLog, warn: (facts: object) => warned.push(facts) } as unknown as Log;
  const lag = startLogLag({ database: here.database, log, elapsedMs: () => nowMs, everyMs: 1_000_000 });
  t.after(() => lag.stop());
  await lag.look();
  assert.equal(warned.length, 0);
  nowMs += LAG_WARN_SECONDS * 1_000;
  await lag.look();
  await lag.look();
  assert.equal(warned.length, 1);
  assert.ok(lag.seconds() >= LAG_WARN_SECONDS);
  await other.query('ROLLBACK');
  await other.end();
  await waitUntil('the log to be unblocked', async () => {
    await lag.look();
    return lag.seconds() < LAG_WARN_SECONDS;
  });
});

test('the embedded database never has such a transaction', async (t) => {
  const { database, close } = await tempDatabase('sqlite');
  t.after(close);
  assert.equal((await database.execute(logBlockerOperation, null)).xid, null);
});

/** Doctor finds what prevents VACUUM from removing rows on a real server, and reports how to fix it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { checkDatabaseServer } from '../doctor/database-server.ts';
import { setMetaOperation } from './meta-store.ts';
import { type ServerHealth, serverHealthOperation } from './server-health.ts';

const WRITES = 60;

test('finds a session with an old snapshot, dead rows, and a replication slot', async (t) => {
  const { database, url, close } = await tempDatabase('postgres');
  const other = new pg.Client({ connectionString: url!, application_name: 'nightly-report' });
  await other.connect();
  const slot = `postrider_test_${process.pid}`;
  await other.query('SELECT pg_create_physical_replication_slot($1, true)', [slot]);
  // The slot belongs to the server, which test files share.
  t.after(async () => {
    await other.query('SELECT pg_drop_replication_slot($1)', [slot]);
    await other.end();
    await close();
  });
  await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await other.query('SELECT 1 FROM meta');
  for (let written = 0; written < WRITES; written += 1)
    await database.execute(setMetaOperation, { key: 'test', value: String(written) });

  const health = async (): Promise<ServerHealth> => (await database.execute(serverHealthOperation, null))!;
  const { holder, slots } = await health();
  assert.equal(holder!.kind, 'session');
  assert.ok(holder!.transactions >= WRITES, String(holder!.transactions));
  assert.ok(
    slots.some((one) => one.slot === slot && one.active === 0 && one.retainedBytes >= 0),
    JSON.stringify(slots),
  );
  await other.query('ROLLBACK');
  // The statistics of a session are updated within a second.
  await waitUntil('the dead rows', async () => (await health()).tables.some(({ dead }) => dead > 0));
});

test('the embedded database has none of these', async (t) => {
  const { database, close } = await tempDatabase('sqlite');
  t.after(close);
  assert.equal(await database.execute(serverHealthOperation, null), null);
  assert.deepEqual(checkDatabaseServer(null), []);
});

test('doctor warns about causes of a slow queue with the command that fixes them', () => {
  const healthy: ServerHealth = {
    holder: { kind: 'session', name: 'pg_dump pid 7', transactions: 4_000 },
    tables: [{ table: 'work', live: 10, dead: 900_000 }],
    slots: [{ slot: 'standby', active: 1, retainedBytes: 1e9 }],
  };
  const findings = (changes: Partial<ServerHealth>): string[] =>
    checkDatabaseServer({ ...healthy, ...changes }).map(({ status, message, remedy }) =>
      [status, message, remedy].join('; '),
    );
  assert.deepEqual(findings({}), ['ok; the tables have 900000 dead rows, and nothing holds an old snapshot; ']);
  const [session] = findings({ holder: { kind: 'session', name: 'report pid 7', transactions: 9_000_000 } });
  assert.match(
    session!,
    /^warn; the session report pid 7 has held a snapshot for 9\.0 million transactions.*pg_terminate_backend/,
  );
  const [prepared] = findings({ holder: { kind: 'prepared transaction', name: 'tx1', transactions: 9_000_000 } });
  assert.match(prepared!, /ROLLBACK PREPARED 'tx1'/);
  const [slot] = findings({ holder: { kind: 'replication slot', name: 'cdc', transactions: 9_000_000 } });
  assert.match(slot!, /pg_drop_replication_slot\('cdc'\)/);
  const tables = [
    { table: 'event', live: 9_000_000, dead: 2_000_000 },
    { table: 'work', live: 5_000, dead: 3_200_000 },
  ];
  assert.match(
    findings({ tables })[0]!,
    /^warn; the table work has 3\.2 million dead rows and 0\.0 million live rows.*VACUUM work/,
  );
  const retained = findings({ slots: [{ slot: 'cdc', active: 0, retainedBytes: 42e9 }] });
  assert.match(retained[0]!, /^warn; the inactive slot cdc retains 42 GB/);
});

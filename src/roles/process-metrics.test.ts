/** Metrics of operations and of the connections to a PostgreSQL server. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { preparedPostgres } from '../../test/kit/temp-postgres.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { silentLog } from '../base/log.ts';
import { createMetrics } from '../base/metrics.ts';
import { VERSION } from '../config.ts';
import { DELIVERY_WORK } from '../messages/messages.ts';
import { operation } from '../storage/operation.ts';
import { openPostgresDatabase } from '../storage/postgres/database.ts';
import { migratePostgres } from '../storage/postgres/migrate.ts';
import { parsePostgresUrl } from '../storage/postgres/url.ts';
import { backlogOperation } from '../work/work.ts';
import { measureBuild, measureDatabase } from './process-metrics.ts';

const NAME = 'postrider_database_operation_duration_seconds';

async function sampleOf(metrics: ReturnType<typeof createMetrics>, sample: string): Promise<number | undefined> {
  const line = (await metrics.text()).split('\n').find((one) => one.startsWith(`${sample} `));
  return line === undefined ? undefined : Number(line.slice(sample.length + 1));
}

test('the versions are labels of a gauge that is always 1', async () => {
  const metrics = createMetrics();
  measureBuild(metrics);
  assert.equal(
    await sampleOf(metrics, `postrider_build_info{version="${VERSION}",node="${process.versions.node}"}`),
    1,
  );
});

test('each operation on the embedded database is counted once by mode, without pool metrics', async (t) => {
  const { database, close } = await tempDatabase();
  t.after(close);
  const metrics = createMetrics();
  const measured = measureDatabase(database, metrics);
  for (let n = 0; n < 3; n += 1) await measured.execute(backlogOperation, DELIVERY_WORK);
  assert.equal(await sampleOf(metrics, `${NAME}_count{mode="read"}`), 3);
  assert.equal(await sampleOf(metrics, `${NAME}_bucket{mode="read",le="+Inf"}`), 3);
  assert.equal(await sampleOf(metrics, `${NAME}_count{mode="write"}`), 0);
  assert.doesNotMatch(await metrics.text(), /postrider_database_pool/);
});

test('PostgreSQL connections are idle, in use, or waited for, and failed operations are counted', async (t) => {
  const postgres = await preparedPostgres(async (url) => {
    await migratePostgres({ address: parsePostgresUrl(url), log: silentLog, nowMs: Date.now() });
  });
  const address = parsePostgresUrl(postgres.url);
  const database = await openPostgresDatabase({ address, log: silentLog, poolSize: 1 });
  t.after(async () => {
    await database.close();
    await postgres.drop();
  });
  const metrics = createMetrics();
  const measured = measureDatabase(database, metrics);
  const pool = async (): Promise<(number | undefined)[]> => [
    await sampleOf(metrics, 'postrider_database_pool_max_connections'),
    await sampleOf(metrics, 'postrider_database_pool_connections{state="in-use"}'),
    await sampleOf(metrics, 'postrider_database_pool_connections{state="idle"}'),
    await sampleOf(metrics, 'postrider_database_pool_waiting_operations'),
  ];
  assert.deepEqual(await pool(), [1, 0, 1, 0]);
  const gate = Promise.withResolvers<void>();
  const hold = operation('poolMetrics.hold', 'read', async () => {
    await gate.promise;
    return 1;
  });
  const fail = operation('poolMetrics.fail', 'write', (tx) => tx.get('SELECT 1 FROM nothing_of_this_name'));
  const both = [measured.execute(hold, null), measured.execute(hold, null)];
  await waitUntil('the second operation to wait', async () => (await pool())[3] === 1);
  assert.deepEqual(await pool(), [1, 1, 0, 1]);
  gate.resolve();
  assert.deepEqual(await Promise.all(both), [1, 1]);
  await assert.rejects(measured.execute(fail, null), /nothing_of_this_name/);
  assert.deepEqual(await pool(), [1, 0, 1, 0]);
  assert.equal(await sampleOf(metrics, `${NAME}_count{mode="read"}`), 2);
  assert.equal(await sampleOf(metrics, `${NAME}_count{mode="write"}`), 1);
});

/** PostgreSQL through PgBouncer in transaction mode: everything works except for notifications between nodes. */

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import '../../src/roles/operations.ts';
import type { Log } from '../../src/base/log.ts';
import { silentLog } from '../../src/base/log.ts';
import { eachCall } from '../../src/storage/operation.ts';
import { connectPostgres } from '../../src/storage/postgres/connection.ts';
import { openPostgresDatabase } from '../../src/storage/postgres/database.ts';
import { openPostgresHints } from '../../src/storage/postgres/hints.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { scenarios } from '../contract/scenarios.ts';
import { closeAll, compare, provide } from '../contract/stage.ts';
import { missing } from '../kit/requirements.ts';
import { seedMail } from '../kit/seed-mail.ts';
import { type TempDatabase, tempDatabase } from '../kit/temp-database.ts';
import { postgresServer } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type PrivatePgBouncer, startPgBouncer } from './private-pgbouncer.ts';

const skip = missing('pgbouncer');
let bouncer: PrivatePgBouncer;
let temp: TempDatabase;

before(async () => {
  if (skip) return;
  bouncer = await startPgBouncer({ serverPort: (await postgresServer()).port, serverConnections: 3 });
  temp = await tempDatabase('postgres', bouncer.through);
  provide('postgres through a pooler', temp);
});
after(async () => {
  if (skip) return;
  await closeAll();
  await bouncer.stop();
});

for (const [name, scenario] of Object.entries(scenarios)) {
  test(name, { skip }, () => compare(scenario, ['sqlite', 'postgres through a pooler']));
}

test('it is detected, and no prepared statement is left in a shared session', { skip }, async () => {
  const connection = await connectPostgres(parsePostgresUrl(temp.url!));
  assert.equal(connection.direct, false);
  const { rows } = await connection.client.query('SELECT count(*) AS n FROM pg_prepared_statements');
  assert.deepEqual(rows, [{ n: 0 }]);
  connection.destroy();
});

test('many connections over few sessions: each message is claimed once', { skip }, async (t) => {
  t.after(() => temp.empty());
  const address = parsePostgresUrl(temp.url!);
  const nodes = [temp.database, await openPostgresDatabase({ address, log: silentLog })];
  t.after(() => nodes[1]!.close());
  await Promise.all(Array.from({ length: 200 }, (_, i) => seedMail(nodes[i % 2]!, { accountId: 'acc_1' })));
  const taken: string[] = [];
  const claimAll = async (index: number): Promise<void> => {
    for (;;) {
      const request = { nowMs: Date.now(), leaseMs: 60_000, limit: 7, quarantined: false };
      const { jobs } = await nodes[index % 2]!.execute(claimOperation, request);
      if (jobs.length === 0) return;
      taken.push(...jobs.map((job) => job.messageId));
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, i) => claimAll(i)));
  assert.equal(taken.length, 200);
  assert.equal(new Set(taken).size, 200);
});

test('session state of another client does not weaken a commit', { skip }, async (t) => {
  const leavers = await Promise.all([1, 2, 3].map(() => connectPostgres(parsePostgresUrl(temp.url!))));
  t.after(() => {
    for (const one of leavers) one.destroy();
  });
  // As a careless client of the same pooler might do; all three sessions are held at the same time, so that each gets it.
  await Promise.all(
    leavers.map((one) => one.client.query('BEGIN; SELECT pg_sleep(0.1); COMMIT; SET synchronous_commit = off')),
  );
  const { rows } = await leavers[0]!.client.query("SELECT current_setting('synchronous_commit') AS level");
  assert.equal((rows[0] as { level: string }).level, 'off', 'control: it stays in the session');
  const levels = await Promise.all(
    Array.from({ length: 10 }, () =>
      temp.database.execute(
        {
          name: 'test.level',
          mode: 'write',
          run: eachCall((tx) => tx.get<{ level: string }>("SELECT current_setting('synchronous_commit') AS level")),
        },
        null,
      ),
    ),
  );
  assert.deepEqual([...new Set(levels.map((row) => row!.level))], ['on']);
  await Promise.all(
    leavers.map((one) => one.client.query('BEGIN; SELECT pg_sleep(0.1); COMMIT; RESET synchronous_commit')),
  );
});

test('nodes fall back to polling without waiting for notifications', { skip }, async () => {
  const told: string[] = [];
  const log = { ...silentLog, info: (text: string) => told.push(text) } as unknown as Log;
  const hints = openPostgresHints({ address: parsePostgresUrl(temp.url!), log });
  await waitUntil('the pooler to be detected', () => told.length > 0);
  hints.notify('delivery');
  await hints.stop();
  assert.match(told[0]!, /polling only/);
});

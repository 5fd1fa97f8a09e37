/** One of several hosts goes silent, as when it loses power: the pool moves to the host that accepts writes. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { silentProxy } from '../../../test/kit/silent-proxy.ts';
import { countOperation, writeOperation } from '../../../test/kit/storage-operations.ts';
import { tempPostgres } from '../../../test/kit/temp-postgres.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { silentLog } from '../../base/log.ts';
import { eachCall, type Transaction } from '../operation.ts';
import { openPostgresDatabase } from './database.ts';
import { migratePostgres } from './migrate.ts';
import { parsePostgresUrl } from './url.ts';

async function openBoth(t: TestContext, silentMs: number) {
  const { url, server, drop } = await tempPostgres();
  t.after(drop);
  await migratePostgres({ address: parsePostgresUrl(url), log: silentLog, nowMs: 1 });
  const [first, second] = [await silentProxy(server.port), await silentProxy(server.port)];
  t.after(() => Promise.all([first.close(), second.close()]));
  const both = url.replace(/@[^/]*/, `@127.0.0.1:${first.port},127.0.0.1:${second.port}`);
  const database = await openPostgresDatabase({ address: parsePostgresUrl(both), log: silentLog, silentMs });
  t.after(() => database.close());
  return { database, first, second };
}

test('transactions on a silent host end when another host accepts writes', async (t) => {
  const { database, first, second } = await openBoth(t, 2_000);
  // Several connections, all of which are idle when the host goes silent. One that still opens would fail with another error.
  await Promise.all(Array.from({ length: 4 }, (_, at) => database.execute(countOperation, `none${at}`)));
  await database.execute(writeOperation, 'before');
  await waitUntil('the connections to be idle', () => {
    const { inUse, idle } = database.pool!();
    return inUse === 0 && idle >= 2;
  });
  assert.equal(second.connections, 0, 'the first host is used');
  first.silence('all');
  const cut = await Promise.allSettled([
    database.execute(writeOperation, 'cut1'),
    database.execute(countOperation, 'cut2'),
  ]);
  for (const one of cut) {
    assert.equal(one.status, 'rejected');
    assert.match(String((one as PromiseRejectedResult).reason.message), /another host accepts writes/);
  }
  await database.execute(writeOperation, 'after');
  assert.equal((await database.execute(countOperation, 'after'))!.n, 1);
  assert.ok(second.connections > 0, 'the second host is used');
  assert.equal(database.state().ready, true);
});

test('a long transaction continues if its host still accepts writes', async (t) => {
  const { database, first, second } = await openBoth(t, 200);
  const long = {
    name: 'test.long',
    mode: 'write' as const,
    run: eachCall(async (tx: Transaction) => {
      for (let turn = 0; turn < 10; turn += 1) await tx.get('SELECT 1 FROM pg_sleep(0.1)');
      await waitUntil('the pool to look at both hosts', () => second.connections > 0 && first.connections > 1);
      return 'done';
    }),
  };
  assert.equal(await database.execute(long, null), 'done');
});

/** PostgreSQL as a database: what is kept of a transaction, the effect of a lost server, and which servers are rejected. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import pg from 'pg';
import { commitCut } from '../../../test/kit/commit-cut.ts';
import { freePort } from '../../../test/kit/free-ports.ts';
import { runningMs } from '../../../test/kit/running-time.ts';
import { countOperation, failOperation, writeOperation } from '../../../test/kit/storage-operations.ts';
import { tempDatabase } from '../../../test/kit/temp-database.ts';
import { ownPostgresServer, serverIsOurs, tempPostgres } from '../../../test/kit/temp-postgres.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { OutcomeUnknown, Unavailable } from '../../base/failure.ts';
import { type Log, silentLog } from '../../base/log.ts';
import type { Database } from '../database.ts';
import { listMigrations } from '../migrate.ts';
import { eachCall, type Operation, type Transaction } from '../operation.ts';
import { assertCommitIsDurable, connectPostgres } from './connection.ts';
import { openPostgresDatabase } from './database.ts';
import { classifyCommitError } from './errors.ts';
import { migratePostgres, recordedPostgres } from './migrate.ts';
import { parsePostgresUrl } from './url.ts';

ownPostgresServer();

function write<A, R>(run: (tx: Transaction, args: A) => Promise<R> | R): Operation<A, R> {
  return { name: 'test.once', mode: 'write', run: eachCall(run) };
}

async function administer(url: string, sql: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function open(t: TestContext, url: string): Promise<Database> {
  const database = await openPostgresDatabase({ address: parsePostgresUrl(url), log: silentLog });
  t.after(() => database.close());
  return database;
}

const count = async (database: Database, prefix: string): Promise<number> =>
  (await database.execute(countOperation, prefix))!.n;

test('an operation that throws is rolled back and does not affect others', async (t) => {
  const { database, close } = await tempDatabase('postgres');
  t.after(close);
  const results = await Promise.allSettled([
    database.execute(writeOperation, 'a1'),
    database.execute(failOperation, 'a2'),
    database.execute(writeOperation, 'a3'),
    database.execute(writeOperation, 'a4'),
  ]);
  assert.deepEqual(
    results.map((one) => one.status),
    ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  );
  assert.equal(await count(database, 'a'), 3);
  await assert.rejects(database.execute(writeOperation, 'a1'), /test\.write: duplicate key/);
});

test('an error of an unawaited statement rejects and rolls back the operation', async (t) => {
  const { database, close } = await tempDatabase('postgres');
  t.after(close);
  const careless = write(async (tx, key: string) => {
    void tx.run('INSERT INTO meta (key, value) VALUES (?, ?)', key, '');
    void tx.run('INSERT INTO meta (key, value) VALUES (?, NULL)', `${key}2`);
    return 'done';
  });
  await assert.rejects(database.execute(careless, 'c'), /null value in column "value"/);
  assert.equal(await count(database, 'c'), 0);
  const late = write((tx) => {
    setTimeout(() => assert.throws(() => tx.run('SELECT 1'), /after its operation had ended/), 20);
    return 1;
  });
  assert.equal(await database.execute(late, null), 1);
  await new Promise((resolve) => setTimeout(resolve, 30));
});

test('operations rolled back by conflicts are retried a bounded number of times', async (t) => {
  const { database, close } = await tempDatabase('postgres');
  t.after(close);
  for (const code of ['40001', '40P01', '23505']) {
    let runs = 0;
    const unlucky = write(async (tx, key: string) => {
      runs += 1;
      await tx.run('INSERT INTO meta (key, value) VALUES (?, ?)', key, '');
      if (runs < 3) await tx.run(`DO $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '${code}'; END $$`);
      return runs;
    });
    assert.equal(await database.execute(unlucky, `r${code}`), 3);
  }
  assert.equal(await count(database, 'r'), 3);
  let runs = 0;
  const hopeless = write(async (tx) => {
    runs += 1;
    await tx.run(`DO $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '40001'; END $$`);
  });
  await assert.rejects(database.execute(hopeless, null), Unavailable);
  assert.ok(runs > 3 && runs < 10, `${runs} runs`);
});

test('a failing call in a group is isolated, and the others succeed', async (t) => {
  const { database, close } = await tempDatabase('postgres');
  t.after(close);
  let groups = 0;
  const one = async (tx: Transaction, key: string): Promise<string> => {
    if (key.endsWith('bad')) throw new Error('a bad one');
    await tx.run('INSERT INTO meta (key, value) VALUES (?, ?)', key, '');
    return key;
  };
  const op: Operation<string, string> = {
    name: 'test.together',
    mode: 'write',
    isSet: true,
    run: (tx, keys) => {
      groups += 1;
      return eachCall(one)(tx, keys);
    },
  };
  const good = Array.from({ length: 20 }, (_, index) => `g${index}`);
  assert.deepEqual(await Promise.all(good.map((key) => database.execute(op, key))), good);
  assert.ok(groups <= 2, `${groups} transactions for 20 calls`);
  const mixed = await Promise.allSettled(['h1', 'hbad', 'h2'].map((key) => database.execute(op, key)));
  assert.deepEqual(
    mixed.map((result) => result.status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.equal(await count(database, 'h'), 2);
});

test('NUL, which PostgreSQL does not store, does not fail an operation', async (t) => {
  const { database, close } = await tempDatabase('postgres');
  t.after(close);
  await database.execute(writeOperation, 'n\0ul');
  assert.equal(await count(database, 'n\uFFFDul'), 1);
});

test('a closed connection rejects only its own operation', async (t) => {
  const { database, url, close } = await tempDatabase('postgres');
  t.after(close);
  const held = database.execute(
    write(async (tx) => {
      await tx.run('INSERT INTO meta (key, value) VALUES (?, ?)', 'k1', '');
      await tx.get('SELECT pg_sleep(20)');
    }),
    null,
  );
  const refused = assert.rejects(held, Unavailable);
  await waitUntil('the operation to wait', async () => {
    const { rowCount } = await administer(
      url!,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep%'
         AND pid <> pg_backend_pid() AND wait_event = 'PgSleep'`,
    );
    return rowCount === 1;
  });
  await refused;
  await database.execute(writeOperation, 'k2');
  assert.equal(await count(database, 'k'), 1);
  assert.equal(database.state().ready, true);
});

test('a commit without a reply has an unknown outcome and is never rerun, alone or in a group', async (t) => {
  const { url, drop } = await tempPostgres();
  t.after(drop);
  await migratePostgres({ address: parsePostgresUrl(url), log: silentLog, nowMs: 1 });
  const proxy = await commitCut(url);
  t.after(() => proxy.close());
  const database = await open(t, proxy.url);
  const isReady = (): boolean => database.state().ready;
  await database.execute(writeOperation, 'u1');
  proxy.loseAnswer('');
  await assert.rejects(database.execute(writeOperation, 'u2'), OutcomeUnknown);
  await waitUntil('the database to be ready', isReady);
  const unawaited = write((tx, key: string) => void tx.run('INSERT INTO meta (key, value) VALUES (?, ?)', key, ''));
  proxy.loseAnswer('');
  await assert.rejects(database.execute(unawaited, 'u3'), OutcomeUnknown);
  await waitUntil('the database to be ready', isReady);
  const together: Operation<string, number> = {
    ...writeOperation,
    name: 'test.writeTogether',
    isSet: true,
  };
  proxy.loseAnswer('');
  const group = await Promise.allSettled(['u4', 'u5', 'u6'].map((key) => database.execute(together, key)));
  for (const one of group) assert.ok(one.status === 'rejected' && one.reason instanceof OutcomeUnknown);
  await waitUntil('the database to be ready', isReady);
  await database.execute(writeOperation, 'u7');
  assert.equal(proxy.lost, 3);
  // The server did commit. An operation that ran again would conflict with its own row.
  await waitUntil('the commits', async () => (await count(database, 'u')) === 7);
});

test('a failure before COMMIT or of a read is an outage, not an unknown outcome', async (t) => {
  const { database, url, close } = await tempDatabase('postgres');
  t.after(close);
  const isPlain = (error: unknown): boolean => error instanceof Unavailable && !(error instanceof OutcomeUnknown);
  const endSelf = 'DO $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); END $$';
  await assert.rejects(
    database.execute(
      write(async (tx) => {
        await tx.run(endSelf);
      }),
      null,
    ),
    isPlain,
  );
  await assert.rejects(
    database.execute(
      write((tx) => void tx.run(endSelf)),
      null,
    ),
    isPlain,
  );
  const proxy = await commitCut(url!);
  t.after(() => proxy.close());
  const through = await open(t, proxy.url);
  proxy.loseAnswer('');
  await assert.rejects(through.execute(countOperation, 'x'), isPlain);
  // Rejected by the server itself: its transaction is rolled back, even if the reply to the COMMIT is lost.
  await waitUntil('the database to be ready', () => through.state().ready);
  proxy.loseAnswer('');
  const refused = write(async (tx) => {
    await Promise.resolve(tx.run('INSERT INTO meta (key, value) VALUES (?, NULL)', 'x')).catch(() => undefined);
  });
  await assert.rejects(through.execute(refused, null), /null value in column "value"/);
  assert.equal(proxy.lost, 2);
});

test('classifies replies of a server or pooler to a COMMIT', () => {
  const judged = (code: string, severity: string): boolean | undefined =>
    classifyCommitError({ code, severity, message: 'as told' }).isOutcomeUnknown;
  for (const code of ['40001', '23505', '53100', '55P03', '57014'])
    assert.equal(judged(code, 'ERROR'), undefined, code);
  for (const code of ['57P01', '57P02', '40001']) assert.equal(judged(code, 'FATAL'), true, code);
  for (const code of ['08P01', '08006', '08007', '40003']) assert.equal(judged(code, 'ERROR'), true, code);
  assert.equal(classifyCommitError(new Error('read ECONNRESET')).isOutcomeUnknown, true);
});

test('Postrider waits for a restarting server and continues', { skip: !serverIsOurs }, async (t) => {
  const { database, url, close } = await tempDatabase('postgres');
  const { server } = await tempPostgres();
  t.after(close);
  await database.execute(writeOperation, 's1');
  await server.stopServer('immediate');
  await assert.rejects(database.execute(writeOperation, 's2'), Unavailable);
  await waitUntil('the outage to be noticed', () => database.state().reason === 'the database cannot be reached');
  assert.deepEqual(database.state(), { ready: false, reason: 'the database cannot be reached' });
  const began = runningMs();
  await assert.rejects(database.execute(countOperation, 's'), Unavailable);
  assert.ok(runningMs() - began < 1_000, 'operations do not wait during the outage');
  const startedMs = performance.now();
  await server.startServer();
  await waitUntil('the database to be ready', () => database.state().ready);
  assert.ok(database.state().readyForMs! < performance.now() - startedMs, 'measured from its return');
  await database.execute(writeOperation, 's3');
  assert.equal(await count(database, 's'), 2);
  assert.ok(url);
});

test('rejects a server that could lose acknowledged data, with an explanation', async (t) => {
  const { url, name, drop } = await tempPostgres();
  t.after(drop);
  const attempt = (): Promise<unknown> => openPostgresDatabase({ address: parsePostgresUrl(url), log: silentLog });
  await administer(url, `ALTER DATABASE ${name} SET synchronous_commit = off`);
  await assert.rejects(attempt(), /synchronous_commit=off and can lose accepted mail; set it to on/);
  for (const level of ['local', 'remote_write', 'remote_apply', 'on']) {
    await administer(url, `ALTER DATABASE ${name} SET synchronous_commit = ${level}`);
    await ((await attempt()) as Database).close();
  }
  const standbyNames = 'one';
  for (const synchronousCommit of ['local', 'remote_write', 'off']) {
    assert.throws(() => assertCommitIsDurable({ synchronousCommit, standbyNames }), /can lose accepted mail/);
  }
  assertCommitIsDurable({ synchronousCommit: 'remote_apply', standbyNames });
  const wrong = parsePostgresUrl(url.replace(name, 'not_there'));
  await assert.rejects(openPostgresDatabase({ address: wrong, log: silentLog }), /"not_there" does not exist/);
});

test('warns about standbys that no commit waits for', { skip: !serverIsOurs }, async (t) => {
  const { url, drop } = await tempPostgres();
  t.after(drop);
  const warnings: string[] = [];
  const log = { ...silentLog, warn: (_: unknown, text: string) => warnings.push(text) } as unknown as Log;
  const attempt = async (): Promise<void> =>
    (await openPostgresDatabase({ address: parsePostgresUrl(url), log })).close();
  await attempt();
  assert.deepEqual(warnings, []);
  // A client that streams the write-ahead log counts as a standby.
  const standby = new pg.Client({ connectionString: url, replication: 'true' } as pg.ClientConfig);
  await standby.connect();
  t.after(() => standby.end());
  await attempt();
  assert.match(warnings.join(), /^commits do not wait for a standby/);
});

test('concurrent migrations run once, and a foreign history is rejected', async (t) => {
  const { url, drop } = await tempPostgres();
  t.after(drop);
  const address = parsePostgresUrl(url);
  const wanted = listMigrations('postgres').map((one) => one.name);
  assert.deepEqual(await recordedPostgres({ address, log: silentLog }), []);
  const applied = await Promise.all([1, 2, 3, 4].map((nowMs) => migratePostgres({ address, log: silentLog, nowMs })));
  assert.deepEqual(applied.flat().sort(), wanted);
  assert.equal((await recordedPostgres({ address, log: silentLog })).length, wanted.length);
  await administer(url, "INSERT INTO migration (number, name, applied_at) VALUES (9999, '9999-future', 1)");
  await assert.rejects(migratePostgres({ address, log: silentLog, nowMs: 1 }), /newer version of postrider/);
  await administer(
    url,
    "DELETE FROM migration WHERE number = 9999; UPDATE migration SET name = '0001-other' WHERE number = 1",
  );
  await assert.rejects(
    migratePostgres({ address, log: silentLog, nowMs: 1 }),
    /belongs to another program or is damaged/,
  );
});

/** Changes a setting of the entire server, and resets it after the test. The returned function resets it earlier. */
async function alterServer(t: TestContext, url: string, name: string, value: string): Promise<() => Promise<void>> {
  const reload = async (sql: string): Promise<void> => {
    await administer(url, sql);
    await administer(url, 'SELECT pg_reload_conf()');
  };
  const reset = () => reload(`ALTER SYSTEM RESET ${name}`);
  t.after(reset);
  await reload(`ALTER SYSTEM SET ${name} = '${value}'`);
  await waitUntil(`${name} = ${value}`, async () => {
    const { rows } = await administer(url, `SELECT current_setting('${name}') AS value`);
    return rows[0]?.value === value;
  });
  return reset;
}

test('a commit without confirmation of the synchronous standby has an unknown outcome', {
  skip: !serverIsOurs,
}, async (t) => {
  const { url, server, drop } = await tempPostgres();
  const admin = server.url('postgres');
  await migratePostgres({ address: parsePostgresUrl(url), log: silentLog, nowMs: 1 });
  const database = await open(t, url);
  await database.execute(writeOperation, 'before');
  const reset = await alterServer(t, admin, 'synchronous_standby_names', 'absent');
  t.after(drop);
  // A commit waits only after the checkpointer has read the setting too, so the first commits may still be confirmed.
  let writes = 0;
  let state: 'waiting' | 'confirmed' | { refused: unknown } = 'confirmed';
  const refused = await waitUntil('a canceled commit that waits for the standby', async () => {
    if (state === 'confirmed') {
      state = 'waiting';
      writes += 1;
      database.execute(writeOperation, `unconfirmed${writes}`).then(
        () => (state = 'confirmed'),
        (error) => (state = { refused: error }),
      );
    }
    await administer(
      url,
      `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()`,
    );
    return typeof state === 'object' && (state as { refused: unknown }).refused;
  });
  assert.ok(refused instanceof OutcomeUnknown && /standby/.test(refused.message), String(refused));
  await reset();
  assert.equal(await count(database, 'unconfirmed'), writes, 'the last is committed locally');
  await database.execute(writeOperation, 'after');
});

test('open sessions keep synchronous_commit=on when the server turns it off', {
  skip: !serverIsOurs,
}, async (t) => {
  const { url, server, drop } = await tempPostgres();
  const admin = server.url('postgres');
  t.after(drop);
  const database = await open(t, url);
  const level = write(
    async (tx) => (await tx.get<{ value: string }>("SELECT current_setting('synchronous_commit') AS value"))!.value,
  );
  assert.equal(await database.execute(level, null), 'on');
  await alterServer(t, admin, 'synchronous_commit', 'off');
  assert.equal(await database.execute(level, null), 'on');
});

test('the first writable of several hosts is used', async (t) => {
  const { url, drop } = await tempPostgres();
  t.after(drop);
  const [{ host, port } = { host: '', port: 0 }] = parsePostgresUrl(url).hosts;
  const closed = await freePort();
  const several = url.replace(/@[^/]*/, `@127.0.0.1:${closed},${host}:${port}`);
  const database = await open(t, several);
  assert.equal(database.state().ready, true);
  await assert.rejects(
    connectPostgres(parsePostgresUrl(url.replace(/@[^/]*/, `@127.0.0.1:${closed},127.0.0.1:${closed}`))),
    /ECONNREFUSED/,
  );
});

test('sslmode=prefer and allow connect without TLS, and require does not', { skip: !serverIsOurs }, async (t) => {
  const { url, drop } = await tempPostgres();
  t.after(drop);
  for (const mode of ['prefer', 'allow']) {
    const connection = await connectPostgres(parsePostgresUrl(`${url}?sslmode=${mode}`));
    connection.destroy();
  }
  await assert.rejects(connectPostgres(parsePostgresUrl(`${url}?sslmode=require`)), /does not support SSL/);
  await assert.rejects(
    connectPostgres(parsePostgresUrl(`${url}?sslmode=prefer&channel_binding=require`)),
    /SCRAM-SHA-256-PLUS/,
  );
});

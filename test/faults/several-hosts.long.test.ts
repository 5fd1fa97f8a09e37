/** A database URL with several hosts: Postrider uses the one that accepts writes, before and after a failover, on real servers. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import pg from 'pg';
import { silentLog } from '../../src/base/log.ts';
import { connectPostgres } from '../../src/storage/postgres/connection.ts';
import { openPostgresDatabase } from '../../src/storage/postgres/database.ts';
import { UnsuitableServer } from '../../src/storage/postgres/errors.ts';
import { migratePostgres } from '../../src/storage/postgres/migrate.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { freePort } from '../kit/free-ports.ts';
import { countOperation, writeOperation } from '../kit/storage-operations.ts';
import { ownPostgresServer, serverIsOurs, tempPostgres } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';

ownPostgresServer();

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

test('uses the host that accepts writes, and the new primary after a failover', {
  skip: !serverIsOurs,
}, async (t) => {
  const { url, name, server, drop } = await tempPostgres();
  t.after(drop);
  await migratePostgres({ address: parsePostgresUrl(url), log: silentLog, nowMs: 1 });
  const away = await freePort();
  const both = `postgres://postgres@127.0.0.1:${away},127.0.0.1:${server.port}/${name}`;
  const database = await openPostgresDatabase({ address: parsePostgresUrl(both), log: silentLog });
  t.after(() => database.close());
  await database.execute(writeOperation, 'h1');
  // The same server as a standby: no host accepts writes until it is promoted.
  await server.stopServer('fast');
  const signal = path.join(server.folder!, 'standby.signal');
  writeFileSync(signal, '');
  execFileSync('chown', ['--reference', server.folder!, signal]);
  t.after(() => rmSync(signal, { force: true }));
  await server.startServer();
  await waitUntil('the pool to find only a standby', () => !database.state().ready);
  const alone = connectPostgres(parsePostgresUrl(url));
  await assert.rejects(alone, UnsuitableServer, 'a single standby is a wrong setting');
  await assert.rejects(
    connectPostgres(parsePostgresUrl(both)),
    (error: Error) =>
      !(error instanceof UnsuitableServer) &&
      error.message.includes(`127.0.0.1:${away}: `) &&
      error.message.includes(`127.0.0.1:${server.port}: the server is a standby`),
  );
  await administer(server.url('postgres'), 'SELECT pg_promote(true, 60)');
  await waitUntil('the database to be ready', () => database.state().ready);
  await database.execute(writeOperation, 'h2');
  assert.equal((await database.execute(countOperation, 'h'))!.n, 2);
  await administer(server.url('postgres'), 'ALTER SYSTEM SET default_transaction_read_only = on');
  await administer(server.url('postgres'), 'SELECT pg_reload_conf()');
  await waitUntil('a read-only server', async () => {
    const refused = await connectPostgres(parsePostgresUrl(url)).then(
      (connection) => connection.destroy(),
      (error: Error) => error.message,
    );
    return refused?.includes('read-only');
  });
  const reset = new pg.Client({
    connectionString: server.url('postgres'),
    options: '-c default_transaction_read_only=off',
  });
  await reset.connect();
  await reset.query('ALTER SYSTEM RESET default_transaction_read_only');
  await reset.query('SELECT pg_reload_conf()');
  await reset.end();
});

test('TLS modes and channel binding on a real server', { skip: !serverIsOurs }, async (t) => {
  const { name, server, drop } = await tempPostgres();
  t.after(drop);
  const at = `postgres://postgres@127.0.0.1:${server.port}/${name}`;
  const usesTls = async (query: string): Promise<boolean> => {
    const { client, destroy } = await connectPostgres(parsePostgresUrl(`${at}?${query}`));
    const { rows } = await client.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()');
    destroy();
    return String(rows[0]!.ssl).startsWith('t');
  };
  // Without TLS on the server.
  for (const mode of ['disable', 'allow', 'prefer']) assert.equal(await usesTls(`sslmode=${mode}`), false, mode);
  for (const mode of ['require', 'verify-ca', 'verify-full'])
    await assert.rejects(usesTls(`sslmode=${mode}`), /does not support SSL/, mode);
  const file = (end: string): string => path.join(server.folder!, `server.${end}`);
  execFileSync('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-days',
    '2',
    '-subj',
    '/CN=localhost',
    '-addext',
    'subjectAltName=DNS:localhost',
    '-keyout',
    file('key'),
    '-out',
    file('crt'),
  ]);
  execFileSync('chown', ['--reference', server.folder!, file('key'), file('crt')]);
  execFileSync('chmod', ['600', file('key')]);
  await administer(server.url('postgres'), "ALTER USER postgres PASSWORD 'p@ss'");
  await administer(server.url('postgres'), 'ALTER SYSTEM SET ssl = on');
  await administer(server.url('postgres'), 'SELECT pg_reload_conf()');
  await waitUntil('TLS', () => usesTls('sslmode=prefer').catch(() => false));
  const ca = `sslrootcert=${encodeURIComponent(file('crt'))}`;
  assert.equal(await usesTls('sslmode=allow'), false);
  assert.equal(await usesTls('sslmode=require'), true);
  assert.equal(await usesTls(`sslmode=require&${ca}`), true);
  assert.equal(await usesTls(`sslmode=verify-ca&${ca}`), true);
  await assert.rejects(usesTls('sslmode=verify-ca'), /self-signed/);
  await assert.rejects(usesTls(`sslmode=verify-full&${ca}`), /altnames/);
  await assert.rejects(
    usesTls('sslmode=require&channel_binding=require'),
    /channel binding/,
    'trust authenticates nothing',
  );
  const hba = path.join(server.folder!, 'pg_hba.conf');
  writeFileSync(hba, 'hostssl all all 127.0.0.1/32 scram-sha-256\n');
  await administer(`${at}`, 'SELECT pg_reload_conf()');
  const withPassword = `postgres://postgres:p%40ss@localhost:${server.port}/${name}?sslmode=verify-full&host=127.0.0.1,localhost&${ca}`;
  await waitUntil('pg_hba.conf to be read', async () =>
    usesTls('sslmode=disable').then(
      () => false,
      (error: Error) => /no pg_hba|no encryption/.test(error.message),
    ),
  );
  const bound = await connectPostgres(parsePostgresUrl(`${withPassword}&channel_binding=require`));
  bound.destroy();
  const wrong = parsePostgresUrl(`${at}?sslmode=allow&password=p%40ss`);
  (await connectPostgres(wrong)).destroy();
  writeFileSync(hba, 'host all all 127.0.0.1/32 trust\n');
  const { client, destroy } = await connectPostgres(wrong);
  await client.query('SELECT pg_reload_conf()');
  destroy();
});

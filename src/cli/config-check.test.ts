/** `config check` reports every wrong setting and opens nothing; `migrate --status` lists migrations without applying them. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { runInProcess } from '../../test/kit/in-process-command.ts';
import { tempPostgres } from '../../test/kit/temp-postgres.ts';
import { listMigrations } from '../storage/migrate.ts';
import { openSqlite } from '../storage/sqlite/connection.ts';

test('config check reports each problem on a line that starts with its variable', async (t) => {
  const { folder, dataDir, run } = commandFolder(t);
  const pem = path.join(folder, 'one.pem');
  writeFileSync(pem, 'no certificate');
  const empty = path.join(folder, 'empty');
  writeFileSync(empty, '\n');
  const wrong = {
    POSTRIDER_METRICS_TOKEN_FILE: empty,
    POSTRIDER_SECRET_KEY_FILE: path.join(folder, 'missing'),
    POSTRIDER_HTTP_PORT: '70000',
    POSTRIDER_ROUTE: 'smtp://ann:hunter2@h:0',
    POSTRIDER_LOG_LEVEL: '"info"',
    POSTRIDER_BLOB_URL: 's3://bucket/x?endpoint=https://s3.example&region=eu',
    POSTRIDER_OIDC_ISSUER: 'https://login.example.com',
    POSTRIDER_ROLES: 'api,smtp,inbound',
    POSTRIDER_SMTP_TLS_CERT: pem,
    POSTRIDER_SMTP_TLS_KEY: pem,
    POSTRIDER_PROVIDERS: path.join(folder, 'providers.json'),
  };
  const ran = await run(['config', 'check'], { ...wrong, POSTRIDER_TYPO: 'x' });
  assert.equal(ran.code, 78, ran.stderr);
  assert.equal(ran.stderr, '');
  const lines = ran.stdout.trimEnd().split('\n');
  assert.deepEqual(lines.map((line) => /^[A-Z0-9_]+/.exec(line)?.[0]).sort(), [
    'AWS_ACCESS_KEY_ID',
    'POSTRIDER_HTTP_PORT',
    'POSTRIDER_INBOUND_PORT',
    'POSTRIDER_LOG_LEVEL',
    'POSTRIDER_METRICS_TOKEN_FILE',
    'POSTRIDER_OIDC_CLIENT_ID',
    'POSTRIDER_PROVIDERS',
    'POSTRIDER_ROUTE',
    'POSTRIDER_SECRET_KEY_FILE',
    'POSTRIDER_SMTP_TLS_CERT',
    'POSTRIDER_TYPO',
  ]);
  assert.ok(
    lines.includes('POSTRIDER_HTTP_PORT="70000" is not valid; allowed: a port from 0 to 65535 (0: any free one)'),
  );
  assert.doesNotMatch(ran.stdout, /hunter2/);
  const asJson = await run(['config', 'check', '--json'], { ...wrong, POSTRIDER_TYPO: 'x' });
  assert.equal(asJson.code, 78);
  const { valid, problems, ignored } = JSON.parse(asJson.stdout);
  assert.deepEqual([valid, problems.length, ignored], [false, 10, ['POSTRIDER_TYPO']]);
  for (const { setting, message } of problems) assert.ok(setting !== '' && message.startsWith(setting), message);
  assert.equal(existsSync(dataDir), false);
});

test('an invalid setting does not cause a second problem', async (t) => {
  const { run } = commandFolder(t);
  const settings = {
    POSTRIDER_SOURCE_ADDRESSES: 'eth0',
    POSTRIDER_WARMUP: '192.0.2.1=2026-11-23',
    POSTRIDER_INBOUND_PORT: 'x',
    POSTRIDER_ROLES: 'api,inbound',
    AWS_SECRET_ACCESS_KEY_FILE: '/nonexistent/secret',
    AWS_ACCESS_KEY_ID: 'id',
    POSTRIDER_BLOB_URL: 's3://bucket/x?endpoint=https://s3.example&region=eu',
  };
  const { problems } = JSON.parse((await run(['config', 'check', '--json'], settings)).stdout);
  assert.deepEqual(
    problems.map((one: { setting: string }) => one.setting),
    ['AWS_SECRET_ACCESS_KEY_FILE', 'POSTRIDER_INBOUND_PORT', 'POSTRIDER_SOURCE_ADDRESSES'],
  );
});

test('addresses and certificates are checked only for the roles that use them', async (t) => {
  const { run } = commandFolder(t);
  const address = { POSTRIDER_SOURCE_ADDRESSES: '192.0.2.1' };
  const delivery = await run(['config', 'check'], address);
  assert.equal(delivery.code, 78);
  assert.match(delivery.stdout, /^POSTRIDER_SOURCE_ADDRESSES="192\.0\.2\.1": .* is not an address of this machine/);
  assert.equal((await run(['config', 'check'], { ...address, POSTRIDER_ROLES: 'api' })).code, 0);
  const name = { POSTRIDER_ACME_EMAIL: 'ops@example.com', POSTRIDER_SMTP_HOSTNAME: 'localhost' };
  const named = await run(['config', 'check'], name);
  assert.deepEqual([named.code, named.stdout.split(' ')[0]], [78, 'POSTRIDER_SMTP_HOSTNAME']);
});

test('valid settings print one line and exit with 0, without a data directory or database', async (t) => {
  const { run, dataDir } = commandFolder(t);
  const ran = await run(['config', 'check'], { POSTRIDER_DATABASE_URL: 'postgres://u:p@127.0.0.1:1/x' });
  assert.deepEqual([ran.code, ran.stdout, ran.stderr], [0, 'the settings are valid\n', '']);
  const asJson = await run(['config', 'check', '--json']);
  assert.deepEqual(JSON.parse(asJson.stdout), { valid: true, problems: [], ignored: [] });
  assert.equal(existsSync(dataDir), false);
  const other = await run(['account', 'list'], { POSTRIDER_HTTP_PORT: 'x' });
  assert.deepEqual([other.code, other.stdout], [78, ''], 'control: other commands reject it');
});

test('migrate --status lists the migrations of the embedded database and creates no file', async (t) => {
  const { run, json, dataDir } = commandFolder(t);
  const known = listMigrations('sqlite').map(({ name }) => name);
  const before = await json('migrate', '--status');
  assert.deepEqual([before.applied, before.pending], [[], known]);
  assert.equal(existsSync(dataDir), false);
  await json('migrate');
  const file = path.join(dataDir, 'postrider.db');
  const connection = openSqlite(file, { readOnly: false });
  t.after(() => connection.close());
  connection.run('DELETE FROM migration WHERE number > 3');
  const partly = await json('migrate', '--status');
  assert.equal(partly.database, file);
  assert.deepEqual(
    partly.applied.map((one: { name: string }) => one.name),
    known.slice(0, 3),
  );
  for (const { appliedAt } of partly.applied) assert.ok(Math.abs(Date.parse(appliedAt) - Date.now()) < 60_000);
  assert.deepEqual(partly.pending, known.slice(3));
  assert.equal(connection.get('SELECT count(*) AS n FROM migration')!.n, 3);
  const text = await run(['migrate', '--status']);
  assert.match(text.stdout, new RegExp(`^${known[0]} +applied 2.*\n`));
  assert.ok(text.stdout.endsWith(`3 applied, ${known.length - 3} pending in ${file}\n`), text.stdout);
  connection.run('INSERT INTO migration (number, name, applied_at) VALUES (9999, ?, 0)', '9999-later');
  const newer = await run(['migrate', '--status']);
  assert.deepEqual([newer.code, newer.stdout], [1, '']);
  assert.match(newer.stderr, /migrated by a newer version of postrider \(migration 9999-later\)/);
});

test('migrate --status lists the migrations of a PostgreSQL database and creates nothing', async (t) => {
  const postgres = await tempPostgres();
  t.after(() => postgres.drop());
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-status-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const dataDir = path.join(folder, 'data');
  const environment = { POSTRIDER_DATABASE_URL: postgres.url, POSTRIDER_DATA_DIR: dataDir };
  const json = async (...args: string[]) => {
    const ran = await runInProcess([...args, '--json'], environment);
    assert.equal(ran.code, 0, ran.stderr);
    return JSON.parse(ran.stdout);
  };
  const known = listMigrations('postgres').map(({ name }) => name);
  const before = await json('migrate', '--status');
  assert.deepEqual([before.applied, before.pending], [[], known]);
  assert.deepEqual((await json('migrate', '--status')).applied, [], 'the status check applied nothing');
  await json('migrate');
  const after = await json('migrate', '--status');
  assert.deepEqual(
    after.applied.map((one: { name: string }) => one.name),
    known,
  );
  assert.deepEqual(after.pending, []);
});

/** The command line as a separate process with its own directory: output, exit codes, and stdout. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import test from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { runningMs } from '../../test/kit/running-time.ts';
import { acceptance } from '../../test/kit/seed-mail.ts';
import { runCommand } from '../../test/kit/start-service.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { createAuthenticator } from '../accounts/accounts.ts';
import { systemClock } from '../base/clock.ts';
import { portError } from '../roles/ports.ts';
import { acceptOperation } from '../send/acceptance.ts';
import { openSqlite } from '../storage/sqlite/connection.ts';
import { runCommandLine } from './command-line.ts';

test('each command prints one JSON object on stdout and sets the exit code', async (t) => {
  const { dataDir, json } = commandFolder(t);
  await json('migrate');
  const made = await runCommand(['account', 'create', '--name', 'Acme', '--json'], { dataDir });
  assert.equal(made.code, 0, made.stderr);
  const keys = Object.keys(JSON.parse(made.stdout));
  assert.deepEqual(keys, ['accountId', 'apiKey', 'sandboxApiKey']);
  const refused = await runCommand(['account', 'show', 'acc_0', '--json'], { dataDir });
  assert.equal(refused.code, 1);
  assert.deepEqual(JSON.parse(refused.stdout).error.code, 'NOT_FOUND');
  assert.match(refused.stderr, /^postrider: there is no account acc_0/);
  const wrong = await runCommand(['account', 'create', '--nam', 'x'], { dataDir });
  assert.equal(wrong.code, 2);
  assert.equal(wrong.stdout, '');
});

test('accounts, keys, credentials, users, and domains are printed in the documented format', async (t) => {
  const { json, run, dataDir } = commandFolder(t);
  await json('migrate');
  const { accountId } = await json('account', 'create', '--name', 'Acme');
  const second = await json('account', 'create', '--name', 'Free', '--plan', 'free');
  const list = await json('account', 'list');
  assert.deepEqual(
    list.accounts.map((one: { accountId: string; plan: string }) => [one.accountId, one.plan]).sort(),
    [
      [accountId, 'paid'],
      [second.accountId, 'free'],
    ].sort(),
  );
  const set = await json(
    'account',
    'set',
    accountId,
    '--plan',
    'enterprise',
    '--email-limit',
    '30000000',
    '--status',
    'suspended',
  );
  assert.deepEqual([set.plan, set.approvedEmailBytes, set.status], ['enterprise', 30_000_000, 'suspended']);
  assert.equal((await json('account', 'show', accountId)).plan, 'enterprise');
  assert.equal((await json('account', 'set', accountId, '--name', ' Acme Shop ')).name, 'Acme Shop');
  assert.equal((await json('account', 'show', accountId)).timeZone, 'UTC');
  assert.equal((await run(['account', 'set', accountId, '--name', ' '])).code, 2);
  assert.equal((await run(['account', 'set', accountId])).code, 2);
  const optional = await json('account', 'set', accountId, '--two-factor', 'optional');
  assert.equal(optional.twoFactorRequired, false);
  assert.equal((await run(['account', 'set', accountId, '--two-factor', 'required'])).code, 2);

  const key = await json('key', 'create', accountId, '--mode', 'sandbox', '--scope', 'send');
  assert.deepEqual(Object.keys(key), ['keyId', 'apiKey']);
  assert.match(key.apiKey, /^pr_test_/);
  assert.equal((await json('key', 'revoke', key.keyId)).keyId, key.keyId);
  assert.equal((await run(['key', 'revoke', key.keyId])).code, 1);

  const credential = await json('smtp-credential', 'create', accountId);
  assert.deepEqual(Object.keys(credential), ['smtpCredentialId', 'username', 'password']);
  const noSmtp = await run(['smtp-credential', 'create', second.accountId]);
  assert.equal(noSmtp.code, 1);
  assert.match(noSmtp.stderr, /requires a paid or enterprise plan/);

  const user = await json('user', 'create', '--email', 'Ada@Example.com', '--operator');
  assert.deepEqual([user.email, user.operator], ['ada@example.com', true]);
  assert.equal((await run(['user', 'create', '--email', 'ada@example.com'])).code, 1);
  const reset = await json('user', 'reset-password', '--email', 'ada@example.com');
  assert.ok(reset.password !== user.password && reset.userId === user.userId);
  assert.equal((await run(['user', 'reset-password', '--email', 'no@example.com'])).code, 1);

  const domain = await json('domain', 'add', accountId, 'Example.com', '--verified');
  assert.deepEqual([domain.domain, domain.status], ['example.com', 'verified']);
  assert.deepEqual(Object.keys(domain), ['domainId', 'domain', 'status']);
  assert.match((await run(['domain', 'add', accountId, 'example.com'])).stdout, /_domainkey\.example\.com/);
  assert.match(domain.domainId, /^dom_/);
  assert.equal((await json('domain', 'add', accountId, 'example.com')).domainId, domain.domainId);
  assert.equal((await run(['domain', 'add', accountId, 'localhost'])).code, 1);
  assert.equal((await run(['domain', 'add', 'acc_0', 'example.net'])).code, 1);
  assert.equal(statSync(path.join(dataDir, 'secret.key')).mode & 0o777, 0o600);
});

test('invalid usage exits with 2 and names the mistake', async (t) => {
  const { run } = commandFolder(t);
  const cases: [string[], RegExp][] = [
    [[], /no command/],
    [['invoice', 'list'], /unknown command 'invoice'/],
    [['acount', 'list'], /unknown command 'acount' \(Did you mean account\?\); see postrider --help/],
    [['account', 'creat'], /unknown command 'creat' \(Did you mean create\?\); see postrider account --help/],
    [['account', 'create', '--nam', 'x'], /unknown option '--nam' \(Did you mean --name\?\)/],
    [['account', 'create', '--name', ''], /'--name <name>' argument '' is invalid. It must not be empty;/],
    [['approval', 'reject', 'apr_1'], /--reason is required/],
    [['approval', 'approve'], /missing required argument 'approval-id'/],
    [['account'], /account create, account list/],
    [['account', 'create'], /--name is required/],
    [['account', 'create', '--name', 'x', '--plan', 'gold'], /free, paid, enterprise/],
    [['account', 'create', '--name', 'x\ny'], /control characters/],
    [['account', 'show'], /missing required argument 'account-id'/],
    [['account', 'show', 'a', 'b'], /too many arguments for 'show'.* a, b;/],
    [['account', 'set', 'a'], /at least one/],
    [['account', 'set', 'a', '--email-limit', '50000000'], /2000000 to 40000000/],
    [['queue', 'status', '--all'], /unknown option '--all'/],
    [['user', 'create', '--email', 'nobody'], /--email is not an email address/],
    [['send', '--from', 'a@b.c', '--to', 'd@e.f'], /--subject is required/],
    [['completion', 'tcsh'], /one of bash, zsh, fish/],
  ];
  for (const [args, wanted] of cases) {
    const ran = await run(args);
    assert.equal(ran.code, 2, `${args.join(' ')}: ${ran.stderr}`);
    assert.match(ran.stderr, wanted);
    assert.equal(ran.stdout, '');
  }
  const asJson = await run(['account', 'create', '--json']);
  assert.deepEqual([asJson.code, JSON.parse(asJson.stdout).error.code], [2, 'USAGE']);
  const wrongSetting = await run(['account', 'list'], { POSTRIDER_HTTP_PORT: 'x' });
  assert.equal(wrongSetting.code, 78);
  assert.match(wrongSetting.stderr, /POSTRIDER_HTTP_PORT="x" is not valid/);
});

test('--json is accepted in any position, and help prints an object with it', async (t) => {
  const { run, json } = commandFolder(t);
  await json('migrate');
  const { accountId } = await json('account', 'create', '--name', 'Acme');
  for (const args of [
    ['--json', 'account', 'list'],
    ['account', '--json', 'list'],
    ['account', 'list', '--json'],
  ]) {
    const ran = await run(args);
    assert.equal(ran.code, 0, ran.stderr);
    assert.equal(JSON.parse(ran.stdout).accounts[0].accountId, accountId);
  }
  for (const args of [
    ['account', 'list', '--json', '--help'],
    ['--json', '--help'],
    ['--json', 'account', '-h'],
  ]) {
    const ran = await run(args);
    assert.equal(ran.code, 0, ran.stderr);
    const answer = JSON.parse(ran.stdout);
    assert.deepEqual(Object.keys(answer), ['help']);
    assert.match(answer.help, /account list/);
  }
  const behind = await run(['account', 'show', '--', '--json']);
  assert.equal(behind.code, 1);
  assert.match(behind.stderr, /there is no account --json/);
});

test('a port or an address that cannot be bound is reported in one line with its setting', async (t) => {
  const { dataDir } = commandFolder(t);
  const blocker = createServer().listen(0, '127.0.0.1');
  t.after(() => blocker.close());
  await once(blocker, 'listening');
  const { port } = blocker.address() as AddressInfo;
  const printed: string[] = [];
  const fail = async (env: Record<string, string>, wanted: RegExp, code = 1) => {
    const quiet = { POSTRIDER_LOG_LEVEL: 'silent', POSTRIDER_ROLES: 'api' };
    const ran = await runCommand(['serve'], { dataDir, env: { ...quiet, ...env } });
    assert.equal(ran.code, code);
    assert.match(ran.stderr, wanted);
    assert.equal(ran.stderr.trimEnd().split('\n').length, 1, ran.stderr);
    printed.push(ran.stdout);
  };
  const inUse = new RegExp(`POSTRIDER_HTTP_PORT="${port}" is in use .*; allowed: a free port`);
  await fail({ POSTRIDER_HTTP_PORT: String(port) }, inUse);
  assert.deepEqual(printed.splice(0), [''], 'the first start checks the port before it creates anything');
  assert.ok(!existsSync(path.join(dataDir, 'first-run.json')));
  // A second start prints nothing: only the first one prints the file of the credentials.
  mkdirSync(dataDir, { recursive: true });
  writeFileSync(path.join(dataDir, 'serving.lock'), '');
  await fail({ POSTRIDER_HTTP_PORT: String(port) }, inUse);
  await fail(
    { POSTRIDER_HTTP_HOST: '192.0.2.1' },
    /POSTRIDER_HTTP_HOST="192\.0\.2\.1" is not an address of this machine.*; allowed: /,
    78,
  );
  assert.ok(printed[0]!.includes(path.join(dataDir, 'first-run.json')));
  assert.equal(printed[1], '');
  assert.match(
    String(portError({ code: 'EACCES' }, { setting: 'httpPort', host: '::', port: 80 })),
    /HTTP_PORT="80" may not/,
  );
  assert.match(
    String(portError({ code: 'ENOTFOUND' }, { setting: 'httpPort', host: 'x', port: 80 })),
    /HTTP_HOST="x" is no/,
  );
  const other = new Error('x');
  assert.equal(portError(other, { setting: 'httpPort', host: 'x', port: 80 }), other);
});

test('serve --json prints the file of the first credentials as one object', async (t) => {
  const { dataDir } = commandFolder(t);
  const settings = { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_HTTP_PORT: '0', POSTRIDER_HTTP_HOST: '127.0.0.1' };
  const main = path.resolve(import.meta.dirname, '../main.ts');
  const child = spawn(process.execPath, [main, 'serve', '--json'], {
    env: { ...settings, POSTRIDER_ROLES: 'api', POSTRIDER_LOG_LEVEL: 'silent' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  let stdout = '';
  child.stdout.on('data', (chunk) => {
    stdout += chunk;
  });
  const ended = once(child, 'exit');
  await waitUntil('the credentials', () => stdout.endsWith('\n'), 60_000);
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
  assert.deepEqual(JSON.parse(stdout), { firstRunFile: path.join(dataDir, 'first-run.json') });
});

test('help explains every command and changes nothing', async (t) => {
  const { run, dataDir } = commandFolder(t);
  const all = await run(['--help']);
  assert.equal(all.code, 0);
  const commands = [...all.stdout.matchAll(/^ {2}postrider ([a-z-]+(?: [a-z][a-z-]*)?)/gm)].map(
    (match) => match[1] ?? '',
  );
  assert.ok(commands.length >= 20);
  for (const command of commands) {
    const help = await run([...command.split(' '), '--help']);
    assert.equal(help.code, 0, command);
    assert.ok(help.stdout.startsWith(`Usage: postrider ${command}`), command);
    assert.match(help.stdout, new RegExp(`^Examples:\n  postrider ${command}`, 'm'));
  }
  assert.equal(existsSync(dataDir), false);
});

test('in a wrong folder only migrate creates a database', async (t) => {
  const { run, json, dataDir } = commandFolder(t);
  for (const args of [
    ['account', 'list'],
    ['account', 'create', '--name', 'Acme'],
    ['user', 'create', '--email', 'ada@example.com'],
    ['domain', 'add', 'acc_0', 'example.com'],
    ['backup', 'x.backup'],
  ]) {
    const none = await run(args);
    assert.equal(none.code, 1);
    assert.match(none.stderr, /there is no database/);
    assert.equal(existsSync(dataDir), false, args.join(' '));
  }
  assert.ok((await json('migrate')).applied.length > 0);
  assert.deepEqual((await json('migrate')).applied, []);
  assert.deepEqual(await json('account', 'list'), { accounts: [] });
});

test('queue commands show status, retry now, and cancel', async (t) => {
  const { json, run, store, dataDir } = commandFolder(t);
  await json('migrate');
  const { accountId } = await json('account', 'create', '--name', 'Acme');
  const later = Date.now() + 3_600_000;
  const ids = await store(async ({ database }) => {
    const made = await database.execute(
      acceptOperation,
      acceptance({ accountId, recipients: ['a@x.test', 'b@x.test'], sendAtMs: later }),
    );
    return made.recipients.map((one) => one.messageId);
  });
  const [first = '', second = ''] = ids;
  const { destinations, ...before } = await json('queue', 'status');
  assert.deepEqual(before, { depth: 2, due: 0, leased: 0, held: 0, deferred: 0, oldestDueAt: null });
  const [{ explanation, ...destination }] = destinations;
  // Accepting a message without delivery names no domain in its lane.
  assert.deepEqual(destination, { destinationId: '', waiting: 2, pausedUntil: null });
  assert.ok(explanation.includes(new Date(later).toISOString()), explanation);
  assert.deepEqual(await json('queue', 'retry', first), { messageId: first, status: 'queued' });
  const after = await json('queue', 'status');
  assert.equal(after.due, 1);
  assert.ok(Math.abs(Date.parse(after.oldestDueAt) - Date.now()) < 60_000);
  assert.deepEqual(await json('queue', 'cancel', second), { messageId: second, status: 'cancelled' });
  assert.equal((await json('queue', 'status')).depth, 1);
  assert.match((await run(['queue', 'retry', second])).stderr, /there is no message/);
  const gone = async (id: string) => JSON.parse((await run(['queue', 'cancel', id, '--json'])).stdout).error;
  const [cancelled, unknown] = [await gone(second), await gone('msg_0')];
  assert.deepEqual([cancelled.code, unknown.code], ['CONFLICT', 'NOT_FOUND']);
  assert.match(cancelled.message, /is already cancelled/);
  const databaseFile = path.join(dataDir, 'postrider.db');
  const connection = openSqlite(databaseFile, { readOnly: false });
  await connection.run("UPDATE message SET status = 'delivered'");
  await connection.run('DELETE FROM work');
  connection.close();
  const delivered = await gone(first);
  assert.equal(delivered.code, 'CONFLICT');
  assert.match(delivered.message, /is delivered/);
});

test('a change made by a command takes effect in a running service within a second', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const environment = { POSTRIDER_DATA_DIR: folder };
  const json = async (...args: string[]) => {
    const stdout: string[] = [];
    const streams = { out: (text: string) => stdout.push(text), err: () => undefined };
    assert.equal(await runCommandLine([...args, '--json'], environment, streams), 0);
    return JSON.parse(stdout.join(''));
  };
  const { accountId, apiKey } = await json('account', 'create', '--name', 'Acme');
  const authenticate = createAuthenticator({ database, clock: systemClock });
  const caller = await authenticate(apiKey, accountId);
  assert.ok(caller.ok);
  await json('key', 'revoke', caller.value.keyId);
  const began = runningMs();
  await waitUntil('the rejection', async () => !(await authenticate(apiKey, accountId)).ok);
  assert.ok(runningMs() - began < 1_000, `after ${runningMs() - began} ms`);
});

test('doctor names missing parts and their fixes', async (t) => {
  const { run } = commandFolder(t);
  // A relay and a resolver on loopback without a listener: refused immediately, independent of the network.
  const offline = { POSTRIDER_ROUTE: 'smtp://127.0.0.1:1', POSTRIDER_DNS_SERVERS: '127.0.0.1:1', POSTRIDER_TYPO: 'x' };
  const before = await run(['doctor', '--json'], offline);
  assert.equal(before.code, 1);
  const { healthy, checks } = JSON.parse(before.stdout);
  assert.equal(healthy, false);
  const of = (name: string) =>
    checks.find((one: { name: string; status: string }) => one.name === name && one.status !== 'ok');
  assert.match(of('configuration').message, /POSTRIDER_TYPO/);
  assert.equal(of('data directory').status, 'fail');
  assert.match(of('database').remedy, /migrate/);
  assert.equal(of('relay').status, 'fail');
  assert.match(of('public address').message, /one-click/);
  const secure = await run(['doctor', '--json'], { ...offline, POSTRIDER_BASE_URL: 'https://mail.test' });
  const address = JSON.parse(secure.stdout).checks.find((one: { name: string }) => one.name === 'public address');
  assert.equal(address.status, 'ok');
});

test('the version is printed, also as JSON', async (t) => {
  const { run, json } = commandFolder(t);
  const { version } = JSON.parse(readFileSync(path.join(import.meta.dirname, '../../package.json'), 'utf8'));
  for (const word of ['version', '--version']) {
    assert.deepEqual(await run([word]), { code: 0, stdout: `${version}\n`, stderr: '' });
    assert.deepEqual(await json(word), { version });
  }
});

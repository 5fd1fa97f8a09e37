/**
 * Operator tasks: the first run, health and readiness, metrics, the OpenAPI document, logs, the command line next to a running service,
 * suspension, and backup and restore.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { runningMs } from '../kit/running-time.ts';
import { closeShop, openShop } from '../kit/shop.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import { runCommand, type Service } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  ({ sink, service } = await openShop());
});
after(() => closeShop({ sink, service }));

const mail = { from: 'a@shop.example', to: 'ann@example.com', subject: 'Secret subject', text: 'Secret body' };

test('the first run stores its credentials readable by the owner only', () => {
  const file = path.join(service.dataDir, 'first-run.json');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(statSync(service.dataDir).mode & 0o077, 0);
  const first = JSON.parse(readFileSync(file, 'utf8')) as JsonObject;
  assert.match(first.apiKey, /^pr_live_/);
  assert.match(first.sandboxApiKey, /^pr_test_/);
  assert.match(first.accountId, /^acc_/);
});

test('health, readiness, and the OpenAPI document need no key', async () => {
  const { anonymous } = service;
  assert.deepEqual((await anonymous.get('/health')).body, { status: 'ok' });
  assert.equal((await anonymous.get('/ready')).status, 200);
  const openapi = await anonymous.get('/openapi.json');
  assert.equal(openapi.status, 200);
  assert.match(openapi.body.openapi, /^3\.1\./);
  const calls = Object.entries(openapi.body.paths as JsonObject).flatMap(([route, methods]) =>
    Object.keys(methods as JsonObject).map((method) => `${method.toUpperCase()} ${route}`),
  );
  const promised = [
    'POST /send',
    'POST /send/batch',
    'GET /messages',
    'GET /messages/{id}',
    'GET /messages/{id}/content',
    'PATCH /messages/{id}',
    'POST /messages/{id}/cancel',
    'GET /events',
    'GET /webhooks',
    'POST /webhooks',
    'PUT /webhooks/{id}',
    'PATCH /webhooks/{id}',
    'DELETE /webhooks/{id}',
    'GET /suppressions',
    'POST /suppressions',
    'GET /sandbox/inbox',
    'GET /account',
    'PATCH /account',
    'GET /domains',
    'POST /domains',
  ];
  assert.deepEqual(
    promised.filter((one) => !calls.includes(one)),
    [],
  );
  const docs = await anonymous.get('/docs/');
  assert.ok([200, 302].includes(docs.status), String(docs.status));
});

test('metrics count messages and events', async () => {
  const read = async (name: RegExp): Promise<number> => {
    const { text, status } = await service.anonymous.get('/metrics');
    assert.equal(status, 200);
    return text
      .split('\n')
      .filter((line) => name.test(line))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  };
  const accepted = await read(/^postrider_\w*accepted\w*\{[^}]*live/);
  const delivered = await read(/^postrider_\w*delivered\w*\{[^}]*live/);
  assert.equal((await service.api.post('/send', mail)).status, 202);
  await waitUntil(
    'the delivery to be counted',
    async () => (await read(/^postrider_\w*delivered\w*\{[^}]*live/)) === delivered + 1,
  );
  assert.equal(await read(/^postrider_\w*accepted\w*\{[^}]*live/), accepted + 1);
  const { text } = await service.anonymous.get('/metrics');
  for (const part of ['queue_depth', 'oldest', 'lag']) assert.match(text, new RegExp(`^postrider_\\w*${part}`, 'm'));
  assert.doesNotMatch(text, /ann@example\.com|acc_/, 'no tenant in a label');
});

test('the log is JSON lines without keys or message content', async () => {
  assert.equal((await service.api.post('/send', mail)).status, 202);
  assert.equal((await service.api.post('/send', { ...mail, subject: 'x\r\n{"level":"fatal"}\u001b[31m' })).status, 400);
  for (const line of service.log.split('\n').filter((one) => one.startsWith('{'))) JSON.parse(line);
  for (const secret of ['Secret body', 'Secret subject', '\u001b', '{"level":"fatal"}']) {
    assert.ok(!service.log.includes(secret), secret);
  }
  const stored = readFileSync(path.join(service.dataDir, 'postrider.db'), 'latin1');
  const log = readFileSync(path.join(service.dataDir, 'postrider.db-wal'), 'latin1');
  for (const key of [service.live.apiKey, service.sandbox.apiKey]) {
    assert.ok(!stored.includes(key) && !log.includes(key), 'only a hash of a key is stored');
  }
});

test('the command line works while the service is running, and its changes take effect', async () => {
  const made = await service.cli('account', 'create', '--name', 'Second', '--plan', 'free');
  const headers = { 'x-id': String(made.accountId), 'x-api-key': String(made.apiKey) };
  const call = (method: string, path: string, body?: unknown) =>
    service.anonymous.call({ method, path, body, headers });
  assert.equal((await call('GET', '/account')).status, 200);
  const foreign = await service.api.post('/send', mail);
  const id = foreign.body.data.messageId;
  assert.equal((await call('GET', `/messages/${id}`)).status, 404, 'another account’s message does not exist');
  assert.equal(
    (await call('GET', `/messages/${id}`)).text.replace(/req_\w+/, ''),
    (await call('GET', '/messages/msg_none')).text.replace(/req_\w+/, ''),
  );
  await service.cli('account', 'set', String(made.accountId), '--status', 'suspended');
  await waitUntil('the suspension', async () => (await call('GET', '/account')).status === 403, 10_000);
  assert.equal((await call('POST', '/send', mail)).body.error.code, 'ACCOUNT_SUSPENDED');
  const list = await service.cli('account', 'list');
  assert.equal(list.accounts.length, 2);
  const status = await service.cli('queue', 'status');
  assert.equal(typeof status, 'object');
});

test('the command line sends a message, even without a body', async () => {
  const { url, live } = service;
  const place = ['--url', url, '--id', live.accountId, '--key', live.apiKey];
  const what = ['--from', 'Shop <a@shop.example>', '--to', 'empty@example.com', '--subject', 'Only a subject'];
  const sent = await service.cli('send', ...what, ...place);
  assert.match(sent.data.messageId, /^msg_/);
  const found = () => sink.messages.find((message) => message.to.includes('empty@example.com'));
  const mail = (await waitUntil('the mail', found)).content.toString('latin1');
  assert.match(mail, /^Subject: Only a subject\r$/m);
  assert.match(mail, /\r\n\r\n(?:\r\n)*$/, 'only line ends after the header');
});

test('a backup of a running service contains all acknowledged mail and no first-run file', async () => {
  const { messageId } = (await service.api.post('/send', mail)).body.data;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-backup-'));
  const file = path.join(folder, 'backup');
  const dataDir = path.join(folder, 'restored');
  try {
    await service.cli('backup', file);
    assert.equal(statSync(file).mode & 0o077, 0, 'for the owner alone');
    assert.ok(!readFileSync(file, 'latin1').includes(service.live.apiKey));
    const restored = await runCommand(['restore', file], { dataDir });
    assert.equal(restored.code, 0, restored.stderr);
    assert.ok(!readdirSync(dataDir).includes('first-run.json'));
    const env = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` };
    const accounts = await runCommand(['account', 'list', '--json'], { dataDir, env });
    assert.ok(accounts.stdout.includes(service.live.accountId));
    const again = await runCommand(['queue', 'retry', String(messageId)], { dataDir });
    assert.doesNotMatch(again.stderr, /\bat .*\.ts:\d+/, 'no stack trace is printed');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('an idle service exits 0 on SIGTERM and SIGINT', async () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const startedAt = runningMs();
    assert.deepEqual(await service.kill(signal), { code: 0, signal: null });
    assert.ok(runningMs() - startedAt < 15_000);
    await service.restart();
  }
  assert.equal((await service.api.get('/account')).status, 200, 'the same keys after a restart');
});

/**
 * Operator keys at the real service, on each database: created on the command line while the service runs, used by applications, and
 * revoked on all nodes. The service also has the Resend interface, which accepts bearer tokens at the root.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type Answer, apiClient, type JsonObject } from '../kit/api.ts';
import { startCluster } from '../kit/cluster.ts';
import { openBrowser } from '../kit/in-process-api.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const ENV = { POSTRIDER_DOORS: 'resend' };

/** Calls with only a key, from this address. */
function programOf(t: TestContext, service: Service, localAddress = '127.0.0.1') {
  const client = apiClient(() => service.url, undefined, { localAddress });
  t.after(() => client.close());
  return (key: string, line: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> => {
    const [method = '', path = ''] = line.split(' ');
    return client.call({ method, path, body, headers: { authorization: `Bearer ${key}`, ...headers } });
  };
}

const cliKey = async ({ cli }: Service, ...options: string[]): Promise<{ id: string; key: string }> => {
  const { operatorKeyId, operatorKey } = await cli('operator-key', 'create', '--name', 'terraform', ...options);
  assert.match(operatorKeyId, /^opk_/);
  assert.match(operatorKey, /^pr_operator_/);
  return { id: operatorKeyId, key: operatorKey };
};

async function provisions(t: TestContext, service: Service): Promise<void> {
  const call = programOf(t, service);
  const { id, key } = await cliKey(service, '--scope', 'read', '--scope', 'write', '--expires', '90d');
  const made = await call(key, 'POST /operator/accounts', { name: 'Provisioned', plan: 'paid' });
  assert.equal(made.status, 201, made.text);
  const { accountId, apiKey } = made.body;
  const limited = await call(key, `PATCH /operator/accounts/${accountId}`, { limits: { messagesPerDay: 100 } });
  assert.deepEqual([limited.status, limited.body.limits.messagesPerDay], [200, 100]);
  const own = { 'x-api-key': apiKey, 'x-id': accountId };
  assert.equal((await service.anonymous.call({ method: 'GET', path: '/account', headers: own })).status, 200);
  const rows = (await call(key, `GET /operator/audit?actorId=${id}`)).body as unknown as JsonObject[];
  assert.deepEqual(
    rows.map(({ action, actor, resourceId, address }) => [action, actor.id, actor.name, resourceId, address]),
    [
      ['account.set', id, 'terraform', accountId, '127.0.0.1'],
      ['account.create', id, 'terraform', accountId, '127.0.0.1'],
    ],
  );
  const [created] = (await call(key, `GET /operator/audit?resourceId=${id}`)).body as unknown as JsonObject[];
  assert.deepEqual([created!.action, created!.actor.kind], ['operator-key.create', 'command-line']);

  for (const line of ['GET /account', 'GET /domains', 'POST /send', 'GET /session', 'GET /emails/x'])
    for (const headers of [{}, { 'x-id': accountId }] as Record<string, string>[]) {
      const refused = await call(key, line, line.startsWith('POST') ? {} : undefined, headers);
      assert.equal(refused.status, 401, `${line}: ${refused.text}`);
      assert.match(refused.body.error.message, /opens only the routes below \/operator/, line);
    }
  const ofResend = await call(key, 'GET /resend/domains');
  assert.deepEqual([ofResend.status, ofResend.body.name], [403, 'invalid_api_key'], ofResend.text);
  assert.equal(ofResend.body.message, 'API key is invalid', 'in the format of that service');
  assert.equal((await call(apiKey, 'GET /domains')).status, 200, 'control: the Resend interface');
  const account = await call(apiKey, 'GET /operator/accounts');
  assert.deepEqual([account.status, account.body.error?.code], [401, 'UNAUTHORIZED'], account.text);
}

async function restricts(t: TestContext, service: Service): Promise<void> {
  const inside = programOf(t, service, '127.0.0.2');
  const outside = programOf(t, service);
  const { id, key } = await cliKey(
    service,
    '--scope',
    'read',
    '--network',
    '127.0.0.2',
    '--expires',
    '2099-01-31T00:00:00Z',
  );
  assert.equal((await inside(key, 'GET /operator/nodes')).status, 200);
  assert.match((await outside(key, 'GET /operator/nodes')).body.error.message, /from the address 127\.0\.0\.1\./);
  const refused = await inside(key, 'POST /operator/accounts', { name: 'x' });
  assert.equal(refused.status, 403);
  assert.match(refused.body.error.message, /requires an operator key with the scope write/);
  const { operatorKeys } = await service.cli('operator-key', 'list');
  const shown = operatorKeys.find((one: JsonObject) => one.operatorKeyId === id);
  assert.deepEqual(
    [shown.name, shown.scopes, shown.allowedNetworks, shown.expiresAt],
    ['terraform', ['read'], ['127.0.0.2/32'], '2099-01-31T00:00:00.000Z'],
  );
  assert.ok(!JSON.stringify(operatorKeys).includes(key.slice(-32)));
  for (const [options, message] of [
    [['--scope', 'admin'], /--scope="admin" is not valid: use read or write/],
    [['--scope', 'read', '--expires', '2020-01-01T00:00:00Z'], /--expires=.* is in the past: use a future time/],
    [['--scope', 'read', '--expires', 'soon'], /--expires="soon" is not valid: use a future time/],
    [['--scope', 'read', '--network', '10.1.2.3/8'], /ended with 2: .*--network .* use 10\.0\.0\.0\/8/],
    [[], /--scope <scope> is required|--scope is required/],
  ] as const)
    await assert.rejects(service.cli('operator-key', 'create', '--name', 'x', ...options), message);
}

/** The key works on every node until one revokes it; then each rejects it within a second. */
async function isRevoked(
  t: TestContext,
  nodes: readonly Service[],
  revoke: (id: string) => Promise<void>,
): Promise<void> {
  const { id, key } = await cliKey(nodes[0]!, '--scope', 'read');
  const calls = nodes.map((node) => programOf(t, node));
  const statuses = () => Promise.all(calls.map(async (call) => (await call(key, 'GET /operator/queue')).status));
  assert.deepEqual(
    await statuses(),
    nodes.map(() => 200),
  );
  await revoke(id);
  await waitUntil('every node to refuse the key', async () => (await statuses()).every((status) => status === 401));
  assert.deepEqual(
    await statuses(),
    nodes.map(() => 401),
    'and it stays rejected',
  );
}

async function operatorOf(service: Service) {
  const { email, password } = await service.cli('user', 'create', '--email', 'op@example.com', '--operator');
  const { port } = new URL(service.url);
  const browser = openBrowser(Number(port), `http://localhost:${port}`, '127.0.0.1');
  assert.equal((await browser.call('POST', '/session', { email, password })).status, 200);
  return browser;
}

test('operator keys on the embedded database', async (t) => {
  const service = await startService({ env: ENV });
  t.after(() => service.close());
  await provisions(t, service);
  await restricts(t, service);
  await isRevoked(t, [service], async (id) => {
    assert.deepEqual(await service.cli('operator-key', 'revoke', id), { operatorKeyId: id, status: 'revoked' });
    await assert.rejects(service.cli('operator-key', 'revoke', id), /there is no active operator key/);
  });
});

test('operator keys on two PostgreSQL nodes', async (t) => {
  const cluster = await startCluster({ nodes: 2, env: ENV });
  t.after(() => cluster.close());
  const [first, second] = cluster.nodes;
  await provisions(t, second!);
  await restricts(t, first!);
  const operator = await operatorOf(first!);
  await isRevoked(t, cluster.nodes, async (id) => {
    assert.equal((await operator.call('DELETE', `/operator/keys/${id}`)).status, 200);
    const call = programOf(t, first!);
    assert.equal((await call('pr_operator_none', 'GET /operator/queue')).status, 401);
  });
  await isRevoked(t, cluster.nodes, async (id) => {
    await second!.cli('operator-key', 'revoke', id);
  });
});

test('POSTRIDER_RATE_LIMIT applies per key, and wrong keys do not use it up', async (t) => {
  const service = await startService({ env: { POSTRIDER_RATE_LIMIT: '3' } });
  t.after(() => service.close());
  const call = programOf(t, service);
  const { key } = await cliKey(service, '--scope', 'read');
  const other = await cliKey(service, '--scope', 'read');
  const wrong = await Promise.all(Array.from({ length: 50 }, () => call(`${key}x`, 'GET /operator/queue')));
  assert.deepEqual([...new Set(wrong.map(({ status, body }) => `${status} ${body.error.message}`))].length, 1);
  assert.equal(wrong[0]!.status, 401);
  assert.equal((await call(key, 'GET /operator/queue')).status, 200);
  const flood = await Promise.all(Array.from({ length: 30 }, () => call(key, 'GET /operator/queue')));
  const limited = flood.filter(({ status }) => status === 429);
  assert.ok(limited.length > 0, flood.map(({ status }) => status).join());
  assert.ok(Number(limited[0]!.headers['retry-after']) > 0);
  assert.equal((await call(other.key, 'GET /operator/queue')).status, 200, 'another key has its own limit');
});

/** The protocol of POST /mcp on the wire: revisions, headers, errors, authentication, origins, and the list of tools. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { apiClient } from '../../test/kit/api.ts';
import { type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { CURRENT, mcpClient } from '../../test/kit/mcp.ts';
import { createKey } from '../accounts/accounts.ts';

const TOOLS = [
  'send_email',
  'preview_email',
  'find_messages',
  'get_message',
  'list_events',
  'check_domain',
  'explain_destination',
  'run_doctor',
  'list_suppressions',
  'change_suppression',
  'list_templates',
  'render_template',
  'wait_for_sandbox_mail',
  'sandbox_control',
  'webhook_deliveries',
  'get_statistics',
  'search_docs',
];
const CHANGES = ['send_email', 'change_suppression', 'sandbox_control'];

let app: InProcessApi;
let key: string;
let at: string;

before(async () => {
  app = await inProcessApi({ env: { POSTRIDER_MCP: 'on' } });
  at = `http://127.0.0.1:${app.port}`;
  key = await newKey('sandbox');
});
after(() => app.close());

async function newKey(mode: 'live' | 'sandbox', scope: 'full' | 'send' = 'full'): Promise<string> {
  const made = await createKey(app.parts, { accountId: app.accountId, mode, scope, name: 'agent' });
  assert.ok(made.ok);
  return made.value.apiKey;
}

const client = (query = '') => mcpClient({ url: at, key, query });

test('the current revision supports discovery', async () => {
  const { status, body } = await client().request('server/discover');
  assert.equal(status, 200);
  const { result } = body;
  assert.equal(result.resultType, 'complete');
  assert.deepEqual(result.supportedVersions, [CURRENT, '2025-11-25', '2025-06-18']);
  assert.equal(result._meta['io.modelcontextprotocol/serverInfo'].name, 'postrider');
  assert.ok(result.ttlMs >= 0);
  assert.equal(result.cacheScope, 'private');
});

test('the tool list has 17 names, annotations, and schemas, is stable, and fits 4,000 tokens', async () => {
  const first = await client().request('tools/list');
  const second = await client().request('tools/list');
  const { tools, ttlMs, cacheScope } = first.body.result;
  assert.deepEqual(tools, second.body.result.tools);
  assert.deepEqual(tools.map((one: { name: string }) => one.name).sort(), [...TOOLS].sort());
  assert.ok(ttlMs >= 0 && cacheScope === 'private');
  for (const { name, inputSchema, annotations, description } of tools) {
    assert.equal(inputSchema.type, 'object', name);
    assert.equal(inputSchema.additionalProperties, false, name);
    assert.ok(description.length > 20, name);
    const changes = [...CHANGES, 'webhook_deliveries'].includes(name);
    assert.equal(annotations.readOnlyHint, !changes, name);
  }
  const characters = JSON.stringify(first.body.result).length;
  assert.ok(characters / 4 < 4_000, `${characters} characters`);
  // JSON has more tokens per character than prose: a stricter estimate.
  assert.ok(characters / 3.3 < 4_000, `${characters} characters`);
});

test('?tools=read offers only read-only tools', async () => {
  const { tools } = (await client('?tools=read').request('tools/list')).body.result;
  assert.deepEqual(
    tools.map((one: { name: string }) => one.name).sort(),
    TOOLS.filter((name) => !CHANGES.includes(name)).sort(),
  );
  for (const { name, annotations } of tools) assert.equal(annotations.readOnlyHint, true, name);
  for (const name of CHANGES) {
    const { error } = await client('?tools=read').tool(name, {});
    assert.equal(error.code, -32602, name);
  }
  const retry = { webhookId: 'whk_1', action: 'retry', deliveryId: 'del_1' };
  const refused = await client('?tools=read').tool('webhook_deliveries', retry);
  assert.match(refused.content[0].text, /INVALID_REQUEST/);
});

for (const [name, method, params, headers, status, code] of [
  ['no version header', 'tools/list', {}, { 'mcp-protocol-version': undefined }, 400, -32020],
  ['another version in the body', 'tools/list', {}, { 'mcp-protocol-version': '2025-11-25' }, 400, -32020],
  ['no Mcp-Method', 'tools/list', {}, { 'mcp-method': undefined }, 400, -32020],
  ['another Mcp-Method', 'tools/list', {}, { 'mcp-method': 'tools/call' }, 400, -32020],
  ['Mcp-Method in another case', 'tools/list', {}, { 'mcp-method': 'Tools/List' }, 400, -32020],
  ['no Mcp-Name', 'tools/call', { name: 'search_docs' }, { 'mcp-name': undefined }, 400, -32020],
  ['another Mcp-Name', 'tools/call', { name: 'search_docs' }, { 'mcp-name': 'send_email' }, 400, -32020],
  ['an unknown tool', 'tools/call', { name: 'drop_tables' }, {}, 400, -32602],
  ['an unknown method', 'resources/list', {}, {}, 404, -32601],
  ['ping, which this revision lacks', 'ping', {}, {}, 404, -32601],
  ['a cursor of no list', 'tools/list', { cursor: 'x' }, {}, 400, -32602],
  ['no metadata', 'tools/list', { _meta: undefined }, {}, 400, -32602],
  ['no capabilities', 'tools/list', { _meta: { 'io.modelcontextprotocol/protocolVersion': CURRENT } }, {}, 400, -32602],
] as const) {
  test(`the current revision rejects ${name}`, async () => {
    const answer = await client().request(method, params, headers);
    assert.deepEqual([answer.status, answer.body.error?.code], [status, code], answer.text);
    assert.equal(answer.body.jsonrpc, '2.0');
  });
}

test('an unsupported version is rejected with the supported ones', async () => {
  const params = { _meta: { 'io.modelcontextprotocol/protocolVersion': '1900-01-01' } };
  const { status, body } = await client().request('tools/list', params, { 'mcp-protocol-version': '1900-01-01' });
  assert.equal(status, 400);
  assert.equal(body.error.code, -32022);
  assert.deepEqual(body.error.data, { supported: [CURRENT, '2025-11-25', '2025-06-18'], requested: '1900-01-01' });
});

test('Mcp-Name can be encoded in Base64', async () => {
  const name = `=?base64?${Buffer.from('search_docs').toString('base64')}?=`;
  const params = { name: 'search_docs', arguments: { query: 'dkim' } };
  const { status, body } = await client().request('tools/call', params, { 'mcp-name': name });
  assert.equal(status, 200);
  assert.equal(body.result.resultType, 'complete');
});

for (const version of ['2025-11-25', '2025-06-18']) {
  test(`revision ${version} supports initialize, notifications, ping, list, and call`, async () => {
    const mcp = client();
    const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'Old Agent', version: '3' } };
    const first = await mcp.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
    assert.equal(first.status, 200);
    assert.equal(first.body.result.protocolVersion, version);
    assert.equal(first.body.result.serverInfo.name, 'postrider');
    assert.ok(first.body.result.capabilities.tools);
    assert.equal(first.body.result.resultType, undefined);
    const headers = { 'mcp-protocol-version': version, 'mcp-session-id': first.headers['mcp-session-id']! };
    const noted = await mcp.send({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers);
    assert.deepEqual([noted.status, noted.text], [202, '']);
    assert.deepEqual((await mcp.send({ jsonrpc: '2.0', id: 'p', method: 'ping' }, headers)).body, {
      jsonrpc: '2.0',
      id: 'p',
      result: {},
    });
    const { result } = (await mcp.send({ jsonrpc: '2.0', id: 2, method: 'tools/list', params: {} }, headers)).body;
    assert.equal(result.tools.length, 17);
    assert.equal(result.ttlMs, undefined);
    const call = { name: 'search_docs', arguments: { query: 'retry schedule' } };
    const called = await mcp.send({ jsonrpc: '2.0', id: 3, method: 'tools/call', params: call }, headers);
    assert.ok(called.body.result.structuredContent.items.length > 0);
    const unknown = await mcp.send({ jsonrpc: '2.0', id: 4, method: 'prompts/list' }, headers);
    assert.deepEqual([unknown.status, unknown.body.error.code], [200, -32601]);
    const [entry] = (await app.live.get('/audit?action=agent.call&limit=1')).body as { after: object }[];
    assert.equal((entry!.after as { client: string }).client, 'Old Agent');
  });
}

test('initialize with an unknown version agrees on the newest earlier revision', async () => {
  const params = { protocolVersion: '2099-01-01', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  const { body } = await client().send({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  assert.equal(body.result.protocolVersion, '2025-11-25');
});

for (const [name, body, code] of [
  ['no JSON', '{"jsonrpc":', -32700],
  ['a batch', [{ jsonrpc: '2.0', id: 1, method: 'ping' }], -32600],
  ['another JSON-RPC version', { jsonrpc: '1.0', id: 1, method: 'ping' }, -32600],
  ['no method', { jsonrpc: '2.0', id: 1 }, -32600],
  ['an id that is null', { jsonrpc: '2.0', id: null, method: 'ping' }, -32600],
  ['params that are a list', { jsonrpc: '2.0', id: 1, method: 'ping', params: [] }, -32602],
] as const) {
  test(`a message with ${name} is rejected`, async () => {
    const answer = await client().send(body);
    assert.deepEqual([answer.status, answer.body.error.code], [400, code]);
  });
}

test('a client response is accepted and ignored', async () => {
  assert.equal((await client().send({ jsonrpc: '2.0', id: 1, result: {} })).status, 202);
});

test('GET and DELETE are not allowed', async () => {
  const api = apiClient(() => at);
  for (const method of ['GET', 'DELETE', 'PUT']) {
    const answer = await api.call({ method, path: '/mcp', headers: { authorization: `Bearer ${key}` } });
    assert.deepEqual([method, answer.status, answer.headers.allow], [method, 405, 'POST']);
  }
  api.close();
});

test('a missing or unknown key gets a 401 challenge, and X-Api-Key is accepted', async () => {
  const body = { jsonrpc: '2.0', id: 1, method: 'ping' };
  const api = apiClient(() => at);
  for (const headers of [{}, { authorization: 'Bearer pr_live_x' }, { authorization: `Basic ${key}` }]) {
    const answer = await api.call({ method: 'POST', path: '/mcp', body, headers: headers as Record<string, string> });
    assert.equal(answer.status, 401);
    assert.match(answer.headers['www-authenticate']!, /^Bearer/);
    assert.equal(answer.body.jsonrpc, '2.0');
    assert.match(answer.body.error.message, /Authorization: Bearer/);
    assert.ok(!answer.text.includes('pr_live_x'));
  }
  const answer = await api.call({ method: 'POST', path: '/mcp', body, headers: { 'x-api-key': key } });
  assert.equal(answer.status, 200);
  api.close();
});

test('a page of another origin is rejected, even if its name resolves to this service', async () => {
  const body = { jsonrpc: '2.0', id: 1, method: 'ping' };
  const own = `127.0.0.1:${app.port}`;
  for (const [origin, host, status] of [
    ['https://evil.example', own, 403],
    ['http://evil.example', 'evil.example', 403],
    ['null', own, 403],
    [`http://localhost:${app.port}`, own, 200],
    [`http://${own}`, own, 200],
  ] as const) {
    const answer = await client().send(body, { origin, host });
    assert.deepEqual([origin, answer.status], [origin, status]);
  }
});

test('other content types and oversized bodies return JSON-RPC errors', async () => {
  const typed = await client().send('{}', { 'content-type': 'text/plain' });
  assert.deepEqual([typed.status, typed.body.error.data.code], [415, 'UNSUPPORTED_MEDIA_TYPE']);
  const large = await client().send(JSON.stringify({ jsonrpc: '2.0', x: 'y'.repeat(1_000_001) }));
  assert.deepEqual([large.status, large.body.error.data.code], [413, 'PAYLOAD_TOO_LARGE']);
});

test('a key with scope send can only send and search the documentation', async () => {
  const mcp = mcpClient({ url: at, key: await newKey('sandbox', 'send') });
  const email = { from: 'a@shop.example', to: ['ann@example.com'], subject: 'Hi', text: 'Hi' };
  assert.equal((await mcp.tool('preview_email', email)).isError, undefined);
  assert.equal((await mcp.tool('send_email', email)).structuredContent.status, 'done');
  assert.equal((await mcp.tool('search_docs', { query: 'dkim' })).isError, undefined);
  const calls: Record<string, object> = {
    find_messages: {},
    get_message: { id: 'msg_1' },
    list_events: {},
    check_domain: {},
    explain_destination: { domain: 'example.com' },
    run_doctor: {},
    list_suppressions: {},
    change_suppression: { action: 'add', email: 'a@b.example' },
    list_templates: {},
    render_template: { text: 'x' },
    wait_for_sandbox_mail: { timeoutSeconds: 0 },
    sandbox_control: { action: 'clear_inbox' },
    webhook_deliveries: {},
    get_statistics: {},
  };
  for (const [name, args] of Object.entries(calls)) {
    const result = await mcp.tool(name, args);
    assert.equal(result.isError, true, name);
    assert.equal(result.structuredContent.error.code, 'FORBIDDEN', name);
  }
});

test('POSTRIDER_MCP=off disables the endpoint, and =read makes it read-only', async () => {
  for (const [setting, status, tools] of [
    ['off', 404, undefined],
    ['read', 200, 14],
  ] as const) {
    const other = await inProcessApi({ env: { POSTRIDER_MCP: setting } });
    const made = await createKey(other.parts, {
      accountId: other.accountId,
      mode: 'live',
      scope: 'full',
      name: 'agent',
    });
    assert.ok(made.ok);
    const mcp = mcpClient({ url: `http://127.0.0.1:${other.port}`, key: made.value.apiKey, query: '?tools=on' });
    const answer = await mcp.request('tools/list');
    assert.deepEqual([answer.status, answer.body.result?.tools.length], [status, tools]);
    await other.close();
  }
});

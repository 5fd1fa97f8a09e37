/** `postrider mcp` between an agent and a service: one line per message, errors as replies, and no other output on stdout. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../../test/kit/api.ts';
import { type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { CURRENT } from '../../test/kit/mcp.ts';
import { createKey } from '../accounts/accounts.ts';
import type { CommandCall } from './command.ts';
import { mcp } from './mcp.ts';

let app: InProcessApi;
let key: string;

before(async () => {
  app = await inProcessApi({ env: { POSTRIDER_MCP: 'on' } });
  const made = await createKey(app.parts, { accountId: app.accountId, mode: 'sandbox', scope: 'full', name: 'agent' });
  assert.ok(made.ok);
  key = made.value.apiKey;
});
after(() => app.close());

/** Runs the command with these lines; returns the replies by id. */
async function bridge(lines: string[], options: JsonObject = {}): Promise<Map<unknown, JsonObject>> {
  const written: string[] = [];
  const streams = { out: (text: string) => written.push(text), err: assert.fail };
  const url = `http://127.0.0.1:${app.port}`;
  const call = {
    environment: {},
    options: { url, id: app.accountId, key, ...options },
    streams,
  } as never as CommandCall<{ read?: boolean }>;
  await mcp(call, Readable.from([`${lines.join('\n')}\n`]));
  const replies = written.map((one) => {
    assert.ok(one.endsWith('\n') && one.indexOf('\n') === one.length - 1);
    return JSON.parse(one) as JsonObject;
  });
  return new Map(replies.map((one) => [one.id, one]));
}

const message = (id: unknown, method: string, params: JsonObject = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params });

test('an earlier client revision can initialize, notify, list, and call', async () => {
  const clientInfo = { name: 'Desk', version: '1' };
  const replies = await bridge([
    message(1, 'initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }),
    JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }),
    message(2, 'tools/list'),
    message('3', 'tools/call', { name: 'search_docs', arguments: { query: 'webhook signature' } }),
  ]);
  assert.equal(replies.size, 3);
  assert.equal(replies.get(1)!.result.protocolVersion, '2025-06-18');
  assert.equal(replies.get(2)!.result.tools.length, 17);
  assert.ok(replies.get('3')!.result.structuredContent.items.length > 0);
  const [entry] = (await app.sandbox.get('/audit?action=agent.call&limit=1')).body as JsonObject[];
  assert.equal(entry!.after.client, 'Desk');
});

test('a current client revision works in read-only mode', async () => {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': CURRENT,
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const replies = await bridge([message(1, 'server/discover', { _meta }), message(2, 'tools/list', { _meta })], {
    read: true,
  });
  assert.equal(replies.get(1)!.result.resultType, 'complete');
  assert.equal(replies.get(2)!.result.tools.length, 14);
});

test('errors are returned with the request ID', async () => {
  const parse = await bridge(['{"jsonrpc": nonsense']);
  assert.equal(parse.get(null)!.error.code, -32700);
  const refused = await bridge([message(7, 'tools/list')], { key: 'pr_test_wrong' });
  assert.equal(refused.get(7)!.error.data.code, 'UNAUTHORIZED');
  const wish = { accountId: app.accountId, mode: 'sandbox', scope: 'full', name: 'elsewhere' } as const;
  const elsewhere = await createKey(app.parts, { ...wish, allowedNetworks: ['192.0.2.0/24'] });
  assert.ok(elsewhere.ok);
  const outside = await bridge([message(7, 'tools/list')], { key: elsewhere.value.apiKey });
  assert.equal(outside.get(7)!.error.data.code, 'FORBIDDEN');
  const unreachable = await bridge([message(8, 'tools/list')], { url: 'http://127.0.0.1:1' });
  assert.equal(unreachable.get(8)!.error.code, -32603);
});

/** The official MCP clients, of both eras, against POST /mcp: list, call, and a change that the user of the client approves. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { createKey } from '../../src/accounts/accounts.ts';
import { addDomain } from '../../src/domains/domains.ts';
import type { JsonObject } from '../kit/api.ts';
import { type InProcessApi, inProcessApi } from '../kit/in-process-api.ts';

const INFO = { name: 'Official client', version: '1.0.0' };
const EMAIL = { from: 'shop@shop.example', to: ['ann@example.com'], subject: 'Hello', text: 'Hello' };

let app: InProcessApi;
let url: URL;

before(async () => {
  app = await inProcessApi({ env: { POSTRIDER_MCP: 'on' } });
  url = new URL(`http://127.0.0.1:${app.port}/mcp`);
  await addDomain(app.parts, { accountId: app.accountId, domain: 'shop.example', verified: true });
});
after(() => app.close());

async function withKey(mode: 'live' | 'sandbox') {
  const made = await createKey(app.parts, { accountId: app.accountId, mode, scope: 'full', name: 'agent' });
  assert.ok(made.ok);
  return { requestInit: { headers: { Authorization: `Bearer ${made.value.apiKey}` } } };
}

test('SDK for earlier protocol revisions', async () => {
  const client = new EarlierClient(INFO);
  await client.connect(new EarlierTransport(url, await withKey('sandbox')) as never);
  assert.equal(client.getServerVersion()?.name, 'postrider');
  await client.ping();
  const { tools } = await client.listTools();
  assert.equal(tools.length, 17);
  const sent = (await client.callTool({ name: 'send_email', arguments: EMAIL })) as JsonObject;
  assert.equal(sent.structuredContent.status, 'done');
  const waited = (await client.callTool({
    name: 'wait_for_sandbox_mail',
    arguments: { to: EMAIL.to[0] },
  })) as JsonObject;
  assert.equal(waited.structuredContent.to, 'ann@example.com');
  await client.close();
});

test('current SDK, with user approval', async () => {
  const asked: string[] = [];
  const options = { capabilities: { elicitation: {} }, versionNegotiation: { mode: { pin: '2026-07-28' } } };
  const client = new Client(INFO, options as never);
  client.setRequestHandler('elicitation/create', async (request: JsonObject) => {
    asked.push(request.params.message);
    return { action: 'accept', content: { approve: true } };
  });
  await client.connect(new StreamableHTTPClientTransport(url, await withKey('live')));
  const { tools } = await client.listTools();
  assert.equal(tools.length, 17);
  const sent = (await client.callTool({ name: 'send_email', arguments: EMAIL })) as JsonObject;
  assert.equal(sent.structuredContent.status, 'done', JSON.stringify(sent));
  assert.equal(asked.length, 1);
  assert.match(asked[0]!, /ann@example\.com/);
  const [entry] = (await app.live.get('/audit?action=agent-request.approve')).body as JsonObject[];
  assert.equal(entry!.after.decidedBy, 'the user of Official client');
  await client.close();
});

/**
 * Keys and credentials restricted to networks, on every interface: the API, submission, the interfaces of other services, and agents; from
 * several addresses of this machine, and from clients that a trusted proxy reports.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { AwsV4Signer } from 'aws4fetch';
import { type Answer, type Api, apiClient, type JsonObject } from '../kit/api.ts';
import { CURRENT } from '../kit/mcp.ts';
import { closeShop, openShop } from '../kit/shop.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import { connectTalker, plainResponse, type Talker } from '../kit/smtp-talker.ts';
import type { Service } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const PROXY = '127.0.0.9';
const ADDRESSES = ['127.0.0.1', '127.0.0.2', '::1', PROXY] as const;
type Address = (typeof ADDRESSES)[number];

let sink: SmtpSink;
let service: Service;
/** Clients without credentials, by the address that they connect from. */
const from = {} as Record<Address, Api>;

before(async () => {
  ({ sink, service } = await openShop({
    env: {
      POSTRIDER_HTTP_HOST: '::',
      POSTRIDER_SMTP_HOST: '::',
      POSTRIDER_TRUSTED_PROXIES: PROXY,
      POSTRIDER_DOORS: 'resend,ses',
      POSTRIDER_MCP: 'on',
    },
  }));
  for (const localAddress of ADDRESSES) {
    const url = () => (localAddress === '::1' ? service.url.replace('127.0.0.1', '[::1]') : service.url);
    from[localAddress] = apiClient(url, undefined, { localAddress });
  }
});
after(async () => {
  for (const client of Object.values(from)) client.close();
  await closeShop({ sink, service });
});

interface Made {
  keyId: string;
  apiKey: string;
  accessKeyId: string;
  secretAccessKey: string;
}

async function newKey(allowedNetworks: string[], rest: object = {}): Promise<Made> {
  const made = await service.api.post('/api-keys', { allowedNetworks, ...rest });
  assert.equal(made.status, 201, made.text);
  return made.body as Made;
}

const headersOf = (apiKey: string) => ({ 'x-api-key': apiKey, 'x-id': service.live.accountId });
const account = (apiKey: string, address: Address, headers: Record<string, string> = {}): Promise<Answer> =>
  from[address].call({ method: 'GET', path: '/account', headers: { ...headersOf(apiKey), ...headers } });
const limit = async (keyId: string, allowedNetworks: string[]): Promise<void> => {
  assert.equal((await service.api.patch(`/api-keys/${keyId}`, { allowedNetworks })).status, 200);
};
const requests = async (query: string) => (await service.api.get(`/requests?${query}`)).body as unknown as JsonObject[];

test('a key works only from its networks, even right after a request from inside', async () => {
  const { apiKey, keyId } = await newKey(['127.0.0.2', '::1/128']);
  for (let round = 0; round < 3; round += 1) {
    for (const inside of ['127.0.0.2', '::1'] as const)
      assert.equal((await account(apiKey, inside)).status, 200, inside);
    const outside = await account(apiKey, '127.0.0.1');
    assert.deepEqual([outside.status, outside.body.error.code], [403, 'FORBIDDEN']);
    assert.match(outside.body.error.message, /from the address 127\.0\.0\.1\./);
  }
  const send = { from: 'a@shop.example', to: 'outside@example.com', subject: 'x', text: 'x' };
  const refused = await from['127.0.0.1'].post('/send', send, headersOf(apiKey));
  assert.equal(refused.status, 403);
  const [seen] = await requests('source=api&code=FORBIDDEN&limit=1');
  assert.deepEqual([seen?.endpoint, seen?.keyId, seen?.address], ['POST /send', keyId, '127.0.0.1']);
  assert.equal((await account(`${apiKey.slice(0, -1)}-`, '127.0.0.2')).status, 401);
});

test('changed networks apply to the next request and end event streams', async () => {
  const { apiKey, keyId } = await newKey([]);
  const statuses = async () => [
    (await account(apiKey, '127.0.0.1')).status,
    (await account(apiKey, '127.0.0.2')).status,
    (await account(apiKey, '::1')).status,
  ];
  assert.deepEqual(await statuses(), [200, 200, 200]);
  await limit(keyId, ['127.0.0.1']);
  assert.deepEqual(await statuses(), [200, 403, 403]);
  await limit(keyId, ['127.0.0.2/31', '::1']);
  assert.deepEqual(await statuses(), [403, 200, 200]);
  await limit(keyId, []);
  assert.deepEqual(await statuses(), [200, 200, 200]);
  const [entry] = (await service.api.get('/audit?action=api-key.update&limit=1')).body as unknown as JsonObject[];
  assert.equal(entry?.resourceId, keyId);
  assert.match(JSON.stringify(entry.before), /127\.0\.0\.2\/31.*::1\/128/);
  assert.doesNotMatch(JSON.stringify(entry.after), /127\.0\.0\.2/);

  const stream = await new Promise<http.IncomingMessage>((resolve, reject) => {
    http.get(`${service.url}/events/stream`, { headers: headersOf(apiKey) }, resolve).on('error', reject);
  });
  assert.equal(stream.statusCode, 200);
  stream.resume();
  await limit(keyId, ['127.0.0.2']);
  await waitUntil('the end of the stream', () => stream.closed);
});

test('behind a trusted proxy the client address decides, and no other header can change it', async () => {
  const { apiKey } = await newKey(['203.0.113.0/24', '2001:db8::/32']);
  const forwarded = async (address: Address, chain: string) =>
    (await account(apiKey, address, { 'x-forwarded-for': chain })).status;
  for (const chain of ['203.0.113.9', '198.51.100.1, 203.0.113.9', '2001:DB8::5', '::ffff:203.0.113.9'])
    assert.equal(await forwarded(PROXY, chain), 200, chain);
  for (const chain of ['198.51.100.1', '203.0.113.9, 198.51.100.1', '2001:db9::5', 'unknown', PROXY])
    assert.equal(await forwarded(PROXY, chain), 403, chain);
  for (const stranger of ['127.0.0.1', '::1'] as const)
    assert.equal(await forwarded(stranger, '203.0.113.9'), 403, `${stranger} is not a proxy`);
  assert.equal((await account(apiKey, PROXY)).status, 403);
  assert.equal((await account(apiKey, PROXY, { 'x-real-ip': '203.0.113.9' })).status, 403);
});

/** A session inside TLS; `client` is reported by the proxy. */
async function session(address: Address, client?: string): Promise<Talker> {
  const host = address === '::1' ? '::1' : '127.0.0.1';
  const talker = await connectTalker(service.smtpPort, { host, localAddress: address });
  if (client !== undefined) talker.send(`PROXY TCP4 ${client} 127.0.0.1 50000 587\r\n`);
  assert.match(await talker.reply(), /^220 /);
  await talker.secure();
  return talker;
}

async function auth(credential: { username: string; password: string }, address: Address, client?: string) {
  const talker = await session(address, client);
  const reply = await talker.say(`AUTH PLAIN ${plainResponse(credential)}`);
  talker.destroy();
  return reply;
}

const LOGIN_FAILED = '535 5.7.8 authentication failed; check username and password';

test('a credential logs in only from its networks; elsewhere it gets the wrong-password reply', async () => {
  const made = await service.api.post('/smtp-credentials', { allowedNetworks: ['127.0.0.2', '203.0.113.0/24'] });
  assert.deepEqual([made.status, made.body.allowedNetworks], [201, ['127.0.0.2/32', '203.0.113.0/24']]);
  const credential = made.body as JsonObject & { username: string; password: string };
  const id: string = credential.smtpCredentialId;
  const narrow = async (...allowedNetworks: string[]) =>
    assert.equal((await service.api.patch(`/smtp-credentials/${id}`, { allowedNetworks })).status, 200);

  assert.equal(await auth(credential, '127.0.0.1'), LOGIN_FAILED, 'before anything is cached');
  assert.match(await auth(credential, '127.0.0.2'), /^235 /);
  assert.equal(await auth(credential, '127.0.0.1'), LOGIN_FAILED, 'though the password is known');
  assert.equal(await auth(credential, '::1'), LOGIN_FAILED);
  assert.equal(await auth({ ...credential, password: 'wrong' }, '127.0.0.1'), LOGIN_FAILED);
  assert.match(await auth(credential, PROXY, '203.0.113.9'), /^235 /);
  assert.equal(await auth(credential, PROXY, '198.51.100.1'), LOGIN_FAILED);

  const seen = await waitUntil('the refused logins', async () => {
    const found = await requests('source=smtp&limit=10');
    return found.length >= 4 ? found : undefined;
  });
  assert.deepEqual(
    seen.map(({ address }) => address).sort(),
    ['127.0.0.1', '127.0.0.1', '198.51.100.1', '::1'].sort(),
    'not the one with a wrong password',
  );
  assert.deepEqual([seen[0]?.verb, seen[0]?.status, seen[0]?.code], ['AUTH', 535, '5.7.8']);
  assert.match(seen[0]?.message, /allowedNetworks/);
  assert.match(service.log, /SMTP login from an address outside allowedNetworks/);

  const talker = await session('127.0.0.2');
  assert.match(await talker.say(`AUTH PLAIN ${plainResponse(credential)}`), /^235 /);
  const mail = async (subject: string): Promise<string> => {
    const reply = await talker.say('MAIL FROM:<a@shop.example>');
    if (!reply.startsWith('250')) return reply;
    assert.match(await talker.say('RCPT TO:<inside@example.com>'), /^250 /);
    assert.match(await talker.say('DATA'), /^354 /);
    return talker.say(`From: a@shop.example\r\nSubject: ${subject}\r\n\r\nx\r\n.`);
  };
  assert.match(await mail('from inside'), /^250 2\.0\.0 queued/);
  await narrow('127.0.0.1/32');
  assert.equal(await mail('after the change'), LOGIN_FAILED, 'the next message of an open session');
  talker.destroy();
  assert.equal(await auth(credential, '127.0.0.2'), LOGIN_FAILED);
  assert.match(await auth(credential, '127.0.0.1'), /^235 /);
  await narrow();
  assert.match(await auth(credential, '::1'), /^235 /);
  const delivered = await waitUntil('the mail', () => {
    const found = sink.messages.filter((one) => one.to.includes('inside@example.com'));
    return found.length > 0 ? found : undefined;
  });
  assert.equal(delivered.length, 1);
});

test('network restrictions also apply to the Resend, SES, and MCP interfaces', async () => {
  const inside = '127.0.0.2';
  const key = await newKey([inside], { scope: 'send' });
  const full = await newKey([inside]);
  const bearer = { authorization: `Bearer ${key.apiKey}` };
  const body = { from: 'a@shop.example', to: ['resend@example.com'], subject: 'x', text: 'x' };
  const resend = (address: Address) => from[address].post('/emails', body, bearer);
  assert.equal((await resend(inside)).status, 200);
  const refused = await resend('127.0.0.1');
  assert.deepEqual([refused.status, refused.body.name], [403, 'restricted_api_key']);

  const signing = await newKey([inside], { kind: 'sigv4' });
  const ses = async (address: Address) => {
    const content = JSON.stringify({
      FromEmailAddress: 'a@shop.example',
      Destination: { ToAddresses: ['ses@example.com'] },
      Content: { Simple: { Subject: { Data: 's' }, Body: { Text: { Data: 't' } } } },
    });
    const path = '/v2/email/outbound-emails';
    const { headers } = await new AwsV4Signer({
      accessKeyId: signing.accessKeyId,
      secretAccessKey: signing.secretAccessKey,
      service: 'ses',
      region: 'us-west-2',
      url: `${service.url}${path}`,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: content,
      allHeaders: true,
    }).sign();
    return from[address].call({
      method: 'POST',
      path,
      body: content,
      headers: Object.fromEntries(new Headers(headers)),
    });
  };
  assert.equal((await ses(inside)).status, 200);
  const denied = await ses('127.0.0.1');
  assert.deepEqual([denied.status, denied.headers['x-amzn-errortype']], [403, 'AccessDeniedException']);

  const mcp = (address: Address) =>
    from[address].post(
      '/mcp',
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/list',
        params: {
          _meta: {
            'io.modelcontextprotocol/protocolVersion': CURRENT,
            'io.modelcontextprotocol/clientInfo': { name: 'Test Agent', version: '1.0' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      },
      {
        authorization: `Bearer ${full.apiKey}`,
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': CURRENT,
        'mcp-method': 'tools/list',
      },
    );
  assert.equal((await mcp(inside)).body.result?.tools.length, 17);
  const agent = await mcp('127.0.0.1');
  assert.deepEqual([agent.status, agent.body.error.data.code], [403, 'FORBIDDEN']);

  const login = { username: 'apikey', password: key.apiKey };
  assert.match(await auth(login, inside), /^235 /);
  assert.equal(await auth(login, '127.0.0.1'), LOGIN_FAILED);
  const talker = await session(inside);
  assert.match(await talker.say(`AUTH PLAIN ${plainResponse(login)}`), /^235 /);
  await limit(key.keyId, ['192.0.2.0/24']);
  assert.equal(await talker.say('MAIL FROM:<a@shop.example>'), LOGIN_FAILED, 'the next message of an open session');
  talker.destroy();
});

test('the command line sets networks', async () => {
  const { accountId } = service.live;
  const networks = ['--network', '127.0.0.2', '--network', '2001:db8::/32'];
  const { apiKey, keyId } = await service.cli('key', 'create', accountId, ...networks);
  const signing = await service.cli('key', 'create', accountId, '--kind', 'sigv4', ...networks);
  const credential = await service.cli('smtp-credential', 'create', accountId, ...networks);
  const keys = (await service.api.get('/api-keys?limit=100')).body as unknown as JsonObject[];
  const credentials = (await service.api.get('/smtp-credentials')).body as unknown as JsonObject[];
  const rows = [
    keys.find((one) => one.keyId === keyId),
    keys.find((one) => one.keyId === signing.keyId),
    credentials.find((one) => one.smtpCredentialId === credential.smtpCredentialId),
  ];
  for (const row of rows) assert.deepEqual(row?.allowedNetworks, ['127.0.0.2/32', '2001:db8::/32']);
  assert.deepEqual(
    [(await account(apiKey, '127.0.0.2')).status, (await account(apiKey, '127.0.0.1')).status],
    [200, 403],
  );
  assert.equal(await auth(credential as never, '127.0.0.1'), LOGIN_FAILED);
  await assert.rejects(
    service.cli('key', 'create', accountId, '--network', '10.1.2.3/8'),
    /ended with 2: .*--network must have no bits set after its prefix: use 10\.0\.0\.0\/8/,
  );
});

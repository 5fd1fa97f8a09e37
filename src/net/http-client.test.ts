/** Webhook POSTs: allowed addresses, limits of a response, and the kind of every failure. */
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, test } from 'node:test';
import { foundAnswer } from '../../test/kit/fake-dns.ts';
import { againIfPaused } from '../../test/kit/running-time.ts';
import { testCertificate } from '../../test/kit/test-certificate.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../../test/kit/webhook-catcher.ts';
import { parseCidrs } from './address-guard.ts';
import type { DnsAnswer } from './dns.ts';
import { openDns } from './dns.ts';
import { checkUrl, type HttpClient, type HttpClientOptions, openHttpClient } from './http-client.ts';

const open: { close(): Promise<void> | void }[] = [];
after(async () => {
  for (const one of open.reverse()) await one.close();
});

const names: Record<string, string[]> = {
  'hooks.example': ['127.0.0.1'],
  'mixed.example': ['93.184.216.34', '10.0.0.1'],
  'private.example': ['192.168.1.1'],
  'public.example': ['93.184.216.34'],
  'dead-first.example': ['127.0.0.2', '127.0.0.1'],
};
let lookups = 0;
const literals = openDns({ servers: ['127.0.0.1:9'] });
open.push(literals);
const lookup = async (host: string): Promise<DnsAnswer<string[]>> => {
  lookups += 1;
  if (host === 'broken.example') return { status: 'temporary', cause: 'ESERVFAIL' };
  const known = names[host];
  if (known) return foundAnswer(known);
  return host.endsWith('.example') ? { status: 'no-such-domain', secure: false } : literals.lookupHost(host);
};

const LOOPBACK = parseCidrs('127.0.0.0/8,::1');
assert.ok(LOOPBACK.ok);
const allow = LOOPBACK.cidrs;

function client(options: Partial<HttpClientOptions> = {}): HttpClient {
  const made = openHttpClient({ lookup, allow, ...options });
  open.push(made);
  return made;
}

async function catcher(options: Parameters<typeof webhookCatcher>[0] = {}): Promise<WebhookCatcher> {
  const made = await webhookCatcher(options);
  open.push(made);
  return made;
}

const request = { headers: { 'content-type': 'application/json', 'webhook-id': 'evt_1' }, body: '{"a":"ü"}' };

test('requests name the client', async () => {
  const hook = await catcher();
  await client({ userAgent: 'Postrider-Webhooks/1.0.0' }).post({ ...request, url: hook.url });
  await client().get({ url: hook.url });
  assert.deepEqual(
    hook.requests.map(({ headers }) => headers['user-agent']),
    ['Postrider-Webhooks/1.0.0', 'Postrider'],
  );
});

test('posts body and headers by name and by literal, over kept connections', async () => {
  const hook = await catcher({
    script: { status: 201, body: 'thanks\u0000\u001b[31m', headers: { 'retry-after': '7' } },
  });
  const http = client();
  const first = await http.post({ ...request, url: `http://hooks.example:${hook.port}/a?b=c` });
  assert.ok(first.ok);
  assert.deepEqual([first.status, first.headers['retry-after'], first.bodyStart], [201, '7', 'thanks [31m']);
  const [got] = hook.requests;
  assert.deepEqual([got?.method, got?.path, got?.body], ['POST', '/a?b=c', '{"a":"ü"}']);
  assert.deepEqual([got?.headers.host, got?.headers['webhook-id']], [`hooks.example:${hook.port}`, 'evt_1']);
  for (let i = 0; i < 6; i += 1) await http.post({ ...request, url: `http://hooks.example:${hook.port}/` });
  // Undici releases a connection one turn of the event loop after a response. An earlier request opens a second connection.
  assert.ok(hook.connections.total <= 2, String(hook.connections.total));
  assert.ok((await http.post({ ...request, url: hook.url })).ok);
});

test('non-public addresses are rejected at connect time in every form', async () => {
  const hook = await catcher();
  const http = client({ allow: [] });
  const hosts = [
    '127.0.0.1',
    '0x7f.1',
    '2130706433',
    '0177.0.0.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    'localhost',
    'hooks.example',
  ];
  for (const host of [...hosts, 'mixed.example', '169.254.169.254', '[fd00:ec2::254]']) {
    const outcome = await http.post({ ...request, url: `http://${host}:${hook.port}/` });
    assert.ok(!outcome.ok);
    assert.equal(outcome.kind, 'refused-address', host);
  }
  assert.equal(hook.connections.total, 0);
});

test('only allowed addresses of localhost are used, and a name with a rejected one fails', async () => {
  const hook = await catcher();
  const ipv4 = parseCidrs('127.0.0.0/8');
  assert.ok(ipv4.ok);
  const options = { lookup, allow: ipv4.cidrs };
  const http = client(options);
  for (const host of ['localhost', 'app.localhost', 'LOCALHOST.']) {
    const url = `http://${host}:${hook.port}/`;
    assert.equal(await checkUrl(url, options), undefined, url);
    assert.ok((await http.post({ ...request, url })).ok, url);
  }
  names['halves.example'] = ['127.0.0.1', '::1'];
  const halves = await http.post({ ...request, url: `http://halves.example:${hook.port}/` });
  assert.ok(!halves.ok && halves.kind === 'refused-address');
});

test('the checked address is the one connected to, without a second DNS query', async () => {
  const hook = await catcher();
  let asked = 0;
  const rebinding = async (): Promise<DnsAnswer<string[]>> => {
    asked += 1;
    return foundAnswer(asked === 1 ? ['127.0.0.1'] : ['127.0.0.3']);
  };
  const http = client({ lookup: rebinding });
  assert.ok((await http.post({ ...request, url: `http://rebind.example:${hook.port}/` })).ok);
  assert.equal(asked, 1);
});

test('another address of the name is used if one is unreachable', async () => {
  const hook = await catcher();
  assert.ok((await client().post({ ...request, url: `http://dead-first.example:${hook.port}/` })).ok);
});

test('redirects are returned, not followed', async () => {
  const target = await catcher();
  const hook = await catcher({ script: { status: 307, headers: { location: target.url } } });
  const outcome = await client().post({ ...request, url: hook.url });
  assert.ok(outcome.ok);
  assert.deepEqual([outcome.status, outcome.headers.location], [307, target.url]);
  assert.equal(target.requests.length, 0);
});

test('an endless body is cut at 64 KB, a slow one at the deadline, and the status is kept', async () => {
  const hook = await catcher({ script: { endless: true } });
  const http = client();
  const fast = await http.post({ ...request, url: hook.url });
  assert.ok(fast.ok);
  assert.equal(fast.bodyStart.length, 1000);
  await waitUntil('the connection to be closed', () => hook.connections.now === 0);
  hook.answer({ endless: { everyMs: 10 } });
  await againIfPaused(async () => {
    const slow = await http.post({ ...request, url: hook.url, timeoutMs: 150 });
    assert.ok(slow.ok);
    assert.ok(slow.latencyMs < 1000);
  });
  await waitUntil('the connection to be closed', () => hook.connections.now === 0);
});

test('a silent server causes a timeout that frees the connection', async () => {
  const hook = await catcher({ script: { silent: true } });
  await againIfPaused(async () => {
    const outcome = await client().post({ ...request, url: hook.url, timeoutMs: 80 });
    assert.ok(!outcome.ok);
    assert.deepEqual([outcome.kind, outcome.message], ['timeout', 'the server did not answer within 0.08 s']);
  });
  await waitUntil('the connection to be closed', () => hook.connections.now === 0);
});

test('requests waiting for a connection have a deadline too', async () => {
  const hook = await catcher({ script: { silent: true } });
  const http = client({ connectionsPerOrigin: 1 });
  const both = await Promise.all([1, 2].map(() => http.post({ ...request, url: hook.url, timeoutMs: 80 })));
  assert.deepEqual(
    both.map((one) => (one.ok ? 'ok' : one.kind)),
    ['timeout', 'timeout'],
  );
});

test('every other failure has its own kind, and a sentence for the owner of the URL', async () => {
  const hook = await catcher({ script: { reset: true } });
  const http = client();
  const fails = async (url: string, expected: RegExp, extra = {}): Promise<void> => {
    const outcome = await http.post({ ...request, url, timeoutMs: 30_000, ...extra });
    assert.match(outcome.ok ? String(outcome.status) : `${outcome.kind}: ${outcome.message}`, expected);
  };
  await fails(hook.url, /^reset: the connection to the server was closed before the exchange was complete \(/);
  hook.answer({ raw: 'SSH-2.0-OpenSSH\r\n' });
  await fails(hook.url, /^protocol: the response of the server is not valid HTTP \(/);
  hook.answer({ headers: { 'x-large': 'x'.repeat(15_000), 'x-larger': 'x'.repeat(15_000) } });
  await fails(hook.url, /^protocol: the headers of the response are too long \(/);
  hook.answer({ silent: true });
  await fails(hook.url, /^reset: the request was cancelled$/, { signal: AbortSignal.timeout(50) });
  await fails('http://missing.example/', /^dns: the name missing\.example has no address$/);
  await fails('http://broken.example/', /^dns: the name broken\.example does not resolve at the moment$/);
  await fails('ftp://hooks.example/', /^protocol: not an http or https URL$/);
  await fails(hook.url, /^protocol: /, { headers: { 'x-a': 'b\r\nx-c: d' } });
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  await fails(
    `http://127.0.0.1:${port}/`,
    new RegExp(`^connect: the server refused the connection \\(connect ECONNREFUSED 127\\.0\\.0\\.1:${port}\\)$`),
  );
  const plain = await catcher();
  await fails(
    `https://127.0.0.1:${plain.port}/`,
    /^tls: the server answered the TLS handshake with something that is not TLS \(ERR_SSL/,
  );
});

test('TLS is verified against the name of the URL', async () => {
  const certificate = testCertificate(['hooks.example']);
  const hook = await catcher({ certificate });
  const trusting = client({ ca: certificate.cert });
  assert.ok((await trusting.post({ ...request, url: `https://hooks.example:${hook.port}/` })).ok);
  const wrongName = await trusting.post({ ...request, url: `https://dead-first.example:${hook.port}/` });
  assert.ok(!wrongName.ok);
  assert.equal(wrongName.kind, 'tls');
  const literal = await trusting.post({ ...request, url: `https://127.0.0.1:${hook.port}/` });
  assert.ok(!literal.ok);
  assert.equal(literal.kind, 'tls');
  const unknown = await client().post({ ...request, url: `https://hooks.example:${hook.port}/` });
  assert.ok(!unknown.ok);
  assert.equal(unknown.kind, 'tls');
});

test('checkUrl validates the form first and then the addresses', async () => {
  const check = (url: string, ranges = allow.slice(0, 0)) => checkUrl(url, { lookup, allow: ranges });
  for (const good of [
    'https://public.example/a?b=c',
    'http://93.184.216.34:8080/',
    'https://missing.example/',
    'https://broken.example/',
  ]) {
    assert.equal(await check(good), undefined, good);
  }
  const bad: [string, RegExp][] = [
    ['ftp://public.example/', /https:\/\//],
    ['public.example', /https:\/\//],
    ['https:public.example', /https:\/\//],
    ['https:///public.example', /https:\/\//],
    ['https://user:pass@public.example/', /password/],
    ['https://@public.example/', /password/],
    ['https://public.example/#x', /fragment/],
    ['https://public.example/#', /fragment/],
    ['https://public.example/a b', /spaces/],
    ['https://public.example/\r\nX: y', /spaces/],
    ['https://public.example\\@private.example/', /backslashes/],
    [`https://public.example/${'x'.repeat(2048)}`, /2048/],
    ['http://0x7f.1/', /loopback/],
    ['http://[::ffff:10.0.0.1]/', /private/],
    ['http://169.254.169.254/latest/meta-data', /linkLocal/],
    ['http://localhost:3000/', /loopback/],
    ['http://private.example/', /private/],
    ['http://mixed.example/', /private/],
  ];
  for (const [url, reason] of bad) assert.match((await check(url)) ?? 'passed', reason, url);
  assert.equal(await check('http://127.0.0.1:3000/', allow), undefined);
  assert.ok(lookups > 0);
});

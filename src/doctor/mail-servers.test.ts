/** Port 25 and the DNS, with SMTP servers and a DNS server on loopback that record the dialogues. */
import assert from 'node:assert/strict';
import net from 'node:net';
import test, { type TestContext } from 'node:test';
import { type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { type SinkOptions, smtpSink } from '../../test/kit/smtp-sink.ts';
import { webhookCatcher } from '../../test/kit/webhook-catcher.ts';
import { openDns } from '../net/dns.ts';
import { checkDns, checkPort, checkRelay, type Probing } from './mail-servers.ts';

const ZONE: FakeZone = {
  'one.example': { MX: [[10, 'mx.one.example']] },
  'mx.one.example': { A: ['127.0.0.2'] },
  'two.example': { MX: [[10, 'mx.two.example']] },
  'mx.two.example': { A: ['127.0.0.3'] },
};

async function world(t: TestContext, options: SinkOptions = {}) {
  const sink = await smtpSink({ host: '127.0.0.2', ...options });
  const fake = await fakeDns({ ...ZONE });
  const dns = openDns({ servers: [fake.server], timeoutMs: 300, tries: 1 });
  t.after(async () => {
    dns.close();
    await Promise.all([sink.close(), fake.close()]);
  });
  const probing: Probing = { dns, domains: ['one.example'], port: sink.port, servers: 'ours', localAddresses: [] };
  return { sink, fake, probing };
}

test('a greeting server is reached from each source address and gets no message', async (t) => {
  const { sink, probing } = await world(t);
  const checks = await checkPort({ ...probing, localAddresses: ['127.0.0.1', '127.0.0.9'] });
  assert.deepEqual(
    checks.map(({ status, message }) => [status, message]),
    [
      ['ok', 'mx.one.example sends its greeting from 127.0.0.1'],
      ['ok', 'mx.one.example sends its greeting from 127.0.0.9'],
    ],
  );
  assert.deepEqual([sink.connections.total, sink.violations], [2, []]);
  assert.ok(
    sink.commands.every((line) => /^QUIT$/i.test(JSON.stringify(line).match(/QUIT/i)?.[0] ?? '')),
    'only QUIT',
  );
});

test('a server that rejects this host is reported', async (t) => {
  const { probing } = await world(t, { script: { banner: '554 5.7.1 blocked by policy, see list.example' } });
  const [check] = await checkPort(probing);
  assert.equal(check!.status, 'warn');
  assert.match(check!.message, /rejects this host: 554 5\.7\.1 blocked by policy/);
});

test('an unreachable server is reported itself, or as a blocked port 25 if none is reachable', async (t) => {
  const { sink, probing } = await world(t);
  const [closed] = await checkPort({ ...probing, domains: ['two.example'] });
  assert.deepEqual([closed!.status, closed!.message], ['fail', 'mx.two.example cannot be reached: ECONNREFUSED']);
  assert.match(closed!.remedy!, /block outgoing port 25/);
  const both = await checkPort({ ...probing, domains: ['one.example', 'two.example'] });
  assert.deepEqual(
    both.map(({ status }) => status),
    ['ok', 'warn'],
  );
  assert.equal(sink.connections.total, 1);
});

test('a domain without MX hosts is skipped', async (t) => {
  const { probing } = await world(t);
  const [check] = await checkPort({ ...probing, domains: ['gone.example'] });
  assert.equal(check!.status, 'skip');
});

test('the DNS is queried for the MX hosts of the first domain', async (t) => {
  const { fake, probing } = await world(t);
  assert.equal((await checkDns(probing, { isRelayed: false }))[0]!.status, 'ok');
  assert.ok(fake.questions.includes('MX one.example'));
  fake.zone['bad.example'] = { fail: 'SERVFAIL' };
  const bad = { ...probing, domains: ['bad.example'] };
  const statuses = [await checkDns(bad, { isRelayed: false }), await checkDns(bad, { isRelayed: true })];
  assert.deepEqual(
    statuses.map(([check]) => check!.status),
    ['fail', 'warn'],
  );
});

test('the relay is checked for reachability', async (t) => {
  const { sink } = await world(t);
  const relay = { name: 'relay', host: '127.0.0.2', port: sink.port } as const;
  assert.equal((await checkRelay(relay))[0]!.status, 'ok');
  const [limited] = await checkRelay({ ...relay, limits: { perMinute: 60, perDay: 1_000 } });
  assert.match(
    limited!.message,
    /accepts connections; Postrider sends at most 60 messages in a minute and 1000 messages/,
  );
  const free = net.createServer().listen(0, '127.0.0.1');
  const { port } = await new Promise<net.AddressInfo>((resolve) =>
    free.once('listening', () => resolve(free.address() as net.AddressInfo)),
  );
  await new Promise((resolve) => free.close(resolve));
  const [closed] = await checkRelay({ name: 'fallback relay', host: '127.0.0.1', port });
  assert.equal(closed!.status, 'fail');
  assert.match(closed!.remedy!, /POSTRIDER_FALLBACK_ROUTE/);
});

test('a relay with OAuth 2.0 is checked for an access token', async (t) => {
  const { sink } = await world(t);
  const json = { 'content-type': 'application/json' };
  const provider = await webhookCatcher({
    script: { headers: json, body: '{"access_token":"t","token_type":"Bearer"}' },
  });
  t.after(() => provider.close());
  const oauth = { user: 'noreply@example.com', tokenUrl: provider.url, clientId: 'id', clientSecret: 'secret' };
  const relay = { name: 'relay', host: '127.0.0.2', port: sink.port, oauth } as const;
  const statuses = async () => (await checkRelay(relay)).map(({ name, status }) => [name, status]);
  assert.deepEqual(await statuses(), [
    ['relay', 'ok'],
    ['relay', 'ok'],
  ]);
  provider.answer({ status: 401, headers: json, body: '{"error":"invalid_client"}' });
  const [, refused] = await checkRelay(relay);
  assert.equal(refused!.status, 'fail');
  assert.match(refused!.message, /issued no access token: invalid_client/);
  assert.match(refused!.remedy!, /scope in POSTRIDER_ROUTE/);
});

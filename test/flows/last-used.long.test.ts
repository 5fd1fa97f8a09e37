/**
 * When and from where keys and SMTP credentials were last used, with real clients of the real service on both databases: what counts as a
 * use, what does not, and that uses are written when the process stops.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Api, apiClient, type JsonObject } from '../kit/api.ts';
import { startCluster } from '../kit/cluster.ts';
import { connectTalker, plainResponse } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { DIALECTS } from '../kit/temp-database.ts';
import { tempPostgres } from '../kit/temp-postgres.ts';

const PROXY = '127.0.0.9';
const SETTINGS = { POSTRIDER_TRUSTED_PROXIES: PROXY, POSTRIDER_DOORS: 'resend' };

interface Used {
  lastUsedAt: string | null;
  lastUsedAddress: string | null;
}

const listOf = async (api: Api, path: string): Promise<(Used & JsonObject)[]> =>
  (await api.get(path)).body as never as (Used & JsonObject)[];
const useOf = async (api: Api, keyId: string): Promise<[boolean, string | null]> => {
  const { lastUsedAt, lastUsedAddress } = (await listOf(api, '/api-keys')).find((one) => one.keyId === keyId)!;
  return [lastUsedAt !== null, lastUsedAddress];
};

async function makeKey(service: Service, body: object): Promise<{ keyId: string; apiKey: string }> {
  const made = await service.api.post('/api-keys', body);
  assert.equal(made.status, 201, made.text);
  assert.deepEqual([made.body.lastUsedAt, made.body.lastUsedAddress], [null, null]);
  return made.body as { keyId: string; apiKey: string };
}

/** Calls with a key from an address of this machine; returns the status. */
async function callWith(
  service: Service,
  { apiKey, localAddress = '127.0.0.1', path = '/account', headers = {} }: CallOptions,
): Promise<number> {
  const client = apiClient(() => service.url, { accountId: service.live.accountId, apiKey }, { localAddress });
  const { status } = await client.call({ method: 'GET', path, headers });
  client.close();
  return status;
}

interface CallOptions {
  apiKey: string;
  localAddress?: string;
  path?: string;
  headers?: Record<string, string>;
}

async function logInWith(service: Service, { username, password }: JsonObject, localAddress?: string): Promise<string> {
  const talker = await connectTalker(service.smtpPort, localAddress === undefined ? {} : { localAddress });
  try {
    await talker.reply();
    await talker.secure();
    talker.send(`AUTH PLAIN ${plainResponse({ username: String(username), password: String(password) })}\r\n`);
    return (await talker.reply()).slice(0, 3);
  } finally {
    talker.destroy();
  }
}

for (const dialect of DIALECTS)
  test(`records permitted uses across a stop, and no rejected ones (${dialect})`, async (t) => {
    const postgres = dialect === 'postgres' ? await tempPostgres() : undefined;
    if (postgres) t.after(() => postgres.drop());
    const env = { ...SETTINGS, ...(postgres && { POSTRIDER_DATABASE_URL: postgres.url }) };
    const service = await startService({ env });
    t.after(() => service.close());
    const unused = await makeKey(service, {});
    const direct = await makeKey(service, {});
    const proxied = await makeKey(service, {});
    const bearer = await makeKey(service, {});
    const bound = await makeKey(service, { allowedNetworks: ['127.0.0.3'] });
    const narrow = await makeKey(service, { scope: 'send' });
    const revoked = await makeKey(service, {});
    const smtp = (await service.api.post('/smtp-credentials', {})).body;
    const smtpUnused = (await service.api.post('/smtp-credentials', {})).body;

    assert.equal(await callWith(service, { apiKey: direct.apiKey }), 200);
    assert.equal(await callWith(service, { apiKey: direct.apiKey, localAddress: '127.0.0.2' }), 200);
    const forwarded = { 'x-forwarded-for': '2001:db8::7' };
    assert.equal(await callWith(service, { apiKey: proxied.apiKey, localAddress: PROXY, headers: forwarded }), 200);
    const asBearer = await fetch(`${service.url}/domains`, { headers: { authorization: `Bearer ${bearer.apiKey}` } });
    assert.equal(asBearer.status, 200);
    assert.equal(await callWith(service, { apiKey: bound.apiKey }), 403, 'from another network');
    assert.equal(await callWith(service, { apiKey: narrow.apiKey }), 403, 'without the scope');
    assert.equal(await callWith(service, { apiKey: `${unused.apiKey.slice(0, -1)}!` }), 401, 'another secret');
    assert.equal(await callWith(service, { apiKey: revoked.apiKey }), 200);
    assert.equal((await service.api.delete(`/api-keys/${revoked.keyId}`)).status, 200);
    assert.equal(await callWith(service, { apiKey: revoked.apiKey }), 401);
    assert.equal(await logInWith(service, smtp, '127.0.0.4'), '235');
    assert.equal(await logInWith(service, { ...smtpUnused, password: 'wrong' }), '535');

    assert.equal((await service.kill('SIGTERM')).code, 0);
    await service.restart();
    assert.deepEqual(await useOf(service.api, unused.keyId), [false, null]);
    assert.deepEqual(await useOf(service.api, direct.keyId), [true, '127.0.0.2'], 'the last of two addresses');
    assert.deepEqual(await useOf(service.api, proxied.keyId), [true, '2001:db8::7']);
    assert.deepEqual(await useOf(service.api, bearer.keyId), [true, '127.0.0.1']);
    assert.deepEqual(await useOf(service.api, bound.keyId), [false, null]);
    assert.deepEqual(await useOf(service.api, narrow.keyId), [false, null]);
    const credentials = await listOf(service.api, '/smtp-credentials');
    const [one, other] = [smtp, smtpUnused].map(
      (made) => credentials.find(({ smtpCredentialId }) => smtpCredentialId === made.smtpCredentialId)!,
    );
    assert.equal(one!.lastUsedAddress, '127.0.0.4');
    assert.ok(Math.abs(Date.parse(one!.lastUsedAt!) - Date.now()) < 600_000);
    assert.deepEqual([other!.lastUsedAt, other!.lastUsedAddress], [null, null]);

    const keys = (await service.cli('key', 'list', service.live.accountId)).keys as (Used & JsonObject)[];
    assert.deepEqual(keys, await listOf(service.api, '/api-keys'));
    const shown = await service.cli('smtp-credential', 'list', service.live.accountId);
    assert.deepEqual(shown.smtpCredentials, credentials);
    const viaResend = await fetch(`${service.url}/api-keys`, { headers: { authorization: `Bearer ${bearer.apiKey}` } });
    const listed = ((await viaResend.json()) as { data: { last_used_at: string | null }[] }).data;
    assert.ok(listed.some(({ last_used_at }) => last_used_at !== null));
    assert.ok(listed.some(({ last_used_at }) => last_used_at === null));
  });

test('with uses on two nodes, each node lists the newest', async (t) => {
  const cluster = await startCluster({ nodes: 2 });
  t.after(cluster.close);
  const [first, second] = cluster.nodes as [Service, Service];
  const { keyId, apiKey } = (await cluster.api.post('/api-keys', {})).body as { keyId: string; apiKey: string };
  const credentials = { accountId: first.live.accountId, apiKey };
  for (const [node, localAddress] of [
    [second, '127.0.0.2'],
    [first, '127.0.0.3'],
    [second, '127.0.0.4'],
  ] as const) {
    const client = apiClient(() => node.url, credentials, { localAddress });
    assert.equal((await client.get('/account')).status, 200);
    client.close();
  }
  for (const node of [second, first]) {
    assert.equal((await node.kill('SIGTERM')).code, 0);
    await node.restart();
  }
  for (const node of [first, second]) {
    const client = apiClient(() => node.url, first.live);
    assert.deepEqual(await useOf(client, keyId), [true, '127.0.0.4'], 'an older use written later changes nothing');
    client.close();
  }
});

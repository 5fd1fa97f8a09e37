/** HTTP routes of the account: settings, keys, credentials, and refusals. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test, { type TestContext } from 'node:test';
import { type Called, serveRoutes } from '../../test/kit/call-routes.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { acceptance } from '../../test/kit/seed-mail.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import type { Plan } from '../accounts/account.ts';
import { createAuthenticator, createSmtpAuthenticator, signingSecretOf } from '../accounts/authenticate.ts';
import { createAccount } from '../accounts/create.ts';
import { createUsageReader, healthOf } from '../accounts/usage.ts';
import { cursorOf } from '../http/paging.ts';
import { acceptOperation } from '../send/acceptance.ts';
import { accountRoutes } from './accounts.ts';

const address = '192.0.2.1';

async function setup(t: TestContext, plan: Plan = 'paid') {
  const temp = await tempDatabase();
  t.after(temp.close);
  const clock = fakeClock();
  const making = { database: temp.database, clock };
  const made = await createAccount(making, { name: 'One', plan });
  const other = await createAccount(making, { name: 'Two', plan: 'paid' });
  const authenticator = createAuthenticator(making);
  const logins = createSmtpAuthenticator(making);
  const signingSecretKey = randomBytes(32);
  const submissionPorts = () => ({ port: 2587, tlsPort: null });
  const routes = accountRoutes({
    ...making,
    callers: authenticator,
    logins,
    submissionPorts,
    signingSecretKey,
    nudge: () => undefined,
  });
  const server = await serveRoutes({ ...making, routes, authenticator });
  t.after(server.close);
  const own = { key: made.apiKey, id: made.account.id };
  const call = (method: string, path: string, json?: unknown) =>
    server.call(method, path, json === undefined ? own : { ...own, json });
  return {
    ...made,
    ...making,
    authenticator,
    logins,
    signingSecretKey,
    call,
    server,
    foreign: { key: other.apiKey, id: other.account.id },
  };
}

const code = (called: Called): string => called.body.error?.code;
const fields = (called: Called): string[] => called.body.error?.details.map((one: { field: string }) => one.field);

test('GET /account returns plan, limits, usage, and settings', async (t) => {
  const { call, account } = await setup(t);
  const shown = await call('GET', '/account');
  assert.equal(shown.status, 200);
  assert.deepEqual(shown.body, {
    accountId: account.id,
    name: 'One',
    plan: 'paid',
    status: 'active',
    approvedEmailBytes: 2_000_000,
    limits: {
      maximumEmailBytes: 2_000_000,
      approvedEmailBytes: 2_000_000,
      maximumFinalMimeBytes: 40_000_000,
      recipientsPerEmail: 50,
      webhooks: 100,
      domains: 1_000,
      templates: 5_000,
      apiKeys: 200,
      smtpCredentials: 200,
      inboundRoutes: 100,
      openSubmissions: 1_000,
      eventStreams: 20,
      inboxWaits: 50,
      inboundMailPerHour: 10_000,
      messagesPerDay: null,
      messagesPerMonth: null,
    },
    usage: { messagesToday: 0, messagesLast30Days: 0, queued: 0 },
    smtp: { port: 2587, tlsPort: null },
    settings: { variables: {}, missingVariables: 'error', retainContent: '30d', defaultFrom: null },
    twoFactorRequired: false,
    timeZone: 'UTC',
    logo: null,
    createdAt: new Date(account.createdAt).toISOString(),
  });
  const health = await call('GET', '/account/health');
  assert.equal(health.body.status, 'good');
});

test('PATCH /account merges settings, removes variables with null, and returns the account', async (t) => {
  const { call } = await setup(t);
  await call('PATCH', '/account', {
    variables: { a: '1', company_address_html: '<b>x</b>' },
    missingVariables: 'keep',
  });
  const second = await call('PATCH', '/account', {
    variables: { a: null, b: 'é' },
    defaultFrom: 'Me <me@example.com>',
  });
  assert.equal(second.status, 200);
  const settings = {
    variables: { company_address_html: '<b>x</b>', b: 'é' },
    missingVariables: 'keep',
    retainContent: '30d',
    defaultFrom: 'Me <me@example.com>',
  };
  assert.deepEqual(second.body.settings, settings);
  assert.deepEqual((await call('GET', '/account')).body.settings, settings);
  const kept = await call('PATCH', '/account', {
    name: null,
    variables: null,
    missingVariables: null,
    retainContent: null,
    defaultFrom: null,
  });
  assert.equal(kept.status, 200, JSON.stringify(kept.body));
  assert.deepEqual(kept.body.settings, settings, 'null for an optional field is the same as leaving it out');
  const cleared = await call('PATCH', '/account', { defaultFrom: '' });
  assert.deepEqual(cleared.body.settings, { ...settings, defaultFrom: null });
});

test('PATCH /account changes the name and the time zone', async (t) => {
  const { call } = await setup(t);
  const patch = async (body: unknown) => (await call('PATCH', '/account', body)).body;
  const changed = await patch({ name: ' Läden & Söhne ', timeZone: 'europe/berlin' });
  assert.deepEqual([changed.name, changed.timeZone], ['Läden & Söhne', 'Europe/Berlin']);
  assert.equal((await patch({ timeZone: 'Europe/Kyiv' })).timeZone, 'Europe/Kyiv');
  assert.equal((await patch({ timeZone: null, name: null })).name, 'Läden & Söhne', 'null means unchanged');
  const { body } = await call('GET', '/account');
  assert.deepEqual([body.name, body.timeZone], ['Läden & Söhne', 'Europe/Kyiv']);
});

test('the logo is a small image of a known type, whatever its name says', async (t) => {
  const { call } = await setup(t);
  const base64 = (...bytes: (string | Buffer)[]) =>
    Buffer.concat(bytes.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part))).toString(
      'base64',
    );
  const put = (content: unknown) => call('PUT', '/account/logo', { content });
  assert.equal((await call('GET', '/account/logo')).status, 404);
  assert.equal((await call('DELETE', '/account/logo')).status, 404);
  const png = '\x89PNG\r\n\x1a\n';
  for (const [contentType, content] of [
    ['image/png', base64(png)],
    ['image/jpeg', base64('\xff\xd8\xff\xe0')],
    ['image/gif', base64('GIF89a')],
    ['image/webp', base64('RIFF\x01\x02\x03\x04WEBPVP8 ')],
    ['image/png', base64(png, Buffer.alloc(65_536 - png.length))],
  ] as const) {
    const set = await put(content);
    assert.equal(set.status, 200, JSON.stringify(set.body));
    const { updatedAt, ...logo } = (await call('GET', '/account/logo')).body;
    const bytes = Buffer.from(content, 'base64').length;
    assert.deepEqual(logo, { contentType, bytes, content });
    assert.deepEqual((await call('GET', '/account')).body.logo, { contentType, bytes, updatedAt });
  }
  for (const content of [
    base64('<svg xmlns="http://www.w3.org/2000/svg"/>'),
    base64('<html>'),
    base64('RIFF\x01\x02\x03\x04AVI '),
    base64('%PDF-1.7'),
    base64(png, Buffer.alloc(65_537 - png.length)),
    'not base64!',
    base64(png).slice(0, -1),
    '',
    7,
    'A'.repeat(90_000),
  ]) {
    const refused = await put(content);
    assert.equal(refused.status, 400, String(content).slice(0, 40));
    assert.deepEqual(fields(refused), ['content']);
  }
  assert.equal((await call('DELETE', '/account/logo')).status, 200);
  assert.equal((await call('GET', '/account')).body.logo, null);
});

test('PATCH /account applies to the next request with any key of the account', async (t) => {
  const { call, authenticator, account, apiKey, sandboxApiKey } = await setup(t);
  const settingOf = async (key: string) => {
    const caller = await authenticator(key, account.id);
    return caller.ok && caller.value.account.settings.missingVariables;
  };
  for (const key of [apiKey, sandboxApiKey]) assert.equal(await settingOf(key), 'error');
  await call('PATCH', '/account', { missingVariables: 'empty' });
  for (const key of [apiKey, sandboxApiKey]) assert.equal(await settingOf(key), 'empty');
});

test('usage includes recent messages, and large accounts are recounted every few seconds', async (t) => {
  const { call, account, database, clock } = await setup(t);
  const accept = () =>
    database.execute(
      acceptOperation,
      acceptance({ accountId: account.id, nowMs: clock.now(), recipients: ['a@x.test'] }),
    );
  const usage = async () => (await call('GET', '/account')).body.usage;
  for (let sent = 0; sent < 3; sent += 1) {
    assert.deepEqual(await usage(), { messagesToday: sent, messagesLast30Days: sent, queued: sent });
    await accept();
  }
  const reader = createUsageReader({ database, clock, exactUpTo: 2 });
  const counted = async () => (await reader.usage(account.id, 'live')).messagesToday;
  for (let call = 0; call < 2; call += 1) assert.equal(await counted(), 3);
  await accept();
  assert.equal(await counted(), 3);
  clock.advance(5_001);
  assert.equal(await counted(), 4);
});

test('PATCH /account rejects read-only fields and changes nothing', async (t) => {
  const { call } = await setup(t);
  const refusals: [unknown, string[]][] = [
    [{ plan: 'enterprise', approvedEmailBytes: 4e7, status: 'active' }, ['plan', 'approvedEmailBytes', 'status']],
    [{ variables: { '1a': 'x', 'a-b': 'x', ok: 'x' } }, ['variables.1a', 'variables.a-b']],
    [{ variables: { a: 'x\0' } }, ['variables.a']],
    [{ variables: { a: 'é'.repeat(60_000) } }, ['variables.a']],
    [{ variables: { a: 1 } }, ['variables.a']],
    [{ variables: { 'a b': 'x', z: 5, '1a': 'y' } }, ['variables.a b', 'variables.z', 'variables.1a']],
    [{ variables: { a: 'x' }, defaultFrom: 'nobody' }, ['defaultFrom']],
    [{ missingVariables: 'x', retainContent: '1y' }, ['missingVariables', 'retainContent']],
    [{ name: ' ', timeZone: '' }, ['name', 'timeZone']],
    [{ name: 'x'.repeat(201) }, ['name']],
    [{ name: 'a\nb' }, ['name']],
    ...['Mars/Olympus', '+01:00', 'Europe/Berlin ', '-05'].map((timeZone): [unknown, string[]] => [
      { timeZone },
      ['timeZone'],
    ]),
    [{ timeZone: 'x', defaultFrom: 'nobody', retainContent: '1y' }, ['timeZone', 'defaultFrom', 'retainContent']],
    [{ plan: 'free', variables: { '1a': 'x' }, defaultFrom: 'nobody' }, ['plan', 'variables.1a', 'defaultFrom']],
    [[], ['']],
  ];
  for (const [json, named] of refusals) {
    const refused = await call('PATCH', '/account', json);
    assert.equal(refused.status, 400, JSON.stringify(json).slice(0, 80));
    assert.equal(code(refused), 'INVALID_REQUEST');
    for (const field of named) assert.ok(fields(refused).includes(field), `${field} in ${fields(refused)}`);
  }
  const long = 'x'.repeat(90_000);
  for (const name of ['a', 'b', 'c', 'd', 'e'])
    assert.equal((await call('PATCH', '/account', { variables: { [name]: long } })).status, 200);
  const full = await call('PATCH', '/account', { variables: { f: long } });
  assert.equal(full.status, 400);
  assert.match(full.body.error.details[0].message, /in total/);
  assert.deepEqual(Object.keys((await call('GET', '/account')).body.settings.variables), ['a', 'b', 'c', 'd', 'e']);
});

test('API keys are created, returned once, listed, and revoked, within their own account only', async (t) => {
  const { call, clock, server, account, foreign } = await setup(t);
  const made = await call('POST', '/api-keys', { mode: 'sandbox', scope: 'send', name: 'ci' });
  assert.equal(made.status, 201);
  assert.match(made.body.apiKey, /^pr_test_[0-9A-Za-z]{21}_[0-9A-Za-z]{32}$/);
  const { apiKey, ...shown } = made.body;
  assert.deepEqual(shown, {
    keyId: made.body.keyId,
    prefix: apiKey.slice(0, -33),
    mode: 'sandbox',
    scope: 'send',
    allowedSenders: [],
    allowedNetworks: [],
    name: 'ci',
    expiresAt: null,
    createdAt: new Date(clock.now()).toISOString(),
    lastUsedAt: null,
    lastUsedAddress: null,
  });
  const plain = await call('POST', '/api-keys');
  assert.deepEqual([plain.status, plain.body.mode, plain.body.scope, plain.body.name], [201, 'live', 'full', null]);

  const seen: string[] = [];
  for (let path: string | null = '/api-keys?limit=3'; path; ) {
    const page = await call('GET', path);
    for (const one of page.body) seen.push(one.keyId);
    assert.ok(!JSON.stringify(page.body).includes('apiKey'));
    const cursor = page.headers.get('x-next-cursor');
    path = cursor ? `/api-keys?limit=3&cursor=${cursor}` : null;
  }
  assert.equal(seen.length, 4);
  assert.deepEqual(seen, [...seen].sort().reverse());

  assert.equal((await server.call('GET', '/account', { key: apiKey, id: account.id })).status, 403, 'scope send');
  assert.equal((await server.call('DELETE', `/api-keys/${shown.keyId}`, foreign)).status, 404);
  assert.equal((await call('DELETE', `/api-keys/${shown.keyId}`)).status, 200);
  assert.equal(code(await call('DELETE', `/api-keys/${shown.keyId}`)), 'NOT_FOUND');
  const late = await server.call('GET', '/account', { key: apiKey, id: account.id });
  assert.equal(late.status, 401, 'refused at once, though it was known a moment ago');
  assert.equal((await call('GET', '/api-keys')).body.length, 3);
  const refused = await call('POST', '/api-keys', { mode: 'x', accountId: 'acc_1', name: 'a\nb' });
  assert.deepEqual(fields(refused).sort(), ['accountId', 'mode', 'name']);
});

test('SMTP credentials are created, returned once, listed, and revoked, except on a free plan', async (t) => {
  const { call, server, foreign } = await setup(t);
  const made = await call('POST', '/smtp-credentials', {});
  assert.equal(made.status, 201);
  assert.match(made.body.smtpCredentialId, /^smtp_[0-9A-Za-z]{21}$/);
  assert.deepEqual(Object.keys(made.body).sort(), [
    'allowedNetworks',
    'allowedSenders',
    'createdAt',
    'deliveryReports',
    'expiresAt',
    'lastUsedAddress',
    'lastUsedAt',
    'mode',
    'password',
    'smtpCredentialId',
    'username',
  ]);
  assert.deepEqual([made.body.mode, made.body.deliveryReports], ['live', 'off']);
  const list = await call('GET', '/smtp-credentials');
  const { password: _, ...shown } = made.body;
  assert.deepEqual(list.body, [shown]);
  assert.equal((await server.call('DELETE', `/smtp-credentials/${shown.smtpCredentialId}`, foreign)).status, 404);
  assert.equal((await call('DELETE', `/smtp-credentials/${shown.smtpCredentialId}`)).status, 200);
  assert.deepEqual((await call('GET', '/smtp-credentials')).body, []);
});

test('invalid cursors are rejected', async (t) => {
  const { call } = await setup(t);
  for (const [path, foreign] of [
    ['/api-keys', 'smtp_000000000000000000000'],
    ['/smtp-credentials', 'key_000000000000000000000'],
  ] as const) {
    for (const key of ['x', foreign]) {
      const refused = await call('GET', `${path}?cursor=${cursorOf([key])}`);
      assert.deepEqual([refused.status, code(refused), fields(refused)], [400, 'INVALID_REQUEST', ['cursor']], path);
    }
  }
});

test('a free plan has no SMTP', async (t) => {
  const { call } = await setup(t, 'free');
  const refused = await call('POST', '/smtp-credentials', {});
  assert.equal(refused.status, 403);
  assert.equal(code(refused), 'PLAN_NOT_ELIGIBLE');
});

test('health uses the documented thresholds and does not rate small volumes', () => {
  const health = (delivered: number, bounced: number, complained: number) =>
    healthOf([
      { status: 'delivered', messages: delivered, recentMessages: 0 },
      { status: 'bounced', messages: bounced, recentMessages: 0 },
      { status: 'complained', messages: complained, recentMessages: 0 },
      { status: 'delayed', messages: 3, recentMessages: 0 },
    ]);
  const status = (...counts: [number, number, number]) => health(...counts).status;
  assert.equal(status(0, 0, 0), 'good');
  assert.equal(status(990, 10, 0), 'good');
  assert.deepEqual(
    [status(95, 5, 0), health(95, 5, 0).bounceRate, health(95, 5, 0).advice.length],
    ['warning', 0.05, 1],
  );
  assert.equal(status(90, 10, 0), 'critical');
  assert.deepEqual([status(0, 99, 0), health(0, 99, 0).bounceRate], ['good', 1], 'one short of the least number');
  assert.deepEqual(health(0, 99, 0).advice, []);
  assert.equal(status(0, 100, 0), 'critical');
  assert.equal(status(998, 0, 2), 'warning');
  assert.equal(status(997, 0, 3), 'critical');
  assert.equal(status(0, 0, 999), 'good', 'complaints have a least number of their own');
  assert.equal(status(900, 100, 900), 'critical');
  assert.equal(health(900, 100, 900).advice.length, 1 + 1);
  assert.equal(health(1, 0, 0).queued, 3);
  assert.equal(health(1, 0, 0).thresholds.complaintRate.critical, 0.003);
});

test('a revoked credential is rejected over SMTP immediately, and changed settings apply', async (t) => {
  const { call, logins, foreign, server } = await setup(t);
  const made = (await call('POST', '/smtp-credentials', { mode: 'sandbox' })).body;
  const { smtpCredentialId: id, username, password } = made;
  const other = (await call('POST', '/smtp-credentials', { mode: 'live' })).body;
  assert.ok((await logins.logIn({ username, password, address })).ok);
  assert.ok((await logins.logIn({ ...other, address })).ok);
  // The clock does not advance, so no cache entry expires.
  assert.equal((await server.call('DELETE', `/smtp-credentials/${id}`, foreign)).status, 404);
  assert.ok((await logins.stillAllowed({ username, address })).ok);
  assert.equal((await call('PATCH', '/account', { retainContent: '7d' })).status, 200);
  const allowed = await logins.stillAllowed({ username, address });
  assert.ok(allowed.ok && allowed.value.account.settings.retainContent === '7d');
  assert.equal((await call('DELETE', `/smtp-credentials/${id}`)).status, 200);
  assert.equal((await logins.stillAllowed({ username, address })).ok, false);
  assert.equal(await logins.recall({ username, password, address }), undefined);
  assert.equal((await logins.logIn({ username, password, address })).ok, false);
  assert.ok(await logins.recall({ ...other, address }));
});

test('a sigv4 key has an access key ID and a secret that is returned once and stored sealed', async (t) => {
  const { call, database, authenticator, signingSecretKey, clock, server, foreign } = await setup(t);
  const made = await call('POST', '/api-keys', {
    kind: 'sigv4',
    mode: 'sandbox',
    scope: 'send',
    name: 'aws',
    allowedSenders: ['shop.example'],
  });
  assert.equal(made.status, 201);
  const { keyId, accessKeyId, secretAccessKey, createdAt, ...rest } = made.body;
  assert.deepEqual(rest, {
    prefix: accessKeyId,
    kind: 'sigv4',
    mode: 'sandbox',
    scope: 'send',
    name: 'aws',
    allowedSenders: ['shop.example'],
    allowedNetworks: [],
    expiresAt: null,
    lastUsedAt: null,
    lastUsedAddress: null,
  });
  assert.match(accessKeyId, /^AKIA[A-Z2-7]{16}$/);
  assert.match(secretAccessKey, /^[A-Za-z0-9]{40}$/);
  const { body: list } = await call('GET', '/api-keys');
  const listed = list.find((one: { keyId: string }) => one.keyId === keyId);
  assert.deepEqual(listed, { ...rest, keyId, accessKeyId, createdAt });

  const holder = await authenticator.ofAccessKey(accessKeyId);
  assert.ok(holder);
  assert.deepEqual(
    [holder.caller.keyId, holder.caller.mode, holder.caller.scope, holder.caller.allowedSenders],
    [keyId, 'sandbox', 'send', ['shop.example']],
  );
  assert.ok(!Buffer.from(holder.secretSealed).includes(secretAccessKey));
  assert.equal(signingSecretOf(holder, signingSecretKey), secretAccessKey);
  assert.throws(() => signingSecretOf(holder, randomBytes(32)), /does not open/);

  const renamed = await call('PATCH', `/api-keys/${keyId}`, { name: 'new' });
  assert.deepEqual([renamed.status, renamed.body.name, renamed.body.accessKeyId], [200, 'new', accessKeyId]);
  assert.equal((await server.call('DELETE', `/api-keys/${keyId}`, foreign)).status, 404);
  assert.equal((await call('DELETE', `/api-keys/${keyId}`)).status, 200);
  assert.equal(await authenticator.ofAccessKey(accessKeyId), undefined);
  const other = createAuthenticator({ database, clock });
  assert.equal(await other.ofAccessKey(accessKeyId), undefined);
});

test('the secret of a sigv4 key is not accepted as an API key, and unknown kinds are rejected', async (t) => {
  const { call, server, account } = await setup(t);
  const made = await call('POST', '/api-keys', { kind: 'sigv4' });
  for (const key of [made.body.secretAccessKey, made.body.accessKeyId]) {
    assert.equal((await server.call('GET', '/account', { key, id: account.id })).status, 401);
  }
  const unknown = await call('POST', '/api-keys', { kind: 'hmac' });
  assert.deepEqual([unknown.status, fields(unknown)], [400, ['kind']]);
});

test('expired keys and credentials are rejected, and cannot create credentials that outlive them', async (t) => {
  const { call, server, account, clock, logins } = await setup(t);
  const at = (ms: number) => new Date(clock.now() + ms).toISOString();
  const HOUR = 3_600_000;
  const expiresAt = at(HOUR);
  assert.equal((await call('POST', '/api-keys', {})).body.expiresAt, null);
  for (const wrong of [at(0), at(-HOUR), '2020-01-01T00:00:00Z', 'tomorrow', 5]) {
    for (const path of ['/api-keys', '/smtp-credentials']) {
      const refused = await call('POST', path, { expiresAt: wrong });
      assert.deepEqual([refused.status, fields(refused)], [400, ['expiresAt']], `${path} ${wrong}`);
    }
  }
  const made = (await call('POST', '/api-keys', { expiresAt })).body;
  assert.equal(made.expiresAt, expiresAt);
  const listed = (await call('GET', '/api-keys')).body.find((one: { keyId: string }) => one.keyId === made.keyId);
  assert.equal(listed.expiresAt, expiresAt);
  const own = { key: made.apiKey, id: account.id };
  const later = await server.call('POST', '/api-keys', { ...own, json: { expiresAt: at(2 * HOUR) } });
  assert.deepEqual([later.status, code(later)], [403, 'FORBIDDEN']);
  const byDefault = await server.call('POST', '/smtp-credentials', { ...own, json: {} });
  assert.deepEqual([byDefault.status, byDefault.body.expiresAt], [201, expiresAt], 'the expiry of its creator');
  const sooner = await server.call('POST', '/api-keys', { ...own, json: { expiresAt: at(HOUR / 2) } });
  assert.equal(sooner.status, 201);
  const { username, password } = byDefault.body;
  assert.ok((await logins.logIn({ username, password, address })).ok);
  clock.advance(HOUR - 1);
  assert.equal((await server.call('GET', '/account', own)).status, 200);
  assert.equal((await server.call('GET', '/account', { ...own, key: sooner.body.apiKey })).status, 401);
  clock.advance(1_000);
  const expired = await server.call('GET', '/account', own);
  const unknown = await server.call('GET', '/account', { ...own, key: `${made.apiKey}x` });
  assert.deepEqual(
    [expired.status, expired.body.error],
    [401, unknown.body.error],
    'the same refusal as for an unknown key',
  );
  assert.equal((await logins.logIn({ username, password, address })).ok, false);
  assert.equal(await logins.recall({ username, password, address }), undefined);
  assert.equal((await logins.stillAllowed({ username, address })).ok, false, 'an open session');
});

test('networks of keys and credentials are validated, normalized, listed, and changed', async (t) => {
  const { call, foreign, server, account } = await setup(t);
  const kinds = [
    ['/api-keys', 'keyId'],
    ['/smtp-credentials', 'smtpCredentialId'],
  ] as const;
  for (const [path, id] of kinds) {
    const asked = { allowedNetworks: ['127.0.0.0/8', '2001:DB8::', '127.0.0.0/8'] };
    const made = await call('POST', path, asked);
    assert.deepEqual(
      [made.status, made.body.allowedNetworks],
      [201, ['127.0.0.0/8', '2001:db8::/128']],
      made.body.error?.message,
    );
    const one = `${path}/${made.body[id]}`;
    const listed = async () =>
      (await call('GET', path)).body.find((row: Record<string, unknown>) => row[id] === made.body[id]).allowedNetworks;
    assert.deepEqual(await listed(), ['127.0.0.0/8', '2001:db8::/128']);
    for (const [method, where] of [
      ['POST', path],
      ['PATCH', one],
    ] as const) {
      const refused = await call(method, where, { allowedNetworks: ['127.0.0.1', '10.1.2.3/8', 'shop.example'] });
      assert.deepEqual([refused.status, fields(refused)], [400, ['allowedNetworks[1]', 'allowedNetworks[2]']], where);
      assert.match(refused.body.error.message, /allowedNetworks\[1\] .*use 10\.0\.0\.0\/8 for the network/);
      for (const wrong of ['127.0.0.1', [5], Array.from({ length: 21 }, (_, i) => `10.${i}.0.0/16`)])
        assert.equal((await call(method, where, { allowedNetworks: wrong })).status, 400, JSON.stringify(wrong));
    }
    assert.deepEqual((await call('PATCH', one, {})).body.allowedNetworks, ['127.0.0.0/8', '2001:db8::/128']);
    const none = await call('PATCH', one, { allowedNetworks: null });
    assert.deepEqual(none.body.allowedNetworks, ['127.0.0.0/8', '2001:db8::/128'], 'null is an omitted field');
    const changed = await call('PATCH', one, { allowedNetworks: ['192.0.2.0/24'] });
    assert.deepEqual([changed.status, changed.body.allowedNetworks], [200, ['192.0.2.0/24']]);
    assert.deepEqual(await listed(), ['192.0.2.0/24']);
    assert.deepEqual((await call('PATCH', one, { allowedNetworks: [] })).body.allowedNetworks, []);
    assert.equal((await server.call('PATCH', one, { ...foreign, json: { allowedNetworks: [] } })).status, 404);
    assert.deepEqual(Object.keys(changed.body).sort(), Object.keys((await call('GET', path)).body[0]).sort());
  }
  const { keyId } = (await call('POST', '/api-keys', { name: 'shop', allowedNetworks: ['127.0.0.1'] })).body;
  const renamed = await call('PATCH', `/api-keys/${keyId}`, { name: 'store' });
  assert.deepEqual([renamed.body.name, renamed.body.allowedNetworks], ['store', ['127.0.0.1/32']]);

  const bound = (await call('POST', '/api-keys', { allowedNetworks: ['127.0.0.0/24'] })).body;
  const own = { key: bound.apiKey, id: account.id };
  for (const [path, id] of kinds) {
    const inherited = await server.call('POST', path, { ...own, json: {} });
    assert.deepEqual(inherited.body.allowedNetworks, ['127.0.0.0/24'], 'the networks of its creator');
    const one = `${path}/${inherited.body[id]}`;
    for (const allowedNetworks of [[], ['127.0.0.0/16']]) {
      const json = { allowedNetworks };
      assert.equal(code(await server.call('POST', path, { ...own, json })), 'FORBIDDEN', path);
      assert.equal(code(await server.call('PATCH', one, { ...own, json })), 'FORBIDDEN', path);
    }
    const narrowed = await server.call('PATCH', one, { ...own, json: { allowedNetworks: ['127.0.0.1'] } });
    assert.deepEqual(narrowed.body.allowedNetworks, ['127.0.0.1/32']);
  }
  const itself = `/api-keys/${bound.keyId}`;
  assert.equal(code(await server.call('PATCH', itself, { ...own, json: { allowedNetworks: [] } })), 'FORBIDDEN');
});

test('a key is rejected from an address outside its networks, starting with the next request', async (t) => {
  const { call, server, account } = await setup(t);
  const { apiKey, keyId } = (await call('POST', '/api-keys', {})).body;
  const own = { key: apiKey, id: account.id };
  const status = async () => (await server.call('GET', '/account', own)).status;
  const limit = (...allowedNetworks: string[]) => call('PATCH', `/api-keys/${keyId}`, { allowedNetworks });
  assert.equal(await status(), 200);
  await limit('192.0.2.0/24');
  const refused = await server.call('GET', '/account', own);
  assert.deepEqual([refused.status, code(refused)], [403, 'FORBIDDEN']);
  assert.match(refused.body.error.message, /cannot be used from the address 127\.0\.0\.1/);
  assert.doesNotMatch(JSON.stringify(refused.body), /192\.0\.2/, 'the networks are not named');
  await limit('192.0.2.0/24', '127.0.0.1');
  assert.equal(await status(), 200);
  await limit('::/0');
  assert.equal(await status(), 403);
  await limit();
  assert.equal(await status(), 200);
});

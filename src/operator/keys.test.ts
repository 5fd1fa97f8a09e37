/** Operator keys over HTTP: scopes, expiry, networks, revocation, audit log, and everything that they must not access. */
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import type { Answer } from '../../test/kit/api.ts';
import { type Browser, type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { createUser } from '../users/users.ts';

type Row = Record<string, unknown>;

let rig: InProcessApi;
let browser: Browser;
let skewMs = 0;
before(async () => {
  rig = await inProcessApi({
    clock: { now: () => Date.now() + skewMs },
    env: { POSTRIDER_TRUSTED_PROXIES: '127.0.0.1' },
  });
  const made = await createUser(rig.parts, { email: 'op@example.com', isOperator: true });
  assert.ok(made.ok);
  browser = await rig.signedIn(made.value.email, made.value.password);
});
after(() => rig.close());

const NEW = { name: 'terraform', scopes: ['read', 'write'] };

async function newKey(fields: object = {}): Promise<{ id: string; key: string }> {
  const made = await browser.call('POST', '/operator/keys', { ...NEW, ...fields });
  assert.equal(made.status, 201, made.text);
  return { id: made.body.operatorKeyId, key: made.body.operatorKey };
}

/** A program that sends only the header that a key needs, on its own connection. */
async function call(key: string, line: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  const [method = '', path = ''] = line.split(' ');
  const answer = await fetch(`http://127.0.0.1:${rig.port}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  const isJson = text !== '' && /^application\/json(?:;|$)/.test(answer.headers.get('content-type') ?? '');
  return {
    status: answer.status,
    text,
    headers: Object.fromEntries(answer.headers),
    body: isJson ? JSON.parse(text) : {},
  };
}

/** Returns the status of a call with these Authorization headers. */
function twice(...authorization: string[]): Promise<number | undefined> {
  const headers = ['host', 'localhost', ...authorization.flatMap((value) => ['authorization', value])];
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ host: '127.0.0.1', port: rig.port, path: '/operator/queue', headers, agent: false });
    sent.on('response', (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    sent.on('error', reject);
    sent.end();
  });
}

const outcomeOf = ({ status, body }: Answer) => [status, body.error?.code];
const auditOf = async (resourceId: string) =>
  (await browser.call('GET', `/operator/audit?resourceId=${resourceId}`)).body as unknown as (Row & {
    actor: Row;
    before: Row | null;
    after: Row | null;
  })[];

test('an operator creates, lists, and revokes keys; the secret is returned once and stored as a hash', async () => {
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const fields = { ...NEW, name: ' Läden ', scopes: ['write', 'read'], allowedNetworks: ['203.0.113.7'], expiresAt };
  const made = await browser.call('POST', '/operator/keys', fields);
  assert.equal(made.status, 201, made.text);
  const { operatorKey, ...shown } = made.body;
  assert.match(operatorKey, /^pr_operator_[0-9A-Za-z]{21}_[0-9A-Za-z]{32}$/);
  const { operatorKeyId, createdAt } = shown;
  assert.deepEqual(shown, {
    operatorKeyId,
    name: 'Läden',
    scopes: ['read', 'write'],
    allowedNetworks: ['203.0.113.7/32'],
    expiresAt,
    createdAt,
  });
  const other = await newKey();
  const list = await browser.call('GET', '/operator/keys');
  assert.deepEqual(
    [(list.body as unknown as Row[])[0]!.operatorKeyId, (list.body as unknown as Row[])[1]],
    [other.id, shown],
  );
  const first = await browser.call('GET', '/operator/keys?limit=1');
  const next = await browser.call('GET', `/operator/keys?limit=1&cursor=${first.headers['x-next-cursor']}`);
  assert.deepEqual(next.body, [shown]);

  const database = new DatabaseSync(rig.databaseFile, { readOnly: true });
  const stored = JSON.stringify(database.prepare('SELECT * FROM operator_key').all());
  const log = JSON.stringify(database.prepare('SELECT * FROM audit').all());
  database.close();
  const secret = operatorKey.slice(-32);
  assert.ok(stored.includes(operatorKeyId) && !stored.includes(secret) && !log.includes(secret));

  const path = `/operator/keys/${operatorKeyId}`;
  assert.equal((await browser.call('DELETE', path)).status, 200);
  assert.equal((await browser.call('DELETE', path)).status, 404);
  assert.equal((await browser.call('DELETE', '/operator/keys/opk_none')).status, 404);
  const rows = await auditOf(operatorKeyId);
  assert.deepEqual(
    rows.map(({ action, accountId, actor }) => [action, accountId, actor.kind, actor.name]),
    [
      ['operator-key.revoke', null, 'user', 'op@example.com'],
      ['operator-key.create', null, 'user', 'op@example.com'],
    ],
  );
  assert.deepEqual([rows[1]!.before, rows[1]!.after?.scopes], [null, ['read', 'write']]);
  assert.equal(rows[0]!.before?.revokedAt, null);
});

test('an invalid key is rejected with the field and the accepted values', async () => {
  const refusals: [fields: object, field: string, message: RegExp][] = [
    [{ name: ' ' }, 'name', /./],
    [{ name: undefined }, 'name', /required|missing/],
    [{ name: 'a\u001b[31m' }, 'name', /./],
    [{ scopes: [] }, 'scopes', /must not be empty/],
    [{ scopes: ['admin'] }, 'scopes[0]', /read.*write/],
    [{ scopes: ['READ'] }, 'scopes[0]', /read.*write/],
    [{ scopes: undefined }, 'scopes', /required|missing/],
    [{ allowedNetworks: ['10.1.2.3/8'] }, 'allowedNetworks[0]', /10\.0\.0\.0\/8/],
    [{ expiresAt: '2020-01-01T00:00:00Z' }, 'expiresAt', /future/],
    [{ expiresAt: 'tomorrow' }, 'expiresAt', /./],
  ];
  for (const [fields, field, message] of refusals) {
    const { status, body } = await browser.call('POST', '/operator/keys', { ...NEW, ...fields });
    assert.equal(status, 400, JSON.stringify(fields));
    const issue = body.error.details.find((one: Row) => one.field === field);
    assert.match(String(issue?.message), message, JSON.stringify(body.error));
  }
});

test('a key provisions an account without CSRF headers, and the audit log names the key', async () => {
  const { id, key } = await newKey();
  const made = await call(key, 'POST /operator/accounts', { name: 'Provisioned' });
  assert.equal(made.status, 201, made.text);
  const { accountId, apiKey } = made.body;
  const account = await call(key, `PATCH /operator/accounts/${accountId}`, { plan: 'enterprise' });
  assert.deepEqual([account.status, account.body.plan], [200, 'enterprise']);
  assert.equal((await call(key, `GET /operator/accounts/${accountId}`)).body.name, 'Provisioned');
  assert.equal((await call(key, 'HEAD /operator/accounts')).status, 200);
  const rows = await auditOf(accountId);
  assert.deepEqual(rows.map(({ action }) => action).sort(), ['account.create', 'account.set']);
  for (const { actor, requestId } of rows) {
    assert.deepEqual(actor, { kind: 'key', id, name: 'terraform' });
    assert.match(String(requestId), /^req_/);
  }
  assert.equal((await browser.call('GET', `/operator/audit?actorId=${id}`)).body.length, 2);
  const own = await call('', 'GET /account', undefined, { 'x-api-key': apiKey, 'x-id': accountId });
  assert.equal(own.status, 200, 'the key works for the account');
});

test('each scope opens its calls, and a rejection names the missing one', async () => {
  const reader = await newKey({ scopes: ['read'] });
  const writer = await newKey({ scopes: ['write'] });
  const calls = rig.routes.filter(({ path, access }) => path.startsWith('/operator/') && !access.peopleOnly);
  assert.ok(calls.length >= 19, `${calls.length} routes`);
  for (const { method, path } of calls) {
    const line = `${method} ${path.replace(/:\w+/, 'none')}`;
    const [allowed, refused, scope] = method === 'GET' ? [reader, writer, 'read'] : [writer, reader, 'write'];
    const body = method === 'GET' ? undefined : {};
    const answer = await call(refused.key, line, body);
    assert.deepEqual(outcomeOf(answer), [403, 'FORBIDDEN'], line);
    assert.match(answer.body.error.message, new RegExp(`requires an operator key with the scope ${scope}\\.`), line);
    assert.ok([200, 400, 404].includes((await call(allowed.key, line, body)).status), line);
  }
});

test('a key cannot manage keys or take support access', async () => {
  const { id, key } = await newKey();
  const lines = rig.routes
    .filter(({ path, access }) => path.startsWith('/operator/') && access.peopleOnly)
    .map(({ method, path }) => `${method} ${path.replace(/:\w+/, path.includes('keys') ? id : rig.accountId)}`);
  assert.equal(lines.length, 5);
  for (const line of lines) {
    const answer = await call(key, line, line.startsWith('GET') ? undefined : NEW);
    assert.deepEqual(outcomeOf(answer), [403, 'FORBIDDEN'], line);
    assert.match(answer.body.error.message, /not an operator key/, line);
  }
  assert.equal((await call(key, 'GET /operator/queue')).status, 200, 'the key was not revoked');
});

test('a key works only under /operator, and the error says so', async () => {
  const { key } = await newKey();
  const ownPlace: Record<string, string>[] = [
    {},
    { 'x-id': rig.accountId },
    { 'x-id': rig.accountId, 'x-mode': 'sandbox' },
    { cookie: browser.cookie!, 'x-id': rig.accountId, origin: rig.url, 'x-requested-with': 'postrider' },
    { authorization: '', 'x-api-key': key, 'x-id': rig.accountId },
  ];
  let called = 0;
  for (const { method, path, access } of rig.routes) {
    if (access.auth !== 'key' && access.auth !== 'user') continue;
    called += 1;
    const line = `${method} ${path.replace(/:\w+/g, 'none')}`;
    for (const headers of ownPlace) {
      const answer = await call(key, line, undefined, headers);
      assert.deepEqual(outcomeOf(answer), [401, 'UNAUTHORIZED'], `${line} ${Object.keys(headers)}`);
      assert.match(answer.body.error.message, /An operator key opens only the routes below \/operator/, line);
    }
  }
  assert.ok(called > 90, `${called} routes`);
});

test('account IDs, account keys, and cookies do not affect an operator key', async () => {
  const { id, key } = await newKey({ scopes: ['read'] });
  for (const headers of [
    { 'x-id': rig.accountId },
    { 'x-id': 'acc_none', 'x-mode': 'nonsense' },
    { 'x-api-key': 'pr_live_nonsense', 'x-id': rig.accountId },
    { cookie: browser.cookie! },
    { cookie: 'postrider_session=forged' },
    { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' },
  ] as Record<string, string>[]) {
    assert.equal((await call(key, 'GET /operator/queue', undefined, headers)).status, 200, JSON.stringify(headers));
    // The scopes of the key apply even together with an operator's session.
    const browserHeaders = { origin: rig.url, 'x-requested-with': 'postrider' };
    const write = await call(key, 'POST /operator/accounts', { name: 'x' }, { ...browserHeaders, ...headers });
    assert.deepEqual(outcomeOf(write), [403, 'FORBIDDEN'], JSON.stringify(headers));
    assert.match(write.body.error.message, /scope write/);
  }
  await browser.call('DELETE', `/operator/keys/${id}`);
  const after = await call(key, 'GET /operator/queue', undefined, { cookie: browser.cookie! });
  assert.deepEqual(outcomeOf(after), [401, 'UNAUTHORIZED'], 'a revoked key does not fall back to the session');
});

test('a session stays protected, whatever the Authorization header contains', async () => {
  const forged = (authorization: string) =>
    call('', 'POST /operator/accounts', { name: 'x' }, { authorization, cookie: browser.cookie! });
  for (const authorization of ['Bearer', 'Bearer ', 'Bearer x', 'Basic eDp5']) {
    const answer = await forged(authorization);
    assert.deepEqual(outcomeOf(answer), [403, 'FORBIDDEN'], authorization);
    assert.match(answer.body.error.message, /X-Requested-With/);
  }
});

test('every invalid key gets the same response, and account keys are rejected', async () => {
  const { id, key } = await newKey();
  const revoked = await newKey();
  await browser.call('DELETE', `/operator/keys/${revoked.id}`);
  const { body } = await rig.live.post('/api-keys', {});
  const wrong = [
    revoked.key,
    `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`,
    `${key}0`,
    key.toUpperCase(),
    `pr_operator_${id.slice(4)}_`,
    `pr_operator_${'0'.repeat(21)}_${'0'.repeat(32)}`,
    'pr_operator_',
    'x'.repeat(5_000),
    id,
    body.apiKey,
  ];
  const first = await call(wrong[0]!, 'GET /operator/queue');
  for (const one of wrong) {
    const answer = await call(one, 'GET /operator/queue');
    assert.deepEqual(outcomeOf(answer), [401, 'UNAUTHORIZED'], one.slice(0, 60));
    assert.equal(answer.body.error.message, first.body.error.message, one.slice(0, 60));
  }
  assert.equal((await rig.live.get('/operator/queue')).status, 401);
  assert.match((await rig.live.get('/operator/queue')).body.error.message, /operator key as Authorization: Bearer/);
  assert.equal((await call('', 'GET /operator/queue', undefined, { authorization: '' })).status, 401);
  const misplaced = await call('', 'GET /operator/queue', undefined, { authorization: '', 'x-api-key': key });
  assert.equal(misplaced.status, 401);
  assert.match(misplaced.body.error.message, /not in X-Api-Key/);
  assert.equal(await twice(`Bearer ${key}`, `Bearer ${key}`), 401);
  assert.equal(await twice(`Bearer ${key}`, 'Bearer x'), 401);
  assert.equal(await twice('Bearer x', `Bearer ${key}`), 401);
  assert.equal(await twice(`Bearer ${key}`), 200, 'control');
});

test('a key works only from its networks', async () => {
  const { key } = await newKey({ allowedNetworks: ['203.0.113.0/24'] });
  const from = (client: string) => call(key, 'GET /operator/queue', undefined, { 'x-forwarded-for': client });
  for (let round = 0; round < 2; round += 1) {
    assert.equal((await from('203.0.113.9')).status, 200);
    const outside = await from('198.51.100.1');
    assert.deepEqual(outcomeOf(outside), [403, 'FORBIDDEN']);
    assert.match(outside.body.error.message, /from the address 198\.51\.100\.1\./);
  }
});

test('a key stops working at its expiry, even if just used, and stays listed', async () => {
  const { id, key } = await newKey({ expiresAt: new Date(Date.now() + 60_000).toISOString() });
  assert.equal((await call(key, 'GET /operator/queue')).status, 200);
  skewMs = 59_500;
  assert.equal((await call(key, 'GET /operator/queue')).status, 200);
  skewMs = 60_001;
  assert.deepEqual(outcomeOf(await call(key, 'GET /operator/queue')), [401, 'UNAUTHORIZED']);
  skewMs = 0;
  const list = (await browser.call('GET', '/operator/keys')).body as unknown as Row[];
  assert.ok(list.some(({ operatorKeyId }) => operatorKeyId === id));
});

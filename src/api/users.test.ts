/** Signing in and out, sessions, passwords and members, over HTTP on the whole API. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type FakeClock, fakeClock } from '../../test/kit/fake-clock.ts';
import { type Browser, type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { assertPaged } from '../../test/kit/list-pages.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { readFacts } from '../doctor/doctor.ts';
import { checkProxies } from '../doctor/proxies.ts';
import { addDomain } from '../domains/domains.ts';

const HOUR = 3_600_000;
let clock: FakeClock;
let app: InProcessApi;
before(async () => {
  clock = fakeClock();
  app = await inProcessApi({ clock });
});
after(() => app.close());

const status = async (browser: Browser, method: string, path: string, body?: unknown) =>
  (await browser.call(method, path, body)).status;

test('login sets a cookie that replaces a key; logout ends it', async () => {
  const ann = await app.user('ann@example.com', 'owner');
  const browser = app.browser();
  const answer = await browser.call('POST', '/session', { email: ' Ann@Example.com ', password: ann.password });
  assert.equal(answer.status, 200);
  const { sessionId, ...shown } = answer.body;
  assert.match(sessionId, /^ses_[0-9A-Za-z]{21}$/);
  assert.deepEqual(shown, {
    userId: ann.userId,
    email: 'ann@example.com',
    isOperator: false,
    twoFactor: { totp: false, recoveryCodes: 0, passkeys: 0, missing: 'setup' },
    accounts: [
      {
        accountId: app.account.id,
        name: 'One',
        role: 'owner',
        plan: 'enterprise',
        status: 'active',
        twoFactorRequired: false,
      },
    ],
  });
  const cookie = answer.headers['set-cookie']!;
  assert.match(cookie, /^postrider_session=[0-9A-Za-z]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=1209600$/);
  assert.ok(!answer.text.includes(browser.cookie!.slice('postrider_session='.length)), 'no script reads it');
  assert.deepEqual((await browser.call('GET', '/session')).body, answer.body);
  const id = { 'x-id': app.account.id };
  assert.equal((await browser.call('GET', '/account', undefined, id)).body.accountId, app.account.id);
  const stolen = app.browser();
  stolen.cookie = browser.cookie;
  assert.equal(await status(stolen, 'GET', '/session'), 200);
  const out = await browser.call('DELETE', '/session');
  assert.deepEqual([out.status, browser.cookie], [200, undefined]);
  assert.equal(await status(stolen, 'GET', '/session'), 401, 'a stolen cookie is worth nothing after that');
  assert.equal((await stolen.call('GET', '/account', undefined, id)).status, 401);
});

test('the cookie is Secure if the base URL is https', async (t) => {
  const secure = await inProcessApi({ env: { POSTRIDER_BASE_URL: 'https://mail.example.com' } });
  t.after(secure.close);
  const { email, password } = await secure.user('ann@example.com');
  const headers = { origin: 'https://mail.example.com' };
  const answer = await secure.browser().call('POST', '/session', { email, password }, headers);
  assert.match(answer.headers['set-cookie']!, /; Secure$/);
});

test('each client behind a trusted proxy has its own limit of failed logins', async (t) => {
  const env = { POSTRIDER_TRUSTED_PROXIES: '127.0.0.1, ::1' };
  const proxied = await inProcessApi({ env });
  t.after(proxied.close);
  const { email, password } = await proxied.user('ann@example.com');
  const from = (client: string) => ({ 'x-forwarded-for': `198.51.100.1, ${client}` });
  const wrong = (count: number, client: string) =>
    proxied
      .browser()
      .call('POST', '/session', { email: `nobody${count}@example.com`, password: 'wrong' }, from(client));
  // One more login is allowed every 20 s, which a slow machine needs for this many.
  let failed = 0;
  while ((await wrong(failed, '203.0.113.66')).status === 401 && failed < 60) failed += 1;
  assert.ok(failed >= 30 && failed < 60, `${failed} failed logins before the limit`);
  const right = (client: string) => proxied.browser().call('POST', '/session', { email, password }, from(client));
  assert.equal((await right('203.0.113.66')).status, 429, 'the client that guessed');
  const answer = await right('203.0.113.9');
  assert.equal(answer.status, 200, 'another client of the same proxy');
  assert.doesNotMatch(answer.headers['set-cookie']!, /Secure/);
  const secure = { ...from('203.0.113.9'), 'x-forwarded-proto': 'https' };
  const overHttps = await proxied.browser().call('POST', '/session', { email, password }, secure);
  assert.match(overHttps.headers['set-cookie']!, /; Secure$/, 'the proxy says that the browser uses https');
});

test('X-Forwarded-For and X-Forwarded-Proto are ignored without trusted proxies', async (t) => {
  const direct = await inProcessApi();
  t.after(direct.close);
  const { email, password } = await direct.user('ann@example.com');
  for (let count = 0; count < 30; count += 1) {
    const body = { email: `nobody${count}@example.com`, password: 'wrong' };
    const headers = { 'x-forwarded-for': `203.0.113.${count}` };
    assert.equal((await direct.browser().call('POST', '/session', body, headers)).status, 401);
  }
  const forged = { 'x-forwarded-for': '203.0.113.200', 'x-forwarded-proto': 'https' };
  const answer = await direct.browser().call('POST', '/session', { email, password }, forged);
  assert.equal(answer.status, 429, 'a client cannot choose its address');
  const proxy = async () => (await readFacts(direct.parts.database, direct.parts.config)).proxy;
  await waitUntil('the record for the doctor', async () => (await proxy()) !== undefined);
  const seen = await proxy();
  assert.equal(seen?.address, '127.0.0.1');
  const [check] = checkProxies({ trustedProxies: [] }, seen, seen!.atMs);
  assert.equal(check?.status, 'warn');
  assert.equal(check?.remedy, 'If 127.0.0.1 is your proxy, set POSTRIDER_TRUSTED_PROXIES=127.0.0.1');
  assert.deepEqual(checkProxies({ trustedProxies: ['127.0.0.0/8'] }, seen, seen!.atMs), [], 'it is trusted by now');
  assert.deepEqual(checkProxies({ trustedProxies: [] }, seen, seen!.atMs + 8 * 24 * HOUR), [], 'it is gone');
});

test('a login creates a new session ID and ends the previous session', async () => {
  const { email, password } = await app.user('again@example.com');
  const browser = await app.signedIn(email, password);
  const former = app.browser();
  former.cookie = browser.cookie;
  assert.equal(await status(browser, 'POST', '/session', { email, password }), 200);
  assert.notEqual(browser.cookie, former.cookie);
  await clock.advance(1_000);
  assert.equal(await status(former, 'GET', '/session'), 401);
  assert.equal(await status(browser, 'GET', '/session'), 200);
});

test('a session ends after twelve idle hours or fourteen days', async () => {
  const { email, password } = await app.user('idle@example.com');
  const idle = await app.signedIn(email, password);
  clock.advance(12 * HOUR - 1);
  assert.equal(await status(idle, 'GET', '/session'), 200);
  clock.advance(12 * HOUR);
  assert.equal(await status(idle, 'GET', '/session'), 401);
  const busy = await app.signedIn(email, password);
  for (let hours = 0; hours < 14 * 24 - 6; hours += 6) {
    clock.advance(6 * HOUR);
    assert.equal(await status(busy, 'GET', '/session'), 200, `after ${hours + 6} hours`);
    await waitUntil('the use to be recorded', async () => {
      const [session] = (await busy.call('GET', '/sessions')).body as unknown as { lastSeenAt: string }[];
      return Date.parse(session!.lastSeenAt) === clock.now();
    });
  }
  clock.advance(6 * HOUR);
  assert.equal(await status(busy, 'GET', '/session'), 401);
});

test('sessions are listed and can be ended from elsewhere', async () => {
  const { email, password } = await app.user('two@example.com');
  const [here, there] = [await app.signedIn(email, password), await app.signedIn(email, password)];
  const list = (await here.call('GET', '/sessions')).body as unknown as Record<string, unknown>[];
  assert.deepEqual(list.map(({ current, address, userAgent }) => [current, address, userAgent]).sort(), [
    [false, '127.0.0.1', null],
    [true, '127.0.0.1', null],
  ]);
  await assertPaged(
    '/sessions',
    (path) => here.call('GET', path),
    ({ sessionId }) => sessionId,
  );
  const other = list.find(({ current }) => !current)!;
  const stranger = await app.user('stranger@example.com');
  const theirs = await app.signedIn(stranger.email, stranger.password);
  assert.equal(await status(theirs, 'DELETE', `/sessions/${other.sessionId}`), 404, 'of another user');
  assert.equal(await status(here, 'DELETE', `/sessions/${other.sessionId}`), 200);
  assert.equal(await status(here, 'DELETE', `/sessions/${other.sessionId}`), 404);
  assert.equal(await status(there, 'GET', '/session'), 401);
  assert.equal(await status(here, 'GET', '/session'), 200);
});

test('a wrong email, password, or code returns the same error', async () => {
  const { email, password } = await app.user('wrong@example.com');
  const invited = await app.live.post('/users', { email: 'nopass@example.com' });
  assert.equal(invited.status, 201);
  const answers = await Promise.all(
    [
      { email, password: 'not the password' },
      { email: 'nobody@example.com', password },
      { email: 'nopass@example.com', password: ''.padEnd(12, 'x') },
      { email: 'not an address', password, code: '123456' },
    ].map((body) => app.browser().call('POST', '/session', body)),
  );
  const shown = answers.map(({ status, headers, body: { requestId: _, ...body } }) => ({
    status,
    cookie: headers['set-cookie'],
    body,
  }));
  assert.equal(shown[0]!.status, 401);
  for (const one of shown) assert.deepEqual(one, shown[0]);
  const foreign = await app.browser().call('POST', '/session', { email, password }, { origin: 'https://evil.example' });
  assert.equal(foreign.status, 403, 'nobody is signed in by another site');
});

test('guesses are limited by user and address without locking out known users', async () => {
  const { email, password } = await app.user('target@example.com');
  await app.signedIn(email, password);
  const guess = (from: string) => app.browser(from).call('POST', '/session', { email, password: 'guessed it' });
  const outcomes = [];
  for (let i = 0; i < 12; i += 1) outcomes.push(await guess(`127.0.9.${i + 1}`));
  assert.deepEqual(
    outcomes.map((one) => one.status),
    [...Array(10).fill(401), 429, 429],
  );
  const { headers } = outcomes.at(-1)!;
  assert.equal(headers['retry-after'], '60');
  const limit = ['limit', 'remaining', 'reset'].map((name) => headers[`ratelimit-${name}`]);
  assert.deepEqual(limit, ['10', '0', '60']);
  assert.equal(
    await status(app.browser('127.0.9.99'), 'POST', '/session', { email, password }),
    429,
    'even when right',
  );
  await app.signedIn(email, password);
  clock.advance(60_000);
  assert.equal((await app.browser('127.0.9.99').call('POST', '/session', { email, password })).status, 200);
});

test('changing a password requires the current one and ends all other sessions', async () => {
  const { email, password } = await app.user('change@example.com');
  const [here, there] = [await app.signedIn(email, password), await app.signedIn(email, password)];
  const put = (body: unknown, headers = {}) => here.call('PUT', '/password', body, headers);
  const next = 'a longer password';
  assert.equal((await put({ currentPassword: 'wrong', password: next })).status, 401);
  const short = await put({ currentPassword: password, password: 'eleven char' });
  assert.deepEqual([short.status, short.body.error.details[0].field], [400, 'password']);
  assert.equal((await put({ password: next })).status, 400);
  const foreign = { origin: 'https://evil.example' };
  assert.equal((await put({ currentPassword: password, password: next }, foreign)).status, 403);
  assert.equal((await put({ currentPassword: password, password: next })).status, 200);
  assert.equal(await status(here, 'GET', '/session'), 200);
  assert.equal(await status(there, 'GET', '/session'), 401);
  assert.equal(await status(app.browser(), 'POST', '/session', { email, password }), 401);
  await app.signedIn(email, next);
});

test('owners manage the members of the account, and the last owner stays', async () => {
  const id = { 'x-id': app.account.id };
  for (const email of ['ann@example.com'])
    assert.ok(
      ((await app.live.get('/users?limit=100')).body as unknown as { email: string }[]).some(
        (one) => one.email === email,
      ),
    );
  const { body: invited, status: made } = await app.live.post('/users', { email: 'New@Example.com', role: 'viewer' });
  assert.equal(made, 201);
  assert.deepEqual([invited.email, invited.role, invited.status], ['new@example.com', 'viewer', 'invited']);
  const [, token = ''] = String(invited.inviteUrl).split('/welcome#token=');
  assert.equal((await app.live.post('/users', { email: 'new@example.com' })).body.error.code, 'CONFLICT');
  assert.equal((await app.live.post('/users', { email: 'no address' })).status, 400);

  const browser = app.browser();
  assert.equal(await status(browser, 'PUT', '/password', { token, password: 'short' }), 400);
  const set = await browser.call('PUT', '/password', { token, password: 'a password of mine' });
  assert.deepEqual([set.status, set.body.accounts[0].role], [200, 'viewer']);
  assert.equal((await browser.call('GET', '/account', undefined, id)).status, 200, 'signed in by the link');
  assert.equal(await status(app.browser(), 'PUT', '/password', { token, password: 'another password' }), 401, 'once');

  const as = (method: string, path: string, body?: unknown) => browser.call(method, path, body, id);
  assert.equal((await as('PATCH', `/users/${invited.userId}`, { role: 'owner' })).status, 403);
  assert.equal((await app.live.patch(`/users/${invited.userId}`, { role: 'owner' })).body.role, 'owner');
  assert.equal((await as('DELETE', '/users/usr_none')).status, 404);
  const list = (await as('GET', '/users?limit=100')).body as unknown as { userId: string; role: string }[];
  const others = list.filter(({ role, userId }) => role === 'owner' && userId !== invited.userId);
  for (const { userId } of others) assert.equal((await as('DELETE', `/users/${userId}`)).status, 200);
  assert.equal((await as('PATCH', `/users/${invited.userId}`, { role: 'member' })).body.error.code, 'CONFLICT');
  assert.equal((await as('DELETE', `/users/${invited.userId}`)).body.error.code, 'CONFLICT');
  assert.equal((await app.live.delete(`/users/${invited.userId}`)).status, 409);
  assert.equal((await as('POST', '/users', { email: 'third@example.com', role: 'owner' })).status, 201);
  assert.equal((await app.live.delete(`/users/${invited.userId}`)).status, 200);
  assert.equal((await as('GET', '/account')).status, 401, 'gone with the last account');
});

test('links are emailed once a domain is verified, and a reset does not reveal users', async () => {
  const { email, password } = await app.user('reset@example.com');
  const ask = (to: string) => app.browser().call('POST', '/password-reset', { email: to });
  const before = await ask(email);
  assert.equal(before.status, 202);
  app.mail.canSend = true;
  await addDomain(app.parts, { accountId: app.account.id, domain: 'example.com', verified: true });
  const session = await app.signedIn(email, password);
  const answers = [await ask(email), await ask('nobody@example.com')];
  const [known, unknown] = answers.map(({ status, body: { requestId: _, ...body } }) => ({ status, body }));
  assert.deepEqual(known, unknown);
  const mail = await waitUntil('the mail', () => app.mails.find(({ to }) => to === email));
  const [, token = ''] = /\/reset#token=(\w+)/.exec(mail.text) ?? [];
  const browser = app.browser();
  assert.equal(await status(browser, 'PUT', '/password', { token, password: 'quite another one' }), 200);
  assert.equal(await status(session, 'GET', '/session'), 401, 'every session ended');
  assert.equal(await status(browser, 'GET', '/session'), 200);
  for (let i = 0; i < 5; i += 1) await ask(email);
  const invited = await app.live.post('/users', { email: 'mailed@example.com' });
  assert.deepEqual([invited.status, invited.body.inviteUrl], [201, undefined]);
  const complained = await app.live.post('/users', { email: 'complained@example.com' });
  assert.match(String(complained.body.inviteUrl), /\/welcome#token=\w{43}$/, 'the user does not want the email');
  const invitation = app.mails.find(({ to }) => to === 'mailed@example.com');
  assert.match(invitation!.text, /account "One"[\s\S]*\/welcome#token=\w{43}/);
  await waitUntil('the resets to be worked on', () => app.mails.filter(({ to }) => to === email).length >= 3);
  assert.equal(app.mails.filter(({ to }) => to === email).length, 3, 'nobody is buried in mail');
  assert.ok(app.mails.every(({ to }) => to !== 'nobody@example.com'));
});

/** Signing in at a real identity provider (oidc-provider) on loopback, and what must be refused. */
import assert from 'node:assert/strict';
import type { Server } from 'node:http';
import { after, before, test } from 'node:test';
// @ts-expect-error it comes without types
import Provider from 'oidc-provider';
import { freePort } from '../../test/kit/free-ports.ts';
import { type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';

const SECRET = 'a-secret-of-the-test-that-is-long-enough';
let app: InProcessApi;
let issuer: string;
let server: Server;
/** How the provider began each flow. */
const asked: URLSearchParams[] = [];

before(async () => {
  const port = await freePort();
  issuer = `http://localhost:${port}`;
  const names = ['ISSUER', 'CLIENT_ID', 'CLIENT_SECRET'].map((name) => `POSTRIDER_OIDC_${name}`);
  const values = [issuer, 'postrider', SECRET];
  app = await inProcessApi({ env: Object.fromEntries(names.map((name, index) => [name, values[index]!])) });
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'postrider', client_secret: SECRET, redirect_uris: [`${app.url}/session/oidc/callback`] }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    pkce: { required: () => true },
    cookies: { keys: ['a key of the test'] },
    features: { devInteractions: { enabled: true } },
    findAccount: (_: unknown, sub: string) => ({
      accountId: sub,
      claims: () => ({ sub, email: sub, email_verified: !sub.startsWith('unverified') }),
    }),
  });
  server = provider.listen(port, 'localhost');
});
after(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await app.close();
});

/** A browser at both sites; cookies by name, whatever the site: they have different ones. */
class Jar {
  readonly cookies = new Map<string, string>();

  async fetch(url: string, form?: Record<string, string>): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const body = form && new URLSearchParams(form);
    const method = form === undefined ? 'GET' : 'POST';
    const response = await fetch(url, { redirect: 'manual', headers: { cookie }, method, ...(body && { body }) });
    for (const line of response.headers.getSetCookie()) {
      const [pair = ''] = line.split(';');
      const at = pair.indexOf('=');
      this.cookies.set(pair.slice(0, at), pair.slice(at + 1));
    }
    return response;
  }
}

const locationOf = (response: Response, base: string): string =>
  new URL(response.headers.get('location') ?? '', base).href;

/** Logs in at the provider as this address; returns where it redirects the browser. */
async function throughProvider(jar: Jar, login: string): Promise<string> {
  const begun = await jar.fetch(`${app.url}/session/oidc`);
  assert.equal(begun.status, 302);
  let url = locationOf(begun, app.url);
  asked.push(new URL(url).searchParams);
  for (let step = 0; step < 12 && !url.startsWith(app.url); step += 1) {
    const response = await jar.fetch(url);
    if (response.status < 400 && response.headers.has('location')) {
      url = locationOf(response, issuer);
      continue;
    }
    const page = await response.text();
    assert.equal(response.status, 200, page);
    const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1] ?? '';
    url = locationOf(await jar.fetch(url, { prompt, ...(prompt === 'login' ? { login, password: 'x' } : {}) }), issuer);
  }
  return url;
}

test('a user with a verified address logs in, with PKCE, state, and nonce', async () => {
  const { email, userId } = await app.user('ann@example.com', 'viewer');
  const jar = new Jar();
  const back = await throughProvider(jar, email);
  const done = await jar.fetch(back);
  assert.deepEqual([done.status, done.headers.get('location')], [302, '/'], await done.clone().text());
  assert.match(done.headers.get('set-cookie') ?? '', /^postrider_session=\w{43}; Path=\/; HttpOnly; SameSite=Strict/);
  const session = await (await jar.fetch(`${app.url}/session`)).json();
  assert.equal((session as { userId: string }).userId, userId);
  for (const name of ['code_challenge', 'state', 'nonce']) assert.ok((asked[0]!.get(name) ?? '').length >= 32, name);
  assert.equal(asked[0]!.get('code_challenge_method'), 'S256');
  assert.equal((await jar.fetch(back)).status, 401, 'a code counts once');
});

test('a sign-in through the provider meets an account that requires two-factor authentication', async () => {
  const { email, userId } = await app.user('strict@example.com', 'owner');
  const jar = new Jar();
  await jar.fetch(await throughProvider(jar, email));
  const browser = app.browser();
  browser.cookie = `postrider_session=${jar.cookies.get('postrider_session')}`;
  const headers = { 'x-id': app.accountId };
  const require = (required: boolean) => browser.call('PUT', '/account/two-factor', { required }, headers);
  assert.equal((await require(true)).status, 200, 'the owner has no second factor here');
  const { userId: shown, twoFactor } = (await browser.call('GET', '/session')).body;
  assert.deepEqual([shown, twoFactor], [userId, { totp: false, recoveryCodes: 0, passkeys: 0 }]);
  assert.equal((await browser.call('GET', '/account', undefined, headers)).status, 200);
  const bob = await app.user('password@example.com', 'member');
  const byPassword = await app.signedIn(bob.email, bob.password);
  assert.equal((await byPassword.call('GET', '/account', undefined, headers)).status, 403, 'control');
  assert.equal((await require(false)).status, 200);
});

test('rejects an unverified address, an unknown one, and a flow of another browser', async () => {
  await app.user('unverified@example.com');
  for (const login of ['unverified@example.com', 'nobody@example.com']) {
    const jar = new Jar();
    assert.equal((await jar.fetch(await throughProvider(jar, login))).status, 401, login);
    assert.ok(!jar.cookies.has('postrider_session'));
  }
  const { email } = await app.user('bob@example.com');
  const [mine, other] = [new Jar(), new Jar()];
  const back = await throughProvider(mine, email);
  assert.equal((await other.fetch(back)).status, 401, 'without the cookie of the flow');
  await other.fetch(`${app.url}/session/oidc`);
  assert.equal((await other.fetch(back)).status, 401, 'with that of another flow');
  const forged = new URL(back);
  forged.searchParams.set('state', 'x'.repeat(43));
  assert.equal((await mine.fetch(forged.href)).status, 401, 'with another state');
  const flow = mine.cookies.get('postrider_oidc')!;
  mine.cookies.set('postrider_oidc', `${flow.slice(0, -2)}AA`);
  assert.equal((await mine.fetch(back)).status, 401, 'with an altered cookie');
  mine.cookies.set('postrider_oidc', flow);
  assert.equal((await mine.fetch(back)).status, 302, 'control');
});

test('the routes do not exist without a provider', async (t) => {
  const plain = await inProcessApi();
  t.after(plain.close);
  for (const at of ['/session/oidc', '/session/oidc/callback?code=x'])
    assert.equal((await fetch(`${plain.url}${at}`, { redirect: 'manual' })).status, 404, at);
});

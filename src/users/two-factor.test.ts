/** An account that requires two-factor authentication: which sessions it refuses, how users get in, and what they cannot undo. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Answer } from '../../test/kit/api.ts';
import { type FakeClock, fakeClock } from '../../test/kit/fake-clock.ts';
import { type Browser, type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { PasskeyDevice, totpCode } from '../../test/kit/second-factors.ts';
import { createAccount } from '../accounts/accounts.ts';
import { createUser } from './create.ts';

let clock: FakeClock;
let app: InProcessApi;
before(async () => {
  clock = fakeClock();
  app = await inProcessApi({ clock });
});
after(() => app.close());

/** A separate account for each test. */
async function newAccount(name: string): Promise<string> {
  return (await createAccount(app.parts, { name, plan: 'paid' })).account.id;
}

const inAccount = (browser: Browser, accountId: string, line: string, body?: unknown): Promise<Answer> => {
  const [method = '', path = ''] = line.split(' ');
  return browser.call(method, path, body, { 'x-id': accountId });
};
const require = (browser: Browser, accountId: string, required = true) =>
  inAccount(browser, accountId, 'PUT /account/two-factor', { required });
const failureOf = ({ status, body }: Answer): [number, string] => [status, body.error?.message];

async function setUpApp(browser: Browser): Promise<string> {
  const { secret } = (await browser.call('POST', '/user/totp')).body;
  const confirmed = await browser.call('PUT', '/user/totp', { code: totpCode(String(secret), clock.now()) });
  assert.equal(confirmed.status, 200, confirmed.text);
  return String(secret);
}

async function addPasskey(browser: Browser): Promise<PasskeyDevice> {
  const device = new PasskeyDevice(app.url);
  const options = (await browser.call('POST', '/user/passkeys/options')).body as unknown as { challenge: string };
  const added = await browser.call('POST', '/user/passkeys', { credential: device.create(options) });
  assert.equal(added.status, 201, added.text);
  return device;
}

async function signInWith(device: PasskeyDevice): Promise<Browser> {
  const browser = app.browser();
  const options = (await browser.call('POST', '/session/passkey/options')).body as unknown as { challenge: string };
  const answer = await browser.call('POST', '/session/passkey', { credential: device.get(options) });
  assert.equal(answer.status, 200, answer.text);
  return browser;
}

const passkeyPath = (device: PasskeyDevice) => `/user/passkeys/${device.id.toString('base64url')}`;

const SET_UP =
  'This account requires two-factor authentication. Set up two-factor authentication in your profile: an authenticator app or a passkey.';
const SIGN_IN =
  'This account requires two-factor authentication. Sign in again with your passkey or with a code of your authenticator app.';

test('users without a second factor are refused until they set one up', async () => {
  const accountId = await newAccount('Strict');
  const elsewhere = await newAccount('Elsewhere');
  const ada = await app.user('ada@example.com', 'owner', accountId);
  const owner = await app.signedIn(ada.email, ada.password);
  const [status, message] = failureOf(await require(owner, accountId));
  assert.equal(status, 409);
  assert.match(message, /use it yourself\. Set up two-factor authentication/);
  const secret = await setUpApp(owner);
  const bob = await app.user('bob@example.com', 'member', accountId);
  const member = await app.signedIn(bob.email, bob.password);
  const shown = async (browser: Browser) => (await browser.call('GET', '/session')).body;
  assert.equal((await inAccount(member, accountId, 'GET /account')).body.twoFactorRequired, false);

  const required = await require(owner, accountId);
  assert.deepEqual([required.status, required.body], [200, { required: true }]);
  assert.equal((await require(owner, accountId)).status, 200, 'again');
  assert.equal((await inAccount(owner, accountId, 'GET /account')).body.twoFactorRequired, true);
  for (const line of ['GET /account', 'GET /messages', 'POST /webhooks', 'GET /users', 'GET /events/stream'])
    assert.deepEqual(failureOf(await inAccount(member, accountId, line)), [403, SET_UP], line);
  const keys = await inAccount(owner, accountId, 'POST /api-keys', {});
  const withKey = { 'x-api-key': keys.body.apiKey, 'x-id': accountId };
  assert.equal((await app.browser().call('GET', '/account', undefined, withKey)).status, 200, 'a key is not a user');
  const { twoFactor, accounts } = await shown(member);
  assert.deepEqual([twoFactor.missing, accounts[0].twoFactorRequired], ['setup', true]);
  for (const line of ['/sessions', '/user/passkeys'])
    assert.equal((await member.call('GET', line)).status, 200, `${line} is of the user`);

  const { userId } = (await inAccount(owner, accountId, 'GET /users')).body.find(
    ({ email }: { email: string }) => email === bob.email,
  );
  assert.equal(userId, bob.userId);
  await setUpApp(member);
  assert.equal((await inAccount(member, accountId, 'GET /account')).status, 200);
  assert.equal((await shown(member)).twoFactor.missing, undefined);
  const members = (await inAccount(member, accountId, 'GET /users')).body as unknown as { totp: boolean }[];
  assert.deepEqual(
    members.map(({ totp }) => totp),
    [true, true],
  );

  const outside = await app.user('outside@example.com', 'owner', elsewhere);
  const stranger = await app.signedIn(outside.email, outside.password);
  assert.equal((await inAccount(stranger, elsewhere, 'GET /account')).status, 200, 'other accounts are unaffected');
  clock.advance(30_000);
  const again = app.browser();
  const body = { email: ada.email, password: ada.password, code: totpCode(secret, clock.now()) };
  assert.equal((await again.call('POST', '/session', body)).status, 200);
  assert.equal((await inAccount(again, accountId, 'GET /account')).status, 200);

  assert.equal((await require(owner, accountId, false)).status, 200);
  const log = (await inAccount(owner, accountId, 'GET /audit?action=account.require-two-factor')).body;
  assert.deepEqual(
    (log as unknown as { before: unknown; after: unknown; actor: { name: string } }[]).map((one) => [
      one.before,
      one.after,
      one.actor.name,
    ]),
    [
      [{ twoFactorRequired: true }, { twoFactorRequired: false }, ada.email],
      [{ twoFactorRequired: false }, { twoFactorRequired: true }, ada.email],
    ],
  );
});

test('only an owner who is signed in decides, for live mail', async () => {
  const accountId = await newAccount('Decides');
  const ada = await app.user('decides@example.com', 'owner', accountId);
  const owner = await app.signedIn(ada.email, ada.password);
  await setUpApp(owner);
  const key = (await inAccount(owner, accountId, 'POST /api-keys', {})).body.apiKey;
  const headers = { 'x-api-key': key, 'x-id': accountId };
  const byKey = await app.browser().call('PUT', '/account/two-factor', { required: true }, headers);
  assert.match(failureOf(byKey)[1], /^Only a person/);
  const bob = await app.user('no-owner@example.com', 'member', accountId);
  const member = await app.signedIn(bob.email, bob.password);
  await setUpApp(member);
  assert.match(failureOf(await require(member, accountId))[1], /requires the role owner/);
  const sandbox = { 'x-id': accountId, 'x-mode': 'sandbox' };
  assert.equal((await owner.call('PUT', '/account/two-factor', { required: true }, sandbox)).status, 403);
  assert.equal((await inAccount(owner, accountId, 'GET /account')).body.twoFactorRequired, false);
  assert.equal((await require(owner, accountId)).status, 200, 'control');
});

test('a passkey must be used to sign in: the password alone opens nothing and changes no factor', async () => {
  const accountId = await newAccount('Passkeys');
  const ada = await app.user('passkey@example.com', 'owner', accountId);
  const owner = await app.signedIn(ada.email, ada.password);
  const device = await addPasskey(owner);
  assert.equal((await require(owner, accountId)).status, 200, 'the session that added the first factor has it');
  const byPassword = await app.signedIn(ada.email, ada.password);
  assert.deepEqual(failureOf(await inAccount(byPassword, accountId, 'GET /account')), [403, SIGN_IN]);
  assert.equal((await byPassword.call('GET', '/session')).body.twoFactor.missing, 'sign-in');
  const credential = new PasskeyDevice(app.url).create({ challenge: 'AAAA' });
  const answers = [
    await byPassword.call('POST', '/user/totp'),
    await byPassword.call('PUT', '/user/totp', { code: '123456' }),
    await byPassword.call('POST', '/user/passkeys/options'),
    await byPassword.call('POST', '/user/passkeys', { credential }),
    await byPassword.call('DELETE', passkeyPath(device)),
  ];
  for (const answer of answers) {
    const [status, message] = failureOf(answer);
    assert.equal(status, 403);
    assert.match(message, /Sign in again with your second factor first: the account "Passkeys" requires/);
  }
  const withPasskey = await signInWith(device);
  assert.equal((await inAccount(withPasskey, accountId, 'GET /account')).status, 200);
  await setUpApp(withPasskey);
  assert.equal((await withPasskey.call('DELETE', passkeyPath(device))).status, 200, 'the app is left');
});

test('the last second factor cannot be removed while an account requires one', async () => {
  const accountId = await newAccount('Keeps "factors"');
  const ada = await app.user('keeps@example.com', 'owner', accountId);
  const owner = await app.signedIn(ada.email, ada.password);
  await setUpApp(owner);
  await require(owner, accountId);
  const message =
    'The account "Keeps "factors"" requires two-factor authentication, and this is your last second factor. Add another one before you remove it.';
  assert.deepEqual(failureOf(await owner.call('DELETE', '/user/totp')), [409, message]);
  const device = await addPasskey(owner);
  assert.equal((await owner.call('DELETE', '/user/totp')).status, 200);
  assert.deepEqual(failureOf(await owner.call('DELETE', passkeyPath(device))), [409, message]);
  assert.equal((await inAccount(owner, accountId, 'GET /account')).status, 200, 'the passkey is still there');
  await require(owner, accountId, false);
  assert.equal((await owner.call('DELETE', passkeyPath(device))).status, 200);
  const { accounts, twoFactor } = (await owner.call('GET', '/session')).body;
  assert.deepEqual([accounts[0].twoFactorRequired, twoFactor.missing], [false, 'setup']);
});

test('an operator sees the requirement, meets it with support access, and can stop it', async () => {
  const accountId = await newAccount('Locked out');
  const ada = await app.user('locked@example.com', 'owner', accountId);
  const owner = await app.signedIn(ada.email, ada.password);
  const device = await addPasskey(owner);
  await require(owner, accountId);
  const made = await createUser(app.parts, { email: 'op@example.com', isOperator: true });
  assert.ok(made.ok);
  const operator = await app.signedIn(made.value.email, made.value.password);
  const path = `/operator/accounts/${accountId}`;
  assert.equal((await operator.call('GET', path)).body.twoFactorRequired, true);
  assert.equal((await operator.call('POST', `${path}/support-access`)).status, 201);
  assert.deepEqual(failureOf(await inAccount(operator, accountId, 'GET /account')), [403, SET_UP]);
  const switchedOn = await operator.call('PATCH', path, { twoFactorRequired: true });
  assert.equal(switchedOn.status, 400, 'only owners require it');
  const stopped = await operator.call('PATCH', path, { twoFactorRequired: false });
  assert.deepEqual([stopped.status, stopped.body.twoFactorRequired], [200, false]);
  await clock.advance(1_000);
  const byPassword = await app.signedIn(ada.email, ada.password);
  assert.equal((await inAccount(byPassword, accountId, 'GET /account')).status, 200);
  assert.equal((await byPassword.call('DELETE', passkeyPath(device))).status, 200, 'a lost passkey can be removed');
  const entry = (await inAccount(byPassword, accountId, 'GET /audit?action=account.set')).body[0];
  assert.deepEqual([entry.before.twoFactorRequired, entry.after.twoFactorRequired], [true, false]);
  assert.equal(entry.actor.name, made.value.email);
});

/**
 * Passkeys over the API with a software authenticator that has real keys and signatures: adding, logging in, and the invalid responses that
 * must be rejected: another challenge, origin, or host, no user verification, a replay, a forged signature, a counter that went back.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import type { Answer } from '../../test/kit/api.ts';
import { type FakeClock, fakeClock } from '../../test/kit/fake-clock.ts';
import { type Browser, type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { assertPaged } from '../../test/kit/list-pages.ts';
import { type Bent, PasskeyDevice, type PasskeyResponse, USER_PRESENT } from '../../test/kit/second-factors.ts';

let clock: FakeClock;
let app: InProcessApi;
before(async () => {
  clock = fakeClock();
  app = await inProcessApi({ clock });
});
after(() => app.close());

type Options = { challenge: string; user?: { id: string } };
const failureOf = ({ body }: Answer): string => body.error?.message;
const optionsOf = async (browser: Browser, path: string): Promise<Options> => {
  const answer = await browser.call('POST', path);
  assert.equal(answer.status, 200, answer.text);
  return answer.body as Options;
};

async function withPasskey(email: string): Promise<{ browser: Browser; device: PasskeyDevice; userId: string }> {
  const { password, userId } = await app.user(email, 'member');
  const browser = await app.signedIn(email, password);
  const device = new PasskeyDevice(app.url);
  const credential = device.create(await optionsOf(browser, '/user/passkeys/options'));
  const added = await browser.call('POST', '/user/passkeys', { name: 'Laptop', credential });
  assert.equal(added.status, 201, added.text);
  assert.deepEqual([added.body.passkeyId, added.body.name], [device.id.toString('base64url'), 'Laptop']);
  return { browser, device, userId };
}

test('a passkey is added, logs in without password and code, and is removed', async () => {
  const { browser, device, userId } = await withPasskey('ann@example.com');
  assert.equal((await browser.call('GET', '/session')).body.twoFactor.passkeys, 1);
  const fresh = app.browser();
  const options = await optionsOf(fresh, '/session/passkey/options');
  assert.ok(!('allowCredentials' in options), 'nobody is named');
  const signedIn = await fresh.call('POST', '/session/passkey', { credential: device.get(options) });
  assert.deepEqual([signedIn.status, signedIn.body.userId], [200, userId]);
  assert.equal((await fresh.call('GET', '/account', undefined, { 'x-id': app.accountId })).status, 200);
  const [listed] = (await fresh.call('GET', '/user/passkeys')).body as unknown as {
    lastUsedAt: string;
    passkeyId: string;
  }[];
  assert.equal(Date.parse(listed!.lastUsedAt), clock.now());
  assert.equal((await fresh.call('DELETE', `/user/passkeys/${listed!.passkeyId}`)).status, 200);
  assert.equal((await fresh.call('DELETE', `/user/passkeys/${listed!.passkeyId}`)).status, 404);
  const again = device.get(await optionsOf(fresh, '/session/passkey/options'));
  assert.equal((await app.browser().call('POST', '/session/passkey', { credential: again })).status, 401);
  const database = new DatabaseSync(app.databaseFile, { readOnly: true });
  const actions = database.prepare('SELECT action FROM audit WHERE actor_id = ? ORDER BY id').all(userId);
  database.close();
  assert.deepEqual(actions.map(({ action }) => action).sort(), [
    'passkey.add',
    'passkey.remove',
    'session.begin',
    'session.begin',
  ]);
});

test('passkeys are listed page by page, newest first', async () => {
  const { browser } = await withPasskey('pages@example.com');
  for (const name of ['Phone', 'Tablet']) {
    const credential = new PasskeyDevice(app.url).create(await optionsOf(browser, '/user/passkeys/options'));
    assert.equal((await browser.call('POST', '/user/passkeys', { name, credential })).status, 201);
  }
  await assertPaged(
    '/user/passkeys',
    (path) => browser.call('GET', path),
    ({ passkeyId }) => passkeyId,
  );
});

test('rejects an invalid response when a passkey is added', async () => {
  const { email, password } = await app.user('adding@example.com');
  const browser = await app.signedIn(email, password);
  const add = (credential: unknown) => browser.call('POST', '/user/passkeys', { credential });
  const bents: Bent[] = [
    { origin: 'https://evil.example' },
    { rpId: 'evil.example' },
    { flags: USER_PRESENT },
    { type: 'webauthn.get' },
    { challenge: randomBytes(38).toString('base64url') },
  ];
  for (const bent of bents) {
    const credential = new PasskeyDevice(app.url).create(await optionsOf(browser, '/user/passkeys/options'), bent);
    const answer = await add(credential);
    assert.equal(answer.status, 400, JSON.stringify(bent));
    assert.match(failureOf(answer), /^credential was not accepted: /);
  }
  const ofSignIn = await optionsOf(browser, '/session/passkey/options');
  assert.equal((await add(new PasskeyDevice(app.url).create(ofSignIn))).status, 400, 'a challenge of another purpose');
  const other = await app.user('adding-too@example.com');
  const ofOther = await optionsOf(await app.signedIn(other.email, other.password), '/user/passkeys/options');
  assert.equal((await add(new PasskeyDevice(app.url).create(ofOther))).status, 400, 'a challenge of another user');
  const options = await optionsOf(browser, '/user/passkeys/options');
  const device = new PasskeyDevice(app.url);
  const respelled = { challenge: `${options.challenge}=` };
  assert.equal((await add(new PasskeyDevice(app.url).create(options, respelled))).status, 400, 'a respelled challenge');
  assert.equal((await add(device.create(options))).status, 201, 'control');
  assert.equal((await add(new PasskeyDevice(app.url).create(options))).status, 409, 'a challenge is answered once');
  assert.equal(
    (await add(device.create(await optionsOf(browser, '/user/passkeys/options')))).status,
    409,
    'a known one',
  );
  const late = await optionsOf(browser, '/user/passkeys/options');
  clock.advance(5 * 60_000);
  assert.equal((await add(new PasskeyDevice(app.url).create(late))).status, 400, 'too late');
  clock.advance(11 * 60_000);
  assert.equal((await browser.call('POST', '/user/passkeys/options')).status, 403, 'the session is an old one');
});

test('rejects an invalid response at login', async () => {
  const { device } = await withPasskey('signing@example.com');
  const browser = app.browser();
  const attempt = async (credential: unknown) =>
    (await browser.call('POST', '/session/passkey', { credential })).status;
  const options = () => optionsOf(browser, '/session/passkey/options');
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  for (const bent of [
    { origin: 'https://evil.example' },
    { rpId: 'evil.example' },
    { flags: USER_PRESENT },
    { counter: 1 },
  ])
    assert.equal(await attempt(device.get(await options(), bent)), 401, JSON.stringify(bent));
  assert.equal(await attempt(device.get(await options(), {}, other)), 401, 'a forged signature');
  assert.equal(await attempt(new PasskeyDevice(app.url).get(await options())), 401, 'an unknown passkey');
  const credential = device.get(await options());
  assert.equal(await attempt(credential), 200, 'control');
  assert.equal(await attempt(credential), 401, 'a replay');
  const foreign = { origin: 'https://evil.example' };
  const stolen = { credential: device.get(await options()) };
  assert.equal((await browser.call('POST', '/session/passkey', stolen, foreign)).status, 403);
  const outcomes = [];
  for (let i = 0; i < 12; i += 1) outcomes.push(await attempt(device.get(await options(), {}, other)));
  assert.ok(outcomes.includes(429), 'limits hold here too');
});

test('malformed credentials are rejected with the name of the field', async () => {
  const { browser, device } = await withPasskey('malformed@example.com');
  const values: unknown[] = [
    undefined,
    null,
    0,
    true,
    '',
    'é',
    'a\0',
    'A'.repeat(19_000),
    [],
    {},
    { toString: 1 },
    [['A']],
  ];
  type Fields = Record<string, unknown>;
  const changed = (credential: PasskeyResponse): { field: string; value: unknown; credential: Fields }[] => {
    const top = Object.keys(credential).filter((field) => field !== 'clientExtensionResults');
    const inResponse = [...Object.keys(credential.response), 'transports'];
    return values.flatMap((value) => [
      ...top.map((field) => ({ field, value, credential: { ...credential, [field]: value } })),
      ...inResponse.map((field) => ({
        field,
        value,
        credential: { ...credential, response: { ...credential.response, [field]: value } },
      })),
    ]);
  };
  const tried = async (path: string, make: () => Promise<PasskeyResponse>): Promise<Answer[]> => {
    const answers: Answer[] = [];
    for (const { field, value, credential } of changed(await make())) {
      const caller = path === '/session/passkey' ? app.browser() : browser;
      const answer = await caller.call('POST', path, { credential });
      const isOptional = ['transports', 'userHandle'].includes(field);
      const what = `${path} ${field} ${JSON.stringify(value)?.slice(0, 30)}: ${answer.text}`;
      if (answer.status < 400 && isOptional) continue;
      assert.ok([400, 401, 409, 429].includes(answer.status), what);
      if (answer.status === 400) assert.match(failureOf(answer), /^credential[. ]/, what);
      answers.push(answer);
    }
    return answers;
  };
  const added = await tried('/user/passkeys', async () =>
    new PasskeyDevice(app.url).create(await optionsOf(browser, '/user/passkeys/options')),
  );
  const signedIn = await tried('/session/passkey', async () =>
    device.get(await optionsOf(app.browser(), '/session/passkey/options')),
  );
  assert.deepEqual(
    [added, signedIn].map((answers) => answers.some(({ status }) => status === 400)),
    [true, true],
  );
});

/** An authenticator app from its setting up to its end, over HTTP: codes count once, recovery codes too. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type FakeClock, fakeClock } from '../../test/kit/fake-clock.ts';
import { type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { totpCode } from '../../test/kit/second-factors.ts';

let clock: FakeClock;
let app: InProcessApi;
before(async () => {
  clock = fakeClock();
  app = await inProcessApi({ clock });
});
after(() => app.close());

test('codes are required after one was confirmed, and each is valid once', async () => {
  const { email, password } = await app.user('totp@example.com');
  const browser = await app.signedIn(email, password);
  assert.equal((await browser.call('PUT', '/user/totp', { code: '123456' })).status, 409, 'nothing is offered yet');
  const offer = await browser.call('POST', '/user/totp');
  assert.equal(offer.status, 201);
  assert.equal(new URL(offer.body.otpauthUrl).searchParams.get('secret'), offer.body.secret);
  const codeAt = (by = 0): string => totpCode(offer.body.secret, clock.now(), by);
  const signIn = (code?: string) => app.browser().call('POST', '/session', { email, password, ...(code && { code }) });
  assert.equal((await signIn()).status, 200, 'not asked for before');
  const wrong = codeAt() === '000000' ? '000001' : '000000';
  assert.equal((await browser.call('PUT', '/user/totp', { code: wrong })).status, 400);
  const confirmed = await browser.call('PUT', '/user/totp', { code: codeAt() });
  assert.deepEqual([confirmed.status, confirmed.body.recoveryCodes.length], [200, 10]);
  assert.equal((await browser.call('POST', '/user/totp')).status, 409);
  assert.deepEqual((await browser.call('GET', '/session')).body.twoFactor, {
    totp: true,
    recoveryCodes: 10,
    passkeys: 0,
  });

  assert.equal((await signIn()).status, 401);
  assert.equal((await signIn(codeAt())).status, 401, 'the code that confirmed counts no more');
  clock.advance(30_000);
  const [first, second] = await Promise.all([signIn(codeAt()), signIn(codeAt())]);
  assert.deepEqual([first.status, second.status].sort(), [200, 401], 'of two at once one');
  assert.equal((await signIn(codeAt(-1))).status, 401, 'nor does one before it');
  clock.advance(30_000);
  assert.equal((await signIn(` ${codeAt().slice(0, 3)} ${codeAt().slice(3)}`)).status, 200);

  const [code = '', another = ''] = confirmed.body.recoveryCodes as string[];
  assert.equal((await signIn(code.toUpperCase())).status, 200);
  assert.equal((await signIn(code)).status, 401);
  const again = await signIn(another);
  assert.equal(again.body.twoFactor.recoveryCodes, 8);

  clock.advance(16 * 60_000);
  assert.equal((await browser.call('DELETE', '/user/totp')).body.error.code, 'FORBIDDEN', 'the session is an old one');
  const fresh = app.browser();
  assert.equal((await fresh.call('POST', '/session', { email, password, code: codeAt() })).status, 200);
  assert.equal((await fresh.call('DELETE', '/user/totp')).status, 200);
  assert.equal((await fresh.call('DELETE', '/user/totp')).status, 404);
  assert.equal((await signIn()).status, 200);
});

test('a clock that is set back refuses neither codes nor logins', async () => {
  const { email, password } = await app.user('clock@example.com');
  const browser = await app.signedIn(email, password);
  const { secret } = (await browser.call('POST', '/user/totp')).body;
  await browser.call('PUT', '/user/totp', { code: totpCode(String(secret), clock.now()) });
  const signIn = async (): Promise<number> => {
    const code = totpCode(String(secret), clock.now());
    return (await app.browser().call('POST', '/session', { email, password, code })).status;
  };
  const guess = async (): Promise<number> =>
    (await app.browser('127.0.0.9').call('POST', '/session', { email, password: 'wrong' })).status;
  clock.advance(365 * 86_400_000);
  assert.equal(await signIn(), 200);
  for (let i = 0; i < 10; i += 1) assert.equal(await guess(), 401);
  assert.equal(await guess(), 429);
  clock.advance(-364 * 86_400_000);
  assert.equal(await guess(), 401);
  assert.equal(await signIn(), 200);
  assert.equal(await signIn(), 401, 'a code is valid once');
});

test('a password reset link does not replace the second factor', async () => {
  const { email, password } = await app.user('linked@example.com');
  const browser = await app.signedIn(email, password);
  const { secret } = (await browser.call('POST', '/user/totp')).body;
  await browser.call('PUT', '/user/totp', { code: totpCode(String(secret), clock.now()) });
  const { resetPassword } = await import('./create.ts');
  const reset = await resetPassword(app.parts, { email, baseUrl: app.url });
  assert.ok(reset.ok);
  const [, token = ''] = reset.value.resetUrl.split('#token=');
  const other = app.browser();
  const set = await other.call('PUT', '/password', { token, password: 'a password of mine' });
  assert.deepEqual([set.status, other.cookie], [200, undefined]);
  assert.equal((await other.call('GET', '/session')).status, 401);
});

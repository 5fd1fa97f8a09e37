/** Callers by key and account id: one refusal for all failures, changes that take effect in time, no database on the hot path. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import type { Database } from '../storage/database.ts';
import { createAuthenticator, createSmtpAuthenticator } from './authenticate.ts';
import { createAccount, createKey, createSmtpCredential } from './create.ts';
import {
  findCredentialOperation,
  findKeyOperation,
  revokeCredentialOperation,
  revokeKeyOperation,
  updateCredentialOperation,
  updateKeyOperation,
} from './credential-store.ts';
import { hashPassword, UNKNOWN_USER_PASSWORD, verifyPassword } from './passwords.ts';
import { setAccountOperation } from './store.ts';

const address = '192.0.2.1';

async function setup(t: TestContext) {
  const temp = await tempDatabase();
  t.after(temp.close);
  const clock = fakeClock();
  let reads = 0;
  const counting: Database = {
    ...temp.database,
    execute: (op, args) => {
      if (op.name === findKeyOperation.name) reads += 1;
      return temp.database.execute(op, args);
    },
  };
  const making = { database: temp.database, clock };
  const first = await createAccount(making, { name: 'One', plan: 'paid' });
  const second = await createAccount(making, { name: 'Two', plan: 'free' });
  const authenticate = createAuthenticator({ database: counting, clock });
  return { ...temp, clock, making, first, second, authenticate, reads: () => reads };
}

test('a valid key with its account is authenticated, with mode, scope, and plan', async (t) => {
  const { authenticate, first, making, reads } = await setup(t);
  const live = await authenticate(first.apiKey, first.account.id);
  assert.ok(live.ok);
  assert.equal(live.value.mode, 'live');
  assert.equal(live.value.scope, 'full');
  assert.deepEqual(live.value.account, first.account);
  const sandbox = await authenticate(first.sandboxApiKey, first.account.id);
  assert.ok(sandbox.ok && sandbox.value.mode === 'sandbox');
  const wish = { accountId: first.account.id, mode: 'live', scope: 'send', name: null } as const;
  const send = await createKey(making, wish);
  assert.ok(send.ok);
  const sender = await authenticate(send.value.apiKey, first.account.id);
  assert.ok(sender.ok && sender.value.scope === 'send' && sender.value.keyId === send.value.keyId);

  const before = reads();
  for (let i = 0; i < 100; i += 1) {
    assert.equal(authenticate(first.apiKey, first.account.id), live, 'a hit is synchronous');
  }
  assert.equal(reads(), before);
});

test('every failure gets the same response', async (t) => {
  const { authenticate, first, second, database, clock, reads } = await setup(t);
  const revoked = await createKey(
    { database, clock },
    { accountId: first.account.id, mode: 'live', scope: 'full', name: null },
  );
  assert.ok(revoked.ok);
  const args = { id: revoked.value.keyId, accountId: null, mode: null, nowMs: clock.now() };
  assert.equal(await database.execute(revokeKeyOperation, args), 'revoked');
  const altered = `${first.apiKey.slice(0, -1)}${first.apiKey.endsWith('x') ? 'y' : 'x'}`;
  const cases: [string, string | undefined, string | undefined][] = [
    ['nothing', undefined, undefined],
    ['no key', undefined, first.account.id],
    ['no account', first.apiKey, undefined],
    ['foreign account', first.apiKey, second.account.id],
    ['unknown account', first.apiKey, 'acc_0'],
    ['altered secret', altered, first.account.id],
    ['other mode', first.apiKey.replace('pr_live_', 'pr_test_'), first.account.id],
    ['unknown key', `pr_live_${'0'.repeat(21)}_${'0'.repeat(32)}`, first.account.id],
    ['no key at all', 'hello', first.account.id],
    ['endless', 'x'.repeat(100_000), first.account.id],
    ['key with a tail', `${first.apiKey} `, first.account.id],
    ['revoked', revoked.value.apiKey, first.account.id],
  ];
  const answers = new Set<string>();
  await authenticate(first.apiKey, first.account.id);
  // The second round hits the caches and must cost the same.
  for (const [name, key, account] of [...cases, ...cases]) {
    const before = reads();
    const result = await authenticate(key, account);
    assert.equal(result.ok, false, name);
    assert.equal(reads() - before, 1, `${name}: one look-up`);
    answers.add(JSON.stringify(result));
  }
  assert.equal(answers.size, 1);
  assert.match([...answers][0]!, /UNAUTHORIZED/);
});

test('revocation, suspension, and a plan change take effect within a second', async (t) => {
  const { authenticate, first, database, clock } = await setup(t);
  const call = async () => {
    const result = await authenticate(first.apiKey, first.account.id);
    return result.ok ? result.value.account.plan : result.failure.code;
  };
  const set = (change: object) =>
    database.execute(setAccountOperation, {
      id: first.account.id,
      plan: null,
      status: null,
      approvedEmailBytes: null,
      nowMs: Date.now(),
      ...change,
    });
  assert.equal(await call(), 'paid');
  await set({ plan: 'free' });
  clock.advance(1_000);
  assert.equal(await call(), 'free');
  await set({ status: 'suspended' });
  clock.advance(1_000);
  assert.equal(await call(), 'ACCOUNT_SUSPENDED');
  await set({ status: 'active' });
  clock.advance(1_000);
  assert.equal(await call(), 'free');
  const caller = await authenticate(first.apiKey, first.account.id);
  assert.ok(caller.ok);
  await database.execute(revokeKeyOperation, {
    id: caller.value.keyId,
    accountId: null,
    mode: null,
    nowMs: clock.now(),
  });
  clock.advance(1_000);
  assert.equal(await call(), 'UNAUTHORIZED');
});

test('a password matches only its own hash', async () => {
  const phc = await hashPassword('grüße');
  assert.match(phc, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
  assert.equal(await verifyPassword('grüße', phc), true);
  assert.equal(await verifyPassword('Grüße', phc), false);
  assert.equal(await verifyPassword('', phc), false);
  assert.equal(await verifyPassword('', UNKNOWN_USER_PASSWORD), false);
  assert.notEqual(await hashPassword('grüße'), phc);
  await assert.rejects(verifyPassword('x', 'x'), /unknown form/);
});

test('logins expire or are revoked as documented', async (t) => {
  const { database, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const making = { database, clock };
  const { account } = await createAccount(making, { name: 'One', plan: 'paid' });
  const created = await createSmtpCredential(making, { accountId: account.id, mode: 'sandbox' });
  assert.ok(created.ok);
  const { username, password } = created.value;
  const stored = await database.execute(findCredentialOperation, username);
  assert.ok(!JSON.stringify(stored).includes(password));

  const smtp = createSmtpAuthenticator({ database, clock });
  assert.equal(await smtp.recall({ username, password, address }), undefined, 'not known before it was right once');
  const first = await smtp.logIn({ username, password, address });
  assert.ok(first.ok);
  assert.deepEqual(await smtp.recall({ username, password, address }), first.value);
  assert.equal(await smtp.recall({ username, password: `${password}x`, address }), undefined);
  assert.equal(await smtp.recall({ username: 'smtp_nobody', password, address }), undefined);
  assert.deepEqual(first.value, {
    account,
    mode: 'sandbox',
    scope: 'send',
    keyId: created.value.smtpCredentialId,
    allowedSenders: [],
    allowedNetworks: [],
    actor: { kind: 'credential', id: created.value.smtpCredentialId, name: created.value.smtpCredentialId },
    deliveryReports: 'off',
    expiresAt: null,
  });
  assert.deepEqual(await smtp.logIn({ username, password, address }), first);

  const answers = new Set<string>();
  const refused = async (name: string, user: string, pass: string) => {
    const result = await smtp.logIn({ username: user, password: pass, address });
    assert.equal(result.ok, false, name);
    answers.add(JSON.stringify(result));
  };
  await refused('wrong password', username, `${password}x`);
  await refused('unknown user', 'smtp_nobody', password);
  await refused('nothing', '', '');
  await refused('endless', username, password.padEnd(100_000, 'x'));

  const set = async (change: object) => {
    await database.execute(setAccountOperation, {
      id: account.id,
      plan: null,
      status: null,
      approvedEmailBytes: null,
      nowMs: Date.now(),
      ...change,
    });
    clock.advance(1_000);
  };
  assert.ok((await smtp.stillAllowed({ username, address })).ok);
  await set({ plan: 'free' });
  assert.equal((await smtp.stillAllowed({ username, address })).ok, false);
  await refused('plan', username, password);
  assert.equal(await smtp.recall({ username, password, address }), undefined);
  await set({ plan: 'paid', status: 'suspended' });
  await refused('suspended', username, password);
  await set({ status: 'active' });
  assert.ok((await smtp.logIn({ username, password, address })).ok);
  const revoke = { id: created.value.smtpCredentialId, accountId: account.id, mode: null, nowMs: clock.now() };
  assert.equal(await database.execute(revokeCredentialOperation, { ...revoke, accountId: 'acc_other' }), 'unknown');
  assert.equal(await database.execute(revokeCredentialOperation, revoke), 'revoked');
  clock.advance(1_000);
  assert.equal((await smtp.stillAllowed({ username, address })).ok, false);
  await refused('revoked', username, password);
  assert.equal(await smtp.recall({ username, password, address }), undefined);
  assert.equal(answers.size, 1);
});

test('network limits apply to each login and message, with the same reply as a wrong password', async (t) => {
  const { database, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const making = { database, clock };
  const { account } = await createAccount(making, { name: 'One', plan: 'paid' });
  const allowedNetworks = ['192.0.2.0/24', '2001:db8::/32'];
  const made = await createSmtpCredential(making, { accountId: account.id, mode: 'live', allowedNetworks });
  assert.ok(made.ok);
  const { username, password, smtpCredentialId } = made.value;
  const smtp = createSmtpAuthenticator({ database, clock });
  const from = (where: string) => ({ username, password, address: where });
  const outside = await smtp.logIn(from('203.0.113.9'));
  assert.ok(!outside.ok);
  assert.equal(outside.outside?.keyId, smtpCredentialId);
  const wrong = await smtp.logIn({ ...from('203.0.113.9'), password: 'wrong' });
  assert.deepEqual(wrong, { ok: false, failure: outside.failure }, 'only a correct password is reported');
  assert.equal(await smtp.recall(from('192.0.2.1')), undefined, 'a login from outside is not remembered');
  const inside = await smtp.logIn(from('192.0.2.1'));
  assert.deepEqual(inside.ok && inside.value.allowedNetworks, allowedNetworks);
  for (const where of ['192.0.2.1', '2001:db8::1']) {
    assert.ok(await smtp.recall(from(where)), where);
    assert.ok((await smtp.stillAllowed({ username, address: where })).ok, where);
  }
  assert.equal(await smtp.recall(from('203.0.113.9')), undefined, 'known, from another address');
  assert.equal((await smtp.logIn(from('203.0.113.9'))).ok, false);
  assert.equal((await smtp.stillAllowed({ username, address: '203.0.113.9' })).ok, false);

  const target = { id: smtpCredentialId, accountId: account.id, mode: null };
  await database.execute(updateCredentialOperation, { ...target, allowedNetworks: ['203.0.113.9/32'] });
  clock.advance(1_000);
  assert.equal((await smtp.stillAllowed({ username, address: '192.0.2.1' })).ok, false, 'changed by another process');
  assert.ok((await smtp.logIn(from('203.0.113.9'))).ok);
});

test("a change of a key's networks takes effect within a second", async (t) => {
  const { database, clock, authenticate, making, first } = await setup(t);
  const wish = { accountId: first.account.id, mode: 'live', scope: 'send', name: null } as const;
  const made = await createKey(making, { ...wish, allowedNetworks: ['192.0.2.1'] });
  assert.ok(made.ok);
  const { apiKey, keyId } = made.value;
  const networks = async () => {
    const caller = await authenticate(apiKey, first.account.id);
    return caller.ok && caller.value.allowedNetworks;
  };
  assert.deepEqual(await networks(), ['192.0.2.1/32']);
  const change = { id: keyId, accountId: first.account.id, mode: null, allowedNetworks: [] };
  await database.execute(updateKeyOperation, change);
  clock.advance(1_000);
  assert.deepEqual(await networks(), []);
  await database.execute(updateKeyOperation, { ...change, allowedNetworks: ['10.0.0.0/8'] });
  authenticate.evictKey(keyId);
  assert.deepEqual(await networks(), ['10.0.0.0/8']);
});

test('an account on a free plan cannot create a credential', async (t) => {
  const { database, close } = await tempDatabase();
  t.after(close);
  const making = { database, clock: fakeClock() };
  const { account } = await createAccount(making, { name: 'Free', plan: 'free' });
  const refusal = await createSmtpCredential(making, { accountId: account.id, mode: 'live' });
  assert.ok(!refusal.ok && refusal.failure.code === 'PLAN_NOT_ELIGIBLE');
  const unknown = await createSmtpCredential(making, { accountId: 'acc_0', mode: 'live' });
  assert.ok(!unknown.ok && unknown.failure.code === 'NOT_FOUND');
});

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
} from './credential-store.ts';
import { hashPassword, NOBODYS_PASSWORD, verifyPassword } from './passwords.ts';
import { setAccountOperation } from './store.ts';

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

test('all failures get the same refusal', async (t) => {
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

test('a password matches its own hash only', async () => {
  const phc = await hashPassword('grüße');
  assert.match(phc, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
  assert.equal(await verifyPassword('grüße', phc), true);
  assert.equal(await verifyPassword('Grüße', phc), false);
  assert.equal(await verifyPassword('', phc), false);
  assert.equal(await verifyPassword('', NOBODYS_PASSWORD), false);
  assert.notEqual(await hashPassword('grüße'), phc);
  await assert.rejects(verifyPassword('x', 'x'), /unknown form/);
});

test('logins, and what ends their validity', async (t) => {
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
  assert.equal(await smtp.recall(username, password), undefined, 'not known before it was right once');
  const first = await smtp.logIn(username, password);
  assert.ok(first.ok);
  assert.deepEqual(await smtp.recall(username, password), first.value);
  assert.equal(await smtp.recall(username, `${password}x`), undefined);
  assert.equal(await smtp.recall('smtp_nobody', password), undefined);
  assert.deepEqual(first.value, {
    account,
    mode: 'sandbox',
    scope: 'send',
    keyId: created.value.smtpCredentialId,
    allowedSenders: [],
    actor: { kind: 'credential', id: created.value.smtpCredentialId, name: created.value.smtpCredentialId },
    deliveryReports: 'off',
    expiresAt: null,
  });
  assert.deepEqual(await smtp.logIn(username, password), first);

  const answers = new Set<string>();
  const refused = async (name: string, user: string, pass: string) => {
    const result = await smtp.logIn(user, pass);
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
      ...change,
    });
    clock.advance(1_000);
  };
  assert.ok((await smtp.stillAllowed(username)).ok);
  await set({ plan: 'free' });
  assert.equal((await smtp.stillAllowed(username)).ok, false);
  await refused('plan', username, password);
  assert.equal(await smtp.recall(username, password), undefined);
  await set({ plan: 'paid', status: 'suspended' });
  await refused('suspended', username, password);
  await set({ status: 'active' });
  assert.ok((await smtp.logIn(username, password)).ok);
  const revoke = { id: created.value.smtpCredentialId, accountId: account.id, mode: null, nowMs: clock.now() };
  assert.equal(await database.execute(revokeCredentialOperation, { ...revoke, accountId: 'acc_other' }), 'unknown');
  assert.equal(await database.execute(revokeCredentialOperation, revoke), 'revoked');
  clock.advance(1_000);
  assert.equal((await smtp.stillAllowed(username)).ok, false);
  await refused('revoked', username, password);
  assert.equal(await smtp.recall(username, password), undefined);
  assert.equal(answers.size, 1);
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

/** SMTP log-ins: passwords as argon2id, one refusal for all reasons, and changes felt in an open session. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount, createSmtpCredential } from './create.ts';
import { findCredentialOperation, revokeCredentialOperation } from './credential-store.ts';
import { hashPassword, NOBODYS_PASSWORD, verifyPassword } from './passwords.ts';
import { createSmtpAuthenticator } from './smtp-authenticate.ts';
import { setAccountOperation } from './store.ts';

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

test('log-ins, and what ends them', async (t) => {
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

test('a free plan gets no credential', async (t) => {
  const { database, close } = await tempDatabase();
  t.after(close);
  const making = { database, clock: fakeClock() };
  const { account } = await createAccount(making, { name: 'Free', plan: 'free' });
  const refusal = await createSmtpCredential(making, { accountId: account.id, mode: 'live' });
  assert.ok(!refusal.ok && refusal.failure.code === 'PLAN_NOT_ELIGIBLE');
  const unknown = await createSmtpCredential(making, { accountId: 'acc_0', mode: 'live' });
  assert.ok(!unknown.ok && unknown.failure.code === 'NOT_FOUND');
});

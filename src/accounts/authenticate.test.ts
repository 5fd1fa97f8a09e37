/** Callers by key and account id: one refusal for all reasons, changes felt in time, no database on the hot path. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import type { Database } from '../storage/database.ts';
import { createAuthenticator } from './authenticate.ts';
import { createAccount, createKey } from './create.ts';
import { findKeyOperation, revokeKeyOperation } from './key-store.ts';
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

test('a key with its account is known, with mode, scope and plan', async (t) => {
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

test('every stranger gets the same refusal', async (t) => {
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
  // The second time nothing is new any more, and costs the same all the same.
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

test('revocation, suspension and another plan are felt within a second', async (t) => {
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

/** The last uses of keys: the newest of each, written together once a minute and at the end, and kept while the database is away. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { DIALECTS, type Dialect, tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { Actor } from '../base/actor.ts';
import { Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import type { Database } from '../storage/database.ts';
import { createAccount } from './create.ts';
import { keysOperation } from './credential-store.ts';
import { createCredentialUses } from './credential-uses.ts';

async function rig(t: TestContext, dialect: Dialect = 'sqlite') {
  const temp = await tempDatabase(dialect);
  t.after(temp.close);
  const clock = fakeClock();
  const writes: number[] = [];
  let failing: (() => Error) | undefined;
  const database = {
    ...temp.database,
    execute: async (op, args) => {
      if (op.name !== 'accounts.recordUses') return temp.database.execute(op, args);
      if (failing !== undefined) throw failing();
      writes.push((args as unknown[]).length);
      return temp.database.execute(op, args);
    },
  } as Database;
  const { account } = await createAccount({ database: temp.database, clock }, { name: 'One', plan: 'paid' });
  const list = () => temp.database.execute(keysOperation, { accountId: account.id, before: null, limit: 10 });
  const ids = (await list()).map(({ id }) => id);
  return {
    clock,
    ids,
    writes,
    uses: () => createCredentialUses({ database, clock, log: silentLog }),
    stored: async () => (await list()).map(({ lastUsedAt, lastUsedAddress }) => [lastUsedAt, lastUsedAddress]),
    failWith: (next: (() => Error) | undefined) => {
      failing = next;
    },
  };
}

const NEVER = [null, null];
const callerOf = (keyId: string, kind: Actor['kind'] = 'key') => ({ keyId, actor: { kind, id: keyId, name: keyId } });

for (const dialect of DIALECTS) {
  test(`stores only the last use of each key, in one write (${dialect})`, async (t) => {
    const { clock, ids, writes, uses, stored } = await rig(t, dialect);
    const [one, other] = ids as [string, string];
    const own = uses();
    assert.deepEqual(await stored(), [NEVER, NEVER]);
    const startMs = clock.now();
    for (let i = 0; i < 500; i += 1) {
      clock.advance(1);
      own.note(callerOf(one), `192.0.2.${i % 250}`);
      own.note(callerOf(other, 'user'), '192.0.2.1');
    }
    assert.deepEqual(await stored(), [NEVER, NEVER], 'nothing is written during the uses');
    await own.flush();
    assert.deepEqual(await stored(), [[startMs + 500, '192.0.2.249'], NEVER]);
    assert.deepEqual(writes, [1]);
    await own.stop();
    assert.deepEqual(writes, [1], 'nothing was left to write');
  });

  test(`the newer use from two nodes is stored, whichever writes first (${dialect})`, async (t) => {
    const { clock, ids, uses, stored } = await rig(t, dialect);
    const [first, second] = [uses(), uses()];
    first.note(callerOf(ids[0]!), '192.0.2.1');
    second.note(callerOf(ids[1]!), '192.0.2.2');
    const early = clock.now();
    clock.advance(10);
    first.note(callerOf(ids[1]!), '2001:db8::1');
    second.note(callerOf(ids[0]!), '2001:db8::2');
    await first.stop();
    assert.deepEqual(await stored(), [
      [early, '192.0.2.1'],
      [early + 10, '2001:db8::1'],
    ]);
    await second.stop();
    assert.deepEqual(await stored(), [
      [early + 10, '2001:db8::2'],
      [early + 10, '2001:db8::1'],
    ]);
  });
}

test('uses are written once a minute, and nothing is written without a use', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { clock, ids, writes, uses, stored } = await rig(t);
  const own = uses();
  t.after(() => own.stop());
  own.note(callerOf(ids[0]!), '192.0.2.1');
  t.mock.timers.tick(59_999);
  assert.deepEqual(writes, []);
  t.mock.timers.tick(1);
  await waitUntil('the write', async () => (await stored())[0]![0] === clock.now());
  t.mock.timers.tick(60_000);
  await own.flush();
  assert.deepEqual(writes, [1]);
});

test('uses are kept while the database is unavailable, and newer uses replace them', async (t) => {
  const { clock, ids, uses, stored, failWith } = await rig(t);
  const own = uses();
  for (const id of ids) own.note(callerOf(id), '192.0.2.1');
  const early = clock.now();
  failWith(() => {
    clock.advance(5);
    own.note(callerOf(ids[0]!), '192.0.2.2');
    return new Unavailable('away');
  });
  await assert.rejects(own.flush(), Unavailable);
  failWith(undefined);
  await own.flush();
  assert.deepEqual(await stored(), [
    [early + 5, '192.0.2.2'],
    [early, '192.0.2.1'],
  ]);
  own.note(callerOf(ids[0]!), '192.0.2.3');
  failWith(() => new Unavailable('away'));
  await own.stop();
});

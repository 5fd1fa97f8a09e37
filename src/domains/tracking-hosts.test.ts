/** Hosts of links that are kept in memory: which changes and deletions take effect, and when. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test, { type TestContext } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount } from '../accounts/accounts.ts';
import { silentLog } from '../base/log.ts';
import { recordCheckOperation } from './check-store.ts';
import { domainChanged } from './domain-changes.ts';
import { deleteDomainOperation, type TrackingState } from './store.ts';
import { openTrackingHosts } from './tracking-hosts.ts';
import { addDomain } from './verify.ts';

async function hostsRig(t: TestContext) {
  const { database, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const { account } = await createAccount({ database, clock }, { name: 'One', plan: 'paid' });
  const accountId = account.id;
  /** Opens the hosts of another process: changes of this one are not announced there. */
  const open = (ofProcess = database) => {
    const opened = openTrackingHosts({
      database: ofProcess,
      clock,
      log: silentLog,
      baseUrl: 'https://mail.example.com',
    });
    t.after(opened.stop);
    return opened;
  };
  const record = (id: string, tracking: TrackingState | null) =>
    database.execute(recordCheckOperation, {
      id,
      status: 'verified',
      nowMs: clock.now(),
      keys: [],
      isReturnPath: null,
      promotes: false,
      tracking,
    });
  const add = async (domain: string) => {
    const added = await addDomain(
      { database, clock, secretKey: randomBytes(32) },
      { accountId, domain, verified: true },
    );
    assert.ok(added.ok);
    const { id } = added.value.domain;
    await record(id, 'served');
    return id;
  };
  return { database, clock, accountId, open, add, record };
}

test('a deleted domain has no tracking host, on this node and on others', async (t) => {
  const { database, clock, accountId, open, add } = await hostsRig(t);
  const [here, elsewhere] = [open(), open({ ...database, execute: database.execute.bind(database) })];
  const id = await add('shop.example');
  await add('news.example');
  for (const one of [here, elsewhere]) {
    await one.read();
    assert.deepEqual(one.names().sort(), ['track.news.example', 'track.shop.example']);
    assert.equal(one.urlOf(accountId, 'mail.shop.example'), 'https://track.shop.example');
  }
  clock.advance(60_000);
  await database.execute(deleteDomainOperation, { id, accountId });
  domainChanged(database, { accountId, domainId: id });
  await here.read();
  assert.deepEqual(here.names(), ['track.news.example']);
  assert.equal(here.urlOf(accountId, 'shop.example'), undefined);
  clock.advance(300_000);
  await elsewhere.read();
  assert.deepEqual(elsewhere.names(), ['track.news.example']);
  assert.equal(elsewhere.urlOf(accountId, 'shop.example'), undefined);
});

test('a change of the state takes effect with the next read', async (t) => {
  const { database, clock, accountId, open, add, record } = await hostsRig(t);
  const hosts = open();
  const id = await add('shop.example');
  await hosts.read();
  for (const [state, url, names] of [
    ['named', undefined, ['track.shop.example']],
    ['served', 'https://track.shop.example', ['track.shop.example']],
    [null, undefined, []],
  ] as const) {
    clock.advance(5_000);
    await record(id, state);
    domainChanged(database, { accountId, domainId: id });
    await hosts.read();
    assert.equal(hosts.urlOf(accountId, 'shop.example'), url);
    assert.deepEqual(hosts.names(), names);
  }
});

/**
 * The hourly check of records, the block a day after one disappeared, emails to the owners, and key rotation: over the real storage, with a
 * scripted DNS server for the resolver and one per authoritative server.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test, { type TestContext } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { type FakeDns, type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { noticeText } from '../../test/kit/notice-text.ts';
import { scriptedDns } from '../../test/kit/scripted-dns.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount } from '../accounts/accounts.ts';
import { newId } from '../base/ids.ts';
import { silentLog } from '../base/log.ts';
import { timeText } from '../mail/compose/notice.ts';
import { type Dns, openDns } from '../net/dns.ts';
import { recordCheckOperation } from './check-store.ts';
import { createDkimKeyring, createSenderCheck, startDomainChecks } from './domains.ts';
import { addDomainOperation, domainOperation, type KeyState } from './store.ts';
import { addDomain, rotateKeys, verifyDomain } from './verify.ts';
import { zoneServers } from './zone-servers.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const MINUTE = 60_000;

/** A verified domain with two authoritative servers, and its checks. */
async function setup(t: TestContext) {
  const { database, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const [resolver, first, second] = [await fakeDns(), await fakeDns(), await fakeDns()];
  for (const one of [resolver, first, second]) t.after(one.close);
  const servers = [first, second];
  resolver.zone = {
    'shop.example': { NS: ['ns1.shop.example', 'ns2.shop.example'] },
    'ns1.shop.example': { A: ['198.41.0.1'] },
    'ns2.shop.example': { A: ['198.41.0.2'] },
  };
  const secretKey = randomBytes(32);
  const { account } = await createAccount({ database, clock }, { name: 'One', plan: 'paid' });
  const added = await addDomain(
    { database, clock, secretKey },
    { accountId: account.id, domain: 'shop.example', verified: false },
  );
  assert.ok(added.ok);
  const { id } = added.value.domain;
  const freshDns = (): Dns => {
    const dns = openDns({ servers: [resolver.server], timeoutMs: 300, tries: 1 });
    const atServers: Dns['atServers'] = ([address]) =>
      dns.atServers([servers[Number(address!.split('.').at(-1)) - 1]!.server]);
    return { ...dns, atServers };
  };
  const mails: { key: string; subject: string; text: string }[] = [];
  const notifying = { fails: false };
  const checks = startDomainChecks({
    database,
    clock,
    log: silentLog,
    secretKey,
    freshDns,
    sendingHost: 'mail.sender.example',
    roundMs: 1e9,
    notify: async (notice) => {
      if (notifying.fails) throw new Error('no name to write from');
      assert.equal(notice.accountId, account.id);
      mails.push({ ...notice, text: noticeText(notice) });
    },
  });
  t.after(checks.stop);
  const domain = async () => (await database.execute(domainOperation, { id, accountId: account.id }))!;
  const verify = async () => {
    const dns = freshDns();
    const lookUp = { dns, serversOf: zoneServers(dns), sendingHost: 'mail.sender.example' };
    const result = await verifyDomain({ database, clock, ...lookUp }, await domain());
    dns.close();
    return result;
  };
  const keys = async (state: KeyState) => (await domain()).keys.filter((key) => key.state === state);
  const records = async (...states: KeyState[]): Promise<FakeZone> => {
    const shown = (await domain()).keys.filter(({ state }) => states.includes(state));
    return Object.fromEntries(
      shown.map(({ selector, publicKey }) => [`${selector}._domainkey.shop.example`, { TXT: [publicKey] }]),
    );
  };
  const sender = createSenderCheck({ database, clock });
  const keyring = createDkimKeyring({ database, clock, secretKey });
  const publish = (at: FakeDns[], zone: FakeZone): void => {
    for (const one of at) one.zone = zone;
  };
  publish(servers, await records('active'));
  assert.equal((await verify()).success, true);
  return {
    database,
    clock,
    secretKey,
    resolver,
    first,
    second,
    servers,
    checks,
    mails,
    notifying,
    domain,
    verify,
    keys,
    records,
    publish,
    maySend: () => sender.isVerified(account.id, 'shop.example'),
    signs: async () => (await keyring.keysFor(account.id, 'mail.shop.example'))?.keys.map(({ selector }) => selector),
    /** A round after this time. */
    after: async (ms: number) => {
      clock.advance(ms);
      await checks.run();
      return (await domain()).status;
    },
    rotate: async () => rotateKeys({ database, clock, secretKey, isNoticed: false }, await domain()),
  };
}

test('records are checked once an hour', async (t) => {
  const { after, first } = await setup(t);
  first.questions.length = 0;
  await after(59 * MINUTE);
  assert.deepEqual(first.questions, []);
  assert.equal(await after(MINUTE), 'verified');
  assert.ok(first.questions.some((one) => /^TXT pr-.*-rsa\._domainkey\.shop\.example$/.test(one)));
});

test('a round that takes longer than the clocks of nodes may differ checks each domain once', async (t) => {
  const { database, clock, secretKey, domain } = await setup(t);
  const { accountId } = await domain();
  const nowMs = clock.now();
  const keys = [{ algorithm: 'rsa', selector: 'pr-many-rsa', publicKey: 'p', privateKeySealed: Buffer.of(1) }] as const;
  const isPublished = { selector: keys[0].selector, isPublished: true, isEverywhere: true };
  const ids = Array.from({ length: 110 }, () => newId('dom', nowMs));
  for (const [number, id] of ids.entries()) {
    const status = 'pending';
    const domainName = `shop${number}.example`;
    await database.execute(addDomainOperation, { id, accountId, domain: domainName, status, nowMs, keys: [...keys] });
    const check = { id, status: 'verified', nowMs, keys: [isPublished], isReturnPath: null, promotes: false } as const;
    await database.execute(recordCheckOperation, { ...check, keys: [isPublished] });
  }
  const asked: string[] = [];
  const dns = scriptedDns(new Map());
  const resolveTxt: Dns['resolveTxt'] = async (name) => {
    if (/^pr-many-rsa\._domainkey\.shop\d+\.example$/.test(name)) {
      asked.push(name);
      clock.advance(20_000);
    }
    return dns.resolveTxt(name);
  };
  const checks = startDomainChecks({
    database,
    clock,
    log: silentLog,
    secretKey,
    freshDns: () => ({ ...dns, resolveTxt }),
    sendingHost: 'mail.sender.example',
    roundMs: 1e9,
    notify: async () => undefined,
  });
  t.after(checks.stop);
  clock.advance(HOUR);
  await checks.run();
  const counts = Object.values(Object.groupBy(asked, (name) => name)).map((queries) => queries?.length);
  assert.equal(counts.length, ids.length);
  assert.deepEqual([...new Set(counts)], [counts[0]], 'all domains were checked equally often');
});

test('a missing record notifies immediately, stops sending after a day, and recovers', async (t) => {
  const { after, publish, servers, records, mails, maySend, signs, domain } = await setup(t);
  publish(servers, {});
  assert.equal(await after(HOUR), 'failing');
  const failingSince = (await domain()).failingSince!;
  assert.equal(mails.length, 1);
  assert.match(mails[0]!.subject, /DKIM record missing for shop\.example/);
  assert.ok(mails[0]!.text.includes(`Deadline: ${timeText(failingSince + DAY, 'UTC')}; then`), mails[0]!.text);
  assert.match(mails[0]!.text, /^Value: v=DKIM1; k=rsa; p=/m);
  for (let hour = 1; hour < 24; hour += 1) {
    assert.equal(await after(HOUR), 'failing');
    assert.equal(await maySend(), true, `hour ${hour}`);
  }
  await after(HOUR);
  assert.equal(await maySend(), false);
  assert.equal((await signs())?.length, 1, 'accepted messages are sent and signed');
  assert.equal(mails.length, 1, 'one email');
  publish(servers, await records('active'));
  assert.equal(await after(HOUR), 'verified');
  assert.equal(await maySend(), true);
  publish(servers, {});
  await after(HOUR);
  assert.equal(mails.length, 2, 'a new failure causes a new email');
  assert.notEqual(mails[0]!.key, mails[1]!.key);
});

test('a failed DNS lookup does not stop sending', async (t) => {
  const { after, publish, servers, resolver, maySend, mails, domain } = await setup(t);
  const silent: FakeZone = {};
  for (const { selector } of (await domain()).keys)
    silent[`${selector}._domainkey.shop.example`] = { fail: 'SERVFAIL' };
  publish(servers, silent);
  resolver.zone = { ...resolver.zone, ...silent };
  for (let hour = 0; hour < 30; hour += 1) assert.equal(await after(HOUR), 'verified');
  assert.equal(await maySend(), true);
  assert.deepEqual(mails, []);
});

test('an outdated authoritative server is listed and does not stop sending', async (t) => {
  const { after, publish, second, verify } = await setup(t);
  publish([second], {});
  assert.equal(await after(HOUR), 'verified');
  assert.match((await verify()).message, /ns2\.shop\.example does not show it yet/);
});

test('a notice that failed is sent again in the next round', async (t) => {
  const { after, publish, servers, mails, notifying, records } = await setup(t);
  publish(servers, {});
  notifying.fails = true;
  await after(HOUR);
  await after(MINUTE);
  assert.equal(mails.length, 0);
  notifying.fails = false;
  await after(MINUTE);
  assert.equal(mails.length, 1);
  await after(MINUTE);
  assert.equal(mails.length, 1);
  publish(servers, await records('active'));
  notifying.fails = true;
  await after(HOUR);
  publish(servers, {});
  await after(HOUR);
  publish(servers, await records('active'));
  await after(HOUR);
  notifying.fails = false;
  await after(MINUTE);
  assert.equal(mails.length, 1, 'it recovered before anyone was notified');
});

test('new keys sign after an hour on every server, and old ones stay for ten days', async (t) => {
  const { after, publish, first, second, servers, records, keys, signs, rotate, verify, domain } = await setup(t);
  const old = (await keys('active')).map(({ selector }) => selector);
  assert.equal(await rotate(), true);
  assert.equal(await rotate(), false, 'next keys already exist');
  const next = (await keys('next')).map(({ selector }) => selector);
  const whole = await records('active', 'next');
  assert.deepEqual(await signs(), old);
  publish([first], whole);
  for (let hour = 0; hour < 3; hour += 1) await after(HOUR);
  assert.deepEqual(await signs(), old, 'only one server has them');
  publish([second], whole);
  await after(HOUR);
  assert.deepEqual(await signs(), old, 'first seen now');
  await after(50 * MINUTE);
  await verify();
  assert.deepEqual(await signs(), old, 'less than an hour');
  publish([second], await records('active'));
  await after(HOUR);
  publish([second], whole);
  await after(HOUR);
  assert.deepEqual(await signs(), old, 'the hour starts over after a server lost them');
  await after(HOUR);
  assert.deepEqual(await signs(), next);
  const { records: shown } = await verify();
  const retired = shown.find(({ name }) => name.startsWith(old[0]!))!;
  assert.deepEqual([retired.status, retired.required], ['verified', false]);
  const until = new Date((await keys('retired'))[0]!.retiredAt! + 10 * DAY).toISOString().slice(0, 10);
  assert.ok(retired.note!.includes(`Keep the record until ${until}`), retired.note!);
  await after(10 * DAY - HOUR);
  assert.equal((await keys('retired')).length, 2);
  // After the old records are deleted, no check looks for them and nothing fails.
  publish(servers, await records('active'));
  assert.equal(await after(2 * HOUR), 'verified');
  assert.deepEqual(
    (await domain()).keys.map(({ selector }) => selector),
    next,
  );
});

test('an unresponsive server delays new keys by at most a day', async (t) => {
  const { after, publish, first, second, records, keys, signs, rotate, verify } = await setup(t);
  await rotate();
  const old = await signs();
  const next = (await keys('next')).map(({ selector }) => selector);
  const whole = await records('active', 'next');
  const silent: FakeZone = Object.fromEntries(Object.keys(whole).map((name) => [name, { fail: 'SERVFAIL' }]));
  publish([first], whole);
  publish([second], silent);
  for (let hour = 0; hour < 3; hour += 1) await after(HOUR);
  assert.deepEqual(await signs(), old, 'the second server never had them');
  const { records: shown } = await verify();
  assert.match(shown.find(({ name }) => name.startsWith(next[0]!))!.note!, /No response from ns2\.shop\.example/);
  publish([second], await records('active'));
  await after(HOUR);
  publish([second], silent);
  for (let hour = 0; hour <= 24; hour += 1) await after(HOUR);
  assert.deepEqual(await signs(), old, 'one day after only the other servers have them');
  await after(HOUR);
  assert.deepEqual(await signs(), next);
});

test('the hour starts when the last server responds with the new key', async (t) => {
  const { after, publish, first, second, servers, records, keys, signs, rotate } = await setup(t);
  await rotate();
  const old = await signs();
  const next = (await keys('next')).map(({ selector }) => selector);
  const whole = await records('active', 'next');
  const silent: FakeZone = Object.fromEntries(Object.keys(whole).map((name) => [name, { fail: 'SERVFAIL' }]));
  publish([first], whole);
  publish([second], silent);
  for (let hour = 0; hour < 3; hour += 1) await after(HOUR);
  publish(servers, whole);
  await after(HOUR);
  assert.deepEqual(await signs(), old, 'first seen there now');
  publish([second], silent);
  await after(HOUR);
  assert.deepEqual(await signs(), next, 'it has had them, whatever it returns now');
});

test('messages are signed even while keys are rotated', async (t) => {
  const { database, clock, secretKey, servers, publish, records, rotate, verify, keys, domain } = await setup(t);
  await rotate();
  publish(servers, await records('active', 'next'));
  await verify();
  clock.advance(HOUR);
  const [old] = await keys('active');
  // Another process promotes the next keys between the two questions of the keyring.
  let isPromoted = false;
  const execute: typeof database.execute = async (operation, ...args) => {
    const result = await database.execute(operation, ...args);
    if (operation.name === 'domains.sending' && !isPromoted) {
      isPromoted = true;
      await verify();
    }
    return result;
  };
  const between = { ...database, execute };
  const keyring = createDkimKeyring({ database: between, clock, secretKey });
  const { accountId } = await domain();
  const signing = await keyring.keysFor(accountId, 'shop.example');
  assert.equal((await keys('retired')).length, 2, 'they were promoted');
  assert.ok(
    signing?.keys.some(({ selector }) => selector === old!.selector),
    JSON.stringify(signing),
  );
});

test('an unpublished next Ed25519 key does not sign', async (t) => {
  const { after, publish, servers, records, keys, signs, rotate } = await setup(t);
  await rotate();
  const [rsa, ed25519] = await keys('next');
  const zone = await records('active', 'next');
  delete zone[`${ed25519!.selector}._domainkey.shop.example`];
  publish(servers, zone);
  await after(HOUR);
  await after(HOUR);
  assert.deepEqual(await signs(), [rsa!.selector]);
  publish(servers, await records('active'));
  await after(HOUR);
  assert.deepEqual(await signs(), [rsa!.selector, ed25519!.selector]);
});

test('replacing the old record with the new one activates the new key immediately', async (t) => {
  const { after, publish, servers, records, keys, signs, rotate } = await setup(t);
  await rotate();
  const next = (await keys('next')).map(({ selector }) => selector);
  publish(servers, await records('next'));
  assert.equal(await after(HOUR), 'verified');
  assert.deepEqual(await signs(), next);
});

test('keys older than 180 days are rotated automatically, with one email that lists the records', async (t) => {
  const { after, keys, mails, signs } = await setup(t);
  const old = (await keys('active')).map(({ selector }) => selector);
  await after(180 * DAY - HOUR);
  assert.deepEqual(await keys('next'), []);
  await after(2 * HOUR);
  const next = await keys('next');
  assert.equal(next.length, 2);
  assert.equal(mails.length, 1);
  assert.match(mails[0]!.subject, /New DKIM keys for shop\.example/);
  for (const { selector, publicKey } of next) {
    assert.ok(mails[0]!.text.includes(`${selector}._domainkey.shop.example`));
    assert.ok(mails[0]!.text.includes(publicKey));
  }
  for (let day = 0; day < 5; day += 1) await after(DAY);
  assert.deepEqual(await signs(), old, 'nothing changes until they are published');
  assert.equal(mails.length, 1);
});

test('a node that is not responsible does nothing', async (t) => {
  const { database, clock, secretKey, publish, servers, domain } = await setup(t);
  publish(servers, {});
  clock.advance(HOUR);
  const idle = startDomainChecks({
    database,
    clock,
    log: silentLog,
    secretKey,
    sendingHost: 'a.example',
    roundMs: 1e9,
    isChosen: () => false,
    freshDns: () => assert.fail('no query is expected'),
    notify: () => assert.fail('no notice is expected'),
  });
  await idle.run();
  await idle.stop();
  assert.equal((await domain()).status, 'verified');
});

/** Automatic MX checks of routes: over the real storage and routes, with a scripted DNS server and a manual clock. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { serveRoutes } from '../../test/kit/call-routes.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { fakeDns } from '../../test/kit/fake-dns.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount } from '../accounts/accounts.ts';
import { setAccountOperation } from '../accounts/store.ts';
import { inboundRouteRoutes } from '../api/inbound-routes.ts';
import { silentLog } from '../base/log.ts';
import { addDomain } from '../domains/domains.ts';
import { HIGHEST_LIMIT } from '../limits/limits.ts';
import { openDns } from '../net/dns.ts';
import { startRouteChecks } from './inbound-routes.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const HERE = { MX: [[10, 'mail.sender.test'] as [number, string]] };
const ELSEWHERE = { MX: [[10, 'mx.elsewhere.example'] as [number, string]] };
/** Fails immediately; a `timeout` would take time. */
const AWAY = { fail: 'SERVFAIL' } as const;

async function setup(t: TestContext) {
  const { database, close } = await tempDatabase();
  t.after(close);
  const [clock, dns] = [fakeClock(), await fakeDns()];
  t.after(dns.close);
  const secretKey = new Uint8Array(32);
  const { account, apiKey } = await createAccount({ database, clock }, { name: 'One', plan: 'paid' });
  await addDomain({ database, clock, secretKey }, { accountId: account.id, domain: 'shop.example', verified: true });
  const shared = { database, clock, log: silentLog, mx: { host: 'mail.sender.test', alsoHosts: [] } };
  const freshDns = () => openDns({ servers: [dns.server], timeoutMs: 300, tries: 1 });
  const routes = inboundRouteRoutes({ ...shared, secretKey, freshDns, checkUrl: async () => undefined });
  const server = await serveRoutes({ database, clock, routes });
  t.after(server.close);
  const key = { key: apiKey, id: account.id };
  const checks = startRouteChecks({ ...shared, freshDns, roundMs: 1e9 });
  t.after(checks.stop);
  const make = async (match: string): Promise<string> =>
    (await server.call('POST', '/inbound-routes', { ...key, json: { match } })).body.inboundRouteId;
  const shown = async (id: string) => (await server.call('GET', `/inbound-routes/${id}`, key)).body;
  const after = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await checks.run();
  };
  /** Pending routes, each with its own domain. */
  const createMany = async (count: number): Promise<void> => {
    const limits = { inboundRoutes: HIGHEST_LIMIT };
    await database.execute(setAccountOperation, {
      id: account.id,
      plan: null,
      status: null,
      approvedEmailBytes: null,
      nowMs: Date.now(),
      limits,
    });
    await Promise.all(Array.from({ length: count }, (_, index) => make(`a@n${index}.shop.example`)));
  };
  /** Counts the minutes, of this many, in which the MX was looked up. */
  const looksIn = async (minutes: number): Promise<number> => {
    dns.questions.length = 0;
    for (let minute = 0; minute < minutes; minute += 1) await after(MINUTE);
    return dns.questions.length;
  };
  return { ...shared, dns, make, createMany, shown, after, looksIn };
}

test('a route is active within minutes of its record, and pending within an hour of its removal', async (t) => {
  const { dns, make, shown, after } = await setup(t);
  const id = await make('*@in.shop.example');
  assert.equal((await shown(id)).status, 'pending');
  await after(MINUTE);
  assert.equal((await shown(id)).dnsRecord.status, 'missing');
  dns.zone['in.shop.example'] = HERE;
  await after(MINUTE);
  assert.deepEqual([(await shown(id)).status, (await shown(id)).dnsRecord.status], ['active', 'verified']);
  dns.zone['in.shop.example'] = ELSEWHERE;
  await after(HOUR - MINUTE);
  assert.equal((await shown(id)).status, 'active', 'not checked yet');
  await after(MINUTE);
  const withdrawn = await shown(id);
  assert.deepEqual([withdrawn.status, withdrawn.dnsRecord.found], ['pending', ['10 mx.elsewhere.example']]);
});

test('a check that was made while the clock was ahead is repeated', async (t) => {
  const { clock, dns, make, shown, after } = await setup(t);
  dns.zone['in.shop.example'] = HERE;
  const id = await make('*@in.shop.example');
  await after(MINUTE);
  await after(10 * 365 * 24 * HOUR);
  clock.advance(-10 * 365 * 24 * HOUR);
  assert.equal((await shown(id)).status, 'active');
  dns.zone['in.shop.example'] = ELSEWHERE;
  await after(MINUTE);
  assert.equal((await shown(id)).status, 'pending');
  dns.questions.length = 0;
  await after(1_000);
  assert.deepEqual(dns.questions, [], 'it is repeated once');
});

test('a failed DNS lookup changes nothing', async (t) => {
  const { dns, make, shown, after } = await setup(t);
  dns.zone['in.shop.example'] = HERE;
  dns.zone['other.shop.example'] = ELSEWHERE;
  const [active, pending] = [await make('*@in.shop.example'), await make('*@other.shop.example')];
  const before = await shown(pending);
  dns.zone['in.shop.example'] = AWAY;
  dns.zone['other.shop.example'] = AWAY;
  dns.questions.length = 0;
  await after(HOUR);
  assert.equal(new Set(dns.questions).size, 2, 'both were looked up');
  assert.equal((await shown(active)).status, 'active');
  assert.deepEqual((await shown(pending)).dnsRecord, before.dnsRecord);
  assert.notEqual((await shown(pending)).checkedAt, before.checkedAt);
});

test('a pending route is checked with growing intervals, at least every hour', async (t) => {
  const { make, looksIn } = await setup(t);
  await make('*@in.shop.example');
  assert.equal(await looksIn(5), 5);
  const firstHour = await looksIn(55);
  assert.ok(firstHour > 5 && firstHour < 20, String(firstHour));
  await looksIn(5 * 60);
  assert.equal(await looksIn(4 * 60), 4);
});

test('routes of one domain share a lookup, and batches are checked in the same round', async (t) => {
  const { dns, createMany, make, shown, after } = await setup(t);
  const ids = await Promise.all(['a', 'b', 'c'].map((local) => make(`${local}@in.shop.example`)));
  await createMany(520);
  dns.zone['in.shop.example'] = HERE;
  dns.questions.length = 0;
  await after(MINUTE);
  assert.equal(dns.questions.filter((one) => one === 'MX in.shop.example').length, 1);
  assert.equal(new Set(dns.questions).size, 521);
  for (const id of ids) assert.equal((await shown(id)).status, 'active');
});

test('a node that is not responsible checks nothing', async (t) => {
  const { database, clock, log, mx, dns, make, after } = await setup(t);
  await make('*@in.shop.example');
  dns.questions.length = 0;
  clock.advance(HOUR);
  const freshDns = () => openDns({ servers: [dns.server] });
  const idle = startRouteChecks({ database, clock, log, mx, freshDns, isChosen: () => false, roundMs: 1e9 });
  await idle.run();
  await idle.stop();
  assert.deepEqual(dns.questions, []);
  await after(0);
  assert.deepEqual(dns.questions, ['MX in.shop.example'], 'the responsible node does');
});

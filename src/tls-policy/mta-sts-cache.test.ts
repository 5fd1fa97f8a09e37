/** MTA-STS policies from real https servers and a real DNS server, stored in a database, with fetches counted at the policy host. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { type FakeClock, fakeClock } from '../../test/kit/fake-clock.ts';
import { type FakeDns, fakeDns } from '../../test/kit/fake-dns.ts';
import { type PolicyHosts, policyAnswer, policyHosts } from '../../test/kit/policy-hosts.ts';
import { type TempDatabase, tempDatabase } from '../../test/kit/temp-database.ts';
import { silentLog } from '../base/log.ts';
import { parseCidrs } from '../net/address-guard.ts';
import { type Dns, openDns } from '../net/dns.ts';
import { findStsPolicyOperation } from './mta-sts-store.ts';
import { openTlsPolicies, type TlsPolicies } from './tls-policy.ts';

const DAY_MS = 86_400_000;
const FAULTS = ['type', 'redirect', 'long', 'text', 'away', 'status'];
const faulty = FAULTS.map((name) => `${name}.example`);
const GOOD = ['one.example', 'mode.example', 'private.example', ...faulty];

let dns: FakeDns;
let hosts: PolicyHosts;
let storage: TempDatabase;
let clock: FakeClock;
let policies: TlsPolicies;

/** Queries the DNS each time, without a cache. */
function freshDns(): Dns {
  const ask =
    <K extends 'resolveTxt' | 'resolveAddresses' | 'resolveMx'>(question: K) =>
    async (name: string) => {
      const resolver = openDns({ servers: [dns.server], timeoutMs: 500, tries: 1 });
      try {
        return await resolver[question](name);
      } finally {
        resolver.close();
      }
    };
  const [resolveTxt, resolveAddresses, resolveMx] = [ask('resolveTxt'), ask('resolveAddresses'), ask('resolveMx')];
  return { resolveTxt, resolveAddresses, resolveMx } as unknown as Dns;
}

function open(allowed = '127.0.0.0/8'): TlsPolicies {
  const allow = parseCidrs(allowed);
  assert.ok(allow.ok);
  const { database } = storage;
  return openTlsPolicies({
    database,
    dns: freshDns(),
    clock,
    log: silentLog,
    allow: allow.cidrs,
    https: hosts.https,
  });
}

before(async () => {
  hosts = await policyHosts({ good: GOOD, expired: 'expired.example', wrongName: 'wrong-name.example' });
  dns = await fakeDns();
  for (const domain of [...GOOD, 'expired.example', 'wrong-name.example']) {
    dns.zone[`mta-sts.${domain}`] = { A: [hosts.addressOf(domain)] };
  }
});

beforeEach(async () => {
  storage = await tempDatabase();
  clock = fakeClock();
  policies = open();
  for (const name of Object.keys(dns.zone)) if (name.startsWith('_mta-sts.')) delete dns.zone[name];
});

after(async () => {
  await dns?.close();
  await hosts?.close();
});

function publish(domain: string, id: string): void {
  dns.zone[`_mta-sts.${domain}`] = { TXT: [`v=STSv1; id=${id};`] };
}

/** Returns the policy for a connection to mx.<domain>: its name, or why a connection is not allowed. */
async function asked(domain: string, host = `mx.${domain}`): Promise<string> {
  const decided = await (await policies.ofDomain(domain)).ofHost(host, 25);
  return decided.ok ? (decided.policy?.name ?? 'nothing') : decided.reason;
}

async function end(): Promise<void> {
  await policies.stop();
  await storage.close();
}

test('a policy is fetched once, and kept across restarts and outages of DNS and policy host', async () => {
  hosts.answers.set('one.example', policyAnswer({ mode: 'enforce', mx: ['mx.one.example'], maxAge: 604_800 }));
  assert.equal(await asked('one.example'), 'nothing');
  publish('one.example', '1');
  const [first, second] = await Promise.all([asked('one.example'), asked('one.example')]);
  assert.deepEqual([first, second], ['mta-sts', 'mta-sts']);
  assert.equal(await asked('one.example'), 'mta-sts');
  assert.equal(hosts.asked('one.example'), 1);
  assert.match(await asked('one.example', 'mx.evil.example'), /policy of one\.example does not name mx\.evil\.example/);

  await policies.stop();
  policies = open();
  delete dns.zone['_mta-sts.one.example'];
  assert.equal(await asked('one.example'), 'mta-sts', 'the record was deleted');
  dns.zone['_mta-sts.one.example'] = { fail: 'SERVFAIL' };
  assert.equal(await asked('one.example'), 'mta-sts', 'the DNS fails');
  const questions = dns.questions.filter((one) => one === 'TXT _mta-sts.one.example').length;
  assert.equal(await asked('one.example'), 'mta-sts');
  assert.equal(
    dns.questions.filter((one) => one === 'TXT _mta-sts.one.example').length,
    questions,
    'no message waits for it again',
  );
  clock.advance(300_001);
  assert.equal(hosts.asked('one.example'), 1);
  hosts.answers.set('one.example', { status: 503 });
  publish('one.example', '2');
  assert.equal(await asked('one.example'), 'mta-sts', 'the policy host fails');
  assert.equal(await asked('one.example'), 'mta-sts');
  assert.equal(hosts.asked('one.example'), 2, 'and is not contacted again immediately');
  clock.advance(300_001);
  hosts.answers.set('one.example', policyAnswer({ mode: 'enforce', mx: ['mx2.one.example'] }));
  assert.match(await asked('one.example'), /does not name mx\.one\.example/, 'the new policy applies');
  assert.equal(await asked('one.example', 'mx2.one.example'), 'mta-sts');
  assert.equal(hosts.asked('one.example'), 3);
  delete dns.zone['_mta-sts.one.example'];
  clock.advance(8 * DAY_MS);
  assert.equal(await asked('one.example'), 'nothing', 'it has expired');
  await policies.refresh();
  assert.equal(await storage.database.execute(findStsPolicyOperation, 'one.example'), null);
  await end();
});

test('the modes testing and none, and changes of the mode, are respected', async () => {
  hosts.answers.set('mode.example', policyAnswer({ mode: 'testing', mx: ['mx.mode.example'] }));
  publish('mode.example', '1');
  assert.equal(await asked('mode.example'), 'mta-sts-testing');
  assert.equal(await asked('mode.example', 'mx.evil.example'), 'mta-sts-testing');
  hosts.answers.set('mode.example', policyAnswer({ mode: 'enforce', mx: ['*.mode.example'] }));
  publish('mode.example', '2');
  assert.equal(await asked('mode.example'), 'mta-sts');
  assert.match(await asked('mode.example', 'a.b.mode.example'), /does not name/);
  hosts.answers.set('mode.example', policyAnswer({ mode: 'none', mx: [] }));
  publish('mode.example', '3');
  assert.equal(await asked('mode.example'), 'nothing');
  await end();
});

test('a policy in use is fetched again every day, which renews its lifetime', async () => {
  const domain = 'one.example';
  hosts.answers.set(domain, policyAnswer({ mode: 'enforce', mx: ['mx.one.example'], maxAge: 2 * 86_400 }));
  publish(domain, '1');
  const before = hosts.asked(domain);
  assert.equal(await asked(domain), 'mta-sts');
  await policies.refresh();
  assert.equal(hosts.asked(domain), before + 1);
  for (let day = 1; day <= 3; day += 1) {
    clock.advance(DAY_MS + 1);
    await policies.refresh();
    await policies.refresh();
    assert.equal(hosts.asked(domain), before + 1 + day);
  }
  delete dns.zone[`_mta-sts.${domain}`];
  assert.equal(await asked(domain), 'mta-sts', 'beyond its lifetime, but refreshed since');
  hosts.answers.set(domain, { status: 503 });
  clock.advance(DAY_MS + 1);
  await policies.refresh();
  assert.equal(await asked(domain), 'mta-sts', 'a policy that cannot be refreshed is kept');
  clock.advance(DAY_MS);
  assert.equal(await asked(domain), 'nothing', 'until it expires');
  await end();
});

test('a response that violates the rules is not a policy', async () => {
  const good = policyAnswer({ mode: 'enforce', mx: ['mx.example'] });
  hosts.answers.set('type.example', { ...good, headers: { 'content-type': 'text/html' } });
  hosts.answers.set('redirect.example', { status: 301, headers: { location: `https://mta-sts.one.example/` } });
  hosts.answers.set('long.example', { ...good, body: `${good.body}x: ${'y'.repeat(70_000)}\r\n` });
  hosts.answers.set('text.example', { ...good, body: 'version: STSv1\nmode: enforce\nmax_age: 1\n' });
  hosts.answers.set('away.example', { raw: '' });
  hosts.answers.set('status.example', { ...good, status: 204, body: '' });
  hosts.answers.set('expired.example', good);
  hosts.answers.set('wrong-name.example', good);
  for (const domain of [...faulty, 'expired.example', 'wrong-name.example']) {
    publish(domain, '1');
    assert.equal(await asked(domain, 'mx.example'), 'nothing', domain);
  }
  for (const domain of faulty) assert.equal(hosts.asked(domain), 1, domain);
  assert.equal(
    hosts.asked('expired.example') + hosts.asked('wrong-name.example'),
    0,
    'no request is sent after an invalid certificate',
  );
  await end();
});

test('a policy host at a private address is not contacted unless allowed', async () => {
  hosts.answers.set('private.example', policyAnswer({ mode: 'enforce', mx: ['mx.private.example'] }));
  publish('private.example', '1');
  await policies.stop();
  policies = open('10.0.0.0/8');
  assert.equal(await asked('private.example'), 'nothing');
  assert.equal(hosts.asked('private.example'), 0);
  await policies.stop();
  policies = open();
  assert.equal(await asked('private.example'), 'mta-sts');
  await end();
});

test('if the database cannot be read, the policy is unknown and nothing is sent', async () => {
  const { database } = storage;
  storage = { ...storage, database: { ...database, execute: () => Promise.reject(new Error('away')) } };
  await policies.stop();
  policies = open();
  assert.match(await asked('one.example'), /cannot tell at the moment whether one\.example requires TLS/);
  storage = { ...storage, database };
  await end();
});

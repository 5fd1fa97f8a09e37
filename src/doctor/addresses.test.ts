/** Reverse DNS and HELO of the source addresses, and SPF for each of them, with a fake DNS. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import test, { type TestContext } from 'node:test';
import { type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import type { SenderDomain } from '../domains/domains.ts';
import { openDns } from '../net/dns.ts';
import { checkHelo, checkReverse, outgoingAddresses, sourcesOf } from './addresses.ts';
import type { Check } from './check.ts';
import { checkDkimKeys, checkDomains } from './domains.ts';

const HELO = 'mail.shop.example';
const ONE = '185.199.10.7';
const OTHER = '185.199.10.8';
const SIX = '2a01:4f8:1:2::7';
const SIX_REVERSED = '7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.1.0.0.0.8.f.4.0.1.0.a.2.ip6.arpa';

const GOOD: FakeZone = {
  [HELO]: { A: [ONE], AAAA: [SIX] },
  '7.10.199.185.in-addr.arpa': { PTR: [HELO] },
  [SIX_REVERSED]: { PTR: [HELO] },
};

async function world(t: TestContext, zone: FakeZone) {
  const fake = await fakeDns(zone);
  const dns = openDns({ servers: [fake.server], timeoutMs: 300, tries: 1 });
  t.after(() => {
    dns.close();
    return fake.close();
  });
  return { fake, dns };
}

const statuses = (checks: Check[]): string[] => checks.map(({ status }) => status);

test('an address whose reverse DNS matches the HELO name and resolves back is ok, including IPv6', async (t) => {
  const { dns } = await world(t, GOOD);
  const sources = await sourcesOf([ONE, SIX], HELO, dns);
  assert.deepEqual(sources, { seen: [ONE, SIX], translated: [] });
  const checks = [...(await checkHelo(HELO, sources, dns)), ...(await checkReverse(HELO, sources, dns))];
  assert.deepEqual(statuses(checks), ['ok', 'ok', 'ok'], JSON.stringify(checks));
});

const broken: [name: string, zone: FakeZone, status: string, message: RegExp][] = [
  ['there is none', {}, 'fail', /185\.199\.10\.7 has no PTR record/],
  ['it leads nowhere', { '7.10.199.185.in-addr.arpa': { PTR: ['gone.example'] } }, 'fail', /does not resolve back/],
  [
    'it leads to another address',
    { '7.10.199.185.in-addr.arpa': { PTR: ['x.example'] }, 'x.example': { A: [OTHER] } },
    'fail',
    /x\.example, which does not resolve back/,
  ],
  [
    'it is another name that leads back',
    { '7.10.199.185.in-addr.arpa': { PTR: ['host-7.isp.example'] }, 'host-7.isp.example': { A: [ONE] } },
    'warn',
    /host-7\.isp\.example, which differs from the HELO name mail\.shop\.example/,
  ],
  [
    'the DNS fails',
    { '7.10.199.185.in-addr.arpa': { fail: 'SERVFAIL' } },
    'warn',
    /the DNS lookup of 185\.199\.10\.7 failed/,
  ],
  [
    'the DNS fails on the way back',
    { '7.10.199.185.in-addr.arpa': { PTR: ['x.example'] }, 'x.example': { fail: 'SERVFAIL' } },
    'warn',
    /the DNS lookup of x\.example failed/,
  ],
];
for (const [name, zone, status, message] of broken) {
  test(`reverse DNS: ${name}`, async (t) => {
    const { dns } = await world(t, zone);
    const [check] = await checkReverse(HELO, { seen: [ONE], translated: [] }, dns);
    assert.equal(check!.status, status, check!.message);
    assert.match(check!.message, message);
    assert.ok(check!.remedy);
  });
}

test('behind NAT the addresses of the HELO name are checked instead of the private address', async (t) => {
  const { dns, fake } = await world(t, GOOD);
  const sources = await sourcesOf(['10.0.0.5'], HELO, dns);
  assert.deepEqual(sources, { seen: [ONE], translated: ['10.0.0.5'] }, 'only its own address family');
  const [helo] = await checkHelo(HELO, sources, dns);
  assert.match(helo!.message, /10\.0\.0\.5, behind NAT/);
  assert.deepEqual(statuses(await checkReverse(HELO, sources, dns)), ['ok']);
  assert.ok(fake.questions.includes('PTR 7.10.199.185.in-addr.arpa'));
  const nowhere = await sourcesOf(['10.0.0.5'], 'gone.example', dns);
  const [reverse] = await checkReverse('gone.example', nowhere, dns);
  assert.match(reverse!.message, /10\.0\.0\.5 is behind NAT/);
});

test('a HELO name without public DNS or with another address is reported', async (t) => {
  const { dns } = await world(t, { ...GOOD, 'slow.shop.example': { fail: 'SERVFAIL' } });
  const check = async (helo: string, seen = [ONE]): Promise<Check> =>
    (await checkHelo(helo, { seen, translated: [] }, dns))[0]!;
  for (const local of ['localhost', 'web1', '185.199.10.7', 'mail.internal', 'mail.localdomain']) {
    assert.equal((await check(local)).status, 'fail', local);
  }
  assert.deepEqual([(await check('gone.example')).status, (await check('slow.shop.example')).status], ['fail', 'warn']);
  const elsewhere = await check(HELO, [ONE, OTHER]);
  assert.equal(elsewhere.status, 'warn');
  assert.match(elsewhere.message, /mail is also sent from 185\.199\.10\.8/);
});

test('source addresses are found without sending a packet', async () => {
  for (const address of await outgoingAddresses()) assert.match(address, /^[\d.]+$|:/);
});

const KEY_2048 =
  'MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAwNsMpJCIWQ1I6cIdM8nh5yBYfWBOqHJjH2jEPAaOQxvzf8vTDRMY5WgWvNTCeXa1';

function domainWith(publicKey: string): SenderDomain {
  const key = {
    algorithm: 'rsa',
    selector: 's',
    publicKey,
    publishedAt: 1,
    createdAt: 0,
  } as SenderDomain['keys'][number];
  return {
    id: 'dom_1',
    accountId: 'acc_1',
    domain: 'shop.example',
    status: 'verified',
    createdAt: 0,
    checkedAt: 0,
    keys: [key],
  } as SenderDomain;
}

test('SPF must allow every source address', async (t) => {
  const record = `v=DKIM1; k=rsa; p=${KEY_2048}`;
  const { dns } = await world(t, {
    ...GOOD,
    's._domainkey.shop.example': { TXT: [record] },
    'shop.example': { TXT: [`v=spf1 ip4:${ONE} ip6:${SIX} -all`] },
    '_dmarc.shop.example': { TXT: ['v=DMARC1; p=none'] },
  });
  const from = { dns, sendingHost: HELO };
  const domains = [domainWith(record)];
  assert.deepEqual(statuses(await checkDomains(domains, { ...from, addresses: [ONE, SIX] })), ['ok']);
  const [, spf] = await checkDomains(domains, { ...from, addresses: [ONE, OTHER] });
  assert.deepEqual([spf!.status, spf!.name], ['warn', 'SPF']);
  assert.equal(spf!.remedy, `Add ip4:${OTHER} to the existing SPF record.`);
});

test('short DKIM keys are reported', () => {
  const recordOf = (bits: number): string => {
    const { publicKey } = generateKeyPairSync('rsa', { modulusLength: bits });
    return `v=DKIM1; k=rsa; p=${publicKey.export({ type: 'spki', format: 'der' }).toString('base64')}`;
  };
  const status = (bits: number) => statuses(checkDkimKeys([domainWith(recordOf(bits))]));
  assert.deepEqual([status(512), status(1024), status(2048)], [['fail'], ['warn'], ['ok']]);
  assert.deepEqual(checkDkimKeys([]), []);
});

/** Routes by DNS answers: address families, limits, and MX hosts that are this service itself. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { type FakeDns, type FakeZone, fakeDns } from '../../../test/kit/fake-dns.ts';
import { parseCidrs } from '../../net/address-guard.ts';
import { type Dns, openDns } from '../../net/dns.ts';
import { openSourceAddresses } from '../../net/source-addresses.ts';
import { type OwnHost, type RouteResolution, resolveRoute } from './route.ts';

let fake: FakeDns;
let dns: Dns;

before(async () => {
  fake = await fakeDns();
});

beforeEach(() => {
  dns?.close();
  dns = openDns({ servers: [fake.server], timeoutMs: 30_000, tries: 1 });
});

after(async () => {
  dns?.close();
  await fake.close();
});

const own = parseCidrs('192.0.2.25, 2001:db8::25');
const allowed = parseCidrs('192.0.2.0/24, 2001:db8::/32');

interface Asked extends Partial<Pick<OwnHost, 'hasRoutes' | 'inbound'>> {
  attempts?: number;
  emailSeq?: number;
  sources?: string[];
}

async function resolve(
  domain: string,
  zone: FakeZone,
  { attempts = 0, emailSeq = 1, sources = [] as string[], ...takes }: Asked = {},
): Promise<RouteResolution> {
  assert.ok(own.ok && allowed.ok);
  fake.zone = zone;
  const routing = { route: { kind: 'mx' as const }, dns, mxPort: 25, mxAllow: allowed.cidrs };
  const takesNothing = { hasRoutes: async () => false, inbound: () => undefined };
  const us = { name: 'out.shop.example', addresses: own.cidrs, ...takesNothing, ...takes };
  const from = openSourceAddresses(sources);
  const turn = { isBackedOff: () => false, attempts, emailSeq };
  return resolveRoute({ ...routing, own: us, sources: from }, domain, turn);
}

function hosts(resolved: RouteResolution): string[] {
  assert.ok(resolved.ok, JSON.stringify(resolved));
  return resolved.candidates.map(({ host }) => host);
}

function refusal(resolved: RouteResolution): string {
  assert.ok(!resolved.ok, JSON.stringify(resolved));
  const { local, cause } = resolved.evidence;
  return local ? `${local.code} ${local.enhanced}` : (cause ?? '');
}

test("an MX host with this service's name and all hosts of equal or lower priority are dropped", async () => {
  const zone: FakeZone = {
    'a.example': {
      MX: [
        [10, 'mx.other.example'],
        [20, 'OUT.shop.example'],
        [20, 'equal.other.example'],
        [30, 'worse.other.example'],
      ],
    },
    'mx.other.example': { A: ['192.0.2.1'] },
    'equal.other.example': { A: ['192.0.2.2'] },
    'worse.other.example': { A: ['192.0.2.3'] },
    'out.shop.example': { A: ['192.0.2.4'] },
    'b.example': { MX: [[10, 'out.shop.example']] },
    'c.example': { MX: [[10, 'alias.example']] },
    'alias.example': { CNAME: 'out.shop.example' },
  };
  assert.deepEqual(hosts(await resolve('a.example', zone)), ['mx.other.example']);
  assert.equal(refusal(await resolve('b.example', zone)), '550 5.4.6');
  assert.equal(refusal(await resolve('c.example', zone)), '550 5.4.6', 'even through a CNAME');
  assert.equal(refusal(await resolve('out.shop.example', zone)), '550 5.4.6', 'even without MX records');
});

test("an MX host with one of this service's addresses is dropped, in any notation", async () => {
  const zone: FakeZone = {
    'a.example': {
      MX: [
        [10, 'mx.other.example'],
        [20, 'alias.other.example'],
        [30, 'worse.other.example'],
      ],
    },
    'mx.other.example': { A: ['192.0.2.1'] },
    'alias.other.example': { AAAA: ['2001:db8:0:0:0:0:0:25'] },
    'worse.other.example': { A: ['192.0.2.3'] },
    'b.example': { A: ['192.0.2.25'] },
  };
  assert.deepEqual(hosts(await resolve('a.example', zone)), ['mx.other.example']);
  assert.equal(refusal(await resolve('b.example', zone)), '550 5.4.6');
});

test('mail for an inbound route goes to the inbound port only if the DNS points here', async () => {
  const zone: FakeZone = {
    'in.example': {
      MX: [
        [10, 'out.shop.example'],
        [20, 'worse.other.example'],
      ],
    },
    'alias.example': { MX: [[10, 'mx.alias.example']] },
    'mx.alias.example': { CNAME: 'out.shop.example' },
    'out.shop.example': { A: ['192.0.2.4'] },
    'elsewhere.example': {
      MX: [
        [10, 'worse.other.example'],
        [20, 'out.shop.example'],
      ],
    },
    'worse.other.example': { A: ['192.0.2.3'] },
    'other.example': { MX: [[10, 'out.shop.example']] },
  };
  const asked: string[] = [];
  const hasRoutes = async (domain: string): Promise<boolean> => {
    asked.push(domain);
    return domain !== 'other.example';
  };
  const here = { hasRoutes, inbound: () => ({ address: '127.0.0.1', port: 2525 }) };
  for (const domain of ['in.example', 'alias.example']) {
    const resolved = await resolve(domain, zone, here);
    assert.ok(resolved.ok);
    const [{ host, addresses, port, tls } = assert.fail(), ...others] = resolved.candidates;
    assert.deepEqual([host, addresses, port, tls], ['out.shop.example', ['127.0.0.1'], 2525, 'opportunistic']);
    assert.deepEqual(others, []);
  }
  assert.deepEqual(hosts(await resolve('elsewhere.example', zone, here)), ['worse.other.example']);
  assert.equal(refusal(await resolve('other.example', zone, here)), '550 5.4.6');
  assert.deepEqual(asked, ['in.example', 'alias.example', 'other.example'], 'no other name is looked up');

  const onAnotherNode = await resolve('in.example', zone, { hasRoutes });
  assert.deepEqual(hosts(onAnotherNode), ['out.shop.example', 'worse.other.example'], 'as published');
  const unknown = { ...here, hasRoutes: () => Promise.reject(new Error('the database is away')) };
  assert.deepEqual(hosts(await resolve('in.example', zone, unknown)), ['out.shop.example'], 'the port is tried');
});

test('of 150 MX hosts, each attempt looks up another five', async () => {
  const names = Array.from({ length: 150 }, (_, index) => `h${index}.many.example`);
  const zone: FakeZone = { 'many.example': { MX: names.map((name, index) => [index, name]) } };
  for (const name of names.slice(7)) zone[name] = { A: ['192.0.2.1'] };
  fake.questions.length = 0;
  assert.equal(refusal(await resolve('many.example', zone)), 'ENOADDRESS', 'temporary: other hosts exist');
  assert.deepEqual(hosts(await resolve('many.example', zone, { attempts: 1 })), names.slice(7, 10));
  const asked = new Set(fake.questions.filter((one) => one.includes(' h')).map((one) => one.split(' ')[1]));
  assert.deepEqual([...asked].sort(), names.slice(0, 10).sort());
});

test('three attempts cover twelve equal MX hosts, and each email has its own order', async () => {
  const names = Array.from({ length: 12 }, (_, index) => `h${index}.equal.example`);
  const zone: FakeZone = { 'equal.example': { MX: names.map((name) => [10, name]) } };
  for (const name of names) zone[name] = { A: ['192.0.2.1'] };
  const firsts = new Set<string>();
  for (const emailSeq of [1, 2, 3, 4, 5, 6, 7, 8]) {
    const tried: string[] = [];
    for (const attempts of [0, 1, 2])
      tried.push(...hosts(await resolve('equal.example', zone, { attempts, emailSeq })));
    assert.deepEqual([...new Set(tried.slice(0, 12))].sort(), [...names].sort());
    firsts.add(tried[0]!);
  }
  assert.ok(firsts.size > 2, [...firsts].join());
});

test("this service's address drops hosts even outside the five tried now", async () => {
  const zone: FakeZone = {
    // Equal to ten others: whichever five are drawn, none may be dialed.
    'equal.example': { MX: ['us', ...'abcdefghij'].map((name) => [10, `${name}.cut.example`]) },
    // The second attempt starts after it.
    'behind.example': { MX: [...'abcd', 'us', ...'efghi'].map((name, index) => [index, `${name}.cut.example`]) },
    'us.cut.example': { A: ['192.0.2.25'] },
  };
  for (const name of 'abcdefghij') zone[`${name}.cut.example`] = { A: ['192.0.2.1'] };
  for (const emailSeq of [1, 2, 3, 4]) {
    assert.equal(refusal(await resolve('equal.example', zone, { emailSeq })), '550 5.4.6');
    for (const attempts of [0, 1, 2]) {
      const dialled = hosts(await resolve('behind.example', zone, { attempts, emailSeq }));
      assert.deepEqual(
        dialled.sort(),
        ['a', 'b', 'c', 'd'].map((name) => `${name}.cut.example`),
      );
    }
  }
});

test('five addresses of an MX host are used, alternating between address families', async () => {
  const v4 = [1, 2, 3, 4, 5, 6].map((last) => `192.0.2.${last}`);
  const zone: FakeZone = { 'a.example': { A: v4, AAAA: ['2001:db8::1', '2001:db8::2'] } };
  const resolved = await resolve('a.example', zone);
  assert.ok(resolved.ok);
  const { addresses } = resolved.candidates[0]!;
  assert.deepEqual(
    addresses.map((one) => (one.includes(':') ? 6 : 4)),
    [6, 4, 6, 4, 4],
  );
});

test('an address family without a source address is not used', async () => {
  const zone: FakeZone = {
    'a.example': { A: ['192.0.2.1'], AAAA: ['2001:db8::1'] },
    'six.example': { AAAA: ['2001:db8::1'] },
  };
  const sources = ['192.0.2.77'];
  const resolved = await resolve('a.example', zone, { sources });
  assert.ok(resolved.ok);
  assert.deepEqual(resolved.candidates[0]!.addresses, ['192.0.2.1']);
  const unreached = await resolve('six.example', zone, { sources });
  assert.equal(refusal(unreached), 'ENETUNREACH', 'temporary: the operator may add a source address');
});

test('a refusal says whether the domain or its MX hosts have no address', async () => {
  const textOf = async (domain: string, zone: FakeZone): Promise<string | undefined> => {
    const resolved = await resolve(domain, zone);
    assert.ok(!resolved.ok);
    return resolved.evidence.local?.text;
  };
  assert.equal(
    await textOf('bare.example', { 'bare.example': { TXT: ['x'] } }),
    'the domain bare.example has no MX record and no address',
  );
  assert.equal(
    await textOf('dangling.example', {
      'dangling.example': {
        MX: [
          [10, 'gone.example'],
          [20, 'lost.example'],
        ],
      },
    }),
    'the MX hosts of dangling.example have no address (gone.example, lost.example)',
  );
});

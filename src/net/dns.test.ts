/** DNS results from a real server on loopback. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { type DnsAnswer, openDns } from './dns.ts';
import { dnsCache } from './dns-cache.ts';
import { toQueryName } from './dns-name.ts';

const many: [number, string][] = Array.from({ length: 500 }, (_, index) => [500 - index, `mx${index}.example.com`]);
const zone: FakeZone = {
  'example.com': {
    MX: [
      [20, 'b.example.com'],
      [10, 'a.example.com'],
    ],
    TXT: ['v=spf1 -all', 'x'.repeat(600)],
  },
  'equal.example': { MX: Array.from({ length: 8 }, (_, index) => [10, `m${index}.example.com`]) },
  'a.example.com': { A: ['192.0.2.1', '192.0.2.2'], AAAA: ['2001:db8::1'] },
  'six.example.com': { AAAA: ['2001:db8::2'] },
  'nomx.example': { A: ['192.0.2.3'] },
  'null.example': { MX: [[0, '.']] },
  'null-beside.example': {
    MX: [
      [0, '.'],
      [10, 'A.example.com'],
    ],
  },
  'literal.example': { MX: [[10, '127.0.0.1']] },
  'many.example': { MX: many },
  'loop.example': { CNAME: 'pool.example' },
  'pool.example': { CNAME: 'loop.example' },
  'alias.example': { CNAME: 'example.com' },
  'alias-a.example': { CNAME: 'a.example.com' },
  'servfail.example': { fail: 'SERVFAIL' },
  'refused.example': { fail: 'REFUSED' },
  'silent.example': { fail: 'timeout' },
  'garbage.example': { fail: 'garbage' },
  'xn--mller-kva.example': { MX: [[10, 'a.example.com']] },
};

const server = await fakeDns(zone);
const dns = openDns({ servers: [server.server], timeoutMs: 10_000, tries: 1 });
const NO_DATA = { status: 'no-data', secure: false };
const NO_SUCH_DOMAIN = { status: 'no-such-domain', secure: false };

function valueIn<T>(answer: DnsAnswer<T>): T {
  assert.ok(answer.status === 'found', JSON.stringify(answer));
  return answer.value;
}

/** For names without a response. */
const impatient = openDns({ servers: [server.server], timeoutMs: 120, tries: 1 });
after(async () => {
  dns.close();
  impatient.close();
  await server.close();
});

test('MX records are sorted by preference, in lower case', async () => {
  const answer = await dns.resolveMx('Example.COM.');
  assert.ok(answer.status === 'found');
  assert.deepEqual(answer.value, {
    nullMx: false,
    hosts: [
      { host: 'a.example.com', preference: 10 },
      { host: 'b.example.com', preference: 20 },
    ],
  });
});

test('MX records of equal preference are in random order', async () => {
  const orders = new Set<string>();
  for (let i = 0; i < 12; i += 1) {
    const fresh = openDns({ servers: [server.server] });
    const answer = await fresh.resolveMx('equal.example');
    assert.ok(answer.status === 'found');
    orders.add(answer.value.hosts.map((one) => one.host).join());
    fresh.close();
  }
  assert.ok(orders.size > 1);
});

test('500 MX records are reduced to the best 150, over TCP', async () => {
  const answer = await dns.resolveMx('many.example');
  assert.ok(answer.status === 'found');
  assert.deepEqual(
    answer.value.hosts.map((one) => one.preference),
    Array.from({ length: 150 }, (_, index) => index + 1),
  );
});

test('handles null MX, no MX, no domain, and an MX that is an address', async () => {
  assert.deepEqual(valueIn(await dns.resolveMx('null.example')), { nullMx: true, hosts: [] });
  assert.deepEqual(await dns.resolveMx('nomx.example'), NO_DATA);
  assert.deepEqual(await dns.resolveMx('missing.example'), NO_SUCH_DOMAIN);
  const noHost = { nullMx: false, hosts: [] };
  assert.deepEqual(valueIn(await dns.resolveMx('literal.example')), noHost, 'an error, not a missing domain');
  const beside = { nullMx: false, hosts: [{ host: 'a.example.com', preference: 10 }] };
  assert.deepEqual(valueIn(await dns.resolveMx('null-beside.example')), beside, 'a null MX next to others is ignored');
});

test('temporary failures differ from answers', async () => {
  assert.deepEqual(await dns.resolveMx('servfail.example'), { status: 'temporary', cause: 'ESERVFAIL' });
  assert.deepEqual(await dns.resolveMx('refused.example'), { status: 'temporary', cause: 'EREFUSED' });
  assert.deepEqual(await impatient.resolveMx('silent.example'), { status: 'temporary', cause: 'ETIMEOUT' });
  assert.equal((await impatient.resolveMx('garbage.example')).status, 'temporary');
  assert.equal((await impatient.resolveAddresses('silent.example')).status, 'temporary');
});

test('a CNAME is followed, and a loop is a temporary failure', async () => {
  assert.equal((await dns.resolveMx('alias.example')).status, 'found');
  assert.equal((await dns.resolveAddresses('alias-a.example')).status, 'found');
  assert.equal(valueIn(await dns.resolveCname('alias.example')), 'example.com');
  const loop = { status: 'temporary', cause: 'ECNAMELOOP' };
  assert.deepEqual(await dns.resolveMx('loop.example'), loop);
  assert.deepEqual(await dns.resolveAddresses('loop.example'), loop);
});

test('addresses are returned IPv6 first, from one family, or as none', async () => {
  assert.deepEqual(await dns.resolveAddresses('a.example.com'), {
    status: 'found',
    secure: false,
    ttlMs: 60_000,
    canonicalName: 'a.example.com',
    value: ['2001:db8::1', '192.0.2.1', '192.0.2.2'],
  });
  const alias = await dns.resolveAddresses('Alias-A.example');
  assert.ok(alias.status === 'found');
  assert.equal(alias.canonicalName, 'a.example.com');
  assert.deepEqual(valueIn(await dns.resolveAddresses('six.example.com')), ['2001:db8::2']);
  assert.deepEqual(await dns.resolveAddresses('example.com'), NO_DATA);
  assert.deepEqual(await dns.resolveAddresses('missing.example'), NO_SUCH_DOMAIN);
});

test('TXT strings are joined', async () => {
  const answer = await dns.resolveTxt('example.com');
  assert.deepEqual(valueIn(answer), ['v=spf1 -all', 'x'.repeat(600)]);
});

test('resolves TLSA, PTR, and NS records', async () => {
  server.zone['_25._tcp.mx.example'] = { TLSA: [[3, 1, 1, 'ab'.repeat(32)]] };
  server.zone['1.2.0.192.in-addr.arpa'] = { PTR: ['Mail.example.com'] };
  server.zone[`2.${'0.'.repeat(23)}8.b.d.0.1.0.0.2.ip6.arpa`] = { PTR: ['six.example.com'] };
  server.zone['zone.example'] = { NS: ['ns1.example', 'ns2.example'] };
  const [record] = valueIn(await dns.resolveTlsa('_25._tcp.mx.example'));
  assert.deepEqual(record, { usage: 3, selector: 1, matching: 1, data: Buffer.alloc(32, 0xab) });
  assert.deepEqual(valueIn(await dns.resolvePtr('192.0.2.1')), ['mail.example.com']);
  assert.deepEqual(valueIn(await dns.resolvePtr('2001:db8::2')), ['six.example.com']);
  assert.deepEqual(await dns.resolvePtr('no address'), NO_SUCH_DOMAIN);
  assert.deepEqual(valueIn(await dns.resolveNs('zone.example')), ['ns1.example', 'ns2.example']);
});

test('names are queried as A-labels, and invalid ones are not queried', async () => {
  assert.equal((await dns.resolveMx('müller.example')).status, 'found');
  const before = server.questions.length;
  for (const bad of [
    '',
    'a..b',
    `${'x'.repeat(64)}.example`,
    '127.0.0.1',
    '0x7f.1',
    '[::1]',
    '1.2.3.0x4',
    '2130706433',
    'a b.example',
    'example.com/.other.example',
    'example.com?.other.example',
    'example.com#.other.example',
    'example.com\\.other.example',
    'ex%61mple.com',
    'exa\tmple.com',
    'example.com/.bücher.example',
    '-a.example',
    'a-.example',
    `${'x.'.repeat(130)}y`,
  ]) {
    assert.deepEqual(await dns.resolveMx(bad), NO_SUCH_DOMAIN, bad);
  }
  assert.equal(server.questions.length, before);
  assert.equal(toQueryName('_dmarc.example.com.'), '_dmarc.example.com');
});

test('answers are cached, and concurrent queries are combined', async () => {
  const fresh = openDns({ servers: [server.server] });
  const before = server.questions.length;
  await Promise.all([fresh.resolveMx('example.com'), fresh.resolveMx('example.com')]);
  await fresh.resolveMx('EXAMPLE.com');
  await fresh.resolveMx('nothing.example');
  await fresh.resolveMx('nothing.example');
  assert.deepEqual(server.questions.slice(before), ['MX example.com', 'MX nothing.example']);
  fresh.close();
});

test('lookupHost returns literals and localhost without a query', async () => {
  const before = server.questions.length;
  assert.deepEqual(valueIn(await dns.lookupHost('127.0.0.1')), ['127.0.0.1']);
  assert.deepEqual(valueIn(await dns.lookupHost('[::1]')), ['::1']);
  assert.deepEqual(valueIn(await dns.lookupHost('localhost')), ['127.0.0.1', '::1']);
  assert.equal(server.questions.length, before);
  assert.deepEqual(valueIn(await dns.lookupHost('a.example.com')), ['192.0.2.1', '192.0.2.2', '2001:db8::1']);
  assert.deepEqual(await dns.lookupHost('missing.example'), NO_SUCH_DOMAIN);
});

test('the cache evicts by age, count, and size', async () => {
  let nowMs = 0;
  let asked = 0;
  const cache = dnsCache({ maxEntries: 2, maxBytes: 1e6, now: () => nowMs });
  const get = async (key: string, ttlMs = 100) => {
    const remembered = await cache.get(key, async () => {
      asked += 1;
      return { value: asked, ttlMs };
    });
    return remembered.value;
  };
  await get('a');
  assert.equal(await get('a'), 1);
  nowMs = 100;
  assert.equal(await get('a'), 2);
  await get('b');
  await get('a');
  await get('c');
  assert.equal(await get('a'), 2, 'used last, so kept');
  assert.equal(await get('b'), 5, 'least recently used, so evicted');
  assert.equal(await get('d', 0), 6);
  assert.equal(await get('d', 0), 7, 'not cached');

  const small = dnsCache({ maxEntries: 100, maxBytes: 100_000 });
  const times: string[] = [];
  const large = (key: string) =>
    small.get(key, async () => {
      times.push(key);
      return { value: 'x'.repeat(20_000), ttlMs: 60_000 };
    });
  for (const key of ['a', 'b', 'a', 'c', 'a', 'b']) await large(key);
  assert.deepEqual(times, ['a', 'b', 'c', 'b'], 'capacity for two');
  small.clear();
  for (const key of ['a', 'b', 'a', 'b']) await large(key);
  assert.deepEqual(times.slice(4), ['a', 'b'], 'even after clear');
});

/**
 * DNS lookups with real DNSSEC: zones signed by Knot, validated by Unbound, on loopback. Callers that decide by `secure`, such as DANE,
 * rely on each of these results.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Dns, openDns } from '../../src/net/dns.ts';
import { noPrivateDns, type PrivateDns, startPrivateDns } from './private-dns.ts';

const MAIL = [
  '@ MX 10 mx',
  'mx A 127.0.0.2',
  'mx AAAA ::1',
  `_25._tcp.mx TLSA 3 1 1 ${'ab'.repeat(32)}`,
  `_25._tcp.mx TLSA 2 0 2 ${'cd'.repeat(64)}`,
  'only4 A 127.0.0.3',
  'alias CNAME mx',
  '@ TXT "v=spf1 -all"',
  `long TXT ${Array.from({ length: 12 }, () => `"${'x'.repeat(250)}"`).join(' ')}`,
  ...Array.from({ length: 1_000 }, (_, index) => `h${index} A 127.0.1.${index % 250}`),
];

const skip = noPrivateDns();
let peers: PrivateDns;
let dns: Dns;
let later: Dns;

before(async () => {
  if (skip) return;
  peers = await startPrivateDns({
    'good.test': { signed: 'nsec', records: [...MAIL, 'abroad CNAME mx.plain.test.', 'safe CNAME mx.hashed.test.'] },
    'hashed.test': { signed: 'nsec3', records: MAIL },
    'broken.test': { signed: 'nsec', records: MAIL, bogus: true },
    'plain.test': { records: [...MAIL, 'home CNAME mx.good.test.'] },
  });
  dns = openDns({ servers: [peers.resolver] });
  later = openDns({ servers: [peers.laterResolver] });
});

after(async () => {
  dns?.close();
  later?.close();
  await peers?.close();
});

test('a signed zone is secure for every record type', { skip }, async () => {
  for (const zone of ['good.test', 'hashed.test']) {
    const mx = await dns.resolveMx(zone);
    assert.ok(mx.status === 'found' && mx.secure, JSON.stringify(mx));
    assert.deepEqual(mx.value.hosts, [{ host: `mx.${zone}`, preference: 10 }]);
    const addresses = await dns.resolveAddresses(`mx.${zone}`);
    assert.ok(addresses.status === 'found' && addresses.secure);
    assert.deepEqual(addresses.value, ['::1', '127.0.0.2']);
    const tlsa = await dns.resolveTlsa(`_25._tcp.mx.${zone}`);
    assert.ok(tlsa.status === 'found' && tlsa.secure);
    const seen = tlsa.value.map(({ usage, selector, matching, data }) => [usage, selector, matching, data.length]);
    assert.deepEqual(seen.sort(), [
      [2, 0, 2, 64],
      [3, 1, 1, 32],
    ]);
    const txt = await dns.resolveTxt(zone);
    assert.ok(txt.status === 'found' && txt.secure);
    assert.ok(txt.ttlMs > 290_000 && txt.ttlMs <= 300_000, `${txt.ttlMs}`);
  }
});

test('NSEC and NSEC3 prove absence', { skip }, async () => {
  for (const zone of ['good.test', 'hashed.test']) {
    assert.deepEqual(await dns.resolveTlsa(`_25._tcp.only4.${zone}`), { status: 'no-such-domain', secure: true });
    assert.deepEqual(await dns.resolveTlsa(`only4.${zone}`), { status: 'no-data', secure: true });
    assert.deepEqual(await dns.resolveMx(`none.${zone}`), { status: 'no-such-domain', secure: true });
    const half = await dns.resolveAddresses(`only4.${zone}`);
    assert.ok(half.status === 'found' && half.secure, 'an address of one family, and proof of no other');
    assert.deepEqual(half.value, ['127.0.0.3']);
  }
});

test('a CNAME is secure only if its whole chain is', { skip }, async () => {
  const of = async (host: string): Promise<unknown[]> => {
    const answer = await dns.resolveAddresses(host);
    assert.ok(answer.status === 'found', `${host}: ${JSON.stringify(answer)}`);
    return [answer.canonicalName, answer.secure];
  };
  assert.deepEqual(await of('alias.good.test'), ['mx.good.test', true]);
  assert.deepEqual(await of('safe.good.test'), ['mx.hashed.test', true]);
  assert.deepEqual(await of('abroad.good.test'), ['mx.plain.test', false]);
  assert.deepEqual(await of('home.plain.test'), ['mx.good.test', false]);
  const alias = await dns.resolveCname('abroad.good.test');
  assert.ok(alias.status === 'found' && alias.secure, 'the CNAME itself is');
});

test('an unsigned zone is resolved as insecure', { skip }, async () => {
  for (const answer of [await dns.resolveMx('plain.test'), await dns.resolveTlsa('_25._tcp.mx.plain.test')]) {
    assert.ok(answer.status === 'found');
    assert.equal(answer.secure, false);
  }
  assert.deepEqual(await dns.resolveMx('none.plain.test'), { status: 'no-such-domain', secure: false });
});

test('bogus and expired signatures are failures, never insecure answers', { skip }, async () => {
  const failed = { status: 'temporary', cause: 'ESERVFAIL' };
  for (const [resolver, zone] of [
    [dns, 'broken.test'],
    [later, 'good.test'],
    [later, 'hashed.test'],
  ] as const) {
    assert.deepEqual(await resolver.resolveMx(zone), failed);
    assert.deepEqual(await resolver.resolveAddresses(`mx.${zone}`), failed);
    assert.deepEqual(await resolver.resolveTlsa(`_25._tcp.mx.${zone}`), failed);
    assert.deepEqual(await resolver.resolveTlsa(`_25._tcp.none.${zone}`), failed, 'absence is not trusted either');
  }
  assert.equal((await later.resolveMx('plain.test')).status, 'found', 'the resolver itself works');
});

test('responses too large for UDP use TCP and are still validated', { skip }, async () => {
  for (const resolver of [dns, dns.atServers([peers.authority])]) {
    const answer = await resolver.resolveTxt('long.good.test');
    assert.ok(answer.status === 'found', JSON.stringify(answer));
    assert.deepEqual(answer.value, ['x'.repeat(3_000)]);
    assert.equal(answer.secure, resolver === dns);
  }
});

test('handles 2,000 concurrent queries, as for a queue that comes due', { skip }, async () => {
  const hosts = Array.from({ length: 1_000 }, (_, index) => `h${index}.hashed.test`);
  const answers = await Promise.all(hosts.map((host) => dns.resolveAddresses(host)));
  for (const [index, answer] of answers.entries()) {
    assert.ok(answer.status === 'found', `${hosts[index]}: ${JSON.stringify(answer)}`);
    assert.deepEqual([answer.value, answer.secure], [[`127.0.1.${index % 250}`], true]);
  }
});

test('authoritative servers answer without a security status', { skip }, async () => {
  const own = dns.atServers([peers.authority]);
  const mx = await own.resolveMx('good.test');
  assert.ok(mx.status === 'found' && !mx.secure);
  const servers = await own.resolveNs('good.test');
  assert.ok(servers.status === 'found');
  assert.deepEqual(servers.value, ['ns.good.test']);
  assert.deepEqual(await own.resolveTxt('none.good.test'), { status: 'no-such-domain', secure: false });
  assert.deepEqual(await own.resolveTxt('elsewhere.example'), { status: 'temporary', cause: 'EREFUSED' });
});

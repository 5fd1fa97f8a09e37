/** Lists of allowed networks: canonical form, errors with the fix, and the networks that a restricted key can pass on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAllowedAddress } from '../net/networks.ts';
import { grantedNetworks, readAllowedNetworks } from './networks.ts';

const read = (...list: string[]): readonly string[] => {
  const networks = readAllowedNetworks(list);
  assert.ok(networks.ok, JSON.stringify(networks));
  return networks.value;
};

test('networks and addresses are stored in canonical form without duplicates', () => {
  assert.deepEqual(read('203.0.113.0/24', '203.0.113.7', '0.0.0.0/0', '203.0.113.7/32'), [
    '203.0.113.0/24',
    '203.0.113.7/32',
    '0.0.0.0/0',
  ]);
  assert.deepEqual(read('2001:DB8:0::/32', '2001:db8:0:0:1:0:0:1', '::1/128', '::/0', '64:ff9b::192.0.2.0/120'), [
    '2001:db8::/32',
    '2001:db8::1:0:0:1/128',
    '::1/128',
    '::/0',
    '64:ff9b::c000:200/120',
  ]);
});

test('every invalid entry is reported by index with the fix', () => {
  const form = 'must be a network in CIDR notation or an IP address, such as 203.0.113.0/24 or 2001:db8::/32';
  const bits = (network: string, address: string) =>
    `must have no bits set after its prefix: use ${network} for the network, or ${address} for the address`;
  const cases: Record<string, string> = {
    '203.0.113.7/24': bits('203.0.113.0/24', '203.0.113.7/32'),
    '2001:db8::1/64': bits('2001:db8::/64', '2001:db8::1/128'),
    '128.0.0.0/0': bits('0.0.0.0/0', '128.0.0.0/32'),
    '::ffff:203.0.113.0/120': 'must be written as an IPv4 network: 203.0.113.0/24',
    '::ffff:203.0.113.7': 'must be written as an IPv4 network: 203.0.113.7/32',
  };
  const invalid = ['', '10.0.0/8', '10.0.0.0/33', '::/129', '010.0.0.0/8', '10.0.0.0/-1', '10.0.0.0/8/8', '10.0.0.1-5'];
  for (const text of [...invalid, ' 10.0.0.0/8', 'shop.example', 'fe80::1%eth0', '[::1]', '10.0.0.1:80'])
    cases[text] = form;
  const refused = readAllowedNetworks(['192.0.2.0/24', ...Object.keys(cases)]);
  assert.ok(!refused.ok);
  assert.equal(refused.failure.code, 'INVALID_REQUEST');
  assert.deepEqual(
    refused.failure.details.filter(({ field }) => field !== 'allowedNetworks'),
    Object.values(cases).map((message, index) => ({ field: `allowedNetworks[${index + 1}]`, message })),
  );
  const many = (count: number) => readAllowedNetworks(Array.from({ length: count }, (_, i) => `10.${i}.0.0/16`));
  assert.ok(many(20).ok);
  const tooMany = many(21);
  assert.ok(!tooMany.ok && tooMany.failure.details[0]?.field === 'allowedNetworks');
});

test('an address is allowed by a network of its own family or by an empty list', () => {
  const networks = read('203.0.113.0/25', '2001:db8::/32', '198.51.100.7');
  for (const address of ['203.0.113.0', '203.0.113.127', '2001:db8:ffff::1', '2001:DB8::1', '198.51.100.7'])
    assert.ok(isAllowedAddress(address, networks), address);
  for (const address of ['203.0.113.128', '198.51.100.8', '2001:db9::1', '::1', '', 'unknown', '203.0.113.1:80'])
    assert.ok(!isAllowedAddress(address, networks), address);
  assert.ok(!isAllowedAddress('2001:db8::1', read('0.0.0.0/0')));
  assert.ok(!isAllowedAddress('192.0.2.1', read('::/0')));
  assert.ok(isAllowedAddress('192.0.2.1', []) && isAllowedAddress('2001:db8::1', []));
  assert.ok(!isAllowedAddress('192.0.2.1', ['nonsense']), 'a stored text that is not a network opens nothing');
});

test('a restricted key can grant only a subset of its networks', () => {
  const own = read('203.0.113.0/24', '2001:db8::/32');
  const given = (asked?: string[], by = own) => {
    const networks = grantedNetworks(by, asked);
    return networks.ok ? networks.value : networks.failure.code;
  };
  assert.deepEqual(given(), own);
  assert.deepEqual(given(['203.0.113.128/25', '2001:db8:1::/48']), ['203.0.113.128/25', '2001:db8:1::/48']);
  for (const wider of [[], ['203.0.112.0/23'], ['0.0.0.0/0'], ['::/0'], ['203.0.113.0/24', '192.0.2.1']])
    assert.equal(given(wider), 'FORBIDDEN', wider.join());
  assert.equal(given(['203.0.113.1/24']), 'INVALID_REQUEST');
  assert.deepEqual(given(['192.0.2.0/24'], []), ['192.0.2.0/24']);
});

/** Tables of allowed and rejected addresses, in every spelling. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressRefusal, type Cidr, parseCidrs } from './address-guard.ts';

function cidrs(text: string): Cidr[] {
  const parsed = parseCidrs(text);
  assert.ok(parsed.ok, text);
  return parsed.cidrs;
}

const PUBLIC = [
  '1.1.1.1',
  '8.8.8.8',
  '93.184.216.34',
  '172.15.255.255',
  '172.32.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '223.255.255.255',
  '2606:4700:4700::1111',
  '2a00:1450:4001::1',
  '::ffff:8.8.8.8',
  '64:ff9b::8.8.8.8',
];

const REFUSED = [
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '10.255.255.255',
  '100.64.0.1',
  '100.100.100.200',
  '100.127.255.255',
  '127.0.0.1',
  '127.255.255.254',
  '169.254.169.254',
  '169.254.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.1',
  '192.0.0.192',
  '192.0.2.1',
  '192.88.99.1',
  '192.168.1.1',
  '198.18.0.1',
  '198.19.255.255',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  '168.63.129.16',
  '::',
  '::1',
  'fe80::1',
  'febf::1',
  'fec0::1',
  'fc00::1',
  'fd00:ec2::254',
  'fd20:ce::254',
  'ff02::1',
  '100::1',
  '2001:db8::1',
  '3fff::1',
  '2001:2::1',
  '2001:10::1',
  '2001:20::1',
  '5f00::1',
  '4000::1',
  '1::1',
  '200::1',
  // Addresses that embed an IPv4 address.
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '::ffff:10.0.0.1',
  '::ffff:169.254.169.254',
  '::127.0.0.1',
  '::7f00:1',
  '::a00:1',
  '::ffff:0:127.0.0.1',
  '64:ff9b::127.0.0.1',
  '64:ff9b::10.0.0.1',
  '64:ff9b:1::a00:1',
  '2002:7f00:1::',
  '2002:a00:1::1',
  '2001:0:4136:e378:8000:63bf:80ff:fffe',
  '64:ff9b:1::808:808',
  '2002:808:808::1',
  '::8.8.8.8',
];

const NOT_ADDRESSES = [
  '',
  'localhost',
  '127.1',
  '0x7f.1',
  '2130706433',
  '0177.0.0.1',
  '127.0.0.1.',
  ' 127.0.0.1',
  '127.0.0.1/8',
  '[::1]',
  '::1%lo',
  'fe80::1%eth0',
  '1.2.3',
  '256.1.1.1',
  '8.8.8.08',
  '::ffff:0x7f.1',
];

test('public addresses pass', () => {
  for (const address of PUBLIC) assert.equal(addressRefusal(address, []), undefined, address);
});

test('all other addresses are rejected with a reason', () => {
  for (const address of REFUSED) {
    assert.match(addressRefusal(address, []) ?? 'passed', /^(?!passed)(?!not an IP)./, address);
  }
});

test('rejects text that is not an address', () => {
  for (const text of NOT_ADDRESSES) assert.equal(addressRefusal(text, []), 'not an IP address', text);
});

test('URL spellings of an address are normalized', () => {
  for (const host of ['0x7f.1', '2130706433', '0177.0.0.1', '127.1', '127.0.0.1.', '%31%32%37.0.0.1', '①②⑦.0.0.1']) {
    const { hostname } = new URL(`http://${host}/`);
    assert.equal(hostname, '127.0.0.1', host);
    assert.equal(addressRefusal(hostname, []), 'loopback');
  }
  assert.equal(addressRefusal(new URL('http://[::ffff:127.0.0.1]/').hostname.slice(1, -1), []), 'loopback');
});

test('only the ranges that an operator allows are accepted', () => {
  const allow = cidrs(' 127.0.0.0/8, 10.1.0.0/16 ,::1,fd00::/8');
  for (const address of ['127.0.0.1', '10.1.2.3', '::1', 'fd12::1', '::ffff:127.0.0.1']) {
    assert.equal(addressRefusal(address, allow), undefined, address);
  }
  for (const address of ['10.2.0.1', '192.168.0.1', '169.254.169.254', 'fe80::1', '::2', '64:ff9b::127.0.0.1']) {
    assert.ok(addressRefusal(address, allow), address);
  }
});

test('names the invalid CIDR of a list', () => {
  assert.deepEqual(parseCidrs(''), { ok: true, cidrs: [] });
  for (const bad of [
    '10.0.0.0/33',
    '::/129',
    'example.com',
    '10.0.0/8',
    '10.0.0.0/8/8',
    '10.0.0.0/',
    '0x7f.1/8',
    '1.2.3.4/-1',
  ]) {
    assert.deepEqual(parseCidrs(`127.0.0.1, ${bad}`), { ok: false, invalid: bad });
  }
});

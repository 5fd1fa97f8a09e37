import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainAddress } from '../net/trusted-proxies.ts';
import { addressLiteral, countedAddress } from './session-wire.ts';

test('addresses are displayed in canonical form', () => {
  assert.equal(plainAddress('::ffff:192.0.2.1'), '192.0.2.1');
  assert.equal(plainAddress('fe80::1%eth0'), 'fe80::1');
  assert.equal(plainAddress(undefined), '');
  assert.equal(addressLiteral('192.0.2.1'), '[192.0.2.1]');
  assert.equal(addressLiteral('2001:db8::1'), '[IPv6:2001:db8::1]');
});

test('an IPv6 network of /64 counts as one', () => {
  assert.equal(countedAddress('192.0.2.1'), '192.0.2.1');
  const same = ['2001:db8:1:2::1', '2001:DB8:1:2:ffff::', '2001:db8:1:2:3:4:5:6', '2001:0db8:0001:0002::9'];
  assert.deepEqual([...new Set(same.map(countedAddress))], ['2001:db8:1:2::/64']);
  assert.equal(countedAddress('2001:db8:1:3::1'), '2001:db8:1:3::/64');
  assert.equal(countedAddress('::1'), '0:0:0:0::/64');
  assert.equal(countedAddress('2001:db8::1'), '2001:db8:0:0::/64');
});

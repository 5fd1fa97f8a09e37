import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCidrs } from './address-guard.ts';
import { clientOf, forwardedAddress, isTrustedProxy } from './trusted-proxies.ts';

const read = (text: string) => {
  const list = parseCidrs(text);
  assert.ok(list.ok);
  return list.cidrs;
};
const trusted = read('10.0.0.0/8, 127.0.0.1, fd00::/8');

test('elements of X-Forwarded-For are parsed', () => {
  const cases: [string, string | undefined][] = [
    ['192.0.2.1', '192.0.2.1'],
    [' 192.0.2.1 ', '192.0.2.1'],
    ['192.0.2.1:4711', '192.0.2.1'],
    ['"192.0.2.1:4711"', '192.0.2.1'],
    ['2001:db8::1', '2001:db8::1'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['"[2001:db8::1]:443"', '2001:db8::1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['[fe80::1%25eth0]:80', 'fe80::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:c000:201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:192.0.2.1', '192.0.2.1'],
    ['[::ffff:192.0.2.1]:25', '192.0.2.1'],
    ['unknown', undefined],
    ['_hidden', undefined],
    ['client.example.com', undefined],
    ['192.0.2.256', undefined],
    ['192.0.2', undefined],
    ['192.0.2.1:', undefined],
    ['192.0.2.1:x', undefined],
    ['[192.0.2.1]', undefined],
    ['[2001:db8::1', undefined],
    ['2001:db8::1]:443', undefined],
    ['for=192.0.2.1', undefined],
    ['192.0.2.1 192.0.2.2', undefined],
    ['10.0.0.0/8', undefined],
    ['', undefined],
    ['x'.repeat(10_000), undefined],
  ];
  for (const [element, expected] of cases) assert.equal(forwardedAddress(element), expected, element.slice(0, 40));
});

test('the client is the rightmost untrusted address', () => {
  const cases: [string, string | undefined, string][] = [
    // peer, X-Forwarded-For, client
    ['192.0.2.9', '203.0.113.9', '192.0.2.9'],
    ['::ffff:192.0.2.9', '203.0.113.9', '192.0.2.9'],
    ['10.0.0.1', undefined, '10.0.0.1'],
    ['10.0.0.1', '', '10.0.0.1'],
    ['10.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['::ffff:10.0.0.1', '203.0.113.9', '203.0.113.9'],
    ['fd00::1', '203.0.113.9', '203.0.113.9'],
    ['10.0.0.1', '198.51.100.1, 203.0.113.9', '203.0.113.9'],
    ['10.0.0.1', '203.0.113.9, 10.0.0.2', '203.0.113.9'],
    ['10.0.0.1', '198.51.100.1, 203.0.113.9, 10.0.0.2, ::ffff:10.0.0.3', '203.0.113.9'],
    ['10.0.0.1', '203.0.113.9,, ,10.0.0.2,', '203.0.113.9'],
    ['10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['10.0.0.1', 'unknown', '10.0.0.1'],
    ['10.0.0.1', '203.0.113.9, unknown', '10.0.0.1'],
    ['10.0.0.1', '203.0.113.9, garbage, 10.0.0.2', '10.0.0.2'],
    ['10.0.0.1', 'garbage, 203.0.113.9', '203.0.113.9'],
    ['10.0.0.1', '127.0.0.1, 203.0.113.9:51234', '203.0.113.9'],
    ['10.0.0.1', '[2001:db8::1]:51234', '2001:db8::1'],
    ['127.0.0.2', '203.0.113.9', '127.0.0.2'],
  ];
  for (const [peer, header, expected] of cases) {
    assert.equal(clientOf(peer, { 'x-forwarded-for': header }, trusted).address, expected, `${peer} ${header}`);
  }
  assert.equal(clientOf('10.0.0.1', { 'x-forwarded-for': '203.0.113.9' }, []).address, '10.0.0.1');
  const lines = ['198.51.100.1', '203.0.113.9, 10.0.0.2'];
  assert.equal(clientOf('10.0.0.1', { 'x-forwarded-for': lines }, trusted).address, '203.0.113.9');
});

test('the scheme is taken from the outermost trusted proxy', () => {
  const scheme = (peer: string, proto: string | undefined, forwardedFor: string) =>
    clientOf(peer, { 'x-forwarded-for': forwardedFor, 'x-forwarded-proto': proto }, trusted).scheme;
  assert.equal(scheme('10.0.0.1', 'https', '203.0.113.9'), 'https');
  assert.equal(scheme('10.0.0.1', 'HTTPS', '203.0.113.9'), 'https');
  assert.equal(scheme('10.0.0.1', 'https, http', '203.0.113.9'), 'http', 'the client sent the first entry');
  assert.equal(scheme('10.0.0.1', 'https, http', '203.0.113.9, 10.0.0.2'), 'https');
  assert.equal(scheme('10.0.0.1', 'https', '203.0.113.9, 10.0.0.2'), 'https');
  assert.equal(scheme('10.0.0.1', 'https', ''), 'https');
  assert.equal(scheme('10.0.0.1', 'gopher', '203.0.113.9'), undefined);
  assert.equal(scheme('10.0.0.1', undefined, '203.0.113.9'), undefined);
  assert.equal(scheme('192.0.2.9', 'https', '203.0.113.9'), undefined);
});

test('trusted ranges match IPv4-mapped peers and peers with a zone', () => {
  assert.ok(isTrustedProxy('::ffff:10.1.2.3', trusted));
  assert.ok(isTrustedProxy('fe80::1%eth0', read('fe80::/10')));
  assert.ok(!isTrustedProxy(undefined, trusted));
  assert.ok(!isTrustedProxy('10.1.2.3', []));
});

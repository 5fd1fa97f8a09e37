/** Addresses of DNS servers, from a setting and from a changing resolv.conf. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { isOnThisHost, parseDnsServer, readResolvConf, systemServers } from './dns-servers.ts';

test('parses address, address:port, and [v6]:port', () => {
  assert.deepEqual(parseDnsServer('10.0.0.53'), { address: '10.0.0.53', port: 53 });
  assert.deepEqual(parseDnsServer('127.0.0.1:5353'), { address: '127.0.0.1', port: 5353 });
  assert.deepEqual(parseDnsServer('::1'), { address: '::1', port: 53 });
  assert.deepEqual(parseDnsServer('[2001:db8::1]:5353'), { address: '2001:db8::1', port: 5353 });
  for (const bad of ['', 'dns.example', '10.0.0.53:0', '10.0.0.53:65536', '[10.0.0.53', '10.0.0']) {
    assert.throws(() => parseDnsServer(bad), Error, bad);
  }
});

test('only loopback addresses are on this host', () => {
  const isHere = (address: string): boolean => isOnThisHost({ address, port: 53 });
  assert.deepEqual(['127.0.0.1', '127.0.0.53', '::1'].map(isHere), [true, true, true]);
  assert.deepEqual(['10.0.0.1', '::', '::ffff:127.0.0.1', '12.7.0.1'].map(isHere), [false, false, false, false]);
});

test('resolv.conf is read for its nameserver lines', () => {
  const text = [
    '# nameserver 192.0.2.9',
    'search example.com',
    'nameserver 192.0.2.1',
    '  nameserver\t2001:db8::1 # the second',
    'nameserver names.example',
    'options edns0 trust-ad',
    '',
  ].join('\n');
  const expected = ['192.0.2.1', '2001:db8::1'].map((address) => ({ address, port: 53 }));
  assert.deepEqual(readResolvConf(text), expected);
});

test('a changed resolv.conf is reloaded, and an empty or missing one changes nothing', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-resolv-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'resolv.conf');
  writeFileSync(file, 'nameserver 192.0.2.1\n');
  const servers = systemServers(file, 20);
  const now = (): string =>
    servers()
      .map((one) => one.address)
      .join();
  assert.equal(now(), '192.0.2.1');
  writeFileSync(file, 'nameserver 192.0.2.2\nnameserver 192.0.2.3\n');
  await waitUntil('the new servers', () => now() === '192.0.2.2,192.0.2.3');
  writeFileSync(file, '');
  for (let times = 0; times < 5; times += 1) {
    await new Promise((resolve) => setTimeout(resolve, 25));
    assert.equal(now(), '192.0.2.2,192.0.2.3');
  }
  rmSync(file);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(now(), '192.0.2.2,192.0.2.3');
  assert.ok(systemServers(path.join(folder, 'none'))().length > 0, 'at least one server is always configured');
});

/** IP networks: compared with ipaddr.js for random networks and addresses near their boundaries. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import ipaddr from 'ipaddr.js';
import { isAllowedAddress, isPartOf, maskedNetwork, type Network, networkText, parseNetwork } from './networks.ts';

/** Returns the same random bytes in every run. */
const bytesOf = (seed: string, count: number): number[] => [
  ...createHash('sha256').update(seed).digest().subarray(0, count),
];

const near = (bytes: number[], bits: number, change: -1 | 0 | 1): number[] => {
  const width = BigInt(bytes.length * 8);
  const value = BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
  const step = 1n << (width - BigInt(bits));
  const network = (value / step) * step;
  const wanted = BigInt.asUintN(
    Number(width),
    change === -1 ? network - 1n : change === 1 ? network + step : network + step - 1n,
  );
  return [...Buffer.from(wanted.toString(16).padStart(bytes.length * 2, '0'), 'hex')];
};

test('networks are parsed, masked, formatted, and matched like in ipaddr.js', () => {
  for (const [width, type] of [
    [4, ipaddr.IPv4],
    [16, ipaddr.IPv6],
  ] as const) {
    for (let round = 0; round < 300; round += 1) {
      const bytes = bytesOf(`${width} ${round}`, width).map((byte) => (byte < 80 ? 0 : byte));
      const bits = bytesOf(`bits ${width} ${round}`, 1)[0]! % (width * 8 + 1);
      const written = `${ipaddr.fromByteArray(bytes)}/${bits}`;
      const network = parseNetwork(written) as Network;
      const text = networkText(maskedNetwork(network));
      assert.equal(text, `${type.networkAddressFromCIDR(written)}/${bits}`, written);
      for (const address of [bytes, near(bytes, bits, -1), near(bytes, bits, 0), near(bytes, bits, 1)]) {
        const client = ipaddr.fromByteArray(address);
        const [base] = ipaddr.parseCIDR(written);
        const expected = client.match(base as never, bits);
        assert.equal(isAllowedAddress(client.toString(), [text]), expected, `${client} in ${text}`);
        assert.equal(isPartOf(parseNetwork(client.toString())!, network), expected, `${client} part of ${text}`);
      }
    }
  }
});

test('a network is part of itself and of larger ones in its own family', () => {
  const isPart = (inner: string, outer: string) => isPartOf(parseNetwork(inner)!, parseNetwork(outer)!);
  for (const [inner, outer] of [
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['10.1.0.0/16', '10.0.0.0/8'],
    ['2001:db8:1::/48', '::/0'],
    ['192.0.2.1', '0.0.0.0/0'],
  ] as const)
    assert.ok(isPart(inner, outer), `${inner} ${outer}`);
  for (const [inner, outer] of [
    ['10.0.0.0/8', '10.1.0.0/16'],
    ['0.0.0.0/0', '::/0'],
    ['::/0', '0.0.0.0/0'],
    ['::a00:1', '10.0.0.0/8'],
  ] as const)
    assert.ok(!isPart(inner, outer), `${inner} ${outer}`);
});

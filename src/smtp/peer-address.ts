/**
 * The addresses of clients: as headers show them, and as they are counted. A customer of an IPv6 network has a whole /64, so
 * that its addresses count as one.
 */
import { isIPv6 } from 'node:net';

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** IPv4 as such even where the socket is an IPv6 one; without the zone of a link-local address. */
export function plainAddress(remoteAddress: string | undefined): string {
  const address = (remoteAddress ?? '').replace(/%.*$/, '');
  return MAPPED.exec(address)?.[1] ?? address;
}

/** What is counted together with this address. */
export function countedAddress(address: string): string {
  return isIPv6(address) ? firstGroups(address) : address;
}

function firstGroups(address: string): string {
  const [left = '', right] = address.toLowerCase().split('::');
  const groups = left === '' ? [] : left.split(':');
  if (right !== undefined) {
    const after = right === '' ? 0 : right.split(':').length;
    while (groups.length + after < 8) groups.push('0');
  }
  return `${groups
    .concat(['0', '0', '0', '0'])
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}

/** The address literal of RFC 5321 §4.1.3. */
export function addressLiteral(address: string): string {
  return isIPv6(address) ? `[IPv6:${address}]` : `[${address}]`;
}

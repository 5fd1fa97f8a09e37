/** Names in the form used for DNS queries. */
import { isIP } from 'node:net';
import { domainToASCII } from 'node:url';

/** Returns the name in A-labels and lower case, or undefined if it cannot be queried. Underscores are allowed (RFC 2181 §11). */
export function toQueryName(name: string): string | undefined {
  const bare = name.endsWith('.') ? name.slice(0, -1) : name;
  const ascii = domainToASCII(bare);
  if (ascii === '' || ascii.length > 253 || isIP(ascii) !== 0 || ascii.startsWith('[')) return undefined;
  return ascii.split('.').every((label) => label !== '' && label.length <= 63) ? ascii : undefined;
}

/** RFC 6761 §6.3: localhost is never queried. */
export function isLocalhost(name: string): boolean {
  return /^(?:.+\.)?localhost\.?$/i.test(name);
}

/** Returns the name of an address's PTR records (RFC 1035 §3.5, RFC 3596 §2.5); undefined if it is not an address. */
export function reverseName(address: string): string | undefined {
  if (isIP(address) === 4) return `${address.split('.').reverse().join('.')}.in-addr.arpa`;
  if (isIP(address) !== 6 || address.includes('%')) return undefined;
  const digits = ipv6Groups(address).map((group) => group.padStart(4, '0'));
  return `${[...digits.join('')].reverse().join('.')}.ip6.arpa`;
}

/** Returns the eight groups of a valid address, without leading zeros. */
function ipv6Groups(address: string): string[] {
  // The URL parser normalizes every form, including one that ends in an IPv4 address.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  return [...left, ...new Array<string>(8 - left.length - right.length).fill('0'), ...right];
}

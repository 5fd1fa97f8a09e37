/** Names as the DNS is asked for them. */
import { isIP } from 'node:net';
import { domainToASCII } from 'node:url';

/** The name in A-labels and lower case, or undefined when it cannot be asked for. Underscores are allowed (RFC 2181 §11). */
export function toQueryName(name: string): string | undefined {
  const bare = name.endsWith('.') ? name.slice(0, -1) : name;
  const ascii = domainToASCII(bare);
  if (ascii === '' || ascii.length > 253 || isIP(ascii) !== 0 || ascii.startsWith('[')) return undefined;
  return ascii.split('.').every((label) => label !== '' && label.length <= 63) ? ascii : undefined;
}

/** RFC 6761 §6.3: localhost is never asked for. */
export function isLocalhost(name: string): boolean {
  return /^(?:.+\.)?localhost\.?$/i.test(name);
}

/** Where the PTR records of an address are (RFC 1035 §3.5, RFC 3596 §2.5); undefined for what is none. */
export function reverseName(address: string): string | undefined {
  if (isIP(address) === 4) return `${address.split('.').reverse().join('.')}.in-addr.arpa`;
  if (isIP(address) !== 6 || address.includes('%')) return undefined;
  const digits = ipv6Groups(address).map((group) => group.padStart(4, '0'));
  return `${[...digits.join('')].reverse().join('.')}.ip6.arpa`;
}

/** The eight groups of a valid address, without leading zeros. */
function ipv6Groups(address: string): string[] {
  // The URL parser writes every form alike, also one that ends in an IPv4 address.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  return [...left, ...new Array<string>(8 - left.length - right.length).fill('0'), ...right];
}

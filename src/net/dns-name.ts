/** Names in the form used for DNS queries. */
import { isIP } from 'node:net';
import { domainToAscii } from '../mail/address.ts';

const MAX_NAME = 253;
/** A last label that the system's resolver could read as the end of an IPv4 address, such as `0x7f.1`. */
const NUMERIC_END = /(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$/;
/** Letters, digits, hyphens, and underscores (RFC 2181 §11). */
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** Returns whether a name in lower case consists of valid labels, without a final dot. It can have a single label. */
export function isDnsName(name: string): boolean {
  return name.length <= MAX_NAME && !NUMERIC_END.test(name) && name.split('.').every((label) => LABEL.test(label));
}

/**
 * Returns the name in A-labels and lower case, or undefined if it cannot be queried. Never returns another name than the given one: text
 * with other characters, such as `a.example/.b.example`, is refused.
 */
export function toQueryName(name: string): string | undefined {
  const bare = name.endsWith('.') ? name.slice(0, -1) : name;
  const ascii = domainToAscii(bare);
  return ascii !== undefined && isDnsName(ascii) ? ascii : undefined;
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

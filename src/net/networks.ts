/**
 * IP networks in CIDR notation, and whether a client's address is in some of them. Uses no package, because the threads of the database load
 * this file. Addresses of outgoing connections are checked by address-guard.ts.
 */
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';

type Family = 'ipv4' | 'ipv6';

/** A network, or an address in it if `value` has bits after the prefix. */
export interface Network {
  readonly family: Family;
  readonly value: bigint;
  /** Length of the prefix. */
  readonly bits: number;
}

const WIDTHS: Record<Family, number> = { ipv4: 32, ipv6: 128 };

/** Returns the canonical text of an IPv6 address (RFC 5952), with hexadecimal groups only. */
const canonical = (address: string): string => new URL(`http://[${address}]/`).hostname.slice(1, -1);

const joined = (groups: readonly number[], width: bigint): bigint =>
  groups.reduce((value, group) => (value << width) | BigInt(group), 0n);

function parseAddress(address: string): Pick<Network, 'family' | 'value'> | undefined {
  if (isIPv4(address)) return { family: 'ipv4', value: joined(address.split('.').map(Number), 8n) };
  if (!isIPv6(address) || address.includes('%')) return undefined;
  const [left = [], right = []] = canonical(address)
    .split('::')
    .map((half) =>
      half
        .split(':')
        .filter(Boolean)
        .map((group) => Number.parseInt(group, 16)),
    );
  const zeros = new Array<number>(8 - left.length - right.length).fill(0);
  return { family: 'ipv6', value: joined([...left, ...zeros, ...right], 16n) };
}

/** Parses `203.0.113.0/24`, or an address as a network of one address; undefined if the text is neither. A zone is refused. */
export function parseNetwork(text: string): Network | undefined {
  const [address = '', prefix, ...rest] = text.split('/');
  const found = parseAddress(address);
  if (found === undefined || rest.length > 0) return undefined;
  const width = WIDTHS[found.family];
  if (prefix === undefined) return { ...found, bits: width };
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= width ? { ...found, bits: Number(prefix) } : undefined;
}

/** Returns the network without bits after its prefix. */
export function maskedNetwork({ family, value, bits }: Network): Network {
  const shift = BigInt(WIDTHS[family] - bits);
  return { family, value: (value >> shift) << shift, bits };
}

/** Returns the network of this address alone. */
export function singleAddress({ family, value }: Network): Network {
  return { family, value, bits: WIDTHS[family] };
}

/** Returns the IPv4 network for one of IPv4-mapped addresses (::ffff:0:0/96, RFC 4291 §2.5.5.2); undefined for other networks. */
export function mappedNetwork({ family, value, bits }: Network): Network | undefined {
  if (family === 'ipv4' || bits < 96 || value >> 32n !== 0xffffn) return undefined;
  return { family: 'ipv4', value: value & 0xffff_ffffn, bits: bits - 96 };
}

/** Returns the canonical text, such as `203.0.113.0/24` or `2001:db8::/32`. */
export function networkText({ family, value, bits }: Network): string {
  const [count, width] = family === 'ipv4' ? [4, 8] : [8, 16];
  const groups = Array.from({ length: count }, (_, index) =>
    BigInt.asUintN(width, value >> BigInt(width * (count - 1 - index))),
  );
  const address = family === 'ipv4' ? groups.join('.') : canonical(groups.map((group) => group.toString(16)).join(':'));
  return `${address}/${bits}`;
}

/** Returns whether all addresses of `inner` are in `outer`. */
export function isPartOf(inner: Network, outer: Network): boolean {
  const shift = BigInt(WIDTHS[outer.family] - outer.bits);
  return inner.family === outer.family && inner.bits >= outer.bits && inner.value >> shift === outer.value >> shift;
}

/** Networks by family. A single list would also compare IPv4 addresses with IPv6 networks. */
type Lists = Record<Family, BlockList>;

/** The check is made for every request and every mail, so each list is parsed once, for as long as it is in use. */
const parsed = new WeakMap<readonly string[], Lists>();

function parseLists(texts: readonly string[]): Lists {
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const text of texts) {
    const network = parseNetwork(text);
    if (network === undefined) continue;
    const [address = ''] = networkText(network).split('/');
    lists[network.family].addSubnet(address, network.bits, network.family);
  }
  return lists;
}

/**
 * Returns whether a client can use what is restricted to these networks. An empty list is no restriction; a text that is not a network allows
 * no address. `address` has no zone and is not IPv4-mapped. The list must not change after the first call.
 */
export function isAllowedAddress(address: string, allowed: readonly string[]): boolean {
  if (allowed.length === 0) return true;
  const version = isIP(address);
  if (version === 0) return false;
  let lists = parsed.get(allowed);
  if (lists === undefined) {
    lists = parseLists(allowed);
    parsed.set(allowed, lists);
  }
  const family = version === 4 ? 'ipv4' : 'ipv6';
  return lists[family].check(address, family);
}

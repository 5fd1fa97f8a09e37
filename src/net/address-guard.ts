/**
 * Decides whether a connection to an IP address may be made on behalf of a user (webhooks, MX delivery): only to public unicast addresses,
 * and to ranges that the operator lists. Addresses that embed an IPv4 address (mapped, compatible, translated, 6to4, NAT64, Teredo) are
 * checked by it, because a gateway would deliver there. Anything that is not recognized as an address is refused. This is an allowlist: an
 * IPv6 address outside 2000::/3 is never public.
 */
import ipaddr from 'ipaddr.js';

type Ip = ipaddr.IPv4 | ipaddr.IPv6;

export interface Cidr {
  readonly text: string;
  readonly base: Ip;
  readonly bits: number;
}

/** IPv4 ranges that ipaddr.js calls unicast but that must not be reachable. */
const MORE_V4_REFUSED = cidrList([
  // Azure's platform address (metadata, DNS, health): formally public, but local to the machine.
  '168.63.129.16/32',
  // Alibaba's metadata address is in 100.64/10 and Oracle's in 192.0.0/24; both ranges are refused.
]);

/** IPv6: the range from which global unicast addresses are assigned (RFC 4291 §2.4, IANA). */
const GLOBAL_V6 = cidrList(['2000::/3']);

const NAT64 = cidrList(['64:ff9b::/96']);

function cidrList(texts: string[]): Cidr[] {
  return texts.map((text) => {
    const cidr = parseCidr(text);
    if (!cidr) throw new Error(`not a CIDR: ${text}`);
    return cidr;
  });
}

function parseCidr(text: string): Cidr | undefined {
  const [address = '', prefix, ...rest] = text.split('/');
  const base = parseIp(address);
  if (!base || rest.length > 0) return undefined;
  const width = base.kind() === 'ipv4' ? 32 : 128;
  if (prefix === undefined) return { text, base, bits: width };
  if (!/^\d{1,3}$/.test(prefix) || Number(prefix) > width) return undefined;
  return { text, base, bits: Number(prefix) };
}

/**
 * Parses comma-separated CIDRs or addresses, such as `10.0.0.0/8, ::1`; empty text is an empty list. `invalid` is the first part that is
 * not one.
 */
export function parseCidrs(text: string): { ok: true; cidrs: Cidr[] } | { ok: false; invalid: string } {
  const cidrs: Cidr[] = [];
  for (const piece of text.split(',')) {
    const trimmed = piece.trim();
    if (trimmed === '') continue;
    const cidr = parseCidr(trimmed);
    if (!cidr) return { ok: false, invalid: trimmed };
    cidrs.push(cidr);
  }
  return { ok: true, cidrs };
}

/** Parses strictly: four decimal octets without leading zeros, or IPv6 without brackets; a zone is refused. */
function parseIp(text: string): Ip | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  if (!text.includes(':') || /[^\da-fA-F:.]/.test(text)) return undefined;
  // ipaddr.js reads ::1.2.3.4 as ::ffff:1.2.3.4, unlike the kernel, so dotted forms are converted with the URL parser.
  const hexadecimal = text.includes('.') ? URL.parse(`http://[${text}]/`)?.hostname.slice(1, -1) : text;
  return hexadecimal !== undefined && ipaddr.IPv6.isValid(hexadecimal) ? ipaddr.IPv6.parse(hexadecimal) : undefined;
}

function within(ip: Ip, ranges: readonly Cidr[]): boolean {
  return ranges.some((range) => range.base.kind() === ip.kind() && ip.match(range.base as never, range.bits));
}

function v4(high: number, low: number): ipaddr.IPv4 {
  return new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff]);
}

/** The well-known prefix of RFC 6052; that of RFC 8215 (64:ff9b:1::/48) is refused because the IPv4 address has no fixed place in it. */
function isNat64(ip: ipaddr.IPv6): boolean {
  return within(ip, NAT64);
}

/** Returns the IPv4 address embedded in an IPv6 one, if its form defines one. */
function embedded(ip: ipaddr.IPv6): ipaddr.IPv4 | undefined {
  const p = ip.parts as [number, number, number, number, number, number, number, number];
  const zeros = p[0] === 0 && p[1] === 0 && p[2] === 0 && p[3] === 0;
  // ::ffff:a.b.c.d mapped, ::ffff:0:a.b.c.d translated (RFC 2765), ::a.b.c.d compatible (RFC 4291 §2.5.5).
  if (zeros && p[4] === 0 && p[5] === 0xffff) return v4(p[6], p[7]);
  if (zeros && p[4] === 0xffff && p[5] === 0) return v4(p[6], p[7]);
  if (zeros && p[4] === 0 && p[5] === 0 && (p[6] !== 0 || p[7] > 1)) return v4(p[6], p[7]);
  if (isNat64(ip)) return v4(p[6], p[7]);
  if (p[0] === 0x2002) return v4(p[1], p[2]);
  // Teredo stores the client's address inverted in the last 32 bits (RFC 4380 §4).
  if (p[0] === 0x2001 && p[1] === 0) return v4(p[6] ^ 0xffff, p[7] ^ 0xffff);
  return undefined;
}

function specialV6(ip: Ip): string | undefined {
  const range = ip.range();
  if (range !== 'unicast') return range;
  return within(ip, GLOBAL_V6) ? undefined : 'not global unicast';
}

function refusalOf(ip: Ip): string | undefined {
  if (ip.kind() === 'ipv4') {
    const range = ip.range();
    if (range !== 'unicast') return range;
    return within(ip, MORE_V4_REFUSED) ? 'cloud metadata' : undefined;
  }
  const inner = embedded(ip as ipaddr.IPv6);
  if (inner) {
    const v6 = ip as ipaddr.IPv6;
    // A mapped address is the IPv4 address itself, and NAT64 is how a host without IPv4 reaches it. The other forms are tunnels and
    // obsolete forms that no real server uses.
    const direct = v6.isIPv4MappedAddress() || isNat64(v6);
    return refusalOf(inner) ?? (direct ? undefined : specialV6(ip));
  }
  return specialV6(ip);
}

/**
 * Returns why a connection to this address is refused, in a few words such as `loopback`, or undefined if it is allowed. `address` is an IP
 * literal without brackets; anything else is refused as `not an IP address`.
 */
export function addressRefusal(address: string, allow: readonly Cidr[]): string | undefined {
  const ip = parseIp(address);
  if (!ip) return 'not an IP address';
  const reason = refusalOf(ip);
  if (reason === undefined || within(ip, allow)) return undefined;
  const inner =
    ip.kind() === 'ipv6' && (ip as ipaddr.IPv6).isIPv4MappedAddress() ? embedded(ip as ipaddr.IPv6) : undefined;
  return inner && within(inner, allow) ? undefined : reason;
}

/** Returns whether an IP literal is in one of the ranges; false if it is not an address. */
export function isInRanges(address: string, ranges: readonly Cidr[]): boolean {
  const ip = parseIp(address);
  return ip !== undefined && within(ip, ranges);
}

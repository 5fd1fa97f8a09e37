/**
 * The client's address behind reverse proxies that the operator trusts (POSTRIDER_TRUSTED_PROXIES). From a trusted proxy
 * `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` apply; from any other peer they are ignored, because a client can send
 * them too.
 * Pure functions.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP, isIPv6 } from 'node:net';
import { type Cidr, isInRanges } from './address-guard.ts';

/** An end of a connection as the headers and the socket report it. */
export interface Client {
  /** An IPv4 or IPv6 address without port, brackets or zone; IPv4-mapped IPv6 addresses are written as IPv4. */
  address: string;
  /** The scheme that the client used with the outermost trusted proxy; undefined if no trusted proxy reported one. */
  scheme: 'http' | 'https' | undefined;
  /** The host that the client requested from the outermost trusted proxy (X-Forwarded-Host); undefined if none reported one. */
  host: string | undefined;
}

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** An address without its zone, and IPv4-mapped IPv6 as IPv4, as the socket of a dual-stack listener reports IPv4 peers. */
export function plainAddress(address: string | undefined): string {
  const withoutZone = (address ?? '').replace(/%.*$/, '');
  return MAPPED.exec(withoutZone)?.[1] ?? withoutZone;
}

/** Returns whether the peer at this address is a trusted proxy. `address` may be IPv4-mapped or have a zone. */
export function isTrustedProxy(address: string | undefined, trusted: readonly Cidr[]): boolean {
  return trusted.length > 0 && isInRanges(plainAddress(address), trusted);
}

/**
 * Returns one element of X-Forwarded-For as a plain address: `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]`,
 * `[2001:db8::1]:4711`, each also in double quotes. Undefined for anything else, such as `unknown` or a name.
 */
export function forwardedAddress(element: string): string | undefined {
  const text = element.trim().replace(/^"(.*)"$/, '$1');
  const [, bracketed, withPort] = /^\[([^\]]+)\](?::\d{1,5})?$|^([\d.]+)(?::\d{1,5})$/.exec(text) ?? [];
  const address = plainAddress(bracketed ?? withPort ?? text);
  if (bracketed !== undefined && !bracketed.includes(':')) return undefined;
  if (isIP(address) === 0) return undefined;
  if (!isIPv6(address)) return address;
  // The URL parser writes the canonical form (RFC 5952), so an address counts once, however it is written.
  return plainAddress(dottedIfMapped(new URL(`http://[${address}]/`).hostname.slice(1, -1)));
}

/** Converts ::ffff:c000:201, as the URL parser writes it, to an IPv4 address in dots. */
function dottedIfMapped(address: string): string {
  const [, high, low] = /^::ffff:([\da-f]{1,4}):([\da-f]{1,4})$/.exec(address) ?? [];
  if (high === undefined || low === undefined) return address;
  const [a, b] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return `::ffff:${a >> 8}.${a & 255}.${b >> 8}.${b & 255}`;
}

function elementsOf(header: string | string[] | undefined): string[] {
  const text = Array.isArray(header) ? header.join(',') : (header ?? '');
  return text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
}

/**
 * Returns the client of a request from `peer`: the rightmost address of X-Forwarded-For that is not a trusted proxy. If all are trusted,
 * the leftmost one. An element that is not an address ends the walk at the proxy that reported it. The scheme is taken from the element of
 * X-Forwarded-Proto that the same proxy wrote, or from the leftmost if there are fewer, and the host from X-Forwarded-Host accordingly.
 */
export function clientOf(peer: string, headers: IncomingHttpHeaders, trusted: readonly Cidr[]): Client {
  let address = plainAddress(peer);
  if (!isTrustedProxy(address, trusted)) return { address, scheme: undefined, host: undefined };
  let hops = 0;
  for (const element of elementsOf(headers['x-forwarded-for']).reverse()) {
    const next = forwardedAddress(element);
    if (next === undefined) break;
    address = next;
    hops += 1;
    if (!isTrustedProxy(address, trusted)) break;
  }
  const reported = (name: 'x-forwarded-proto' | 'x-forwarded-host'): string | undefined => {
    const values = elementsOf(headers[name]).reverse();
    return values[Math.min(Math.max(hops, 1), values.length) - 1];
  };
  const scheme = reported('x-forwarded-proto')?.toLowerCase();
  return {
    address,
    scheme: scheme === 'http' || scheme === 'https' ? scheme : undefined,
    host: reported('x-forwarded-host'),
  };
}

/**
 * Checks the source addresses as receivers see them: forward-confirmed reverse DNS, and a HELO name that can be looked up. Large providers
 * reject mail from addresses without them.
 *
 * Behind NAT the public address is unknown, so the addresses of the HELO name are checked instead.
 */
import { createSocket } from 'node:dgram';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { addressRefusal } from '../net/address-guard.ts';
import type { Dns } from '../net/dns.ts';
import { type Check, fail, ok, warn } from './check.ts';

export interface Sources {
  /** Public addresses that receivers see; empty if unknown. */
  seen: string[];
  /** Private addresses of this machine, which NAT translates. */
  translated: string[];
}

/** Public addresses for querying the routing table. Connecting a UDP socket sends no packets. */
const ELSEWHERE = { udp4: '8.8.8.8', udp6: '2001:4860:4860::8888' } as const;

function outgoingAddress(family: 'udp4' | 'udp6'): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(family);
    const end = (address: string | undefined): void => {
      socket.close();
      resolve(address);
    };
    socket.once('error', () => end(undefined));
    socket.connect(53, ELSEWHERE[family], () => end(socket.address().address));
  });
}

/** Returns the source addresses of outgoing connections according to the routing table: one per address family with a route. */
export async function outgoingAddresses(): Promise<string[]> {
  const found = await Promise.all([outgoingAddress('udp4'), outgoingAddress('udp6')]);
  return found.filter((address) => address !== undefined);
}

const isPublic = (address: string): boolean => addressRefusal(address, []) === undefined;

/** Returns these local addresses as receivers see them. */
export async function sourcesOf(local: readonly string[], heloName: string, dns: Dns): Promise<Sources> {
  const translated = local.filter((address) => !isPublic(address));
  const seen = local.filter(isPublic);
  const families = new Set(translated.map(isIP));
  if (families.size === 0) return { seen, translated };
  const named = await dns.resolveAddresses(heloName);
  const translatedTo =
    named.status === 'found' ? named.value.filter((one) => isPublic(one) && families.has(isIP(one))) : [];
  return { seen: [...seen, ...translatedTo.filter((one) => !seen.includes(one))], translated };
}

const plain = (address: string): string => (isIP(address) === 0 ? address : ipaddr.parse(address).toString());

function includes(addresses: readonly string[], wanted: string): boolean {
  return addresses.some((address) => plain(address) === plain(wanted));
}

/** Returns whether the name can be looked up publicly: it has a dot, is not an address, and is not in a private zone. */
function isPublicName(host: string): boolean {
  return host.includes('.') && isIP(host) === 0 && !/(^|\.)(localhost|local|internal|lan|localdomain)$/i.test(host);
}

/** Checks the name that Postrider sends in EHLO (RFC 5321 §4.1.4, RFC 1912 §2.1). */
export async function checkHelo(heloName: string, { seen, translated }: Sources, dns: Dns): Promise<Check[]> {
  const name = 'HELO name';
  const set = 'Set POSTRIDER_SMTP_HOSTNAME to the public name of this host, such as mail.example.com.';
  if (!isPublicName(heloName)) {
    return [fail(name, `the HELO name ${heloName} is not a public host name`, set)];
  }
  const answer = await dns.resolveAddresses(heloName);
  if (answer.status === 'temporary') {
    return [warn(name, `the DNS lookup of ${heloName} failed (${answer.cause})`, 'Try again in a few minutes.')];
  }
  const publish = `Publish A and AAAA records for ${heloName} with the sending addresses.`;
  if (answer.status !== 'found') return [fail(name, `${heloName} has no A or AAAA record`, publish)];
  const missing = seen.filter((address) => !includes(answer.value, address));
  if (missing.length > 0) {
    const resolved = `${heloName} resolves to ${answer.value.join(', ')}`;
    return [warn(name, `${resolved}, but mail is also sent from ${missing.join(', ')}`, publish)];
  }
  const nat = translated.length > 0 ? ` (this machine has ${translated.join(', ')}, behind NAT)` : '';
  return [ok(name, `${heloName} resolves to ${answer.value.join(', ')}${nat}`)];
}

/** Checks forward-confirmed reverse DNS of one address (RFC 1912 §2.1, RFC 8601 §2.7.3). */
async function checkOneReverse(address: string, heloName: string, dns: Dns): Promise<Check> {
  const name = 'reverse DNS';
  const set = `Set the reverse DNS (PTR record) of ${address} to ${heloName} in the console of your hosting provider.`;
  const answer = await dns.resolvePtr(address);
  if (answer.status === 'temporary') {
    return warn(name, `the DNS lookup of ${address} failed (${answer.cause})`, 'Try again in a few minutes.');
  }
  if (answer.status !== 'found')
    return fail(name, `${address} has no PTR record; large providers reject mail without one`, set);
  const names = answer.value;
  const forward = await Promise.all(names.map((one) => dns.resolveAddresses(one)));
  const confirmed = names.filter((_, index) => {
    const one = forward[index]!;
    return one.status === 'found' && includes(one.value, address);
  });
  const [first] = confirmed;
  if (first === undefined) {
    if (forward.some(({ status }) => status === 'temporary')) {
      return warn(name, `the DNS lookup of ${names.join(', ')} failed`, 'Try again in a few minutes.');
    }
    const message = `${address} resolves to ${names.join(', ')}, which does not resolve back to ${address}`;
    return fail(name, message, `${set} Or publish an address record for ${names[0]} with ${address}.`);
  }
  if (confirmed.some((one) => one.toLowerCase() === heloName.toLowerCase())) {
    return ok(name, `${address} and ${heloName} resolve to each other`);
  }
  return warn(
    name,
    `${address} resolves to ${first}, which differs from the HELO name ${heloName}; some receivers reject such mail`,
    set,
  );
}

export function checkReverse(heloName: string, { seen, translated }: Sources, dns: Dns): Promise<Check[]> {
  if (seen.length > 0) return Promise.all(seen.map((address) => checkOneReverse(address, heloName, dns)));
  const what =
    translated.length > 0 ? `${translated.join(', ')} is behind NAT` : 'this machine has no route to the internet';
  return Promise.resolve([
    warn(
      'reverse DNS',
      `skipped: ${what}, and ${heloName} has no public address`,
      'Publish an address record for the HELO name (POSTRIDER_SMTP_HOSTNAME) with the public address.',
    ),
  ]);
}

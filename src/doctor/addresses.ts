/**
 * The addresses that mail leaves from, as receivers see and check them: reverse DNS that leads forward to the address again
 * (forward-confirmed), and a name for HELO that can be looked up. Large providers refuse mail from addresses without.
 *
 * Behind NAT the public address is not known here: those of the HELO name are looked at in its place.
 */
import { createSocket } from 'node:dgram';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { addressRefusal } from '../net/address-guard.ts';
import type { Dns } from '../net/dns.ts';
import { type Check, fail, ok, warn } from './check.ts';

export interface Sources {
  /** Public addresses that receivers see; empty where none is known. */
  seen: string[];
  /** Private addresses of this machine, behind which a public one must be. */
  translated: string[];
}

/** Public addresses to ask the routing table for. Connecting a UDP socket sends nothing. */
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

/** The addresses of this machine that connections leave from, by its routing table: one of each family that has a way out. */
export async function outgoingAddresses(): Promise<string[]> {
  const found = await Promise.all([outgoingAddress('udp4'), outgoingAddress('udp6')]);
  return found.filter((address) => address !== undefined);
}

const isPublic = (address: string): boolean => addressRefusal(address, []) === undefined;

/** What receivers see of these addresses of this machine. */
export async function sourcesOf(local: readonly string[], heloName: string, dns: Dns): Promise<Sources> {
  const translated = local.filter((address) => !isPublic(address));
  const seen = local.filter(isPublic);
  const families = new Set(translated.map(isIP));
  if (families.size === 0) return { seen, translated };
  const named = await dns.resolveAddresses(heloName);
  const behind = named.status === 'found' ? named.value.filter((one) => isPublic(one) && families.has(isIP(one))) : [];
  return { seen: [...seen, ...behind.filter((one) => !seen.includes(one))], translated };
}

/** Addresses in one spelling. */
const plain = (address: string): string => (isIP(address) === 0 ? address : ipaddr.parse(address).toString());

function includes(addresses: readonly string[], wanted: string): boolean {
  return addresses.some((address) => plain(address) === plain(wanted));
}

/** Whether others can look the name up: it has a dot, is no address, and is of no private zone. */
function isPublicName(host: string): boolean {
  return host.includes('.') && isIP(host) === 0 && !/(^|\.)(localhost|local|internal|lan|localdomain)$/i.test(host);
}

/** The name that mail is announced with (RFC 5321 §4.1.4, RFC 1912 §2.1). */
export async function checkHelo(heloName: string, { seen, translated }: Sources, dns: Dns): Promise<Check[]> {
  const name = 'HELO name';
  const set = 'Set POSTRIDER_SMTP_HOSTNAME to the public name of this host, such as mail.example.com.';
  if (!isPublicName(heloName)) {
    return [fail(name, `the HELO name ${heloName} is not a public host name`, set)];
  }
  const answer = await dns.resolveAddresses(heloName);
  if (answer.status === 'temporary') {
    return [warn(name, `the DNS did not answer for ${heloName} (${answer.cause})`, 'Try again in a few minutes.')];
  }
  const publish = `Publish A and AAAA records for ${heloName} with the sending addresses.`;
  if (answer.status !== 'found') return [fail(name, `${heloName} has no A or AAAA record`, publish)];
  const missing = seen.filter((address) => !includes(answer.value, address));
  if (missing.length > 0) {
    const leads = `${heloName} resolves to ${answer.value.join(', ')}`;
    return [warn(name, `${leads}, but mail is also sent from ${missing.join(', ')}`, publish)];
  }
  const nat = translated.length > 0 ? ` (this machine has ${translated.join(', ')}, behind NAT)` : '';
  return [ok(name, `${heloName} resolves to ${answer.value.join(', ')}${nat}`)];
}

/** Forward-confirmed reverse DNS of one address (RFC 1912 §2.1, RFC 8601 §2.7.3). */
async function checkOneReverse(address: string, heloName: string, dns: Dns): Promise<Check> {
  const name = 'reverse DNS';
  const set = `Set the reverse DNS (PTR record) of ${address} to ${heloName} in the console of your hosting provider.`;
  const answer = await dns.resolvePtr(address);
  if (answer.status === 'temporary') {
    return warn(name, `the DNS did not answer for ${address} (${answer.cause})`, 'Try again in a few minutes.');
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
      return warn(name, `the DNS did not answer for ${names.join(', ')}`, 'Try again in a few minutes.');
    }
    const message = `${address} resolves to ${names.join(', ')}, which does not resolve back to ${address}`;
    return fail(name, message, `${set} Or publish an address record for ${names[0]} with ${address}.`);
  }
  if (confirmed.some((one) => one.toLowerCase() === heloName.toLowerCase())) {
    return ok(name, `${address} and ${heloName} resolve to each other`);
  }
  return warn(
    name,
    `${address} resolves to ${first}, which differs from the HELO name ${heloName}; some receivers object`,
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

/**
 * Checks DNS blocklists (RFC 5782) for the source addresses. A list is trusted only if it returns its own test entry. A result of
 * 127.255.255.x or outside 127.0.0.0/8 means that the list refuses the query, usually because it came through an open resolver (Spamhaus:
 * 127.255.255.254; .255 for too many queries; .252 for a misspelled name).
 */
import type { Dns } from '../net/dns.ts';
import { reverseName } from '../net/dns-name.ts';
import { type Check, fail, ok, warn } from './check.ts';

/** RFC 5782 §5: every list of IPv4 addresses has it. */
const TEST_ENTRY = '127.0.0.2';

/** Converts `192.0.2.1` to `1.2.0.192`; in IPv6 addresses, each half byte is a label (RFC 5782 §2.1, §2.4). */
const reversed = (address: string): string => reverseName(address)!.replace(/\.(in-addr|ip6)\.arpa$/, '');

type Found = 'listed' | 'clear' | 'refused' | 'unanswered';

async function lookUp(list: string, address: string, dns: Dns): Promise<Found> {
  const answer = await dns.resolveAddresses(`${reversed(address)}.${list}`);
  if (answer.status === 'temporary') return 'unanswered';
  if (answer.status !== 'found') return 'clear';
  const codes = answer.value.filter((code) => code.startsWith('127.') && !code.startsWith('127.255.255.'));
  return codes.length > 0 ? 'listed' : 'refused';
}

const RESOLVER = 'Use your own resolver: run unbound on this machine and set POSTRIDER_DNS_SERVERS=127.0.0.1.';

async function checkList(list: string, addresses: readonly string[], dns: Dns): Promise<Check[]> {
  const name = 'blocklist';
  const test = await lookUp(list, TEST_ENTRY, dns);
  if (test !== 'listed') {
    const why = {
      refused: `${list} does not answer queries through an open resolver`,
      clear: `${list} does not return its own test entry to this resolver`,
      unanswered: `${list} did not respond`,
    }[test];
    return [warn(name, `${why}, so Postrider cannot tell whether it lists ${addresses.join(', ')}`, RESOLVER)];
  }
  const found = await Promise.all(
    addresses.map(async (address) => ({ address, status: await lookUp(list, address, dns) })),
  );
  const listed = found.filter(({ status }) => status === 'listed');
  if (listed.length > 0) return Promise.all(listed.map(({ address }) => listedCheck(list, address, dns)));
  const unknown = found.filter(({ status }) => status !== 'clear').map(({ address }) => address);
  if (unknown.length > 0) return [warn(name, `${list} did not respond for ${unknown.join(', ')}`, RESOLVER)];
  return [ok(name, `${list} does not list ${addresses.join(', ')}`)];
}

/** The TXT record of an entry usually contains a URL with the reason and a form for removal. */
async function listedCheck(list: string, address: string, dns: Dns): Promise<Check> {
  const reason = await dns.resolveTxt(`${reversed(address)}.${list}`);
  const text = reason.status === 'found' ? reason.value.join(' ').slice(0, 300) : '';
  return fail(
    'blocklist',
    `${address} is on ${list}${text === '' ? '' : `: ${text}`}`,
    `Find and stop the mail that caused the listing, then request removal from ${list}.`,
  );
}

export async function checkBlocklists(
  lists: readonly string[],
  addresses: readonly string[],
  dns: Dns,
): Promise<Check[]> {
  if (addresses.length === 0) return [];
  return (await Promise.all(lists.map((list) => checkList(list, addresses, dns)))).flat();
}

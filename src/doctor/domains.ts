/** Checks the sender domains: their keys and published DNS records. */
import { createPublicKey } from 'node:crypto';
import { isIP } from 'node:net';
import { lookUpRecords, lookUpSpf, type SenderDomain } from '../domains/domains.ts';
import type { Dns } from '../net/dns.ts';
import { type Check, fail, ok, warn } from './check.ts';

/** RFC 8301 §3.2: signers must use at least 1,024 bits and should use 2,048; large providers reject shorter keys. */
const GOOD_BITS = 2_048;
const LEAST_BITS = 1_024;

/** Returns the size of the RSA key in a DKIM record; undefined if it cannot be parsed. */
function bitsOf(record: string): number | undefined {
  const [, base64] = /(?:^|;)\s*p=([A-Za-z0-9+/=\s]+)/.exec(record) ?? [];
  if (base64 === undefined) return undefined;
  try {
    const key = createPublicKey({ key: Buffer.from(base64, 'base64'), format: 'der', type: 'spki' });
    return key.asymmetricKeyDetails?.modulusLength;
  } catch {
    return undefined;
  }
}

export function checkDkimKeys(domains: readonly SenderDomain[]): Check[] {
  const name = 'DKIM keys';
  if (domains.length === 0) return [];
  const short = domains.flatMap(({ id, domain, keys }) =>
    keys
      .filter(({ algorithm }) => algorithm === 'rsa')
      .map(({ publicKey }) => ({ id, domain, bits: bitsOf(publicKey) ?? 0 }))
      .filter(({ bits }) => bits < GOOD_BITS),
  );
  if (short.length === 0) return [ok(name, `every domain has RSA keys with ${GOOD_BITS} bits or more`)];
  return short.map(({ id, domain, bits }) => {
    const message = `${domain} signs with a ${bits}-bit RSA key`;
    const remedy = `Remove ${domain} (${id}) and add it again; new keys have ${GOOD_BITS} bits.`;
    return bits < LEAST_BITS ? fail(name, message, remedy) : warn(name, message, remedy);
  });
}

interface Source {
  dns: Dns;
  sendingHost: string;
  addresses: readonly string[];
}

interface Sending extends Source {
  /** Domain that receives bounces. */
  bounceDomain?: string | undefined;
}

/** Returns the addresses that the SPF record of this domain does not allow. */
async function uncovered(domain: string, { dns, sendingHost, addresses }: Source): Promise<string[]> {
  const findings = await Promise.all(
    addresses.map((address) => lookUpSpf(domain, { dns, sendingHost, addresses: [address] })),
  );
  return addresses.filter((_, index) => findings[index]!.status === 'different');
}

/** Warns about source addresses that the SPF record of this domain does not include; undefined if it includes all. */
export async function warnOfUncovered(name: string, domain: string, from: Source): Promise<Check | undefined> {
  const others = await uncovered(domain, from);
  if (others.length === 0) return undefined;
  const terms = others.map((address) => `ip${isIP(address)}:${address}`).join(' ');
  const message = `the SPF record of ${domain} does not include ${others.join(', ')}`;
  return warn(name, message, `Add ${terms} to the existing SPF record.`);
}

async function checkDomain(domain: SenderDomain, from: Sending): Promise<Check[]> {
  const name = `domain ${domain.domain}`;
  const records = await lookUpRecords(domain, from);
  const missing = records.filter((record) => record.status !== 'verified');
  if (missing.length > 0) {
    const notes = missing.map(
      ({ purpose, status, name: at, note }) => note ?? `The ${purpose} record at ${at} is ${status}.`,
    );
    const remedy = `Run postrider domain verify ${domain.id} to see the values to publish.`;
    return [warn(name, `the domain is ${domain.status}. ${notes.join(' ')}`, remedy)];
  }
  const found = ok(name, `the domain is ${domain.status}, and all records are published`);
  const spf = await warnOfUncovered('SPF', domain.domain, from);
  return spf ? [found, spf] : [found];
}

/** Checks the published DKIM, SPF, and DMARC records of each domain, and whether SPF allows every source address. */
export async function checkDomains(domains: readonly SenderDomain[], from: Sending): Promise<Check[]> {
  return (await Promise.all(domains.map((domain) => checkDomain(domain, from)))).flat();
}

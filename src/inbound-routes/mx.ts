/** The MX record of an inbound route, and its published state. */
import type { Dns } from '../net/dns.ts';
import type { MxStatus } from './store.ts';

export interface MxSettings {
  /** Host name of this installation, which MX records must point to. */
  host: string;
  alsoHosts: readonly string[];
}

export const MX_PREFERENCE = 10;

/** `10 mx.example.com`, as zone files write it. */
const written = ({ preference, host }: { preference: number; host: string }): string => `${preference} ${host}`;

/** Looks up the MX record; `unknown` if the lookup failed. */
export async function lookUpMx(
  dns: Pick<Dns, 'resolveMx'>,
  domain: string,
  { host, alsoHosts }: MxSettings,
): Promise<{ status: MxStatus; found: string[] | null }> {
  const answer = await dns.resolveMx(domain);
  if (answer.status === 'temporary') return { status: 'unknown', found: null };
  if (answer.status !== 'found') return { status: 'missing', found: [] };
  const ours = new Set([host, ...alsoHosts].map((name) => name.toLowerCase()));
  const { hosts } = answer.value;
  const found = hosts.map(written);
  if (hosts.length === 0) return { status: 'different', found: ['0 .'] };
  const best = Math.min(...hosts.map(({ preference }) => preference));
  const isOurs = hosts.some((one) => one.preference === best && ours.has(one.host));
  return { status: isOurs ? 'verified' : 'different', found };
}

/** Returns one sentence about what to do; null if the record is correct. */
export function mxNote(
  domain: string,
  { status, found }: { status: MxStatus; found: string[] | null },
  host: string,
): string | null {
  if (status === 'verified' || status === 'pending') return null;
  if (status === 'unknown') return `The DNS lookup of ${domain} failed. Verify the route again in a few minutes.`;
  if (status === 'missing') return `${domain} has no MX record. Publish the record in dnsRecord.`;
  const others = (found ?? []).slice(0, 3).join(', ');
  return `The MX records of ${domain} point elsewhere (${others}). Give ${host} the lowest preference number, or use a separate subdomain.`;
}

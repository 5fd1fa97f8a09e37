/** The MX record that brings a route's mail here, and what the DNS says of it. */
import type { Dns } from '../net/dns.ts';
import type { MxStatus } from './store.ts';

export interface MxSettings {
  /** Name of this installation's host, which users point their MX at. */
  host: string;
  /** Other names of it that count as well. */
  alsoHosts: readonly string[];
}

export const MX_PREFERENCE = 10;

/** `10 mx.example.com`, as zone files write it. */
const written = ({ preference, host }: { preference: number; host: string }): string => `${preference} ${host}`;

/** Asks the DNS. A domain of which nothing is known now (the DNS does not answer) is `unknown`. */
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

/** One sentence on what to do; null where the record is as it should be. */
export function mxNote(
  domain: string,
  { status, found }: { status: MxStatus; found: string[] | null },
  host: string,
): string | null {
  if (status === 'verified' || status === 'pending') return null;
  if (status === 'unknown') return `The DNS did not answer for ${domain}; verify the route again in a few minutes.`;
  if (status === 'missing') return `${domain} has no MX record. Publish the record shown here.`;
  const others = (found ?? []).slice(0, 3).join(', ');
  return `The MX records of ${domain} point elsewhere (${others}). Give ${host} the lowest preference number, or use a separate subdomain.`;
}

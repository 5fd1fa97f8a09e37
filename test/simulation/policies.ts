/** What the recipients' domains of a scenario require of TLS: nothing in most; DANE or an MTA-STS policy in some. */
import type { Choices } from './choices.ts';
import { type Dane, drawDane, VALIDATING_RESOLVER } from './dane.ts';
import { drawPublishing, type Publishing } from './policy-hosts.ts';
import type { Random } from './random.ts';

export const PEERS = 3;
export const domainOf = (at: number): string => `d${at}.example`;
export const DOMAINS = Array.from({ length: PEERS }, (_, at) => domainOf(at));
/** A domain that does not exist, and one with a null MX (RFC 7505). */
export const NOWHERE = { gone: 'gone.example', nullMx: 'null.example' };
export const isNowhere = (address: string): boolean =>
  Object.values(NOWHERE).some((domain) => address.endsWith(`@${domain}`));
/** The possible mail servers of a domain. */
const HOSTS = ['mx0', 'mx1'];

/** A public resolver, whose DNSSEC validation is not trusted. */
const PUBLIC_RESOLVER = '9.9.9.9';

export interface Policies {
  /** Domains whose MTA-STS policy requires TLS with a valid certificate. */
  enforced: ReadonlySet<string>;
  /** Those with a policy host; the node already knows the policies of all others. */
  publishing: ReadonlyMap<string, Publishing>;
  /** Domains with signed zones. */
  signed: ReadonlySet<string>;
  /** By the name of the mail server. */
  dane: ReadonlyMap<string, Dane>;
  /** The resolver that the node uses. */
  resolver: string;
  /** Whether the certificate of this mail server is valid. */
  isCertified(host: string): boolean;
}

export const NO_POLICIES: Policies = {
  enforced: new Set(),
  publishing: new Map(),
  signed: new Set(),
  dane: new Map(),
  resolver: PUBLIC_RESOLVER,
  isCertified: () => true,
};

/** Each of several nodes fetches a policy separately; they only have those that are known from the start. */
export function drawPolicies(random: Random, { choices, isShared }: { choices: Choices; isShared: boolean }): Policies {
  const draw = random.stream('policies');
  const enforced = new Set(draw.chance(0.12) && choices.has('policies') ? DOMAINS.filter(() => draw.chance(0.6)) : []);
  const invalid = new Set<string>();
  for (const domain of enforced) for (const host of HOSTS) if (draw.chance(0.5)) invalid.add(`${host}.${domain}`);
  const hosting = random.stream('policy hosts');
  const publishers = [...enforced].filter(() => !isShared && hosting.chance(0.7));
  const publishing = new Map(publishers.map((domain) => [domain, drawPublishing(hosting)]));
  const signing = random.stream('dane');
  const isSigned = signing.chance(0.08) && choices.has('dane');
  // If a domain has both, DANE takes precedence (RFC 8461 §2).
  const signed = new Set(isSigned ? DOMAINS.filter((one) => signing.chance(0.7) && !enforced.has(one)) : []);
  const hosts = [...signed].flatMap((domain) => HOSTS.map((host) => `${host}.${domain}`));
  return {
    enforced,
    publishing,
    signed,
    dane: new Map(hosts.map((host) => [host, drawDane(signing)])),
    resolver: isSigned ? VALIDATING_RESOLVER : PUBLIC_RESOLVER,
    isCertified: (host) => !invalid.has(host),
  };
}

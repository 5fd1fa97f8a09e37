/**
 * The DNS as the verifiers of mail see it: a function that resolves one query. Verification has no other access to the network, so the
 * caller decides about caches, timeouts, and the number of queries.
 */
import { domainToAscii } from '../mail/address.ts';
import { isDnsName } from '../net/dns-name.ts';

export type QueryType = 'A' | 'AAAA' | 'CNAME' | 'MX' | 'PTR' | 'TXT';

export type QueryAnswer =
  /** At least one record: TXT with its strings joined, MX as host names by preference, names without a final dot. */
  | { status: 'found'; value: string[] }
  /** NXDOMAIN, or a name that cannot be queried. */
  | { status: 'no-such-domain' }
  /** The name exists, but has no records of this type. */
  | { status: 'no-data' }
  /** `cause`: a code such as ETIMEOUT. */
  | { status: 'temporary'; cause: string };

/** Resolves one query; never rejects. The name of a PTR query is the address. */
export type Resolve = (name: string, type: QueryType) => Promise<QueryAnswer>;

/**
 * The parts of verification. Each has its own number of queries and starts at the same time as the others, so that a sender cannot use up
 * the queries of one part in another.
 */
export type Purpose = 'spf' | 'keys' | 'dmarc';

/** Returns a function that sends each query once. */
export function withMemory(resolve: Resolve): Resolve {
  const answers = new Map<string, Promise<QueryAnswer>>();
  return (name, type) => {
    const key = `${type} ${name}`;
    const known = answers.get(key) ?? resolve(name, type);
    answers.set(key, known);
    return known;
  };
}

/** Describes a query that failed, such as `TXT of example.com: ETIMEOUT`. */
export function failedQuery(name: string, type: QueryType, cause: string): string {
  return `${type} of ${name}: ${cause}`;
}

/** Returns a name with its U-labels as A-labels (RFC 8616 §3), or unchanged if it has none or cannot be converted. */
export function toALabels(name: string): string {
  return /[^\0-\x7f]/.test(name) ? (domainToAscii(name) ?? name) : name;
}

/** Returns a domain in the form that is compared: A-labels, lower case, and no final dot. */
export function comparableDomain(domain: string): string {
  const name = toALabels(domain.trim()).toLowerCase();
  return name.endsWith('.') ? name.slice(0, -1) : name;
}

/** Returns whether a comparable domain has at least two labels, each of letters, digits, hyphens, and underscores. */
export function isDomain(domain: string): boolean {
  return domain.includes('.') && isDnsName(domain);
}

/** Returns whether a domain is another one or one of its subdomains; both as by `comparableDomain`. */
export function isSameOrBelow(domain: string, parent: string): boolean {
  return parent !== '' && (domain === parent || domain.endsWith(`.${parent}`));
}

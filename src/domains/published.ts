/**
 * Looks up records at the zone's authoritative servers, which have changes first, and through a resolver. Every authoritative server that
 * responds must have the record. If none can be queried, the resolver's answer is used. Unresponsive servers are listed, because a key that
 * must be on every server waits for them too.
 */
import type { Dns, DnsAnswer } from '../net/dns.ts';
import type { Finding } from './key-record.ts';

/** An authoritative server of a zone, queried without a resolver. */
export interface ZoneServer {
  host: string;
  /** Undefined if it must not be queried. */
  dns: Dns | undefined;
}

/** Finds the authoritative servers for a name; none if they are unknown. */
export type FindServers = (name: string) => Promise<readonly ZoneServer[]>;

export interface Publication<F extends Finding> {
  finding: F;
  /** Whether every responding server has the expected record. */
  isEverywhere: boolean;
  /** Servers that did not respond or were not queried. */
  unanswered: string[];
  /** Whether at least one server has the expected record. */
  isSomewhere: boolean;
}

interface Question<F extends Finding> {
  name: string;
  dns: Dns;
  serversOf: FindServers;
  /** Interprets a DNS response. */
  classify(answer: DnsAnswer<string[]>): Promise<F> | F;
}

/** Queries the TXT records of a name at all servers in parallel. */
export async function lookUpPublished<F extends Finding>(question: Question<F>): Promise<Publication<F>> {
  const { name, dns, serversOf, classify } = question;
  const [resolved, servers] = await Promise.all([dns.resolveTxt(name), serversOf(name)]);
  const seen = await classify(resolved);
  const requested = await Promise.all(
    servers.map(async ({ host, dns: own }) => {
      const finding = own && (await classify(await own.resolveTxt(name)));
      return { host, finding };
    }),
  );
  const own = requested.flatMap(({ host, finding }) => (finding && finding.found !== null ? [{ host, finding }] : []));
  const unanswered = requested.map(({ host }) => host).filter((host) => !own.some((one) => one.host === host));
  const isThere = ({ status }: Finding): boolean => status === 'verified';
  if (own.length === 0)
    return { finding: seen, isEverywhere: isThere(seen), isSomewhere: isThere(seen), unanswered: unanswered };
  const without = own.filter(({ finding }) => !isThere(finding));
  const [first] = without;
  if (first === undefined) {
    return { finding: laterSeen(own[0]!.finding, seen), isEverywhere: true, isSomewhere: true, unanswered: unanswered };
  }
  if (without.length < own.length) {
    const hosts = without.map(({ host }) => host).join(', ');
    const note = `Not every server of the zone has the record at ${name}: ${hosts} ${without.length === 1 ? 'does' : 'do'} not show it yet.`;
    const finding: F = { ...first.finding, status: 'different', note };
    return { finding, isEverywhere: false, isSomewhere: true, unanswered: unanswered };
  }
  return { finding: earlierSeen(first.finding, seen), isEverywhere: false, isSomewhere: false, unanswered: unanswered };
}

function laterSeen<F extends Finding>(own: F, seen: Finding): F {
  if (seen.status === 'verified' || seen.status === 'unknown') return own;
  const shown = seen.found === null || seen.found.length === 0 ? 'nothing' : `“${shortened(seen.found[0]!)}”`;
  return {
    ...own,
    note: `The authoritative servers have the record. Resolvers can return the cached result (${shown}) for up to an hour.`,
  };
}

function earlierSeen<F extends Finding>(own: F, seen: Finding): F {
  if (seen.status !== 'verified') return own;
  return { ...own, note: `${own.note ?? ''} Resolvers still return the previous record.`.trim() };
}

const SHOWN_CHARACTERS = 60;

function shortened(text: string): string {
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}…`;
}

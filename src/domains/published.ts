/**
 * What is published under a name: as the zone's own servers have it, which are the first to know, and as resolvers see it. The
 * own servers count where they answer: each must have the record. Where none can be asked the resolver's answer counts. Those that did not
 * answer are named: what waits for every server waits for them too.
 */
import type { Dns, DnsAnswer } from '../net/dns.ts';
import type { Finding } from './key-record.ts';

/** One of the servers that a zone is served by, which is asked without a resolver in between. */
export interface ZoneServer {
  host: string;
  /** Undefined where it is not asked. */
  dns: Dns | undefined;
}

/** The servers of the zone in which a name lies; none where they are not known. */
export type FindServers = (name: string) => Promise<readonly ZoneServer[]>;

export interface Publication<F extends Finding> {
  finding: F;
  /** Whether every server that answered shows what is wanted. */
  isEverywhere: boolean;
  /** Servers that did not answer, or were not asked. */
  unheard: string[];
  /** Whether at least one does. */
  isSomewhere: boolean;
}

interface Question<F extends Finding> {
  name: string;
  dns: Dns;
  serversOf: FindServers;
  /** What an answer means. */
  classify(answer: DnsAnswer<string[]>): Promise<F> | F;
}

/** Asks for the TXT records of a name, all servers at once. */
export async function lookUpPublished<F extends Finding>(question: Question<F>): Promise<Publication<F>> {
  const { name, dns, serversOf, classify } = question;
  const [resolved, servers] = await Promise.all([dns.resolveTxt(name), serversOf(name)]);
  const seen = await classify(resolved);
  const asked = await Promise.all(
    servers.map(async ({ host, dns: own }) => {
      const finding = own && (await classify(await own.resolveTxt(name)));
      return { host, finding };
    }),
  );
  const own = asked.flatMap(({ host, finding }) => (finding && finding.found !== null ? [{ host, finding }] : []));
  const unheard = asked.map(({ host }) => host).filter((host) => !own.some((one) => one.host === host));
  const isThere = ({ status }: Finding): boolean => status === 'verified';
  if (own.length === 0) return { finding: seen, isEverywhere: isThere(seen), isSomewhere: isThere(seen), unheard };
  const without = own.filter(({ finding }) => !isThere(finding));
  const [first] = without;
  if (first === undefined) {
    return { finding: laterSeen(own[0]!.finding, seen), isEverywhere: true, isSomewhere: true, unheard };
  }
  if (without.length < own.length) {
    const hosts = without.map(({ host }) => host).join(', ');
    const note = `Not every server of the zone has the record at ${name}: ${hosts} ${without.length === 1 ? 'does' : 'do'} not show it yet.`;
    const finding: F = { ...first.finding, status: 'different', note };
    return { finding, isEverywhere: false, isSomewhere: true, unheard };
  }
  return { finding: earlierSeen(first.finding, seen), isEverywhere: false, isSomewhere: false, unheard };
}

function laterSeen<F extends Finding>(own: F, seen: Finding): F {
  if (seen.status === 'verified' || seen.status === 'unknown') return own;
  const shown = seen.found === null || seen.found.length === 0 ? 'nothing' : `“${shortened(seen.found[0]!)}”`;
  return { ...own, note: `The zone's own servers have it; resolvers still show ${shown}, for up to an hour.` };
}

function earlierSeen<F extends Finding>(own: F, seen: Finding): F {
  if (seen.status !== 'verified') return own;
  return { ...own, note: `${own.note ?? ''} Resolvers still show the record that was there before.`.trim() };
}

const SHOWN_CHARACTERS = 60;

function shortened(text: string): string {
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}…`;
}

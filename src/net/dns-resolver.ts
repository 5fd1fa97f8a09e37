/**
 * Looks up DNS records of one type at a name. Queries the servers in the given order until one answers, in rounds: the timeout of the
 * second round is twice that of the first. A server that declines (SERVFAIL, REFUSED, a referral) is not queried again for this question. A
 * server that did not respond is tried after the others for 10 s. Up to eight CNAMEs are followed, even if a server does not follow them.
 *
 * `secure` is true if every answer in the chain has the AD bit (RFC 6840 §5.8). The bit is trusted from a server on this host, or from all
 * servers if the operator trusts the network path to them.
 *
 * At most 256 questions are pending at the same time. Others wait, and their timeout starts when they are sent. A question without an
 * answer after 1 s no longer counts toward the 256, so thousands of unanswered names do not delay the others; up to 1,000 of these can be
 * pending.
 */
import { setMaxListeners } from 'node:events';
import type { Answer, DecodedPacket, MxData, TlsaData, TxtData } from 'dns-packet';
import { createSemaphore, type Semaphore } from '../base/semaphore.ts';
import { toQueryName } from './dns-name.ts';
import { type DnsServer, isOnThisHost } from './dns-servers.ts';
import { askServer, type DnsQuestion, NAME_ERROR, NO_ERROR, rcodeOf, type ServerResponse } from './dns-stub.ts';

interface RecordData {
  A: string;
  AAAA: string;
  CNAME: string;
  MX: MxData;
  NS: string;
  PTR: string;
  TLSA: TlsaData;
  TXT: TxtData;
}

/** The supported record types. */
export type RecordType = keyof RecordData;

export interface RecordOf<T extends RecordType> {
  type: T;
  name: string;
  /** Seconds. */
  ttl?: number;
  data: RecordData[T];
}

export type LookUp<T extends RecordType> =
  /** At least one record; `canonicalName` is their owner after all CNAMEs. */
  | { status: 'found'; records: RecordOf<T>[]; canonicalName: string; secure: boolean; ttlMs: number }
  | { status: 'no-such-domain' | 'no-data'; secure: boolean; ttlMs: number }
  | { status: 'temporary'; cause: string };

export interface Resolver {
  /**
   * Looks up a name in A-labels and lower case. TTLs are limited to between 30 s and an hour, and to 60 s for a name that does not exist.
   */
  lookUp<T extends RecordType>(name: string, type: T): Promise<LookUp<T>>;
  /** Returns a resolver that queries these servers for their own data; CNAMEs to other zones are followed with this resolver. */
  at(servers: readonly DnsServer[]): Pick<Resolver, 'lookUp'>;
  /** Ends pending questions, and all later ones, as temporary failures (ECANCELLED). */
  close(): void;
}

interface ResolverOptions {
  servers(): readonly DnsServer[];
  /** Timeout of the first try; the second takes up to twice as long. */
  timeoutMs: number;
  /** Number of tries per server. */
  tries: number;
  trustEveryServer: boolean;
}

/** This many questions fit into a server's receive buffer on Linux (208 KiB), so a burst is not lost there. */
const MAX_QUESTIONS = 256;
/** After this time, a server has read a question from its receive buffer. */
const SLOW_MS = 1_000;
/** Slow questions are limited because each uses a socket. */
const MAX_SLOW = 1_000;
const MAX_ALIASES = 8;
/** A server that did not respond is tried after the others for this long. */
const SILENT_MS = 10_000;
const MAX_SILENT = 1_000;
export const MIN_TTL_MS = 30_000;
const MAX_TTL_MS = 3_600_000;
const MAX_NAME_ERROR_TTL_MS = 60_000;
/** Causes by response code (RFC 1035 §4.1.1). */
const CAUSES = new Map([
  [1, 'EFORMERR'],
  [2, 'ESERVFAIL'],
  [4, 'ENOTIMP'],
  [5, 'EREFUSED'],
]);

type QueryResult = { packet: DecodedPacket; secure: boolean } | { cause: string };
type Query = (name: string, type: RecordType) => Promise<QueryResult>;

/** Returns why a packet is not a usable answer, or undefined. */
function problemOf(packet: DecodedPacket, recursion: boolean): string | undefined {
  const rcode = rcodeOf(packet);
  if (rcode !== NO_ERROR && rcode !== NAME_ERROR) return CAUSES.get(rcode) ?? 'EBADRESP';
  if (!recursion && !packet.flag_aa) return 'ELAME';
  const authority = packet.authorities ?? [];
  const isReferral = authority.some(({ type }) => type === 'NS') && !authority.some(({ type }) => type === 'SOA');
  return rcode === NO_ERROR && packet.answers?.length === 0 && isReferral ? 'ELAME' : undefined;
}

function clamp(ttlMs: number, maxMs: number): number {
  return Math.min(Math.max(ttlMs, MIN_TTL_MS), maxMs);
}

/** Returns how long to cache an answer without records (RFC 2308 §5). */
function negativeTtlMs(packet: DecodedPacket, maxMs: number): number {
  const soa = packet.authorities?.find((record) => record.type === 'SOA');
  return clamp(soa ? Math.min(soa.ttl ?? 0, soa.data.minimum ?? 0) * 1000 : 0, maxMs);
}

const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();

/** Returns the records of one type at a name in an answer. */
function recordsOf<T extends RecordType>(answers: readonly Answer[], name: string, type: T): RecordOf<T>[] {
  const isWanted = (one: Answer): boolean =>
    one.type === type && 'data' in one && one.class === 'IN' && isSame(one.name, name);
  return answers.filter(isWanted) as unknown as RecordOf<T>[];
}

/** The end of a chain of CNAMEs within one answer; `ttlMs` is the lowest TTL of those CNAMEs. */
interface Followed {
  name: string;
  ttlMs: number;
}

/** Returns undefined for a loop, or if there are more than MAX_ALIASES in total. */
function followAliases(answers: readonly Answer[], from: string, seen: Set<string>): Followed | undefined {
  let name = from;
  let ttlMs = MAX_TTL_MS;
  for (;;) {
    const [alias] = recordsOf(answers, name, 'CNAME');
    if (alias === undefined) return { name, ttlMs };
    name = alias.data.toLowerCase();
    ttlMs = Math.min(ttlMs, (alias.ttl ?? 0) * 1000);
    if (seen.has(name) || seen.size > MAX_ALIASES) return undefined;
    seen.add(name);
  }
}

/** Looks up the name with `first`, and with `next` the targets of CNAMEs that an answer does not follow completely. */
async function lookUpWith<T extends RecordType>(
  { first, next }: { first: Query; next: Query },
  wanted: string,
  type: T,
): Promise<LookUp<T>> {
  const seen = new Set([wanted]);
  let name = wanted;
  let secure = true;
  let ttlMs = MAX_TTL_MS;
  for (let query = first; ; query = next) {
    const answer = await query(name, type);
    if ('cause' in answer) return { status: 'temporary', cause: answer.cause };
    const { packet } = answer;
    const answers = packet.answers ?? [];
    secure &&= answer.secure;
    const followed = type === 'CNAME' ? { name, ttlMs } : followAliases(answers, name, seen);
    if (followed === undefined) return { status: 'temporary', cause: 'ECNAMELOOP' };
    ttlMs = Math.min(ttlMs, followed.ttlMs);
    const records = recordsOf(answers, followed.name, type);
    if (records.length > 0) {
      const least = Math.min(ttlMs, ...records.map((one) => (one.ttl ?? 0) * 1000));
      return { status: 'found', records, canonicalName: followed.name, secure, ttlMs: clamp(least, MAX_TTL_MS) };
    }
    const hasSoa = packet.authorities?.some((record) => record.type === 'SOA');
    if (rcodeOf(packet) === NAME_ERROR) {
      return { status: 'no-such-domain', secure, ttlMs: negativeTtlMs(packet, MAX_NAME_ERROR_TTL_MS) };
    }
    if (followed.name === name || hasSoa)
      return { status: 'no-data', secure, ttlMs: negativeTtlMs(packet, MAX_TTL_MS) };
    const target = toQueryName(followed.name);
    if (target === undefined) return { status: 'no-such-domain', secure, ttlMs: MIN_TTL_MS };
    name = target;
  }
}

interface QueryContext {
  options: ResolverOptions;
  /** Permits for questions that were just sent. */
  permits: Semaphore;
  /** Permits for questions that have been pending for longer than SLOW_MS. */
  slow: Semaphore;
  signal: AbortSignal;
  /** Until when a server is tried after the others. */
  silentUntilMs: Map<string, number>;
}

function keyOf({ address, port }: DnsServer): string {
  return `${address} ${port}`;
}

function silentLast(servers: readonly DnsServer[], { silentUntilMs }: QueryContext): DnsServer[] {
  const nowMs = performance.now();
  const isSilent = (server: DnsServer): boolean => (silentUntilMs.get(keyOf(server)) ?? 0) > nowMs;
  return [...servers.filter((one) => !isSilent(one)), ...servers.filter(isSilent)];
}

/** Sends the question once a permit is available, and releases the permit with the answer; a slow question exchanges it for a slow one. */
async function queryOnce(
  { permits, slow, signal }: QueryContext,
  question: DnsQuestion,
  { server, timeoutMs }: { server: DnsServer; timeoutMs: number },
): Promise<ServerResponse> {
  await permits.acquire();
  let held: Semaphore | undefined = permits;
  const timer = setTimeout(async () => {
    await slow.acquire();
    if (held) {
      held = slow;
      permits.release();
    } else slow.release();
  }, SLOW_MS);
  try {
    return signal.aborted ? { cause: 'ECANCELLED' } : await askServer(question, server, { timeoutMs, signal });
  } finally {
    clearTimeout(timer);
    held.release();
    held = undefined;
  }
}

/** Queries one server after the other. If all fail, an explicit error takes precedence over a timeout. */
async function queryAll(
  context: QueryContext,
  { servers, recursion }: { servers: readonly DnsServer[]; recursion: boolean },
  question: { name: string; type: RecordType },
): Promise<QueryResult> {
  const { options, signal, silentUntilMs } = context;
  const declining = new Set<DnsServer>();
  const order = silentLast(servers, context);
  let noResponse = 'ENOSERVER';
  let declined: string | undefined;
  for (let round = 1; round <= options.tries; round += 1) {
    for (const server of order) {
      if (declining.has(server)) continue;
      const target = { server, timeoutMs: options.timeoutMs * round };
      const response = await queryOnce(context, { ...question, recursion }, target);
      if (signal.aborted) return { cause: 'ECANCELLED' };
      if ('cause' in response) {
        noResponse = response.cause;
        if (silentUntilMs.size >= MAX_SILENT) silentUntilMs.clear();
        silentUntilMs.set(keyOf(server), performance.now() + SILENT_MS);
        continue;
      }
      silentUntilMs.delete(keyOf(server));
      const { packet } = response;
      const problem = problemOf(packet, recursion);
      if (problem === undefined) {
        const isTrusted = recursion && (options.trustEveryServer || isOnThisHost(server));
        return { packet, secure: isTrusted && packet.flag_ad };
      }
      declined = problem;
      declining.add(server);
    }
  }
  return { cause: declined ?? noResponse };
}

export function openResolver(options: ResolverOptions): Resolver {
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  const permits = createSemaphore(MAX_QUESTIONS);
  const context: QueryContext = {
    options,
    permits,
    slow: createSemaphore(MAX_SLOW),
    signal: stop.signal,
    silentUntilMs: new Map(),
  };
  const query: Query = (name, type) =>
    queryAll(context, { servers: options.servers(), recursion: true }, { name, type });
  return {
    lookUp: (name, type) => lookUpWith({ first: query, next: query }, name, type),
    at: (servers) => {
      const queryThem: Query = (name, type) => queryAll(context, { servers, recursion: false }, { name, type });
      return { lookUp: (name, type) => lookUpWith({ first: queryThem, next: query }, name, type) };
    },
    close: () => stop.abort(),
  };
}

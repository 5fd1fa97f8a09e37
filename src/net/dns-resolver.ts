/**
 * Records of one type at a name, from whichever of some servers answers: two tries at each, in the order given, the second with
 * twice the time. A server that says that it cannot (SERVFAIL, REFUSED, a referral to others) is not asked again for this question; one
 * that said nothing is tried after the others for a while. CNAMEs are followed, eight at most, also where a server leaves that to us.
 *
 * `secure` is the AD bit of every answer on the way (RFC 6840 §5.8). It is believed where nobody could have set it on the way: from
 * a server on this host, or from all where the operator vouches for the way to them.
 *
 * At most 256 questions leave at once; others wait, and their time begins when they leave. One that is not answered within a second makes
 * room for the next, so that thousands of names that nobody answers for do not hold up the rest as long as they take; 1,000 of those at most.
 */
import { setMaxListeners } from 'node:events';
import type { Answer, DecodedPacket, MxData, TlsaData, TxtData } from 'dns-packet';
import { createSemaphore, type Semaphore } from '../base/semaphore.ts';
import { toQueryName } from './dns-name.ts';
import { type DnsServer, isOnThisHost } from './dns-servers.ts';
import { askServer, type DnsQuestion, type Heard, NAME_ERROR, NO_ERROR, rcodeOf } from './dns-stub.ts';

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

/** What is asked for. */
export type RecordType = keyof RecordData;

export interface RecordOf<T extends RecordType> {
  type: T;
  name: string;
  /** Seconds. */
  ttl?: number;
  data: RecordData[T];
}

export type LookUp<T extends RecordType> =
  /** One record at least; `canonicalName` is where they are, behind all CNAMEs. */
  | { status: 'found'; records: RecordOf<T>[]; canonicalName: string; secure: boolean; ttlMs: number }
  | { status: 'no-such-domain' | 'no-data'; secure: boolean; ttlMs: number }
  | { status: 'temporary'; cause: string };

export interface Resolver {
  /** Of a name in A-labels and lower case. TTLs are between 30 s and an hour, that of a name that does not exist at most 60 s. */
  lookUp<T extends RecordType>(name: string, type: T): Promise<LookUp<T>>;
  /** The same, asked of these servers for what they know themselves; CNAMEs that lead elsewhere are followed from here. */
  at(servers: readonly DnsServer[]): Pick<Resolver, 'lookUp'>;
  /** Questions under way and to come end as temporary failures (ECANCELLED). */
  close(): void;
}

interface ResolverOptions {
  servers(): readonly DnsServer[];
  /** For the first try; the second has twice as long. */
  timeoutMs: number;
  /** Of each server. */
  tries: number;
  trustEveryServer: boolean;
}

/** As many as the receive buffer of a server has room for on Linux (208 KiB), so that a burst is not lost there. */
const MAX_QUESTIONS = 256;
/** By then a question has left the receive buffer of its server. */
const SLOW_MS = 1_000;
/** Each has a socket. */
const MAX_SLOW = 1_000;
const MAX_ALIASES = 8;
/** How long a server that said nothing is tried after the others. */
const SILENT_MS = 10_000;
const MAX_SILENT = 1_000;
export const MIN_TTL_MS = 30_000;
const MAX_TTL_MS = 3_600_000;
const MAX_NAME_ERROR_TTL_MS = 60_000;
/** RFC 1035 §4.1.1. */
const CAUSES = new Map([
  [1, 'EFORMERR'],
  [2, 'ESERVFAIL'],
  [4, 'ENOTIMP'],
  [5, 'EREFUSED'],
]);

type Said = { packet: DecodedPacket; secure: boolean } | { cause: string };
type Ask = (name: string, type: RecordType) => Promise<Said>;

/** Why an answer is none, or undefined. */
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

/** RFC 2308 §5. */
function negativeTtlMs(packet: DecodedPacket, maxMs: number): number {
  const soa = packet.authorities?.find((record) => record.type === 'SOA');
  return clamp(soa ? Math.min(soa.ttl ?? 0, soa.data.minimum ?? 0) * 1000 : 0, maxMs);
}

const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();

/** The records of one type at a name in an answer. */
function recordsOf<T extends RecordType>(answers: readonly Answer[], name: string, type: T): RecordOf<T>[] {
  const isWanted = (one: Answer): boolean =>
    one.type === type && 'data' in one && one.class === 'IN' && isSame(one.name, name);
  return answers.filter(isWanted) as unknown as RecordOf<T>[];
}

/** Where a name leads within one answer; `ttlMs` is that of the CNAMEs on the way. */
interface Followed {
  name: string;
  ttlMs: number;
}

/** Undefined for a loop, or for more than MAX_ALIASES with those before. */
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

/** `first` is asked for the name, `next` for what lies behind CNAMEs that an answer does not follow to their end. */
async function lookUpWith<T extends RecordType>(
  { first, next }: { first: Ask; next: Ask },
  wanted: string,
  type: T,
): Promise<LookUp<T>> {
  const seen = new Set([wanted]);
  let name = wanted;
  let secure = true;
  let ttlMs = MAX_TTL_MS;
  for (let ask = first; ; ask = next) {
    const said = await ask(name, type);
    if ('cause' in said) return { status: 'temporary', cause: said.cause };
    const { packet } = said;
    const answers = packet.answers ?? [];
    secure &&= said.secure;
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

interface Asker {
  options: ResolverOptions;
  /** Of questions that have just left. */
  permits: Semaphore;
  /** Of those that have been under way for longer. */
  slow: Semaphore;
  signal: AbortSignal;
  /** Until when a server is tried after the others. */
  silentUntilMs: Map<string, number>;
}

function keyOf({ address, port }: DnsServer): string {
  return `${address} ${port}`;
}

function inTurn(servers: readonly DnsServer[], { silentUntilMs }: Asker): DnsServer[] {
  const nowMs = performance.now();
  const isSilent = (server: DnsServer): boolean => (silentUntilMs.get(keyOf(server)) ?? 0) > nowMs;
  return [...servers.filter((one) => !isSilent(one)), ...servers.filter(isSilent)];
}

/** Asks once a permit is held, and gives it back with the answer, or for one of the slow when that takes long. */
async function askOnce(
  { permits, slow, signal }: Asker,
  question: DnsQuestion,
  { server, timeoutMs }: { server: DnsServer; timeoutMs: number },
): Promise<Heard> {
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

/** Asks one server after the other; where none helps, what one of them said counts more than that another was silent. */
async function askAll(
  asker: Asker,
  { servers, recursion }: { servers: readonly DnsServer[]; recursion: boolean },
  question: { name: string; type: RecordType },
): Promise<Said> {
  const { options, signal, silentUntilMs } = asker;
  const unable = new Set<DnsServer>();
  const order = inTurn(servers, asker);
  let silence = 'ENOSERVER';
  let said: string | undefined;
  for (let round = 1; round <= options.tries; round += 1) {
    for (const server of order) {
      if (unable.has(server)) continue;
      const asking = { server, timeoutMs: options.timeoutMs * round };
      const heard = await askOnce(asker, { ...question, recursion }, asking);
      if (signal.aborted) return { cause: 'ECANCELLED' };
      if ('cause' in heard) {
        silence = heard.cause;
        if (silentUntilMs.size >= MAX_SILENT) silentUntilMs.clear();
        silentUntilMs.set(keyOf(server), performance.now() + SILENT_MS);
        continue;
      }
      silentUntilMs.delete(keyOf(server));
      const { packet } = heard;
      const problem = problemOf(packet, recursion);
      if (problem === undefined) {
        const isTrusted = recursion && (options.trustEveryServer || isOnThisHost(server));
        return { packet, secure: isTrusted && packet.flag_ad };
      }
      said = problem;
      unable.add(server);
    }
  }
  return { cause: said ?? silence };
}

export function openResolver(options: ResolverOptions): Resolver {
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  const permits = createSemaphore(MAX_QUESTIONS);
  const asker: Asker = {
    options,
    permits,
    slow: createSemaphore(MAX_SLOW),
    signal: stop.signal,
    silentUntilMs: new Map(),
  };
  const ask: Ask = (name, type) => askAll(asker, { servers: options.servers(), recursion: true }, { name, type });
  return {
    lookUp: (name, type) => lookUpWith({ first: ask, next: ask }, name, type),
    at: (servers) => {
      const askThem: Ask = (name, type) => askAll(asker, { servers, recursion: false }, { name, type });
      return { lookUp: (name, type) => lookUpWith({ first: askThem, next: ask }, name, type) };
    },
    close: () => stop.abort(),
  };
}

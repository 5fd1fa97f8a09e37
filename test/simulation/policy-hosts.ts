/**
 * Policy hosts of domains with MTA-STS (RFC 8461 §3.3): a DNS record with the id, and an https host with the policy. In some scenarios the
 * policy changes once. The host fails as the seed decides: by its status, a redirect, its content type, its certificate, silence, a cut or
 * invalid content, mostly with a policy that requires nothing, to detect a service that trusts it.
 */
import type { Choices } from './choices.ts';
import type { DnsWorld } from './dns.ts';
import type { Network, SimSocket } from './network.ts';
import type { Copy } from './peers.ts';
import type { Random } from './random.ts';
import { SimTlsSocket } from './tls.ts';

type Mode = 'enforce' | 'testing' | 'none';

/** How a domain with a policy host publishes its policy. */
export interface Publishing {
  /** The node has it from the day before, with FIRST_ID. */
  isKept: boolean;
  /** Share of invalid responses. */
  fails: number;
  /** Another policy is published then, virtual ms. */
  change: { atMs: number; mode: Mode } | undefined;
}

export const FIRST_ID = '1';
export const MAX_AGE_SECONDS = 864_000;
const TTL_SECONDS = 300;
const FAILURES = ['404', '500', 'redirect', 'html', 'certificate', 'silence', 'cut', 'nonsense'] as const;

export function drawPublishing(random: Random): Publishing {
  const isKept = random.chance(0.5);
  const fails = random.chance(0.6) ? random.between(0.2, 1) : 0;
  const atMs = random.between(0, random.chance(0.5) ? 5_000 : 3_600_000);
  const mode = random.pick<Mode>(['enforce', 'enforce', 'testing', 'none']);
  return { isKept, fails, change: random.chance(0.7) ? { atMs, mode } : undefined };
}

/** A policy that was served completely in a valid response. */
interface Served {
  atMs: number;
  mode: Mode;
  /** Whether its connection was cut since. */
  isBroken(): boolean;
}

export interface PolicyHost {
  readonly domain: string;
  readonly isKept: boolean;
  readonly served: readonly Served[];
  /** When its policy was requested, and when it published another one, virtual ms. */
  readonly askedMs: readonly number[];
  readonly changedMs: number | undefined;
}

interface Starting {
  network: Network;
  dns: DnsWorld;
  choices: Choices;
  random: Random;
  count(what: string): void;
}

const textOf = (domain: string, mode: Mode): string =>
  `version: STSv1\r\nmode: ${mode}\r\nmx: *.${domain}\r\nmax_age: ${MAX_AGE_SECONDS}\r\n`;

export function startPolicyHost(
  { network, dns, choices, random, count }: Starting,
  { domain, address, publishing }: { domain: string; address: string; publishing: Publishing },
): PolicyHost {
  const { timeline } = network;
  const { fails, change, isKept } = choices.faults(`mta-sts.${domain}`, publishing, { ...publishing, fails: 0 });
  const served: Served[] = [];
  const askedMs: number[] = [];
  const host = `mta-sts.${domain}`;
  const publish = (id: string): void => {
    const name = `_mta-sts.${domain}`;
    dns.set(name, [{ type: 'TXT', name, ttl: TTL_SECONDS, data: `v=STSv1; id=${id};` }]);
  };
  publish(FIRST_ID);
  dns.set(host, [{ type: 'A', name: host, ttl: TTL_SECONDS, data: address }]);
  if (change) dns.at(change.atMs, () => publish('2'));

  const session = (socket: SimSocket): void => {
    askedMs.push(timeline.nowMs);
    const failure = random.chance(fails) ? random.pick(FAILURES) : undefined;
    if (failure) count(`a policy host that fails: ${failure}`);
    const certificate = { key: 0, isValid: failure !== 'certificate' };
    const secured = new SimTlsSocket(socket, { isServer: true, certificate });
    const answer = (
      status: number,
      body: string,
      { type = 'text/plain', more = '', length = body.length } = {},
    ): void => {
      secured.write(
        `HTTP/1.1 ${status} Said\r\nContent-Type: ${type}\r\n${more}Content-Length: ${length}\r\n\r\n${body}`,
      );
      secured.end();
    };
    const nothing = textOf(domain, 'none');
    const answers: Record<(typeof FAILURES)[number], () => void> = {
      404: () => answer(404, nothing),
      500: () => answer(500, nothing),
      redirect: () => answer(302, nothing, { more: `Location: https://${host}/elsewhere\r\n` }),
      html: () => answer(200, nothing, { type: 'text/html' }),
      certificate: () => answer(200, nothing),
      silence: () => undefined,
      cut: () => answer(200, nothing, { length: nothing.length + 100 }),
      nonsense: () => answer(200, 'there is no policy\r\n'),
    };
    let asked = '';
    secured.on('error', () => undefined);
    secured.on('end', () => secured.end());
    secured.on('data', (chunk: Buffer) => {
      asked += chunk.toString('latin1');
      if (!asked.endsWith('\r\n\r\n')) return;
      if (failure) return answers[failure]();
      const mode = change && timeline.nowMs >= change.atMs ? change.mode : 'enforce';
      count('MTA-STS policy fetched');
      served.push({ atMs: timeline.nowMs, mode, isBroken: () => socket.isCut });
      answer(200, textOf(domain, mode));
    });
  };
  network.listen(`${address}:443`, session);
  return { domain, isKept, served, askedMs, changedMs: change?.atMs };
}

/** From a response to its record: a node that dies in between does not know the policy. */
const RECORD_MS = 35_000;

interface Deaths {
  deathsMs: readonly number[];
  /** The storage failed: a policy may be known only in memory. */
  isRefused: boolean;
}

/** Returns messages that were sent in spite of a policy that the node had to know. */
export function policyFaults(hosts: readonly PolicyHost[], copies: readonly Copy[], deaths: Deaths): string[] {
  return hosts.flatMap(({ domain, isKept, served }) => {
    const isSure = ({ atMs, mode, isBroken }: Served, sinceMs: number): boolean => {
      const isLost = deaths.deathsMs.some((ms) => ms >= atMs && (deaths.isRefused || ms < atMs + RECORD_MS));
      return mode === 'enforce' && !isBroken() && !isLost && atMs + RECORD_MS < sinceMs;
    };
    const isKnown = (sinceMs: number): boolean => isKept || served.some((one) => isSure(one, sinceMs));
    const isOver = (copy: Copy): boolean => served.some(({ mode, atMs }) => mode !== 'enforce' && atMs <= copy.atMs);
    return copies
      .filter((copy) => copy.recipient.endsWith(`@${domain}`) && !copy.isCertified && !isOver(copy))
      .filter(({ sinceMs }) => isKnown(sinceMs))
      .map(({ subject }) => `policy: ${subject} came to a domain that asks for TLS without it`);
  });
}

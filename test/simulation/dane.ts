/**
 * Domains with signed zones, and mail servers that publish their key by DANE: the key of their certificate, another one temporarily or
 * permanently, or records that cannot be looked up. The node uses a resolver on its own host and trusts its validation. A message accepted
 * by a server in spite of its records is a failure, and so is any downgrade.
 */
import { tlsaOf } from './certificates.ts';
import type { DnsWorld } from './dns.ts';
import type { Copy } from './peers.ts';
import type { Random } from './random.ts';

/** On the node's own host. */
export const VALIDATING_RESOLVER = '127.0.0.1';

const KINDS = ['matching', 'matching', 'other', 'failing'] as const;

/** The records of a server until a time, virtual ms; from then on they match. */
export interface Dane {
  kind: (typeof KINDS)[number];
  untilMs: number;
}

export function drawDane(random: Random): Dane {
  const kind = random.pick(KINDS);
  const untilMs = random.chance(0.6) ? random.between(60_000, 4 * 3_600_000) : Number.POSITIVE_INFINITY;
  return { kind, untilMs: kind === 'matching' ? 0 : untilMs };
}

const TTL_SECONDS = 300;

/** Publishes the records of a server; `key` is the one in its certificate. */
export function publish(dns: DnsWorld, host: string, { dane, key }: { dane: Dane; key: number }): void {
  const name = `_25._tcp.${host}`;
  const set = (data: ReturnType<typeof tlsaOf>): void =>
    dns.set(name, [{ type: 'TLSA', name, class: 'IN', ttl: TTL_SECONDS, data }]);
  set(tlsaOf(dane.kind === 'other' ? key + 1 : key));
  if (dane.kind === 'failing') dns.failUntil(name, dane.untilMs);
  else if (Number.isFinite(dane.untilMs)) dns.at(dane.untilMs, () => set(tlsaOf(key)));
}

/** Returns messages that were sent against the records of the server. */
export function daneFaults(byHost: ReadonlyMap<string, Dane>, copies: readonly Copy[]): string[] {
  return copies.flatMap((copy) => {
    const dane = byHost.get(copy.peer);
    if (dane === undefined) return [];
    if (!copy.inTls) return [`policy: ${copy.subject} came to ${copy.peer} in the clear, which has DANE`];
    if (copy.dotAtMs >= dane.untilMs) return [];
    return [`policy: ${copy.subject} came to ${copy.peer}, whose TLSA records are ${dane.kind}`];
  });
}

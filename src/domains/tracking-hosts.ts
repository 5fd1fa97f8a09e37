/**
 * Hosts of sender domains that links of their mail lead to, in place of the host of POSTRIDER_BASE_URL: `track.<domain>`, where the DNS leads that
 * name to our host (`named`), and this service answers there under it with a certificate that is valid (`served`). Only then links use it:
 * a link that does not open is worse than one with our name. Checks find that out (dns-records.ts).
 *
 * All that is known is kept in memory and what changed is read every five seconds, so that composing mail asks for nothing. Other
 * processes' changes are seen then, too.
 */
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { startRounds } from '../base/rounds.ts';
import { domainToAscii } from '../mail/address.ts';
import type { HttpClient } from '../net/http-client.ts';
import type { Database } from '../storage/database.ts';
import { trackingChangesOperation } from './check-store.ts';
import { coveringDomains, type TrackingState } from './store.ts';

const READ_MS = 5_000;
/** A change whose transaction ended late, or by a clock that differs, is not overlooked. */
const OVERLAP_MS = 30_000;
const PROBE_MS = 10_000;

/** The name below a sender's domain. */
export function trackingHostOf(domain: string): string {
  return `track.${domain}`;
}

/** Where links of mail from this domain lead once it is served; undefined where our own address has no name that an alias could lead to. */
export function trackingUrl(baseUrl: string | undefined, domain: string): { host: string; url: string } | undefined {
  const base = baseUrl === undefined ? null : URL.parse(baseUrl);
  if (!base?.hostname.includes('.') || isIP(base.hostname.replace(/^\[|\]$/g, '')) !== 0) return undefined;
  const host = base.hostname.toLowerCase();
  base.hostname = trackingHostOf(domain);
  // Behind the same proxy, and so below the same path.
  return { host, url: `${base.origin}${base.pathname.replace(/\/+$/, '')}` };
}

/** Asks an address for our own /health; https with a certificate that is valid for it. */
export type IsServed = (url: string) => Promise<boolean>;

export function createHostProbe(http: Pick<HttpClient, 'get'>): IsServed {
  return async (url) => {
    const got = await http.get({ url: `${url}/health`, timeoutMs: PROBE_MS });
    return got.ok && got.status === 200 && /^\{"status":"ok"\}\s*$/.test(got.body?.toString('utf8') ?? '');
  };
}

export interface TrackingHosts extends Running {
  /** Reads what changed; rejects never. */
  read(): Promise<void>;
  /** Where links of mail from here lead; undefined where it is the address of the service. */
  urlOf(accountId: string, fromDomain: string): string | undefined;
  /** Every host whose name leads here. */
  names(): string[];
}

/** `baseUrl` is POSTRIDER_BASE_URL; without it there are none. */
export function openTrackingHosts(options: {
  database: Database;
  clock: Clock;
  log: Log;
  baseUrl: string | undefined;
}): TrackingHosts {
  const { database, clock, log, baseUrl } = options;
  /** By account and domain. */
  const known = new Map<string, { domain: string; state: TrackingState }>();
  let readToMs = 0;
  const rounds = startRounds({
    ...{ name: 'hosts of links', everyMs: READ_MS, log },
    round: async () => {
      const nowMs = clock.now();
      const changes = await database.execute(trackingChangesOperation, Math.max(0, readToMs - OVERLAP_MS));
      for (const { accountId, domain, state } of changes) {
        const key = `${accountId} ${domain}`;
        if (state) known.set(key, { domain, state });
        else known.delete(key);
      }
      readToMs = nowMs;
    },
  });
  return {
    read: rounds.run,
    urlOf: (accountId, fromDomain) => {
      if (known.size === 0) return undefined;
      const covering = coveringDomains(domainToAscii(fromDomain) ?? '');
      const found = covering.find((domain) => known.get(`${accountId} ${domain}`)?.state === 'served');
      return found === undefined ? undefined : trackingUrl(baseUrl, found)?.url;
    },
    names: () => [...new Set([...known.values()].map(({ domain }) => trackingHostOf(domain)))],
    stop: rounds.stop,
  };
}

/**
 * Tracking hosts: links in email of a sender domain use `track.<domain>` instead of the host of POSTRIDER_BASE_URL, if the DNS points that
 * name to Postrider (`named`) and this service responds there with a valid certificate (`served`). Links use the host only when it is
 * served, because a broken link is worse than one with another host name. dns-records.ts checks this.
 *
 * All states are kept in memory and changes are read every five seconds, so composing a message needs no query. Changes of other processes
 * take effect then, too. A domain that this process deletes is removed immediately or by the next read. One that another process deletes is
 * removed within five minutes, when all states are read again.
 */
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { startRounds } from '../base/rounds.ts';
import { domainToAscii } from '../mail/address.ts';
import type { HttpClient } from '../net/http-client.ts';
import type { Database } from '../storage/database.ts';
import { type TrackingChange, trackingChangesOperation } from './check-store.ts';
import { onDomainChange } from './domain-changes.ts';
import { coveringDomains, domainOperation, type TrackingState } from './store.ts';

const READ_MS = 5_000;
/** How often all states are read, because a deleted domain is not among the changes. */
const READ_ALL_MS = 300_000;
/** Includes changes whose transaction ended late or whose clock differs. */
const OVERLAP_MS = 30_000;
const PROBE_MS = 10_000;

/** The name below a sender's domain. */
export function trackingHostOf(domain: string): string {
  return `track.${domain}`;
}

/** Returns the tracking URL of this domain once it is served; undefined if the base URL has no host name that a CNAME could point to. */
export function trackingUrl(baseUrl: string | undefined, domain: string): { host: string; url: string } | undefined {
  const base = baseUrl === undefined ? null : URL.parse(baseUrl);
  if (!base?.hostname.includes('.') || isIP(base.hostname.replace(/^\[|\]$/g, '')) !== 0) return undefined;
  const host = base.hostname.toLowerCase();
  base.hostname = trackingHostOf(domain);
  // Uses the same proxy, and therefore the same path.
  return { host, url: `${base.origin}${base.pathname.replace(/\/+$/, '')}` };
}

/** Requests /health of this service at an address; https requires a valid certificate. */
export type IsServed = (url: string) => Promise<boolean>;

export function createHostProbe(http: Pick<HttpClient, 'get'>): IsServed {
  return async (url) => {
    const got = await http.get({ url: `${url}/health`, timeoutMs: PROBE_MS });
    return got.ok && got.status === 200 && /^\{"status":"ok"\}\s*$/.test(got.body?.toString('utf8') ?? '');
  };
}

export interface TrackingHosts extends Running {
  /** Reads changes; never rejects. */
  read(): Promise<void>;
  /** Returns the URL for links in email from this domain; undefined if links use the base URL. */
  urlOf(accountId: string, fromDomain: string): string | undefined;
  /** Returns every host whose DNS points to Postrider. */
  names(): string[];
}

/** `baseUrl` is POSTRIDER_BASE_URL; without it there are no tracking hosts. */
export function openTrackingHosts(options: {
  database: Database;
  clock: Clock;
  log: Log;
  baseUrl: string | undefined;
}): TrackingHosts {
  const { database, clock, log, baseUrl } = options;
  /** By account and domain. */
  const known = new Map<string, { id: string; domain: string; state: TrackingState }>();
  /** The key in `known` by domain id. */
  const keys = new Map<string, string>();
  /** Ids of known domains that this process changed or deleted. */
  const changedIds = new Set<string>();
  let readToMs = 0;
  let allReadAtMs = Number.NEGATIVE_INFINITY;
  let isStopped = false;

  const remove = (id: string): void => {
    const key = keys.get(id);
    if (key !== undefined && known.get(key)?.id === id) known.delete(key);
    keys.delete(id);
  };

  const apply = ({ id, accountId, domain, state }: TrackingChange): void => {
    if (state === null) {
      remove(id);
      return;
    }
    const key = `${accountId} ${domain}`;
    known.set(key, { id, domain, state });
    keys.set(id, key);
  };

  const removeDeleted = async (): Promise<void> => {
    for (const id of changedIds) {
      changedIds.delete(id);
      if ((await database.execute(domainOperation, { id, accountId: null })) === null) remove(id);
    }
  };

  const rounds = startRounds({
    name: 'hosts of links',
    everyMs: READ_MS,
    log,
    round: async () => {
      const nowMs = clock.now();
      const readsAll = nowMs < readToMs || nowMs - allReadAtMs >= READ_ALL_MS;
      const sinceMs = readsAll ? 0 : Math.max(0, readToMs - OVERLAP_MS);
      const changes = await database.execute(trackingChangesOperation, sinceMs);
      if (readsAll) {
        known.clear();
        keys.clear();
        allReadAtMs = nowMs;
      }
      for (const one of changes) apply(one);
      readToMs = nowMs;
      await removeDeleted();
    },
  });

  onDomainChange(database, ({ domainId }) => {
    if (isStopped || !keys.has(domainId)) return;
    changedIds.add(domainId);
    void rounds.run();
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
    stop: async () => {
      isStopped = true;
      await rounds.stop();
    },
  };
}

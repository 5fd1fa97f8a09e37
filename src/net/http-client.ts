/**
 * POSTs to strangers' servers: webhooks. Reaches only addresses the guard passes (guarded-connector.ts), follows no
 * redirect, verifies TLS, reads at most 64 KB of an answer, and has one deadline for everything from the lookup to the
 * last byte. An answer whose status came in time counts, even when its body did not: the connection is then cut.
 *
 * Connections are kept per origin and dropped with their pool when idle; there are never more than 1,000 pools, so
 * ten thousand endpoints cost what is in use.
 */
import type { Pool } from 'undici';
import { loadedOnce } from '../base/lifecycle.ts';
import type { Cidr } from './address-guard.ts';
import { guardedConnector, type Lookup } from './guarded-connector.ts';
import { exchange, type HttpOutcome, type HttpPost } from './http-exchange.ts';

export interface HttpClientOptions {
  /** Usually `dns.lookupHost`. */
  lookup: Lookup;
  /** Ranges that may be reached although they are not public. */
  allow: readonly Cidr[];
  /** Default 50. */
  connectionsPerOrigin?: number;
  /** For one address; default 5,000. */
  connectMs?: number;
  /** Certificate authorities in PEM, instead of the system's. */
  ca?: string;
}

export { checkUrl } from './check-url.ts';
export type { HttpFailureKind, HttpOutcome, HttpPost } from './http-exchange.ts';

export interface HttpClient {
  /** Never rejects because of the peer. A signal ends it with the kind `reset`. */
  post(request: HttpPost): Promise<HttpOutcome>;
  /** Cuts what is under way. */
  close(): Promise<void>;
}

const MAX_POOLS = 1_000;
const IDLE_POOL_MS = 15_000;

interface Entry {
  pool: Pool;
  inFlight: number;
  lastUsedMs: number;
}

/** A client for one list of permitted ranges; close() it to let the process end. */
export function openHttpClient(options: HttpClientOptions): HttpClient {
  const { lookup, allow, ca } = options;
  const connectMs = options.connectMs ?? 5_000;
  /** Loaded with the first POST: 15 MB of memory that a service without webhooks does without. */
  const openPools = loadedOnce(async (): Promise<(origin: string) => Pool> => {
    const { buildConnector, Pool } = await import('undici');
    const connector = buildConnector({ allowH2: false, timeout: connectMs, ...(ca === undefined ? {} : { ca }) });
    const connect = guardedConnector({ lookup, allow, connector });
    return (origin) =>
      new Pool(origin, {
        connect,
        connections: options.connectionsPerOrigin ?? 50,
        pipelining: 1,
        allowH2: false,
        keepAliveTimeout: 4_000,
        maxHeaderSize: 16_384,
      });
  });
  const pools = new Map<string, Entry>();

  const drop = (origin: string, entry: Entry): void => {
    pools.delete(origin);
    entry.pool.close().catch(() => {});
  };
  const dropIdle = (): void => {
    const before = performance.now() - IDLE_POOL_MS;
    for (const [origin, entry] of pools) {
      if (entry.inFlight === 0 && entry.lastUsedMs < before) drop(origin, entry);
    }
  };
  const sweep = setInterval(dropIdle, IDLE_POOL_MS).unref();

  const entryOf = (origin: string, openPool: (origin: string) => Pool): Entry => {
    let entry = pools.get(origin);
    if (entry) return entry;
    if (pools.size >= MAX_POOLS) {
      for (const [oldest, idle] of pools) {
        if (idle.inFlight > 0) continue;
        drop(oldest, idle);
        break;
      }
    }
    entry = { pool: openPool(origin), inFlight: 0, lastUsedMs: 0 };
    pools.set(origin, entry);
    return entry;
  };

  return {
    post: async (request) => {
      const url = URL.parse(request.url);
      if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
        return { ok: false, kind: 'protocol', message: 'not an http or https URL', latencyMs: 0 };
      }
      const entry = entryOf(url.origin, await openPools());
      entry.inFlight += 1;
      try {
        return await exchange(entry.pool, { origin: url.origin, path: url.pathname + url.search }, request);
      } finally {
        entry.inFlight -= 1;
        entry.lastUsedMs = performance.now();
      }
    },
    close: async () => {
      clearInterval(sweep);
      await Promise.all([...pools.values()].map((entry) => entry.pool.destroy()));
      pools.clear();
    },
  };
}

/**
 * Detects a reverse proxy that the settings do not trust: all of its clients share its address and therefore its limits. The running
 * service stores the last one it saw in the database, so that `postrider doctor` in another process finds it.
 */
import { iso } from '../base/clock.ts';
import type { Config } from '../config.ts';
import { parseCidrs } from '../net/address-guard.ts';
import { isTrustedProxy } from '../net/trusted-proxies.ts';
import type { Database } from '../storage/database.ts';
import { metaOperation, setMetaOperation } from '../storage/meta-store.ts';
import { type Check, warn } from './check.ts';

const KEY = 'untrusted-proxy';
/** If there was no such request for this long, the proxy is assumed to be removed. */
const RECENT_MS = 7 * 86_400_000;

export interface UntrustedProxy {
  /** A private address that sent a request with X-Forwarded-For. */
  address: string;
  /** When, as Unix ms. */
  atMs: number;
}

export async function recordUntrustedProxy(database: Database, seen: UntrustedProxy): Promise<void> {
  await database.execute(setMetaOperation, { key: KEY, value: JSON.stringify(seen) });
}

export async function readUntrustedProxy(database: Database): Promise<UntrustedProxy | undefined> {
  const text = await database.execute(metaOperation, KEY);
  return text === null ? undefined : (JSON.parse(text) as UntrustedProxy);
}

/** Returns no check unless an untrusted proxy was seen in the last week. */
export function checkProxies(
  { trustedProxies }: Pick<Config, 'trustedProxies'>,
  seen: UntrustedProxy | undefined,
  nowMs: number,
): Check[] {
  const list = parseCidrs(trustedProxies.join(','));
  if (seen === undefined || nowMs - seen.atMs > RECENT_MS) return [];
  if (list.ok && isTrustedProxy(seen.address, list.cidrs)) return [];
  return [
    warn(
      'proxy',
      `A request with X-Forwarded-For came from ${seen.address} at ${iso(seen.atMs)}, and POSTRIDER_TRUSTED_PROXIES does not include that address. All clients of that proxy share one limit on failed logins.`,
      `If ${seen.address} is your proxy, set POSTRIDER_TRUSTED_PROXIES=${[...trustedProxies, seen.address].join(',')}`,
    ),
  ];
}

/**
 * The MTA-STS policies of recipients' domains (RFC 8461), stored in the database for as long as each specifies, so that neither a restart
 * nor an attacker on the path to the DNS or the policy host makes Postrider forget one:
 *
 * - the record `_mta-sts.<domain>` announces a policy; a new id in it causes a new fetch;
 * - if the record is missing, or the DNS or the policy host fail, the stored policy applies until it expires; both are
 *   queried again after five minutes;
 * - one node fetches each recently used policy once a day, whatever the record says, which restarts its lifetime.
 *
 * Policies are cached in memory for an hour, at most 10,000. If the database cannot be read, the caller gets the exception: without it the
 * policy is unknown.
 */
import type { Clock } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Dns } from '../net/dns.ts';
import type { Database } from '../storage/database.ts';
import type { TlsFailure } from './host-policy.ts';
import { type StsPolicy, stsId } from './mta-sts.ts';
import type { FetchStsPolicy } from './mta-sts-fetch.ts';
import {
  findStsPolicyOperation,
  keepStsPolicyOperation,
  noteStsPolicyOperation,
  removeStsPoliciesOperation,
  type StsRow,
  staleStsPoliciesOperation,
} from './mta-sts-store.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const REMEMBERED_MS = HOUR_MS;
const MAX_REMEMBERED = 10_000;
/** RFC 8461 §3.3. */
const FETCH_AGAIN_MS = 300_000;
const LOOK_UP_AGAIN_MS = 300_000;
const PASS_MS = 600_000;
const REFRESH_AT_ONCE = 5;
const BATCH = 50;
/** A policy that no mail has used for this long is not refreshed and expires. */
const USED_MS = 30 * DAY_MS;

export interface StsAnswer {
  /** The policy in effect: `enforce` or `testing`. */
  policy?: StsPolicy;
  /** Why the announced policy could not be fetched. */
  failure?: TlsFailure;
}

export interface StsPolicies extends Running {
  /** For a domain in A-labels. Rejects if the database cannot be read. */
  policyOf(domain: string): Promise<StsAnswer>;
  /** Fetches policies older than a day, and removes expired ones; runs automatically every ten minutes. */
  refresh(): Promise<void>;
}

export interface StsOptions {
  database: Database;
  dns: Pick<Dns, 'resolveTxt'>;
  fetchPolicy: FetchStsPolicy;
  clock: Clock;
  log: Log;
  /** Whether this process refreshes policies. */
  isChosen?: () => boolean;
}

interface Remembered {
  row: StsRow | null;
  readAtMs: number;
}

export function openStsPolicies({ database, dns, fetchPolicy, clock, log, isChosen }: StsOptions): StsPolicies {
  const remembered = new Map<string, Remembered>();
  const failures = new Map<string, { id: string; untilMs: number; failure: TlsFailure }>();
  const idOf = createRecordReader({ dns, clock });
  const lookups = new Map<string, Promise<StsAnswer>>();
  const stopping = new AbortController();

  const remember = (domain: string, row: StsRow | null): void => {
    remembered.delete(domain);
    remembered.set(domain, { row, readAtMs: clock.now() });
    if (remembered.size > MAX_REMEMBERED) remembered.delete(remembered.keys().next().value!);
  };

  /** Returns the stored policy, unless it has expired. */
  const kept = async (domain: string): Promise<StsRow | undefined> => {
    const known = remembered.get(domain);
    let row = known?.row ?? null;
    if (!known || clock.now() - known.readAtMs > REMEMBERED_MS) {
      row = await database.execute(findStsPolicyOperation, domain);
      remember(domain, row);
    }
    return row && row.expiresAt > clock.now() ? row : undefined;
  };

  const keep = async (row: StsRow): Promise<void> => {
    remember(row.domain, row);
    await database.execute(keepStsPolicyOperation, row).catch((error: Error) => {
      log.warn({ domain: row.domain, error: error.message }, 'MTA-STS policy not stored; kept in memory only');
    });
  };

  const noteUse = (row: StsRow): void => {
    const nowMs = clock.now();
    if (row.usedAt > nowMs - DAY_MS) return;
    remember(row.domain, { ...row, usedAt: nowMs });
    database.execute(noteStsPolicyOperation, { domain: row.domain, usedAt: nowMs }).catch(() => undefined);
  };

  /** Fetches the policy with this id; undefined on failure. */
  const renew = async (domain: string, id: string, usedAt: number): Promise<StsRow | undefined> => {
    const fetched = await fetchPolicy(domain, stopping.signal);
    const nowMs = clock.now();
    if (!fetched.ok) {
      failures.delete(domain);
      failures.set(domain, { id, untilMs: nowMs + FETCH_AGAIN_MS, failure: fetched.failure });
      if (failures.size > MAX_REMEMBERED) failures.delete(failures.keys().next().value!);
      log.info({ domain, id, why: fetched.failure.message }, 'MTA-STS policy fetch failed');
      return undefined;
    }
    failures.delete(domain);
    const { mode, mx, maxAgeSeconds } = fetched.policy;
    const expiresAt = nowMs + maxAgeSeconds * 1_000;
    const row = { domain, policyId: id, mode, mx: JSON.stringify(mx), maxAge: maxAgeSeconds, usedAt, expiresAt };
    await keep({ ...row, checkedAt: nowMs });
    return { ...row, checkedAt: nowMs };
  };

  const lookUp = async (domain: string): Promise<StsAnswer> => {
    const [current, id] = await Promise.all([kept(domain), idOf(domain)]);
    const answer = (row: StsRow | undefined, failure?: TlsFailure): StsAnswer => {
      if (row) noteUse(row);
      return { ...(row && row.mode !== 'none' && { policy: policyOf(row) }), ...(failure && { failure }) };
    };
    if (id === undefined || current?.policyId === id) return answer(current);
    const failed = failures.get(domain);
    if (failed?.id === id && failed.untilMs > clock.now()) return answer(current, failed.failure);
    const renewed = await renew(domain, id, clock.now());
    return renewed ? answer(renewed) : answer(current, failures.get(domain)?.failure);
  };

  const refreshOne = async ({ domain, policyId, usedAt }: StsRow): Promise<void> => {
    const id = (await idOf(domain)) ?? policyId;
    if (await renew(domain, id, usedAt)) return;
    await database.execute(noteStsPolicyOperation, { domain, checkedAt: clock.now() });
  };

  const refresh = async (): Promise<void> => {
    const nowMs = clock.now();
    const requested = { checkedBefore: nowMs - DAY_MS, usedAfter: nowMs - USED_MS, nowMs, limit: BATCH };
    for (let rows: StsRow[] = [], first = true; first || rows.length === BATCH; first = false) {
      rows = await database.execute(staleStsPoliciesOperation, requested);
      for (let at = 0; at < rows.length && !stopping.signal.aborted; at += REFRESH_AT_ONCE) {
        await Promise.all(rows.slice(at, at + REFRESH_AT_ONCE).map(refreshOne));
      }
      if (stopping.signal.aborted) return;
    }
    while ((await database.execute(removeStsPoliciesOperation, { nowMs, limit: BATCH })) === BATCH);
  };

  let running: Promise<void> | undefined;
  const pass = (): void => {
    if (isChosen?.() === false) return;
    running ??= refresh()
      .catch((error: Error) => log.warn({ error: error.message }, 'MTA-STS policy refresh failed'))
      .finally(() => {
        running = undefined;
      });
  };
  const timer = setInterval(pass, PASS_MS).unref();

  return {
    policyOf: (domain) => {
      const pending = lookups.get(domain);
      if (pending) return pending;
      const started = lookUp(domain).finally(() => lookups.delete(domain));
      lookups.set(domain, started);
      return started;
    },
    refresh,
    stop: async () => {
      clearInterval(timer);
      stopping.abort();
      await running;
    },
  };
}

/**
 * Reads the policy id in a domain's record. After a DNS failure, it waits before the next lookup, so that not every message is delayed.
 */
function createRecordReader({ dns, clock }: Pick<StsOptions, 'dns' | 'clock'>) {
  const silentUntil = new Map<string, number>();
  return async (domain: string): Promise<string | undefined> => {
    if ((silentUntil.get(domain) ?? 0) > clock.now()) return undefined;
    silentUntil.delete(domain);
    const records = await dns.resolveTxt(`_mta-sts.${domain}`);
    if (records.status === 'temporary') silentUntil.set(domain, clock.now() + LOOK_UP_AGAIN_MS);
    if (silentUntil.size > MAX_REMEMBERED) silentUntil.delete(silentUntil.keys().next().value!);
    return records.status === 'found' ? stsId(records.value) : undefined;
  };
}

function policyOf({ mode, mx, maxAge }: StsRow): StsPolicy {
  return { mode: mode as StsPolicy['mode'], mx: JSON.parse(mx) as string[], maxAgeSeconds: maxAge };
}

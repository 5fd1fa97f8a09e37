/**
 * Stores the results of DNS checks and key rotation: whether each key's record was found, which keys sign, and which notices are due to the
 * account. A notice is written in the same transaction as the change that it reports.
 */
import { change } from '../audit/audit.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import {
  DOMAIN_TRAIL,
  type DomainKey,
  type DomainStatus,
  insertKeys,
  isMarkedVerified,
  type NewKey,
  readDomains,
  type SenderDomain,
  type TrackingState,
} from './store.ts';

/** Result of a check for one key; null if the DNS lookup failed, which leaves the stored result unchanged. */
interface KeyFinding {
  selector: string;
  isPublished: boolean | null;
  /** Whether every server of the zone that responded has the record. */
  isEverywhere: boolean | null;
  /** Whether another server of the zone did not respond. */
  isWaitedFor?: boolean;
}

/** How long an unresponsive server delays keys that all others have; a server that was shut down must not delay them indefinitely. */
const WAITED_FOR_MS = 86_400_000;

interface CheckRecord {
  id: string;
  /** The status that the DNS record calls for; null if it leaves the status unchanged. */
  status: 'verified' | 'failing' | null;
  nowMs: number;
  /** The state on which the check is based; without it, the check is recorded even if the domain has changed. */
  basis?: CheckBasis;
  keys: KeyFinding[];
  /** Whether its return path points to Postrider; null if the lookup failed, which leaves the stored value unchanged. */
  isReturnPath: boolean | null;
  /** Whether the next keys sign from now on. */
  promotes: boolean;
  /** State of its tracking host; undefined if unknown, which leaves the stored state unchanged. */
  tracking?: TrackingState | null | undefined;
}

export interface CheckBasis {
  /** When its first lookup started. */
  startedMs: number;
  /** The keys whose records it looked up. */
  keys: readonly DomainKey[];
}

/** The result of recording a check: the status of the domain from now on. */
export type RecordedCheck = DomainStatus | 'keys-changed' | 'deleted';

function keysInUse(keys: readonly DomainKey[]): string {
  const inUse = keys.filter(({ state }) => state !== 'retired');
  return inUse
    .map(({ selector, state }) => `${selector} ${state}`)
    .sort()
    .join();
}

/** Returns whether a check that started later has been recorded. A time after now was stored before the clock was set back. */
function isOutdated({ startedMs }: CheckBasis, { checkedAt }: SenderDomain, nowMs: number): boolean {
  return checkedAt !== null && checkedAt > startedMs && checkedAt <= nowMs;
}

function statusAfter(domain: SenderDomain, status: CheckRecord['status']): DomainStatus {
  if (status === 'verified') return 'verified';
  const stays = status === null || domain.status === 'pending' || isMarkedVerified(domain);
  return stays ? domain.status : status;
}

/**
 * Records a check, unless the domain has other keys by now, or a later check was recorded. The status follows from the domain as it is now:
 * an operator may have marked it as verified during the check. A domain that starts to fail gets a notice; a healthy domain loses its
 * pending notice.
 */
export const recordCheckOperation = change(
  'domains.recordCheck',
  async (tx, check: CheckRecord): Promise<RecordedCheck> => {
    const { id, nowMs, basis, keys, isReturnPath, promotes, tracking } = check;
    await tx.get(`SELECT 1 AS found FROM domain WHERE id = ? ${locked(tx)}`, id);
    const [domain] = await readDomains(tx, 'WHERE id = ?', id);
    if (domain === undefined) return 'deleted';
    if (basis !== undefined && keysInUse(basis.keys) !== keysInUse(domain.keys)) return 'keys-changed';
    if (basis !== undefined && isOutdated(basis, domain, nowMs)) return domain.status;
    const status = statusAfter(domain, check.status);
    await tx.run(
      `UPDATE domain SET checked_at = ?,
         failing_since = CASE WHEN CAST(? AS TEXT) = 'failing' THEN coalesce(failing_since, CAST(? AS BIGINT)) END,
         notice = CASE WHEN CAST(? AS TEXT) = 'failing' AND status <> 'failing' THEN 'failing'
           WHEN CAST(? AS TEXT) <> 'failing' AND notice = 'failing' THEN NULL ELSE notice END,
         status = ? WHERE id = ?`,
      basis?.startedMs ?? nowMs,
      status,
      nowMs,
      status,
      status,
      status,
      id,
    );
    if (isReturnPath !== null) {
      await tx.run('UPDATE domain SET return_path_at = ? WHERE id = ?', isReturnPath ? nowMs : null, id);
    }
    for (const { selector, isPublished, isEverywhere, isWaitedFor } of keys) {
      if (isPublished !== null) {
        await tx.run(
          'UPDATE dkim_key SET published_at = ? WHERE domain_id = ? AND selector = ?',
          isPublished ? nowMs : null,
          id,
          selector,
        );
      }
      if (isEverywhere === null) continue;
      const sinceMs = isWaitedFor ? nowMs + WAITED_FOR_MS : nowMs;
      await tx.run(
        `UPDATE dkim_key SET shown_since = ${isEverywhere ? 'CASE WHEN shown_since < CAST(? AS BIGINT) THEN shown_since ELSE CAST(? AS BIGINT) END' : 'NULL'}
         WHERE domain_id = ? AND selector = ?`,
        ...(isEverywhere ? [sinceMs, sinceMs] : []),
        id,
        selector,
      );
    }
    if (promotes) await promote(tx, id, nowMs);
    // Tracking hosts need proof of ownership: they are not stored for pending domains.
    const host = status === 'pending' ? null : tracking;
    if (host === undefined) return status;
    await tx.run(
      `UPDATE domain SET tracking = ?, tracking_changed_at = ? WHERE id = ? AND coalesce(tracking, '') <> ?`,
      host,
      nowMs,
      id,
      host ?? '',
    );
    return status;
  },
  { ...DOMAIN_TRAIL, action: 'domain.check' },
);

/** Has no effect if another check has already promoted the keys. */
async function promote(tx: Transaction, id: string, nowMs: number): Promise<void> {
  if (!(await tx.get(`SELECT 1 AS found FROM dkim_key WHERE domain_id = ? AND state = 'next'`, id))) return;
  await tx.run(
    `UPDATE dkim_key SET state = 'retired', retired_at = ? WHERE domain_id = ? AND state = 'active'`,
    nowMs,
    id,
  );
  await tx.run(`UPDATE dkim_key SET state = 'active' WHERE domain_id = ? AND state = 'next'`, id);
  await tx.run(`UPDATE domain SET notice = NULL WHERE id = ? AND notice = 'rotation'`, id);
}

interface Rotation {
  id: string;
  keys: NewKey[];
  nowMs: number;
  /** Whether the account is to learn of it by mail. */
  isNoticed: boolean;
}

/** Adds the next keys; returns false if there are next keys already, or if the domain was deleted. */
export const rotateKeysOperation = change(
  'domains.rotateKeys',
  async (tx, { id, keys, nowMs, isNoticed }: Rotation): Promise<boolean> => {
    if (!(await tx.get(`SELECT 1 AS found FROM domain WHERE id = ? ${locked(tx)}`, id))) return false;
    if (await tx.get(`SELECT 1 AS found FROM dkim_key WHERE domain_id = ? AND state = 'next'`, id)) return false;
    await insertKeys(tx, keys, { domainId: id, state: 'next', nowMs });
    if (isNoticed) await tx.run(`UPDATE domain SET notice = coalesce(notice, 'rotation') WHERE id = ?`, id);
    return true;
  },
  {
    action: 'domain.rotate-keys',
    resourceId: ({ id }) => id,
    did: ({ keys }, isDone) => (isDone ? { selectors: keys.map(({ selector }) => selector) } : undefined),
  },
);

/**
 * Domains whose record was found at least once and that were not checked since this time, least recently checked first. A check that is
 * recorded after `aheadMs` counts as none, because the clock was wrong when it was made.
 */
export const dueChecksOperation = operation(
  'domains.dueChecks',
  'read',
  (tx, { beforeMs, aheadMs, limit }: { beforeMs: number; aheadMs: number; limit: number }): Promise<SenderDomain[]> =>
    readDomains(
      tx,
      `WHERE status <> 'pending' AND (checked_at <= ? OR checked_at > ?) AND (status = 'failing' OR EXISTS (
         SELECT 1 FROM dkim_key k WHERE k.domain_id = domain.id AND k.state = 'active' AND k.published_at IS NOT NULL))
       ORDER BY checked_at LIMIT ?`,
      beforeMs,
      aheadMs,
      limit,
    ),
);

/** Verified domains whose published key was created before this time and that have no next key. */
export const dueRotationsOperation = operation(
  'domains.dueRotations',
  'read',
  (tx, { beforeMs, limit }: { beforeMs: number; limit: number }): Promise<SenderDomain[]> =>
    readDomains(
      tx,
      `WHERE status = 'verified' AND EXISTS (
         SELECT 1 FROM dkim_key k WHERE k.domain_id = domain.id AND k.state = 'active' AND k.algorithm = 'rsa'
           AND k.published_at IS NOT NULL AND k.created_at < ?)
         AND NOT EXISTS (SELECT 1 FROM dkim_key k WHERE k.domain_id = domain.id AND k.state = 'next')
       ORDER BY id LIMIT ?`,
      beforeMs,
      limit,
    ),
);

export interface TrackingChange {
  id: string;
  accountId: string;
  domain: string;
  state: TrackingState | null;
}

/** Tracking states that changed at or after this time; from 0, the states of all domains. Deleted domains are omitted. */
export const trackingChangesOperation = operation(
  'domains.trackingChanges',
  'read',
  (tx, sinceMs: number): Promise<TrackingChange[]> | TrackingChange[] =>
    tx.all<TrackingChange>(
      'SELECT id, account_id AS "accountId", domain, tracking AS state FROM domain WHERE tracking_changed_at >= ?',
      sinceMs,
    ),
);

/** Deletes keys that were retired before this time; returns how many. */
export const removeRetiredKeysOperation = operation(
  'domains.removeRetiredKeys',
  'write',
  (tx, beforeMs: number): Promise<number> | number =>
    tx.run(`DELETE FROM dkim_key WHERE state = 'retired' AND retired_at < ?`, beforeMs),
);

export interface DomainNotice {
  kind: 'failing' | 'rotation';
  domain: SenderDomain;
}

/** Notices that are still due to accounts. */
export const domainNoticesOperation = operation(
  'domains.notices',
  'read',
  async (tx, limit: number): Promise<DomainNotice[]> => {
    const rows = await tx.all<{ id: string; kind: DomainNotice['kind'] }>(
      'SELECT id, notice AS kind FROM domain WHERE notice IS NOT NULL ORDER BY id LIMIT ?',
      limit,
    );
    const notices: DomainNotice[] = [];
    for (const { id, kind } of rows) {
      const [domain] = await readDomains(tx, 'WHERE id = ?', id);
      if (domain) notices.push({ kind, domain });
    }
    return notices;
  },
);

export const noticeGivenOperation = operation(
  'domains.noticeGiven',
  'write',
  async (tx, { id, kind }: { id: string; kind: DomainNotice['kind'] }): Promise<void> => {
    await tx.run('UPDATE domain SET notice = NULL WHERE id = ? AND notice = ?', id, kind);
  },
);

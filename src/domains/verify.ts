/**
 * Adds and verifies sender domains. Adding generates RSA-2048 and Ed25519 keys (off the event loop), encrypts the private keys, and stores
 * everything in one transaction. Adding a domain again changes nothing. Selectors are random, so several accounts or installations can
 * verify the same domain.
 *
 * A domain is verified by the DNS record of its RSA key. A verified domain whose record disappears becomes `failing`; a failed DNS lookup
 * changes nothing. A domain that an operator marked as verified stays verified until its record was found once. The result is stored per
 * key: messages are signed with Ed25519 only while its key is known to be published.
 *
 *   pending ──found──▶ verified ──missing or different──▶ failing ──found──▶ verified
 *
 * States of keys: next ──on every server for an hour──▶ active (signs) ──the next key signs──▶ retired, and deleted ten days later.
 */
import { changedBy, type Origin, systemOrigin } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { failure, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { newId, randomText } from '../base/ids.ts';
import { seal } from '../base/seal.ts';
import { limitReached } from '../limits/limits.ts';
import { generateDkimKeys } from '../mail/compose/dkim-sign.ts';
import type { Database } from '../storage/database.ts';
import { type RecordedCheck, recordCheckOperation, rotateKeysOperation } from './check-store.ts';
import { type CheckedRecord, checkRecords, type DnsRecord, type LookUpDeps } from './dns-records.ts';
import { domainChanged } from './domain-changes.ts';
import {
  addDomainOperation,
  type DkimAlgorithm,
  type DomainStatus,
  domainByNameOperation,
  domainOperation,
  isDeciding,
  isMarkedVerified,
  type NewKey,
  type SenderDomain,
  senderDomainName,
} from './store.ts';

/** Context to which an encrypted DKIM key is bound. */
export function sealContext(domainId: string, algorithm: DkimAlgorithm): string {
  return `dkim:${domainId}:${algorithm}`;
}

/** Generates a pair of keys with new selectors, encrypted for this domain. */
async function newKeys(secretKey: Uint8Array, domainId: string): Promise<NewKey[]> {
  const generated = await generateDkimKeys();
  const selector = `pr-${randomText(10).toLowerCase()}`;
  const keyOf = (algorithm: DkimAlgorithm): NewKey => ({
    algorithm,
    selector: `${selector}-${algorithm === 'rsa' ? 'rsa' : 'ed'}`,
    publicKey: generated[algorithm].dnsValue,
    privateKeySealed: seal(secretKey, generated[algorithm].privateKeyPem, sealContext(domainId, algorithm)),
  });
  return [keyOf('rsa'), keyOf('ed25519')];
}

/**
 * Creates the next keys, which have no effect until their records are published; returns false if there are next keys already. `isNoticed`:
 * the account is notified by email.
 */
export async function rotateKeys(
  rotating: Adding & { isNoticed: boolean },
  { id, accountId, keys }: SenderDomain,
): Promise<boolean> {
  if (keys.some(({ state }) => state === 'next')) return false;
  const { database, clock, secretKey, isNoticed } = rotating;
  const nowMs = clock.now();
  const by = rotating.by ?? { ...systemOrigin(nowMs), accountId };
  const made = await newKeys(secretKey, id);
  return changedBy(database, by).execute(rotateKeysOperation, { id, keys: made, nowMs, isNoticed });
}

interface Adding {
  database: Database;
  clock: Clock;
  secretKey: Uint8Array;
  /** Who requests it; the service itself if absent. */
  by?: Origin;
}

/** The domain and whether it is new; INVALID_REQUEST for a bad name, NOT_FOUND for an unknown account,
 * LIMIT_REACHED. */
export async function addDomain(
  adding: Adding,
  wish: { accountId: string; domain: string; verified: boolean },
): Promise<Result<{ created: boolean; domain: SenderDomain }>> {
  const name = senderDomainName(wish.domain);
  if (!name.ok) return refuse(invalid([{ field: 'domain', message: name.reason }]));
  const { database } = adding;
  const { accountId } = wish;
  const known = await database.execute(domainByNameOperation, { accountId, domain: name.domain });
  if (known && (!wish.verified || known.status === 'verified')) return ok({ created: false, domain: known });
  const nowMs = adding.clock.now();
  const id = newId('dom', nowMs);
  const outcome = await changedBy(database, adding.by ?? systemOrigin(nowMs)).execute(addDomainOperation, {
    id,
    accountId,
    domain: name.domain,
    status: wish.verified ? 'verified' : 'pending',
    nowMs,
    keys: await newKeys(adding.secretKey, id),
  });
  if ('refused' in outcome) {
    return refuse(outcome.refused === 'unknown-account' ? failure('NOT_FOUND') : limitReached(outcome.refused));
  }
  domainChanged(database, { accountId, domainId: outcome.domain.id });
  return ok(outcome);
}

interface Verifying extends LookUpDeps {
  database: Database;
  clock: Clock;
  /** Who requests it; the service itself if absent. */
  by?: Origin;
}

interface Verification {
  /** Whether the record that decides was found. */
  success: boolean;
  message: string;
  status: DomainStatus;
  records: DnsRecord[];
}

/** How often a check is made again if the keys of the domain were changed during the check. */
const MOST_CHECKS = 3;

/** Checks the DNS, records the result, and describes in one sentence what to do. */
export async function verifyDomain(verifying: Verifying, domain: SenderDomain): Promise<Verification> {
  const { database } = verifying;
  let current = domain;
  for (let checks = 1; ; checks += 1) {
    const { recorded, ...checked } = await checkOnce(verifying, current);
    if (recorded === 'deleted') return { ...checked, status: current.status };
    if (recorded !== 'keys-changed') {
      domainChanged(database, { accountId: domain.accountId, domainId: domain.id });
      return { ...checked, status: recorded };
    }
    const changed = await database.execute(domainOperation, { id: domain.id, accountId: null });
    if (changed === null || checks === MOST_CHECKS) return { ...checked, status: current.status };
    current = changed;
  }
}

/**
 * If only some servers of the zone have the record, the status is unchanged. The next keys sign once every server has had theirs for an
 * hour, or immediately when one has it and the current record is missing. Postrider waits up to a day for a server that does not respond;
 * the hour of the other servers starts after that.
 */
async function checkOnce(
  verifying: Verifying,
  domain: SenderDomain,
): Promise<Omit<Verification, 'status'> & { recorded: RecordedCheck }> {
  const { database, clock } = verifying;
  const startedMs = clock.now();
  const found = await checkRecords(domain, verifying);
  const present = found.find(({ key }) => key !== undefined && isDeciding(key));
  if (!present) throw new Error(`domain ${domain.id} has no RSA key`);
  const nowMs = clock.now();
  const next = found.find(({ key }) => key?.state === 'next' && key.algorithm === 'rsa');
  const promotes = next?.isEverywhere === true && (isGone(present) || shownForMs(next, nowMs) >= SHOWN_MS);
  const decisive = promotes ? next : present;
  const keys = found.flatMap(({ key, record, isSomewhere, isEverywhere, unanswered = [] }) => {
    if (!key) return [];
    const isPublished = record.status === 'verified';
    const isUnknown = record.status === 'unknown';
    const isUnsure = isUnknown || (isSomewhere && !isPublished);
    return [
      {
        selector: key.selector,
        isPublished: isUnsure ? null : isPublished,
        isEverywhere: isUnknown ? null : isEverywhere,
        isWaitedFor: unanswered.length > 0,
      },
    ];
  });
  const success = decisive.record.status === 'verified';
  const changes = changedBy(database, verifying.by ?? systemOrigin(nowMs));
  const recorded = await changes.execute(recordCheckOperation, {
    id: domain.id,
    status: success ? 'verified' : isGone(decisive) ? 'failing' : null,
    nowMs,
    basis: { startedMs, keys: domain.keys },
    keys,
    isReturnPath: returnPathOf(found),
    promotes,
    tracking: found.find(({ record }) => record.purpose === 'tracking')?.tracking,
  });
  const message = success ? `${domain.domain} is verified.` : failureText(domain, decisive);
  return { success, message, records: found.map(({ record }) => record), recorded };
}

function failureText(domain: SenderDomain, { record }: CheckedRecord): string {
  const note = record.note!;
  return isMarkedVerified(domain)
    ? `${note} You can still send, because an operator marked the domain as verified.`
    : note;
}

/** How long a key must be visible before it signs, so that no receiver has cached its absence. */
const SHOWN_MS = 3_600_000;

function shownForMs({ key }: CheckedRecord, nowMs: number): number {
  return key?.shownSince == null ? 0 : nowMs - key.shownSince;
}

/** Returns null if the lookup failed. */
function returnPathOf(found: readonly CheckedRecord[]): boolean | null {
  const status = found.find(({ record }) => record.purpose === 'return-path')?.record.status;
  return status === 'unknown' ? null : status === 'verified';
}

function isGone({ record, isSomewhere }: CheckedRecord): boolean {
  return !isSomewhere && (record.status === 'missing' || record.status === 'different');
}

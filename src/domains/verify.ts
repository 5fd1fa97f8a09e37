/**
 * Verifying a sender domain: the RSA key's record must be in the DNS. A domain that was verified and whose record is
 * gone becomes `failing`; a DNS that does not answer changes nothing. What was found of each key is kept: a mail is signed with
 * Ed25519 only while its key is known to be published.
 *
 *   pending ──found──▶ verified ──missing or different──▶ failing ──found──▶ verified
 */
import type { Clock } from '../base/clock.ts';
import type { Dns } from '../net/dns.ts';
import type { Database } from '../storage/database.ts';
import { domainChanged } from './changes.ts';
import { type DnsRecord, lookUpRecords } from './dns-records.ts';
import type { DomainStatus, SenderDomain } from './domain.ts';
import { recordCheckOperation } from './store.ts';

export interface Verifying {
  database: Database;
  clock: Clock;
  dns: Dns;
  sendingHost: string;
}

export interface Verification {
  /** Whether the domain is verified now. */
  success: boolean;
  message: string;
  status: DomainStatus;
  records: DnsRecord[];
}

/** Asks the DNS, records what came of it, and says in one sentence what to do. */
export async function verifyDomain(verifying: Verifying, domain: SenderDomain): Promise<Verification> {
  const records = await lookUpRecords(domain, verifying);
  const decisive = records.find((record) => record.required);
  if (!decisive) throw new Error(`domain ${domain.id} has no RSA key`);
  const found = decisive.status === 'verified';
  const failing: DomainStatus = domain.status === 'pending' ? 'pending' : 'failing';
  const status = found ? 'verified' : decisive.status === 'unknown' ? domain.status : failing;
  const { database, clock } = verifying;
  const keys = domain.keys.map(({ algorithm }, index) => {
    const { status: found } = records[index]!;
    return { algorithm, isPublished: found === 'unknown' ? null : found === 'verified' };
  });
  await database.execute(recordCheckOperation, { id: domain.id, status, nowMs: clock.now(), keys });
  domainChanged(database, { accountId: domain.accountId, domainId: domain.id });
  const message = found ? `${domain.domain} is verified.` : decisive.note!;
  return { success: found, message, status, records };
}

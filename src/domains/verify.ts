/**
 * Verifying a sender domain: the RSA key's record must be in the DNS. A domain that was verified and whose record is
 * gone becomes `failing`; a DNS that does not answer changes nothing.
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

function explain(record: DnsRecord, domain: string): string {
  switch (record.status) {
    case 'verified':
      return `${domain} is verified.`;
    case 'different':
      return `The TXT record at ${record.name} has another key; replace it by the value in dns-records, and take care that it is not cut off.`;
    case 'unknown':
      return `The DNS did not answer for ${record.name}; try again in a few minutes.`;
    default:
      return `There is no TXT record at ${record.name} yet; publish the value in dns-records. A new record can take up to an hour to be seen.`;
  }
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
  await database.execute(recordCheckOperation, { id: domain.id, status, nowMs: clock.now() });
  domainChanged(database, { accountId: domain.accountId, domainId: domain.id });
  return { success: found, message: explain(decisive, domain.domain), status, records };
}

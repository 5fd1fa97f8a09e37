/**
 * Adding a sender domain: RSA-2048 and Ed25519 keys are made (off the event loop), the private ones sealed, and all of it
 * stored in one transaction. Adding a domain again changes nothing, so that a repeated call is harmless. The selectors are
 * random, so that several accounts or installations can prove one domain side by side.
 */
import type { Clock } from '../base/clock.ts';
import { failure, invalid } from '../base/failure.ts';
import { newId, randomText } from '../base/ids.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { seal } from '../base/seal.ts';
import { limitReached } from '../caps/caps.ts';
import { generateDkimKeys } from '../mail/compose/dkim-sign.ts';
import type { Database } from '../storage/database.ts';
import { domainChanged } from './changes.ts';
import { type DkimAlgorithm, type SenderDomain, senderDomainName } from './domain.ts';
import { addDomainOperation, domainByNameOperation } from './store.ts';

/** What a sealed DKIM key is bound to. */
export function sealContext(domainId: string, algorithm: DkimAlgorithm): string {
  return `dkim:${domainId}:${algorithm}`;
}

export interface Adding {
  database: Database;
  clock: Clock;
  secretKey: Uint8Array;
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
  const generated = await generateDkimKeys();
  const selector = `pr-${randomText(10).toLowerCase()}`;
  const keyOf = (algorithm: DkimAlgorithm) => ({
    algorithm,
    selector: `${selector}-${algorithm === 'rsa' ? 'rsa' : 'ed'}`,
    publicKey: generated[algorithm].dnsValue,
    privateKeySealed: seal(adding.secretKey, generated[algorithm].privateKeyPem, sealContext(id, algorithm)),
  });
  const outcome = await database.execute(addDomainOperation, {
    id,
    accountId,
    domain: name.domain,
    status: wish.verified ? 'verified' : 'pending',
    nowMs,
    keys: [keyOf('rsa'), keyOf('ed25519')],
  });
  if ('refused' in outcome) {
    return refuse(outcome.refused === 'unknown-account' ? failure('NOT_FOUND') : limitReached(outcome.refused));
  }
  domainChanged(database, { accountId, domainId: outcome.domain.id });
  return ok(outcome);
}

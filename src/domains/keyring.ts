/**
 * Answers two questions for sending, from memory: whether an account may send from a domain, and which keys sign its mail. RSA always
 * signs; Ed25519 signs only once its record was found, because a signature without a published key fails at every receiver. A verified
 * domain covers its subdomains; the longest matching domain signs. A day after its record disappeared, a domain can no longer send, but
 * accepted mail is still signed and sent. Changes in this process take effect immediately, and those of other processes within a second,
 * because cached answers expire.
 */
import { createPrivateKey, type KeyObject } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import { open } from '../base/seal.ts';
import { domainToAscii } from '../mail/address.ts';
import type { DkimKey } from '../mail/compose/dkim-sign.ts';
import type { Database } from '../storage/database.ts';
import { onDomainChange } from './domain-changes.ts';
import {
  coveringDomains,
  RETURN_PATH_LABEL,
  SENDS_WHILE_FAILING_MS,
  type SendingDomain,
  sealedKeysOperation,
  sendingDomainOperation,
} from './store.ts';
import { sealContext } from './verify.ts';

const FRESH_MS = 700;
const SENDERS_KEPT = 10_000;
const DOMAINS_KEPT = 5_000;

interface SendingQuery {
  accountId: string;
  domain: string;
}

function findSending(
  database: Database,
  { accountId, domain }: SendingQuery,
  failingAfterMs: number | null,
): Promise<SendingDomain | null> {
  const names = coveringDomains(domainToAscii(domain) ?? '');
  if (names.length === 0) return Promise.resolve(null);
  return database.execute(sendingDomainOperation, { accountId, names, failingAfterMs });
}

export interface SenderCheck {
  /** Uses cached results for recently used domains. Refusals are not cached, so that they end immediately. */
  isVerified(accountId: string, domain: string): Promise<boolean>;
}

export function createSenderCheck({ database, clock }: { database: Database; clock: Clock }): SenderCheck {
  const mayStillSend = async (requested: SendingQuery): Promise<boolean> =>
    (await findSending(database, requested, clock.now() - SENDS_WHILE_FAILING_MS)) !== null;
  const cache = createFreshCache<SendingQuery, string>({
    clock,
    maxAgeMs: FRESH_MS,
    limit: SENDERS_KEPT,
    absentLimit: 0,
    read: async (requested) => ((await mayStillSend(requested)) ? requested.accountId : undefined),
  });
  onDomainChange(database, ({ accountId }) => cache.evictWhere((known) => known === accountId));
  return {
    isVerified: async (accountId, domain) =>
      (await cache.get(`${accountId} ${domain}`, { accountId, domain })) !== undefined,
  };
}

export interface SigningKeys {
  /** The `d=` of the signatures: the verified domain, in A-labels. */
  domain: string;
  /** RSA first. */
  keys: DkimKey[];
  /** A name below the domain that points to Postrider, which can receive bounces. */
  returnPath: string | undefined;
}

export interface DkimKeyring {
  /** The keys that sign mail from this domain; undefined when the account has no verified domain that covers it. */
  keysFor(accountId: string, fromDomain: string): Promise<SigningKeys | undefined>;
}

export function createDkimKeyring(options: { database: Database; clock: Clock; secretKey: Uint8Array }): DkimKeyring {
  const { database, clock, secretKey } = options;
  // Parsing a key costs more than reading it, so parsed keys are cached by domain until its keys change.
  const parsed = new Map<string, DkimKey[]>();

  const parse = async ({ id, selectors }: SendingDomain): Promise<DkimKey[]> => {
    const chosen = (keys: DkimKey[]) => keys.filter(({ selector }) => selectors.includes(selector));
    const known = chosen(parsed.get(id) ?? []);
    if (known.length === selectors.length) return known;
    const sealed = await database.execute(sealedKeysOperation, id);
    const keys = sealed.map((key) => {
      const pem = open(secretKey, key.privateKeySealed, sealContext(id, key.algorithm));
      const privateKey: KeyObject = createPrivateKey(pem);
      pem.fill(0);
      return { algorithm: key.algorithm, selector: key.selector, privateKey };
    });
    parsed.set(id, keys);
    if (parsed.size > DOMAINS_KEPT) parsed.delete(parsed.keys().next().value as string);
    return chosen(keys);
  };

  // The absence of keys is never cached: mail accepted just after the verification must be signed.
  const cache = createFreshCache<SendingQuery, { accountId: string; signing: SigningKeys }>({
    clock,
    maxAgeMs: FRESH_MS,
    limit: SENDERS_KEPT,
    absentLimit: 0,
    read: async (requested) => {
      const found = await findSending(database, requested, null);
      if (!found) return undefined;
      const keys = await parse(found);
      const returnPath = found.hasReturnPath ? RETURN_PATH_LABEL + found.domain : undefined;
      return { accountId: requested.accountId, signing: { domain: found.domain, keys, returnPath } };
    },
  });
  onDomainChange(database, ({ accountId, domainId }) => {
    cache.evictWhere((known) => known.accountId === accountId);
    parsed.delete(domainId);
  });

  return {
    keysFor: async (accountId, fromDomain) =>
      (await cache.get(`${accountId} ${fromDomain}`, { accountId, domain: fromDomain }))?.signing,
  };
}

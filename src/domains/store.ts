/**
 * Stores sender domains and their DKIM keys, whose private keys are already encrypted. Also defines the types of domains and checks their
 * names. A domain is stored as A-labels in lower case. Single labels, IP addresses, and the most common public suffixes are refused. Other
 * public suffixes cannot be verified anyway, because their zone does not belong to the customer.
 */
import { isIP } from 'node:net';
import { change } from '../audit/audit.ts';
import { checkLimit, type LimitReached } from '../limits/limits.ts';
import { domainToAscii } from '../mail/address.ts';
import { locked, operation, type SqlValue, type Transaction } from '../storage/operation.ts';

export type DomainStatus = 'pending' | 'verified' | 'failing';
export type DkimAlgorithm = 'rsa' | 'ed25519';

/** A `next` key signs once it is published. An `active` key signs. A `retired` key stays published for mail that it has signed. */
export type KeyState = 'next' | 'active' | 'retired';

/**
 * The state of a domain's tracking host. `named`: its DNS record points to Postrider. `served`: this service also responds there, so links
 * use the host.
 */
export type TrackingState = 'named' | 'served';

export interface DomainKey {
  algorithm: DkimAlgorithm;
  selector: string;
  /** The value of the TXT record. */
  publicKey: string;
  state: KeyState;
  /** When the last check was made, if it found the record in DNS; Unix ms. */
  publishedAt: number | null;
  /** Unix ms since when every server of the zone has the record; in the future while Postrider waits for an unresponsive server. */
  shownSince: number | null;
  createdAt: number;
  retiredAt: number | null;
}

export interface SenderDomain {
  id: string;
  accountId: string;
  domain: string;
  status: DomainStatus;
  /** All times are in Unix ms. */
  createdAt: number;
  checkedAt: number | null;
  /** Since when the record is missing; set while the domain is failing. */
  failingSince: number | null;
  /** The state of the tracking host according to the last check. */
  tracking: TrackingState | null;
  /** The keys: signing keys first, RSA before Ed25519. */
  keys: DomainKey[];
}

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** A longer domain would not leave space for the selector and `_domainkey` in a DNS name. */
const MAX_DOMAIN_LENGTH = 200;
/** Matches second-level suffixes, such as co.uk, under the country codes that use them. */
const PUBLIC_SUFFIX =
  /^(?:co|com|org|net|gov|edu|ac|mil|or|ne|go|gob|gouv|sch|plc|ltd|me)\.(?:uk|au|nz|za|jp|kr|br|in|il|th|tr|mx|ar|sg|hk|my|cn|tw|id|ph|vn|ke|ng|eg|sa|ae|pk|bd|ve|pe|ec|uy)$/;

type DomainName = { ok: true; domain: string } | { ok: false; reason: string };

/** Returns the name as stored, or the reason why it cannot be a sender domain, which completes a sentence that starts with the field. */
export function senderDomainName(text: string): DomainName {
  const refused = (reason: string): DomainName => ({ ok: false, reason });
  const typed = text.replace(/\.$/, '');
  if (isIP(typed.replace(/^\[|\]$/g, '')) !== 0) return refused('is an IP address; use a domain name');
  if (typed.includes('@')) return refused('is an email address; use the part after the @');
  const domain = domainToAscii(typed.normalize('NFC'));
  if (domain === undefined) return refused('is not a valid domain name');
  const labels = domain.split('.');
  if (labels.length < 2) return refused('must have at least two labels, such as example.com');
  if (domain.length > MAX_DOMAIN_LENGTH) return refused(`must be at most ${MAX_DOMAIN_LENGTH} characters long`);
  if (!labels.every((label) => LABEL.test(label))) {
    return refused('must be a domain name of letters, digits, and hyphens, such as example.com');
  }
  if (/^\d+$/.test(labels.at(-1)!)) return refused('must not end in a number');
  if (PUBLIC_SUFFIX.test(domain)) return refused('is a public suffix; use a domain that you own');
  return { ok: true, domain };
}

/** Returns the domain and the parent domains that could cover it, longest first: `a.b.example.com` → itself, b.example.com, example.com. */
export function coveringDomains(domain: string): string[] {
  const labels = domain.split('.');
  const list: string[] = [];
  for (let i = 0; i + 2 <= labels.length && list.length < 20; i += 1) list.push(labels.slice(i).join('.'));
  return list;
}

/** Returns whether the domain is verified only because an operator marked it: no check has found its key. */
export function isMarkedVerified(domain: Pick<SenderDomain, 'status' | 'keys'>): boolean {
  return domain.status === 'verified' && !domain.keys.some((key) => isDeciding(key) && key.publishedAt !== null);
}

/** Returns whether the DNS record of this key decides that the domain is verified. */
export function isDeciding({ algorithm, state }: Pick<DomainKey, 'algorithm' | 'state'>): boolean {
  return algorithm === 'rsa' && state === 'active';
}

/** How long a verified domain can still send after its record disappeared. */
export const SENDS_WHILE_FAILING_MS = 86_400_000;

/** A retired key must stay published while its last message may be retried (72 hours), and seven days longer. */
export const RETIRED_KEPT_MS = 10 * 86_400_000;

/** The name of a return path is this prefix followed by the sender domain. */
export const RETURN_PATH_LABEL = 'bounces.';

type DomainRow = Omit<SenderDomain, 'keys'>;

const DOMAIN =
  'id, account_id AS "accountId", domain, status, created_at AS "createdAt", checked_at AS "checkedAt", failing_since AS "failingSince", tracking';
const KEY =
  'algorithm, selector, public_key AS "publicKey", state, published_at AS "publishedAt", shown_since AS "shownSince", created_at AS "createdAt", retired_at AS "retiredAt"';

async function withKeys(tx: Transaction, row: DomainRow): Promise<SenderDomain> {
  const keys = await tx.all<DomainKey>(
    `SELECT ${KEY} FROM dkim_key WHERE domain_id = ?
     ORDER BY CASE state WHEN 'active' THEN 0 WHEN 'next' THEN 1 ELSE 2 END, retired_at DESC, algorithm DESC`,
    row.id,
  );
  return { ...row, keys };
}

/** Reads the domains that match an SQL condition, each with its keys. */
export async function readDomains(tx: Transaction, condition: string, ...params: SqlValue[]): Promise<SenderDomain[]> {
  const rows = await tx.all<DomainRow>(`SELECT ${DOMAIN} FROM domain ${condition}`, ...params);
  const list: SenderDomain[] = [];
  for (const row of rows) list.push(await withKeys(tx, row));
  return list;
}

export interface NewDomain {
  id: string;
  accountId: string;
  domain: string;
  status: DomainStatus;
  nowMs: number;
  keys: NewKey[];
}

export interface NewKey {
  algorithm: DkimAlgorithm;
  selector: string;
  publicKey: string;
  privateKeySealed: Uint8Array;
}

/** Inserts keys of a domain that has no keys in this state yet. */
export async function insertKeys(
  tx: Transaction,
  keys: readonly NewKey[],
  { domainId, state, nowMs }: { domainId: string; state: KeyState; nowMs: number },
): Promise<void> {
  for (const key of keys) {
    await tx.run(
      `INSERT INTO dkim_key (domain_id, algorithm, selector, public_key, private_key_sealed, created_at, state)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      domainId,
      key.algorithm,
      key.selector,
      key.publicKey,
      key.privateKeySealed,
      nowMs,
      state,
    );
  }
}

type AddOutcome = { created: boolean; domain: SenderDomain } | { refused: 'unknown-account' | LimitReached };

export const DOMAIN_TRAIL = { table: 'domain', shows: ['domain', 'status'] };

/** Adds a domain with its keys. An existing domain keeps its keys, and becomes verified if requested. */
export const addDomainOperation = change(
  'domains.add',
  async (tx, added: NewDomain): Promise<AddOutcome> => {
    // This locks the account, so it cannot be deleted before the transaction ends.
    if (!(await tx.get(`SELECT 1 AS found FROM account WHERE id = ? ${locked(tx)}`, added.accountId))) {
      return { refused: 'unknown-account' };
    }
    const reached = await exceededLimit(tx, added);
    if (reached) return { refused: reached };
    const changed = await tx.run(
      `INSERT INTO domain (id, account_id, domain, status, created_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (account_id, domain) DO NOTHING`,
      added.id,
      added.accountId,
      added.domain,
      added.status,
      added.nowMs,
    );
    if (changed === 1) {
      await insertKeys(tx, added.keys, { domainId: added.id, state: 'active', nowMs: added.nowMs });
    } else if (added.status === 'verified') {
      await tx.run(
        `UPDATE domain SET status = 'verified', failing_since = NULL, notice = NULL WHERE account_id = ? AND domain = ?`,
        added.accountId,
        added.domain,
      );
    }
    const row = await tx.get<DomainRow>(
      `SELECT ${DOMAIN} FROM domain WHERE account_id = ? AND domain = ?`,
      added.accountId,
      added.domain,
    );
    return { created: changed === 1, domain: await withKeys(tx, row as DomainRow) };
  },
  {
    ...DOMAIN_TRAIL,
    action: 'domain.add',
    where: ({ accountId, domain }) => ({ account_id: accountId, domain }),
    resourceId: (_, added) => ('domain' in added ? added.domain.id : null),
  },
);

/** Returns the limit that adding this domain would exceed. Undefined if there is none, or if the domain already exists. */
async function exceededLimit(
  tx: Transaction,
  { accountId, domain, nowMs }: NewDomain,
): Promise<LimitReached | undefined> {
  if (await tx.get('SELECT 1 AS found FROM domain WHERE account_id = ? AND domain = ?', accountId, domain)) return;
  return checkLimit(tx, { accountId, limit: 'domains', nowMs });
}

/** Returns a domain of an account by name; null if the account has no such domain. */
export const domainByNameOperation = operation(
  'domains.byName',
  'read',
  async (tx, args: { accountId: string; domain: string }): Promise<SenderDomain | null> => {
    const row = await tx.get<DomainRow>(
      `SELECT ${DOMAIN} FROM domain WHERE account_id = ? AND domain = ?`,
      args.accountId,
      args.domain,
    );
    return row ? withKeys(tx, row) : null;
  },
);

/**
 * Returns the account that signs for exactly this domain: the domain is verified and its key was found in DNS. If several accounts do,
 * returns the one that added the domain first; null if there is none.
 */
export const signingAccountOperation = operation(
  'domains.signingAccount',
  'read',
  async (tx, domain: string): Promise<string | null> => {
    const domains = await readDomains(tx, `WHERE domain = ? AND status = 'verified' ORDER BY id`, domain);
    return domains.find((one) => !isMarkedVerified(one))?.accountId ?? null;
  },
);

/** Returns a domain by id; with an account id, only if it belongs to that account. */
export const domainOperation = operation(
  'domains.get',
  'read',
  async (tx, args: { id: string; accountId: string | null }): Promise<SenderDomain | null> => {
    const row = await tx.get<DomainRow>(
      `SELECT ${DOMAIN} FROM domain WHERE id = ? AND account_id = coalesce(?, account_id)`,
      args.id,
      args.accountId,
    );
    return row ? withKeys(tx, row) : null;
  },
);

/** Returns a page of domains, newest first; `before` is the last id of the previous page. */
export const domainsOperation = operation(
  'domains.list',
  'read',
  async (tx, args: { accountId: string; before: string | null; limit: number }): Promise<SenderDomain[]> => {
    const { accountId, before, limit } = args;
    return readDomains(
      tx,
      'WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ?',
      accountId,
      before ?? 'dom_~',
      limit,
    );
  },
);

export const deleteDomainOperation = change(
  'domains.delete',
  async (tx, args: { id: string; accountId: string }): Promise<boolean> => {
    await tx.get(`SELECT 1 AS found FROM account WHERE id = ? ${locked(tx)}`, args.accountId);
    const own = await tx.get('SELECT 1 AS found FROM domain WHERE id = ? AND account_id = ?', args.id, args.accountId);
    if (!own) return false;
    await tx.run('DELETE FROM dkim_key WHERE domain_id = ?', args.id);
    await tx.run('DELETE FROM domain WHERE id = ?', args.id);
    return true;
  },
  { ...DOMAIN_TRAIL, action: 'domain.delete' },
);

export interface SendingDomain {
  id: string;
  domain: string;
  /** The selectors of the signing keys, RSA first. Ed25519 is included only if the last check found its record in DNS. */
  selectors: string[];
  /** Whether the return path pointed to Postrider at the last check. */
  hasReturnPath: boolean;
}

interface SendingRequest {
  accountId: string;
  names: string[];
  /** Excludes failing domains whose record has been missing since this time or longer; null excludes none. */
  failingAfterMs: number | null;
}

/**
 * Returns the longest of these names that the account can send from; null if there is none. Verified domains take precedence over failing
 * ones.
 */
export const sendingDomainOperation = operation(
  'domains.sending',
  'read',
  async (tx, { accountId, names, failingAfterMs }: SendingRequest): Promise<SendingDomain | null> => {
    const row = await tx.get<{ id: string; domain: string; return_path_at: number | null }>(
      `SELECT id, domain, return_path_at FROM domain
       WHERE account_id = ? AND (status = 'verified' OR (status = 'failing' AND coalesce(failing_since, 0) > ?))
         AND domain IN (${names.map(() => '?').join(', ')})
       ORDER BY status DESC, length(domain) DESC LIMIT 1`,
      accountId,
      failingAfterMs ?? -1,
      ...names,
    );
    if (!row) return null;
    const keys = await tx.all<{ selector: string }>(
      `SELECT selector FROM dkim_key
       WHERE domain_id = ? AND state = 'active' AND (algorithm = 'rsa' OR published_at IS NOT NULL) ORDER BY algorithm DESC`,
      row.id,
    );
    const { return_path_at: returnPathAt, ...found } = row;
    return { ...found, selectors: keys.map(({ selector }) => selector), hasReturnPath: returnPathAt !== null };
  },
);

interface SealedKey {
  algorithm: DkimAlgorithm;
  selector: string;
  privateKeySealed: Uint8Array;
}

/** Returns the private keys of a domain, encrypted: the active keys, and retired keys, which messages in progress may still use. */
export const sealedKeysOperation = operation(
  'domains.sealedKeys',
  'read',
  async (tx, domainId: string): Promise<SealedKey[]> =>
    tx.all<SealedKey>(
      `SELECT algorithm, selector, private_key_sealed AS "privateKeySealed" FROM dkim_key
       WHERE domain_id = ? AND state <> 'next' ORDER BY algorithm DESC, selector`,
      domainId,
    ),
);

/** Returns the newest domains of all accounts, for the operator's checks. */
export const domainsToCheckOperation = operation('domains.toCheck', 'read', (tx, limit: number) =>
  readDomains(tx, 'ORDER BY id DESC LIMIT ?', limit),
);

/** `confirmed`: the domain was verified, and its last check found that the name points to Postrider. `unconfirmed`: anyone can add one. */
export type ReturnPathState = 'confirmed' | 'unconfirmed' | 'none';

/** Returns whether a name is the return path of a sender domain: `bounces.` and the domain. */
export const returnPathStateOperation = operation(
  'domains.returnPathState',
  'read',
  async (tx, name: string): Promise<ReturnPathState> => {
    const domain = name.startsWith(RETURN_PATH_LABEL) ? name.slice(RETURN_PATH_LABEL.length) : '';
    const found = await tx.get<{ confirmed: number | null }>(
      `SELECT max(CASE WHEN status <> 'pending' AND return_path_at IS NOT NULL THEN 1 ELSE 0 END) AS confirmed
       FROM domain WHERE domain = ?`,
      domain,
    );
    if (found === undefined || found.confirmed === null) return 'none';
    return found.confirmed === 1 ? 'confirmed' : 'unconfirmed';
  },
);

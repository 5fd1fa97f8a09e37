/** The rows of sender domains and their DKIM keys; private keys are sealed before they come here. */
import { type CapReached, capReached } from '../caps/caps.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { type DkimAlgorithm, type DomainKey, type DomainStatus, MAY_SEND, type SenderDomain } from './domain.ts';

interface DomainRow {
  id: string;
  accountId: string;
  domain: string;
  status: DomainStatus;
  createdAt: number;
  checkedAt: number | null;
}

const DOMAIN = 'id, account_id AS "accountId", domain, status, created_at AS "createdAt", checked_at AS "checkedAt"';
const SENDING = MAY_SEND.map((status) => `'${status}'`).join(', ');

async function withKeys(tx: Transaction, row: DomainRow): Promise<SenderDomain> {
  // RSA first: it is the one that decides.
  const keys = await tx.all<DomainKey>(
    `SELECT algorithm, selector, public_key AS "publicKey", published_at AS "publishedAt" FROM dkim_key
     WHERE domain_id = ? ORDER BY algorithm DESC`,
    row.id,
  );
  return { ...row, keys };
}

export interface NewDomain {
  id: string;
  accountId: string;
  domain: string;
  status: DomainStatus;
  nowMs: number;
  keys: { algorithm: DkimAlgorithm; selector: string; publicKey: string; privateKeySealed: Uint8Array }[];
}

export type AddOutcome = { created: boolean; domain: SenderDomain } | { refused: 'unknown-account' | CapReached };

/** Adds a domain with its keys. One that is there already keeps its keys; it only becomes verified where that is asked for. */
export const addDomainOperation = operation(
  'domains.add',
  'write',
  async (tx, added: NewDomain): Promise<AddOutcome> => {
    // Held, so that the domain is not deleted between here and the end.
    if (!(await tx.get(`SELECT 1 AS found FROM account WHERE id = ? ${locked(tx)}`, added.accountId))) {
      return { refused: 'unknown-account' };
    }
    const reached = await isOneTooMany(tx, added);
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
      for (const key of added.keys) {
        await tx.run(
          `INSERT INTO dkim_key (domain_id, algorithm, selector, public_key, private_key_sealed, created_at)
         VALUES (?, ?, ?, ?, ?, ?)`,
          added.id,
          key.algorithm,
          key.selector,
          key.publicKey,
          key.privateKeySealed,
          added.nowMs,
        );
      }
    } else if (added.status === 'verified') {
      await tx.run(
        `UPDATE domain SET status = 'verified' WHERE account_id = ? AND domain = ?`,
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
);

/** Of a domain that is not there yet. */
async function isOneTooMany(tx: Transaction, { accountId, domain }: NewDomain): Promise<CapReached | undefined> {
  if (await tx.get('SELECT 1 AS found FROM domain WHERE account_id = ? AND domain = ?', accountId, domain)) return;
  const count = ['SELECT count(*) AS n FROM domain WHERE account_id = ?', accountId] as const;
  return capReached(tx, { accountId, cap: 'domains', count });
}

/** By name within an account; null when it was not added. */
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

/** By id, of one account or (null) of any. */
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

/** Newest first; `before` is the last id of the page in front. */
export const domainsOperation = operation(
  'domains.list',
  'read',
  async (tx, args: { accountId: string; before: string | null; limit: number }): Promise<SenderDomain[]> => {
    const rows = await tx.all<DomainRow>(
      `SELECT ${DOMAIN} FROM domain WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ?`,
      args.accountId,
      args.before ?? 'dom_~',
      args.limit,
    );
    const list: SenderDomain[] = [];
    for (const row of rows) list.push(await withKeys(tx, row));
    return list;
  },
);

export const deleteDomainOperation = operation(
  'domains.delete',
  'write',
  async (tx, args: { id: string; accountId: string }): Promise<boolean> => {
    await tx.get(`SELECT 1 AS found FROM account WHERE id = ? ${locked(tx)}`, args.accountId);
    const own = await tx.get('SELECT 1 AS found FROM domain WHERE id = ? AND account_id = ?', args.id, args.accountId);
    if (!own) return false;
    await tx.run('DELETE FROM dkim_key WHERE domain_id = ?', args.id);
    await tx.run('DELETE FROM domain WHERE id = ?', args.id);
    return true;
  },
);

/** What a check found of one key; null where the DNS did not answer, which leaves it as it was. */
export interface KeyFinding {
  algorithm: DkimAlgorithm;
  isPublished: boolean | null;
}

/** Records a check. */
export const recordCheckOperation = operation(
  'domains.recordCheck',
  'write',
  async (tx, args: { id: string; status: DomainStatus; nowMs: number; keys: KeyFinding[] }): Promise<void> => {
    await tx.run('UPDATE domain SET status = ?, checked_at = ? WHERE id = ?', args.status, args.nowMs, args.id);
    for (const { algorithm, isPublished } of args.keys) {
      if (isPublished === null) continue;
      await tx.run(
        'UPDATE dkim_key SET published_at = ? WHERE domain_id = ? AND algorithm = ?',
        isPublished ? args.nowMs : null,
        args.id,
        algorithm,
      );
    }
  },
);

export interface SendingDomain {
  id: string;
  domain: string;
  /** Whether the Ed25519 key was in the DNS at the last check. */
  hasEd25519: boolean;
}

/** The longest of these names that the account may send from; null when it may from none. */
export const sendingDomainOperation = operation(
  'domains.sending',
  'read',
  async (tx, args: { accountId: string; names: string[] }): Promise<SendingDomain | null> => {
    const row = await tx.get<{ id: string; domain: string; publishedAt: number | null }>(
      `SELECT d.id, d.domain, k.published_at AS "publishedAt" FROM domain d
         LEFT JOIN dkim_key k ON k.domain_id = d.id AND k.algorithm = 'ed25519'
       WHERE d.account_id = ? AND d.status IN (${SENDING})
         AND d.domain IN (${args.names.map(() => '?').join(', ')}) ORDER BY length(d.domain) DESC LIMIT 1`,
      args.accountId,
      ...args.names,
    );
    return row ? { id: row.id, domain: row.domain, hasEd25519: row.publishedAt !== null } : null;
  },
);

export interface SealedKey {
  algorithm: DkimAlgorithm;
  selector: string;
  privateKeySealed: Uint8Array;
}

export const sealedKeysOperation = operation(
  'domains.sealedKeys',
  'read',
  async (tx, domainId: string): Promise<SealedKey[]> =>
    tx.all<SealedKey>(
      `SELECT algorithm, selector, private_key_sealed AS "privateKeySealed" FROM dkim_key WHERE domain_id = ?
       ORDER BY algorithm DESC`,
      domainId,
    ),
);

/** The newest domains of all accounts; for the operator's checks. */
export const domainsToCheckOperation = operation(
  'domains.toCheck',
  'read',
  async (tx, limit: number): Promise<SenderDomain[]> => {
    const rows = await tx.all<DomainRow>(`SELECT ${DOMAIN} FROM domain ORDER BY id DESC LIMIT ?`, limit);
    const list: SenderDomain[] = [];
    for (const row of rows) list.push(await withKeys(tx, row));
    return list;
  },
);

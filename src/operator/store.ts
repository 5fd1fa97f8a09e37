/**
 * Reads data across all accounts for operators: the accounts, requests for a larger email size with their history, and the queue. Reads of
 * data that grows with the mail are limited, because other readers of SQLite wait for them.
 */
import {
  ACCOUNT_COLUMNS,
  type Account,
  type AccountRow,
  type AccountStatus,
  type Approval,
  accountOf,
  type Plan,
  type ProtectionStatus,
} from '../accounts/accounts.ts';
import { DELIVERY_WORK } from '../messages/messages.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';
import { partFilter } from '../storage/text-filter.ts';

export interface AccountPage {
  /** A part of the account's name, without case. */
  name: string | null;
  status: AccountStatus | null;
  plan: Plan | null;
  /** State of the live mail of active accounts. */
  protectionStatus: ProtectionStatus | null;
  /** Ids below this one. */
  before: string | null;
  limit: number;
}

/** Accounts that are read at a time if their names have to be compared here. */
const COMPARED_ACCOUNTS = 500;

/** Returns a page of accounts, newest first. */
export const accountPageOperation = operation('operator.accounts', 'read', async (tx, page: AccountPage) => {
  const name = page.name === null ? undefined : partFilter(page.name);
  if (name === undefined || name.isExact) return (await selectAccounts(tx, page)).map(accountOf);
  const found: AccountRow[] = [];
  for (let { before } = page; ; ) {
    const rows = await selectAccounts(tx, { ...page, before, limit: COMPARED_ACCOUNTS });
    found.push(...rows.filter((row) => name.matches(row.name)));
    if (found.length >= page.limit || rows.length < COMPARED_ACCOUNTS) return found.slice(0, page.limit).map(accountOf);
    before = rows.at(-1)!.id;
  }
});

async function selectAccounts(tx: Transaction, page: AccountPage): Promise<AccountRow[]> {
  const { sql, params } = allOf([
    ['a.id < ?', page.before],
    ['a.status = ?', page.status],
    ['a.plan = ?', page.plan],
    // The planner uses the partial index only if the condition repeats its own.
    ["a.protection_status <> 'good' AND a.protection_status = ? AND a.status = 'active'", page.protectionStatus],
  ]);
  const name = page.name === null ? undefined : partFilter(page.name).condition(tx, 'a.name');
  return tx.all<AccountRow>(
    `SELECT ${ACCOUNT_COLUMNS} FROM account a WHERE ${sql} ${name ? `AND ${name.sql}` : ''} ORDER BY a.id DESC LIMIT ?`,
    ...params,
    ...(name?.params ?? []),
    page.limit,
  );
}

/** Combines the conditions that have a value. */
function allOf(conditions: readonly [sql: string, value: SqlValue][]): { sql: string; params: SqlValue[] } {
  const present = conditions.filter(([, value]) => value !== null);
  return {
    sql: ['1 = 1', ...present.map(([sql]) => sql)].join(' AND '),
    params: present.map(([, value]) => value),
  };
}

/** Returns when the newest message of the account was created, in either mode (Unix ms); null if it has none. */
export const lastMessageOperation = operation('operator.lastMessage', 'read', async (tx, accountId: string) => {
  let lastAt: number | null = null;
  for (const mode of ['live', 'sandbox']) {
    const row = await tx.get<{ at: number }>(
      'SELECT created_at AS at FROM message WHERE account_id = ? AND mode = ? ORDER BY id DESC LIMIT 1',
      accountId,
      mode,
    );
    if (row && row.at > (lastAt ?? 0)) lastAt = row.at;
  }
  return lastAt;
});

export interface Credentials {
  apiKeys: number;
  smtpCredentials: number;
  /** Sessions of the account's users. */
  sessions: number;
}

/** Counts the account's credentials. */
export const credentialCountsOperation = operation(
  'operator.credentials',
  'read',
  async (tx, { accountId, nowMs }: { accountId: string; nowMs: number }) => {
    const row = await tx.get<Credentials>(
      `SELECT (SELECT count(*) FROM api_key WHERE account_id = ? AND revoked_at IS NULL) AS "apiKeys",
       (SELECT count(*) FROM smtp_credential WHERE account_id = ? AND revoked_at IS NULL) AS "smtpCredentials",
       (SELECT count(*) FROM membership m JOIN user_session s ON s.user_id = m.user_id
        WHERE m.account_id = ? AND s.expires_at > ?) AS sessions`,
      accountId,
      accountId,
      accountId,
      nowMs,
    );
    return row!;
  },
);

/** Live mail accepted since a time, and its results. */
export interface SentMail {
  accepted: number;
  delivered: number;
  bounced: number;
  complained: number;
}

export interface RequestedApproval extends Approval {
  account: Account;
  mail: SentMail;
  /** Number of earlier requests of the account that were approved. */
  approvedBefore: number;
  rejectedBefore: number;
}

export interface ApprovalPage {
  id: string | null;
  status: Approval['status'] | null;
  /** Ids below this one. */
  before: string | null;
  limit: number;
  /** Mail is counted from this time on (Unix ms, the start of a day). */
  sinceMs: number;
}

const APPROVAL = `p.id, p.account_id AS "accountId", p.requested_email_bytes AS "requestedEmailBytes", p.reason, p.status,
  p.decision_reason AS "decisionReason", p.created_at AS "createdAt", p.decided_at AS "decidedAt",
  (SELECT count(*) FROM approval e WHERE e.account_id = p.account_id AND e.id < p.id AND e.status = 'approved') AS "approvedBefore",
  (SELECT count(*) FROM approval e WHERE e.account_id = p.account_id AND e.id < p.id AND e.status = 'rejected') AS "rejectedBefore"`;

/** Returns a page of requests, newest first. */
export const approvalPageOperation = operation(
  'operator.approvals',
  'read',
  async (tx, page: ApprovalPage): Promise<RequestedApproval[]> => {
    const { sql, params } = allOf([
      ['p.id = ?', page.id],
      ['p.id < ?', page.before],
      ['p.status = ?', page.status],
    ]);
    const rows = await tx.all<Omit<RequestedApproval, 'account' | 'mail'>>(
      `SELECT ${APPROVAL} FROM approval p WHERE ${sql} ORDER BY p.id DESC LIMIT ?`,
      ...params,
      page.limit,
    );
    const ids = [...new Set(rows.map(({ accountId }) => accountId))];
    const accounts = await accountsOf(tx, ids);
    const mail = await sentMailOf(tx, ids, page.sinceMs);
    return rows.map((row) => ({
      ...row,
      account: accounts.get(row.accountId)!,
      mail: mail.get(row.accountId) ?? { accepted: 0, delivered: 0, bounced: 0, complained: 0 },
    }));
  },
);

function accountRows(tx: Transaction, ids: readonly string[]) {
  return rowset(
    tx,
    'requested',
    { id: 'text' },
    ids.map((id) => ({ id })),
  );
}

async function accountsOf(tx: Transaction, ids: readonly string[]): Promise<Map<string, Account>> {
  const accounts = accountRows(tx, ids);
  const rows = await tx.all<AccountRow>(
    `SELECT ${ACCOUNT_COLUMNS} FROM account a WHERE a.id IN (SELECT requested.id FROM ${accounts.sql})`,
    ...accounts.params,
  );
  return new Map(rows.map((row) => [row.id, accountOf(row)]));
}

/** Reads the counts of live mail from the statistics. */
async function sentMailOf(tx: Transaction, ids: readonly string[], sinceMs: number): Promise<Map<string, SentMail>> {
  const accounts = accountRows(tx, ids);
  const sum = (columns: string, name: string): string => `CAST(sum(${columns}) AS BIGINT) AS "${name}"`;
  const rows = await tx.all<SentMail & { accountId: string }>(
    `SELECT s.account_id AS "accountId", ${sum('s.accepted', 'accepted')}, ${sum('s.delivered', 'delivered')},
       ${sum('s.bounced_hard + s.bounced_soft + s.bounced_block', 'bounced')}, ${sum('s.complained', 'complained')}
     FROM statistics s WHERE s.account_id IN (SELECT requested.id FROM ${accounts.sql}) AND s.mode = 'live'
       AND s.dimension = 'none' AND s.period = 'day' AND s.start >= ? GROUP BY s.account_id`,
    ...accounts.params,
    sinceMs,
  );
  return new Map(rows.map(({ accountId, ...mail }) => [accountId, mail]));
}

export interface QueueFigures {
  /** Messages that are queued or being delivered. */
  depth: number;
  /** Due now and not yet claimed. */
  due: number;
  /** Held by a worker. */
  leased: number;
  /** Held because their account or destination has too much in memory. */
  held: number;
  /** Not due yet: they wait for their next attempt, their `sendAt`, or the end of a pause. */
  waiting: number;
  /** Attempted at least once. */
  deferred: number;
  /** Unix ms; null if nothing is due. */
  oldestDueMs: number | null;
}

export interface AccountQueue extends QueueFigures {
  accountId: string;
  name: string | null;
}

export interface QueueQuery {
  nowMs: number;
  /** Maximum number of rows to read; rows that are due first are read first. */
  rows: number;
}

/** Returns the queue of each account, the longest first. Counts only the rows that were read. */
export const queueByAccountOperation = operation(
  'operator.queue',
  'read',
  async (tx, { nowMs, rows }: QueueQuery): Promise<AccountQueue[]> =>
    tx.all<AccountQueue>(
      `SELECT q.account_id AS "accountId", a.name, count(*) AS depth,
         sum(CASE WHEN leased = 0 AND held = 0 AND due <= ? THEN 1 ELSE 0 END) AS due,
         sum(CASE WHEN leased > 0 THEN 1 ELSE 0 END) AS leased, sum(CASE WHEN leased = 0 THEN held ELSE 0 END) AS held,
         sum(CASE WHEN leased = 0 AND held = 0 AND due > ? THEN 1 ELSE 0 END) AS waiting,
         sum(CASE WHEN attempts > 0 THEN 1 ELSE 0 END) AS deferred,
         min(CASE WHEN leased = 0 AND due <= ? THEN due END) AS "oldestDueMs"
       FROM (SELECT account_id, leased, held, due, attempts FROM work WHERE kind = ? ORDER BY held, due LIMIT ?) q
         LEFT JOIN account a ON a.id = q.account_id
       GROUP BY q.account_id, a.name ORDER BY depth DESC, q.account_id`,
      nowMs,
      nowMs,
      nowMs,
      DELIVERY_WORK,
      rows,
    ),
);

/** The live messages for one domain, in the rows of the queue that were read. */
export interface DomainQueue {
  domain: string;
  depth: number;
  /** Unix ms when the first unclaimed message is due; null if workers hold all of them. */
  nextDueMs: number | null;
  /** The newest message with a failed attempt; null if there is none. */
  failedSeq: number | null;
}

interface DomainQueueQuery extends Pick<QueueQuery, 'rows'> {
  /** Counts only the messages of this account. */
  accountId?: string;
}

/** Counts live messages by domain, the largest counts first, in this number of queue rows of all accounts. */
export const queueByDomainOperation = operation(
  'operator.queueByDomain',
  'read',
  async (tx, { rows, accountId }: DomainQueueQuery): Promise<DomainQueue[]> =>
    tx.all<DomainQueue>(
      `SELECT domain, count(*) AS depth, min(CASE WHEN leased = 0 THEN due END) AS "nextDueMs",
         max(CASE WHEN failed_at IS NOT NULL THEN seq END) AS "failedSeq" FROM
         (SELECT account_id, mode, seq, leased, due, failed_at, substr(lane, length(account_id) + 2) AS domain FROM work
          WHERE kind = ? ORDER BY held, due LIMIT ?) q
       WHERE mode = 'live' ${accountId === undefined ? '' : 'AND account_id = ?'}
       GROUP BY domain ORDER BY depth DESC, domain LIMIT 5000`,
      DELIVERY_WORK,
      rows,
      ...(accountId === undefined ? [] : [accountId]),
    ),
);

export interface LastAttempt {
  seq: number;
  /** Unix ms. */
  at: number;
  /** JSON of an AttemptRecord. */
  record: string;
}

/** Returns the last attempts of these queued messages; messages without an attempt are omitted. */
export const lastAttemptsOperation = operation(
  'operator.lastAttempts',
  'read',
  async (tx, seqs: readonly number[]): Promise<LastAttempt[]> => {
    const rows = await Promise.all(
      seqs.map((seq) =>
        tx.get<LastAttempt>(
          `SELECT w.seq, a.at, a.record FROM work w
             JOIN attempt a ON a.account_id = w.account_id AND a.message_id = w.subject
           WHERE w.seq = ? ORDER BY a.number DESC LIMIT 1`,
          seq,
        ),
      ),
    );
    return rows.flatMap((row) => row ?? []);
  },
);

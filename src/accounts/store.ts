/**
 * Stores accounts: creates them (with their first keys), changes them, counts their messages, and finds the account of a message. It also
 * stores requests for a larger email size. The operator decides each request once; an approval raises the account's limit in the same
 * transaction and never lowers it.
 */
import { change } from '../audit/audit.ts';
import type { Mode } from '../base/mode.ts';
import type { IdPage } from '../http/paging.ts';
import { type LimitName, QUOTA_NAMES, type QuotaName, recountQuotas, type SetLimits } from '../limits/limits.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import {
  ACCOUNT_COLUMNS,
  type Account,
  type AccountRow,
  type AccountSettings,
  type AccountStatus,
  accountOf,
  type Plan,
  readAccount,
} from './account.ts';
import { insertKey, type NewKeyRow } from './credential-store.ts';
import { storeStatusNotice } from './suspension-notices.ts';
import type { SetThresholds } from './thresholds.ts';

export async function insertAccount(tx: Transaction, account: Account): Promise<void> {
  await tx.run(
    `INSERT INTO account (id, name, plan, status, approved_email_bytes, settings, time_zone, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    account.id,
    account.name,
    account.plan,
    account.status,
    account.approvedEmailBytes,
    JSON.stringify(account.settings),
    account.timeZone,
    account.createdAt,
  );
}

const ACCOUNT_TRAIL = {
  table: 'account',
  shows: [
    'name',
    'plan',
    'status',
    'suspension_reason',
    'approved_email_bytes',
    'settings',
    'limits',
    'protection_thresholds',
    'two_factor_required',
    'time_zone',
  ],
};

export const createAccountOperation = change(
  'accounts.create',
  async (tx, args: { account: Account; keys: NewKeyRow[] }): Promise<void> => {
    await insertAccount(tx, args.account);
    for (const key of args.keys) await insertKey(tx, key);
  },
  { ...ACCOUNT_TRAIL, action: 'account.create', where: ({ account }) => ({ id: account.id }) },
);

export const accountOperation = operation(
  'accounts.get',
  'read',
  async (tx, id: string): Promise<Account | null> => (await readAccount(tx, id)) ?? null,
);

/** Lists all accounts, newest first. */
export const accountsOperation = operation('accounts.list', 'read', async (tx, _: null): Promise<Account[]> => {
  const rows = await tx.all<AccountRow>(`SELECT ${ACCOUNT_COLUMNS} FROM account a ORDER BY a.id DESC`);
  return rows.map(accountOf);
});

export interface AccountChange {
  id: string;
  name?: string;
  plan: Plan | null;
  status: AccountStatus | null;
  /** Replaces the reason of a suspension; an active account has none. */
  suspensionReason?: string;
  approvedEmailBytes: number | null;
  /** Limits by name; null restores the standard limit, and removes a quota. */
  limits?: Partial<Record<LimitName | QuotaName, number | null>>;
  /** Thresholds of sending protection; they replace all earlier ones. */
  thresholds?: SetThresholds;
  /** Users of the account no longer need two-factor authentication. */
  twoFactorRequired?: false;
  /** Unix ms: when mail on hold because of a suspension becomes due, and when a new quota starts to count within its period. */
  nowMs: number;
}

/** A time longer than the interval at which delivery checks a suspended account again. */
const LONGEST_WAIT_MS = 300_000;

/** Makes mail due that was on hold because its account was suspended or sending protection held it. Scheduled mail is unchanged. */
export async function wakeMail(tx: Transaction, accountId: string, nowMs: number): Promise<void> {
  await tx.run(
    `UPDATE work SET due = ?
     WHERE kind = 'delivery' AND held = 0 AND account_id = ? AND mode = 'live' AND leased = 0 AND due > ? AND due <= ?
       AND EXISTS (SELECT 1 FROM message m WHERE m.account_id = work.account_id AND m.mode = work.mode
         AND m.id = work.subject AND coalesce(m.next_attempt_at, m.send_at, m.created_at) <= ?)`,
    nowMs,
    accountId,
    nowMs,
    nowMs + LONGEST_WAIT_MS,
    nowMs,
  );
}

/**
 * Changes fields that only operators can change; null leaves a field unchanged. A changed status is also stored as a notice to the users of
 * the account. Returns the account, or null if it does not exist.
 */
export const setAccountOperation = change(
  'accounts.set',
  async (tx, change: AccountChange): Promise<Account | null> => {
    const current = await readAccount(tx, change.id, locked(tx));
    if (!current) return null;
    const limits = Object.fromEntries(
      Object.entries({ ...current.limits, ...change.limits }).filter(([, value]) => value !== null),
    ) as SetLimits;
    await tx.run(
      `UPDATE account SET name = coalesce(?, name), plan = coalesce(?, plan), status = coalesce(?, status),
         approved_email_bytes = coalesce(?, approved_email_bytes), limits = ?,
         protection_thresholds = coalesce(?, protection_thresholds),
         two_factor_required = coalesce(?, two_factor_required),
         suspension_reason = CASE WHEN coalesce(?, status) = 'active' THEN NULL ELSE coalesce(?, suspension_reason) END
       WHERE id = ?`,
      change.name ?? null,
      change.plan,
      change.status,
      change.approvedEmailBytes,
      JSON.stringify(limits),
      change.thresholds === undefined ? null : JSON.stringify(change.thresholds),
      change.twoFactorRequired === undefined ? null : 0,
      change.status,
      change.suspensionReason ?? null,
      change.id,
    );
    if (QUOTA_NAMES.some((name) => change.limits?.[name] !== undefined)) {
      await recountQuotas(tx, { accountId: change.id, limits, nowMs: change.nowMs });
    }
    if (change.status === 'active') await wakeMail(tx, change.id, change.nowMs);
    const changed = (await readAccount(tx, change.id)) as Account;
    if (changed.status !== current.status) {
      const { id: accountId, status, suspensionReason: reason = null } = changed;
      await storeStatusNotice(tx, { accountId, status, reason, at: change.nowMs });
    }
    return changed;
  },
  { ...ACCOUNT_TRAIL, action: 'account.set' },
);

interface SettingsPatch {
  id: string;
  name?: string;
  timeZone?: string;
  /** Merged into the existing variables; null removes one. */
  variables: Record<string, string | null>;
  settings: Partial<Omit<AccountSettings, 'variables'>>;
  /** Limits on all variables together. */
  maximumVariables: number;
  maximumVariableBytes: number;
}

type PatchOutcome = { account: Account } | { refused: 'unknown' | 'too-many' | 'too-large' };

/** Merges a patch into the settings, or refuses and changes nothing. */
export const patchSettingsOperation = change(
  'accounts.patchSettings',
  async (tx, patch: SettingsPatch): Promise<PatchOutcome> => {
    const account = await readAccount(tx, patch.id, locked(tx));
    if (!account) return { refused: 'unknown' };
    const variables = new Map(Object.entries(account.settings.variables));
    for (const [name, value] of Object.entries(patch.variables)) {
      if (value === null) variables.delete(name);
      else variables.set(name, value);
    }
    if (variables.size > patch.maximumVariables) return { refused: 'too-many' };
    let sizeBytes = 0;
    for (const [name, value] of variables) sizeBytes += Buffer.byteLength(name) + Buffer.byteLength(value);
    if (sizeBytes > patch.maximumVariableBytes) return { refused: 'too-large' };
    const settings = { ...account.settings, ...patch.settings, variables: Object.fromEntries(variables) };
    const { name = account.name, timeZone = account.timeZone } = patch;
    await tx.run(
      'UPDATE account SET name = ?, time_zone = ?, settings = ? WHERE id = ?',
      name,
      timeZone,
      JSON.stringify(settings),
      patch.id,
    );
    return { account: { ...account, name, timeZone, settings } };
  },
  { ...ACCOUNT_TRAIL, action: 'account.update' },
);

/** Returns the account and mode of a message, for an operator who has only its id; null if it does not exist. */
export const messageHolderOperation = operation(
  'accounts.messageHolder',
  'read',
  async (tx, messageId: string): Promise<{ accountId: string; mode: Mode } | null> => {
    // Events are indexed by message id, and every message has at least one.
    const row = await tx.get<{ accountId: string; mode: Mode }>(
      'SELECT account_id AS "accountId", mode FROM event WHERE message_id = ? LIMIT 1',
      messageId,
    );
    return row ?? null;
  },
);

export interface MessageCounts {
  status: string;
  messages: number;
  recentMessages: number;
}

/**
 * Counts messages by status since a point in time, given as the time part of an id (`fromId`), and how many are younger than `recentMs`.
 * Reads the newest `limit` messages only, so a huge account does not delay other readers.
 */
export const messageCountsOperation = operation(
  'accounts.messageCounts',
  'read',
  async (
    tx,
    args: { accountId: string; mode: Mode; fromId: string; recentMs: number; limit: number },
  ): Promise<MessageCounts[]> =>
    tx.all<MessageCounts>(
      `SELECT status, count(*) AS messages, sum(CASE WHEN created_at >= ? THEN 1 ELSE 0 END) AS "recentMessages"
       FROM (SELECT status, created_at FROM message WHERE account_id = ? AND mode = ? AND id >= ?
             ORDER BY id DESC LIMIT ?) newest GROUP BY status`,
      args.recentMs,
      args.accountId,
      args.mode,
      args.fromId,
      args.limit,
    ),
);

type ApprovalStatus = 'pending' | 'approved' | 'rejected';

export interface Approval {
  id: string;
  accountId: string;
  requestedEmailBytes: number;
  reason: string;
  status: ApprovalStatus;
  decisionReason: string | null;
  /** Unix ms. */
  createdAt: number;
  decidedAt: number | null;
}

const COLUMNS = `id, account_id AS "accountId", requested_email_bytes AS "requestedEmailBytes", reason, status,
  decision_reason AS "decisionReason", created_at AS "createdAt", decided_at AS "decidedAt"`;

interface NewApproval {
  id: string;
  accountId: string;
  requestedEmailBytes: number;
  reason: string;
  nowMs: number;
  maximumPending: number;
}

const APPROVAL_TRAIL = { table: 'approval', shows: ['requested_email_bytes', 'reason', 'status', 'decision_reason'] };

/** Stores a request; returns false if the account already has the maximum number of pending requests. */
export const requestApprovalOperation = change(
  'accounts.askApproval',
  async (tx, approval: NewApproval): Promise<boolean> => {
    await tx.get(`SELECT 1 AS found FROM account WHERE id = ? ${locked(tx)}`, approval.accountId);
    const pending = await tx.get<{ n: number }>(
      "SELECT count(*) AS n FROM approval WHERE account_id = ? AND status = 'pending'",
      approval.accountId,
    );
    if ((pending?.n ?? 0) >= approval.maximumPending) return false;
    await tx.run(
      `INSERT INTO approval (id, account_id, requested_email_bytes, reason, status, decision_reason, created_at, decided_at)
       VALUES (?, ?, ?, ?, 'pending', NULL, ?, NULL)`,
      approval.id,
      approval.accountId,
      approval.requestedEmailBytes,
      approval.reason,
      approval.nowMs,
    );
    return true;
  },
  { ...APPROVAL_TRAIL, action: 'approval.request' },
);

/** Lists the requests of an account, newest first. */
export const approvalsOperation = operation(
  'accounts.approvals',
  'read',
  async (tx, page: IdPage & { accountId: string }): Promise<Approval[]> => {
    return tx.all<Approval>(
      `SELECT ${COLUMNS} FROM approval WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ?`,
      page.accountId,
      page.before ?? 'apr_~',
      page.limit,
    );
  },
);

/** Lists requests of all accounts, for the operator: pending ones first, then newest first. */
export const allApprovalsOperation = operation('accounts.allApprovals', 'read', (tx, limit: number) =>
  tx.all<Approval>(
    `SELECT ${COLUMNS} FROM approval ORDER BY CASE status WHEN 'pending' THEN 0 ELSE 1 END, id DESC LIMIT ?`,
    limit,
  ),
);

interface Decision {
  id: string;
  status: 'approved' | 'rejected';
  reason: string | null;
  nowMs: number;
}

/** The result of a decision. If the request was already decided, `decided` is false and `approval` is its current state. */
export type ApprovalDecision = { decided: boolean; approval: Approval; approvedEmailBytes: number };

/** Decides a pending request; returns null if it does not exist. */
export const decideApprovalOperation = change(
  'accounts.decideApproval',
  async (tx, decision: Decision): Promise<ApprovalDecision | null> => {
    const changed = await tx.run(
      "UPDATE approval SET status = ?, decision_reason = ?, decided_at = ? WHERE id = ? AND status = 'pending'",
      decision.status,
      decision.reason,
      decision.nowMs,
      decision.id,
    );
    const approval = await tx.get<Approval>(`SELECT ${COLUMNS} FROM approval WHERE id = ?`, decision.id);
    if (approval === undefined) return null;
    if (changed === 1 && decision.status === 'approved') await raiseLimit(tx, approval);
    const account = await tx.get<{ bytes: number }>(
      'SELECT approved_email_bytes AS bytes FROM account WHERE id = ?',
      approval.accountId,
    );
    return { decided: changed === 1, approval, approvedEmailBytes: account?.bytes ?? 0 };
  },
  { ...APPROVAL_TRAIL, action: 'approval.decide' },
);

async function raiseLimit(tx: Transaction, approval: Approval): Promise<void> {
  await tx.run(
    'UPDATE account SET approved_email_bytes = ? WHERE id = ? AND approved_email_bytes < ?',
    approval.requestedEmailBytes,
    approval.accountId,
    approval.requestedEmailBytes,
  );
}

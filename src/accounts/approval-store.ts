/**
 * Requests for a larger email size: asked by the account, decided by the operator once. Approving raises the account's
 * limit in the same transaction, and never lowers one that is larger already.
 */
import { locked, operation, type Transaction } from '../storage/operation.ts';
import type { PageRequest } from './account-row.ts';

export type ApprovalStatus = 'pending' | 'approved' | 'rejected';

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

export interface NewApproval {
  id: string;
  accountId: string;
  requestedEmailBytes: number;
  reason: string;
  nowMs: number;
  /** Undecided requests that an account may have. */
  maximumPending: number;
}

/** False when the account has as many undecided requests as it may have. */
export const askApprovalOperation = operation(
  'accounts.askApproval',
  'write',
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
);

/** Newest first. */
export const approvalsOperation = operation(
  'accounts.approvals',
  'read',
  async (tx, page: PageRequest & { accountId: string }): Promise<Approval[]> => {
    const before = page.before === null ? '' : 'AND id < ?';
    return tx.all<Approval>(
      `SELECT ${COLUMNS} FROM approval WHERE account_id = ? ${before} ORDER BY id DESC LIMIT ?`,
      page.accountId,
      ...(page.before === null ? [] : [page.before]),
      page.limit,
    );
  },
);

/** Of all accounts, for the operator: undecided ones first, then newest first. */
export const allApprovalsOperation = operation('accounts.allApprovals', 'read', (tx, limit: number) =>
  tx.all<Approval>(
    `SELECT ${COLUMNS} FROM approval ORDER BY CASE status WHEN 'pending' THEN 0 ELSE 1 END, id DESC LIMIT ?`,
    limit,
  ),
);

export interface Decision {
  id: string;
  status: 'approved' | 'rejected';
  reason: string | null;
  nowMs: number;
}

/** `decided: false` and the approval as it is when somebody decided before; null when there is none. */
export type Decided = { decided: boolean; approval: Approval; approvedEmailBytes: number };

export const decideApprovalOperation = operation(
  'accounts.decideApproval',
  'write',
  async (tx, decision: Decision): Promise<Decided | null> => {
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
);

async function raiseLimit(tx: Transaction, approval: Approval): Promise<void> {
  await tx.run(
    'UPDATE account SET approved_email_bytes = ? WHERE id = ? AND approved_email_bytes < ?',
    approval.requestedEmailBytes,
    approval.accountId,
    approval.requestedEmailBytes,
  );
}

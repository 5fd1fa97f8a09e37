/**
 * Live changes that agents asked for over MCP. A request waits for a decision for ten minutes, is decided once, and runs at most once: the
 * decision is committed before the change is made. The call of a decided request is removed, because it contains mail.
 */
import { change } from '../audit/audit.ts';
import type { Mode } from '../base/mode.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { insertMany, table } from '../storage/rows.ts';
import { type Caller, listOf, readAccount } from './account.ts';

/** `running`: approved, and the result is not recorded yet. An undecided request expires. */
export type AgentRequestStatus = 'pending' | 'declined' | 'running' | 'done' | 'failed';

export interface AgentRequest {
  id: string;
  accountId: string;
  mode: Mode;
  /** The key that the agent used. */
  keyId: string;
  /** Name of the client, as it reports itself. */
  client: string;
  tool: string;
  /** The API call as JSON; empty once the request is decided. */
  call: string;
  /** SHA-256 of the call, in hexadecimal. */
  digest: string;
  status: AgentRequestStatus;
  createdAt: number;
  expiresAt: number;
  decidedAt: number | null;
  /** The person who decided. */
  decidedBy: string | null;
  /** JSON: the response of the call. */
  result: string | null;
}

const AGENT_REQUEST = table('agent_request', {
  id: 'text',
  accountId: 'text',
  mode: 'text',
  keyId: 'text',
  client: 'text',
  tool: 'text',
  call: 'text',
  digest: 'text',
  status: 'text',
  createdAt: 'int',
  expiresAt: 'int',
  decidedAt: 'int?',
  decidedBy: 'text?',
  result: 'text?',
});

const COLUMNS = `id, account_id AS "accountId", mode, key_id AS "keyId", client, tool, call, digest, status, created_at AS "createdAt",
  expires_at AS "expiresAt", decided_at AS "decidedAt", decided_by AS "decidedBy", result`;

const TRAIL = { table: 'agent_request', shows: ['tool', 'client', 'key_id', 'digest', 'status', 'decided_by'] };

/** Most undecided requests of an account. */
export const MAX_PENDING_REQUESTS = 50;

interface Asking {
  request: AgentRequest;
  mostPending: number;
  /** The id of the request that is returned, for the audit log. */
  id: string;
}

/** Stores a request. Returns the undecided one of the same key for the same call instead if there is one, and null above the limit. */
export const storeAgentRequestOperation = change(
  'accounts.askAgentRequest',
  async (tx, { request, mostPending }: Asking): Promise<AgentRequest | null> => {
    const { accountId, keyId, digest, createdAt } = request;
    await tx.get(`SELECT 1 AS found FROM account WHERE id = ? ${locked(tx)}`, accountId);
    const same = await tx.get<AgentRequest>(
      `SELECT ${COLUMNS} FROM agent_request
       WHERE account_id = ? AND mode = ? AND key_id = ? AND digest = ? AND status = 'pending' AND expires_at > ? ORDER BY id DESC LIMIT 1`,
      accountId,
      request.mode,
      keyId,
      digest,
      createdAt,
    );
    if (same) return same;
    const pending = await tx.get<{ n: number }>(
      "SELECT count(*) AS n FROM agent_request WHERE account_id = ? AND status = 'pending' AND expires_at > ?",
      accountId,
      createdAt,
    );
    if ((pending?.n ?? 0) >= mostPending) return null;
    await insertMany(tx, AGENT_REQUEST, [request]);
    return request;
  },
  { ...TRAIL, action: 'agent-request.create' },
);

export interface AgentRequestKey {
  id: string;
  accountId: string;
  mode: Mode;
}

function find(tx: Transaction, { id, accountId, mode }: AgentRequestKey, hold = ''): Promise<AgentRequest | undefined> {
  return tx.get<AgentRequest>(
    `SELECT ${COLUMNS} FROM agent_request WHERE id = ? AND account_id = ? AND mode = ? ${hold}`,
    id,
    accountId,
    mode,
  ) as Promise<AgentRequest | undefined>;
}

export const agentRequestOperation = operation(
  'accounts.agentRequest',
  'read',
  async (tx, key: AgentRequestKey): Promise<AgentRequest | null> => (await find(tx, key)) ?? null,
);

/** Newest first. */
export const agentRequestsOperation = operation(
  'accounts.agentRequests',
  'read',
  async (
    tx,
    page: { accountId: string; mode: Mode; before: string | null; limit: number; pendingAtMs: number | null },
  ): Promise<AgentRequest[]> =>
    tx.all<AgentRequest>(
      `SELECT ${COLUMNS} FROM agent_request WHERE account_id = ? AND mode = ? AND id < ?
       ${page.pendingAtMs === null ? '' : "AND status = 'pending' AND expires_at > ?"} ORDER BY id DESC LIMIT ?`,
      page.accountId,
      page.mode,
      page.before ?? 'agr_~',
      ...(page.pendingAtMs === null ? [] : [page.pendingAtMs]),
      page.limit,
    ),
);

export interface AgentDecision extends AgentRequestKey {
  status: 'running' | 'declined';
  /** Digest of the call that was displayed to the person. */
  digest: string;
  decidedBy: string;
  nowMs: number;
}

export type Decision = { outcome: 'decided'; request: AgentRequest } | FailedDecision;

export type FailedDecision =
  | { outcome: 'unknown' }
  | { outcome: 'already-decided' | 'expired' | 'other-call'; request: AgentRequest };

/** Decides a request once. The returned request still has its call. */
export const decideAgentRequestOperation = change(
  'accounts.decideAgentRequest',
  async (tx, decision: AgentDecision): Promise<Decision> => {
    const request = await find(tx, decision, locked(tx));
    if (request === undefined) return { outcome: 'unknown' };
    if (request.status !== 'pending') return { outcome: 'already-decided', request };
    if (request.expiresAt <= decision.nowMs) return { outcome: 'expired', request };
    if (request.digest !== decision.digest) return { outcome: 'other-call', request };
    const { id, status, decidedBy, nowMs } = decision;
    await tx.run(
      "UPDATE agent_request SET status = ?, decided_by = ?, decided_at = ?, call = '' WHERE id = ? AND status = 'pending'",
      status,
      decidedBy,
      nowMs,
      id,
    );
    return { outcome: 'decided', request: { ...request, status, decidedBy, decidedAt: nowMs } };
  },
  { ...TRAIL, action: ({ status }) => (status === 'running' ? 'agent-request.approve' : 'agent-request.decline') },
);

/** Records the result of an approved request. */
export const finishAgentRequestOperation = operation(
  'accounts.finishAgentRequest',
  'write',
  async (tx, { id, status, result }: { id: string; status: 'done' | 'failed'; result: string }): Promise<void> => {
    await tx.run(
      "UPDATE agent_request SET status = ?, result = ? WHERE id = ? AND status = 'running'",
      status,
      result,
      id,
    );
  },
);

/** Returns the caller of a key of this account; null if the key was revoked or has expired. */
export const callerOfKeyOperation = operation(
  'accounts.callerOfKey',
  'read',
  async (
    tx,
    { keyId, accountId, nowMs }: { keyId: string; accountId: string; nowMs: number },
  ): Promise<Caller | null> => {
    const row = await tx.get<
      Pick<Caller, 'mode' | 'scope'> & {
        name: string | null;
        senders: string | null;
        networks: string | null;
        expiresAt: number | null;
      }
    >(
      `SELECT mode, scope, name, allowed_senders AS senders, allowed_networks AS networks, expires_at AS "expiresAt" FROM api_key
       WHERE id = ? AND account_id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`,
      keyId,
      accountId,
      nowMs,
    );
    const account = row && (await readAccount(tx, accountId));
    if (!row || !account) return null;
    const { mode, scope, name, expiresAt } = row;
    const actor = { kind: 'key', id: keyId, name: name ?? keyId } as const;
    const [allowedSenders, allowedNetworks] = [listOf(row.senders), listOf(row.networks)];
    return { account, mode, scope, keyId, allowedSenders, allowedNetworks, expiresAt, actor };
  },
);

/** Deletes requests older than `beforeMs`, and the calls of requests that expired undecided; returns how many requests it deleted. */
export const removeAgentRequestsOperation = operation(
  'accounts.removeAgentRequests',
  'write',
  async (tx, { beforeMs, nowMs, limit }: { beforeMs: number; nowMs: number; limit: number }): Promise<number> => {
    await tx.run(
      `UPDATE agent_request SET call = '' WHERE id IN
       (SELECT id FROM agent_request WHERE expires_at < ? AND status = 'pending' AND call <> '' ORDER BY expires_at LIMIT ?)`,
      nowMs,
      limit,
    );
    return tx.run(
      'DELETE FROM agent_request WHERE id IN (SELECT id FROM agent_request WHERE created_at < ? ORDER BY created_at LIMIT ?)',
      beforeMs,
      limit,
    );
  },
);

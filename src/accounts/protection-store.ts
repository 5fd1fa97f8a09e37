/**
 * Sending protection for an account's live mail, stored in the account's row: good, warned, or held until an owner or an operator releases
 * it. A decision names the state it is based on, so only one of two concurrent decisions applies. Its notice is written in the same
 * transaction.
 */
import { change } from '../audit/audit.ts';
import { LIFETIME_MS } from '../base/backoff.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import type { ProtectionStatus } from './account.ts';
import { wakeMail } from './store.ts';
import type { RateName, SetThresholds, Threshold } from './thresholds.ts';

/** The rate at the time of the warning or hold. */
export interface ProtectionReason {
  rate: RateName;
  /** Share of the messages with a known result. */
  share: number;
  answered: number;
  /** Length of the period that the rate covers, in days up to the decision. */
  periodDays: number;
  threshold: Threshold;
}

/** Messages with a known result: delivered or bounced, and complaints about them. */
export interface AnsweredMail {
  answered: number;
  bouncedHard: number;
  complained: number;
}

/** The start of the count: the beginning of an hour, and the mail of that hour to subtract. Unix ms. */
export interface CountedFrom extends AnsweredMail {
  atMs: number;
  hourMs: number;
}

export interface SendingProtection {
  accountId: string;
  status: ProtectionStatus;
  /** Unix ms; null while it is good. */
  sinceMs: number | null;
  reason: ProtectionReason | null;
  countedFrom: CountedFrom | null;
  set: SetThresholds;
}

interface ProtectionRow {
  id: string;
  status: ProtectionStatus;
  since: number | null;
  protection: string;
  thresholds: string;
}

const COLUMNS = `id, protection_status AS status, protection_since AS since, protection, protection_thresholds AS thresholds`;

function protectionOf({
  id: accountId,
  status,
  since: sinceMs,
  protection,
  thresholds,
}: ProtectionRow): SendingProtection {
  const { reason = null, countedFrom = null } = JSON.parse(protection) as Partial<
    Pick<SendingProtection, 'reason' | 'countedFrom'>
  >;
  return { accountId, status, sinceMs, reason, countedFrom, set: JSON.parse(thresholds) as SetThresholds };
}

async function readProtection(tx: Transaction, id: string): Promise<SendingProtection | null> {
  const row = await tx.get<ProtectionRow>(`SELECT ${COLUMNS} FROM account WHERE id = ?`, id);
  return row === undefined ? null : protectionOf(row);
}

/** Null if the account does not exist. */
export const sendingProtectionOperation = operation('accounts.sendingProtection', 'read', readProtection);

/**
 * Returns whether live mail of an account is on hold: the account is suspended, or its mail is held. False if the account does not exist.
 */
export const isHeldOperation = operation(
  'accounts.isHeld',
  'read',
  async (tx, id: string): Promise<boolean> =>
    (await tx.get(
      `SELECT 1 AS found FROM account WHERE id = ? AND (status = 'suspended' OR protection_status = 'held')`,
      id,
    )) !== undefined,
);

/** Warned accounts whose rates may have fallen since. */
export const warnedOperation = operation('accounts.warned', 'read', async (tx, _: null): Promise<string[]> => {
  const rows = await tx.all<{ id: string }>(
    `SELECT id FROM account WHERE protection_status <> 'good' AND protection_status = 'warned' ORDER BY id`,
  );
  return rows.map(({ id }) => id);
});

interface ProtectionDecision {
  id: string;
  from: ProtectionStatus;
  to: ProtectionStatus;
  reason: ProtectionReason | null;
  nowMs: number;
}

const PROTECTION_TRAIL = { table: 'account', shows: ['protection_status', 'protection'] };

/**
 * Returns false and changes nothing if the state has changed meanwhile. A warning and a hold are notified; a return to good is not.
 */
export const decideProtectionOperation = change(
  'accounts.decideProtection',
  async (tx, { id, from, to, reason, nowMs }: ProtectionDecision): Promise<boolean> => {
    const protection = await readProtection(tx, id);
    if (protection === null) return false;
    const { countedFrom } = protection;
    const changed = await tx.run(
      `UPDATE account SET protection_status = ?, protection_since = ?, protection_notice = ?, protection = ?
       WHERE id = ? AND protection_status = ?`,
      to,
      to === 'good' ? null : nowMs,
      to === 'good' ? null : to,
      JSON.stringify({ ...(reason && { reason }), ...(countedFrom && { countedFrom }) }),
      id,
      from,
    );
    return changed === 1;
  },
  { ...PROTECTION_TRAIL, action: 'account.sending-protection' },
);

interface Resume {
  id: string;
  /** Messages with a result before this point no longer count. */
  countedFrom: CountedFrom;
  nowMs: number;
}

/** Releases held mail and extends its lifetime by the time it was held; false if no mail is held. */
export const resumeSendingOperation = change(
  'accounts.resumeSending',
  async (tx, { id, countedFrom, nowMs }: Resume): Promise<boolean> => {
    const held = await tx.get<{ since: number }>(
      `SELECT protection_since AS since FROM account WHERE id = ? AND protection_status = 'held' ${locked(tx)}`,
      id,
    );
    if (held === undefined) return false;
    await tx.run(
      `UPDATE account SET protection_status = 'good', protection_since = NULL, protection_notice = NULL, protection = ? WHERE id = ?`,
      JSON.stringify({ countedFrom }),
      id,
    );
    await extendLifetimes(tx, { accountId: id, sinceMs: held.since, nowMs });
    await wakeMail(tx, id, nowMs);
    return true;
  },
  { ...PROTECTION_TRAIL, action: 'account.resume-sending' },
);

interface Held {
  accountId: string;
  sinceMs: number;
  nowMs: number;
}

/** Start of a message's lifetime. */
const START = 'coalesce(send_at, created_at)';

/**
 * The time during which a message was held after it was due does not count toward its lifetime. A shorter lifetime set by the sender is
 * unchanged.
 */
async function extendLifetimes(tx: Transaction, { accountId, sinceMs, nowMs }: Held): Promise<void> {
  await tx.run(
    `UPDATE message SET expires_at = expires_at + CAST(? AS BIGINT) - CASE WHEN ${START} > ? THEN ${START} ELSE ? END
     WHERE account_id = ? AND mode = 'live' AND ${START} < ? AND expires_at - ${START} >= ?
       AND id IN (SELECT subject FROM work WHERE kind = 'delivery' AND account_id = ? AND mode = 'live')`,
    nowMs,
    sinceMs,
    sinceMs,
    accountId,
    nowMs,
    LIFETIME_MS,
    accountId,
  );
}

/** Accounts that have not been notified yet. */
export const protectionNoticesOperation = operation(
  'accounts.protectionNotices',
  'read',
  async (tx, limit: number): Promise<SendingProtection[]> => {
    const rows = await tx.all<ProtectionRow>(
      `SELECT ${COLUMNS} FROM account WHERE protection_notice IS NOT NULL ORDER BY id LIMIT ?`,
      limit,
    );
    return rows.map(protectionOf);
  },
);

/** Records that a notice was sent. */
export const protectionNoticeGivenOperation = operation(
  'accounts.protectionNoticeGiven',
  'write',
  async (tx, { accountId, status }: Pick<SendingProtection, 'accountId' | 'status'>): Promise<void> => {
    await tx.run(
      'UPDATE account SET protection_notice = NULL WHERE id = ? AND protection_notice = ?',
      accountId,
      status,
    );
  },
);

/**
 * What the reputation guard has decided of an account's live mail, kept in the account's row: good, warned, or resting until an owner or
 * an operator decides. A decision names the state that it was made from, so that of two made at once one is taken; its notice is written
 * with it.
 */
import { change } from '../audit/audit.ts';
import { LIFETIME_MS } from '../base/backoff.ts';
import { locked, operation, type Transaction } from '../storage/operation.ts';
import { wakeMail } from './store.ts';
import type { RateName, SetThresholds, Threshold } from './thresholds.ts';

export type GuardStatus = 'good' | 'warned' | 'resting';

/** What a rate was when the guard warned, or stopped mail. */
export interface GuardReason {
  rate: RateName;
  /** Share of the answered messages. */
  share: number;
  answered: number;
  /** Of the last days. */
  periodDays: number;
  threshold: Threshold;
}

/** Messages that were answered for: bounced, delivered, and what recipients complained about. */
export interface AnsweredMail {
  answered: number;
  bouncedHard: number;
  complained: number;
}

/** From when on mail is counted: from the beginning of an hour, without what of that hour came before. Unix ms. */
export interface CountedFrom extends AnsweredMail {
  atMs: number;
  hourMs: number;
}

export interface Guard {
  accountId: string;
  status: GuardStatus;
  /** Unix ms; null while it is good. */
  sinceMs: number | null;
  reason: GuardReason | null;
  countedFrom: CountedFrom | null;
  set: SetThresholds;
}

interface GuardRow {
  id: string;
  status: GuardStatus;
  since: number | null;
  guard: string;
  thresholds: string;
}

const COLUMNS = `id, guard_status AS status, guard_since AS since, guard, guard_thresholds AS thresholds`;

function guardOf({ id: accountId, status, since: sinceMs, guard, thresholds }: GuardRow): Guard {
  const { reason = null, countedFrom = null } = JSON.parse(guard) as Partial<Pick<Guard, 'reason' | 'countedFrom'>>;
  return { accountId, status, sinceMs, reason, countedFrom, set: JSON.parse(thresholds) as SetThresholds };
}

async function readGuard(tx: Transaction, id: string): Promise<Guard | null> {
  const row = await tx.get<GuardRow>(`SELECT ${COLUMNS} FROM account WHERE id = ?`, id);
  return row === undefined ? null : guardOf(row);
}

/** Null when there is no such account. */
export const guardOperation = operation('accounts.guard', 'read', readGuard);

/** Whether live mail of an account rests: it is suspended, or the guard has stopped it. False where there is no such account. */
export const restsOperation = operation(
  'accounts.rests',
  'read',
  async (tx, id: string): Promise<boolean> =>
    (await tx.get(
      `SELECT 1 AS found FROM account WHERE id = ? AND (status = 'suspended' OR guard_status = 'resting')`,
      id,
    )) !== undefined,
);

/** Accounts that are warned, whose rates may have fallen since. */
export const warnedOperation = operation('accounts.warned', 'read', async (tx, _: null): Promise<string[]> => {
  const rows = await tx.all<{ id: string }>(
    `SELECT id FROM account WHERE guard_status <> 'good' AND guard_status = 'warned' ORDER BY id`,
  );
  return rows.map(({ id }) => id);
});

interface GuardDecision {
  id: string;
  from: GuardStatus;
  to: GuardStatus;
  reason: GuardReason | null;
  nowMs: number;
}

const GUARD_TRAIL = { table: 'account', shows: ['guard_status', 'guard'] };

/** False where the state is another one by now, and nothing is changed. A warning and a stop have a notice; what is well has none. */
export const decideGuardOperation = change(
  'accounts.decideGuard',
  async (tx, { id, from, to, reason, nowMs }: GuardDecision): Promise<boolean> => {
    const guard = await readGuard(tx, id);
    if (guard === null) return false;
    const { countedFrom } = guard;
    const changed = await tx.run(
      `UPDATE account SET guard_status = ?, guard_since = ?, guard_notice = ?, guard = ?
       WHERE id = ? AND guard_status = ?`,
      ...[to, to === 'good' ? null : nowMs, to === 'good' ? null : to],
      ...[JSON.stringify({ ...(reason && { reason }), ...(countedFrom && { countedFrom }) }), id, from],
    );
    return changed === 1;
  },
  { ...GUARD_TRAIL, action: 'account.guard' },
);

interface Resume {
  id: string;
  /** What was answered before counts no more. */
  countedFrom: CountedFrom;
  nowMs: number;
}

/** Lets resting mail leave, and gives it the time of the rest in addition; false where none rests. */
export const resumeSendingOperation = change(
  'accounts.resumeSending',
  async (tx, { id, countedFrom, nowMs }: Resume): Promise<boolean> => {
    const rest = await tx.get<{ since: number }>(
      `SELECT guard_since AS since FROM account WHERE id = ? AND guard_status = 'resting' ${locked(tx)}`,
      id,
    );
    if (rest === undefined) return false;
    await tx.run(
      `UPDATE account SET guard_status = 'good', guard_since = NULL, guard_notice = NULL, guard = ? WHERE id = ?`,
      ...[JSON.stringify({ countedFrom }), id],
    );
    await extendLifetimes(tx, { accountId: id, sinceMs: rest.since, nowMs });
    await wakeMail(tx, id, nowMs);
    return true;
  },
  { ...GUARD_TRAIL, action: 'account.resume-sending' },
);

interface Rest {
  accountId: string;
  sinceMs: number;
  nowMs: number;
}

/** From when on the lifetime of a message runs. */
const START = 'coalesce(send_at, created_at)';

/** A rest is no time of the mail that rested, from when each was to leave; a lifetime that its sender asked for stands. */
async function extendLifetimes(tx: Transaction, { accountId, sinceMs, nowMs }: Rest): Promise<void> {
  await tx.run(
    `UPDATE message SET expires_at = expires_at + CAST(? AS BIGINT) - CASE WHEN ${START} > ? THEN ${START} ELSE ? END
     WHERE account_id = ? AND mode = 'live' AND ${START} < ? AND expires_at - ${START} >= ?
       AND id IN (SELECT subject FROM work WHERE kind = 'delivery' AND account_id = ? AND mode = 'live')`,
    ...[nowMs, sinceMs, sinceMs, accountId, nowMs, LIFETIME_MS, accountId],
  );
}

/** What accounts have still to learn of their mail. */
export const guardNoticesOperation = operation(
  'accounts.guardNotices',
  'read',
  async (tx, limit: number): Promise<Guard[]> => {
    const rows = await tx.all<GuardRow>(
      `SELECT ${COLUMNS} FROM account WHERE guard_notice IS NOT NULL ORDER BY id LIMIT ?`,
      limit,
    );
    return rows.map(guardOf);
  },
);

/** Ends a notice that was given. */
export const guardNoticeGivenOperation = operation(
  'accounts.guardNoticeGiven',
  'write',
  async (tx, { accountId, status }: Pick<Guard, 'accountId' | 'status'>): Promise<void> => {
    await tx.run('UPDATE account SET guard_notice = NULL WHERE id = ? AND guard_notice = ?', accountId, status);
  },
);

/**
 * Checks every minute the accounts whose live mail has failed in the last hour. An account whose rate reaches a threshold is warned. If its
 * rate is too high 15 minutes after the warning, or later, its live mail is held until an owner or an operator releases it. A warning lasts
 * at least a day and ends automatically; a hold does not. Each change is an email to the owners of the account and a row of the audit log.
 * If several processes share a database, one does this, and a decision is made once (src/accounts/protection-store.ts). Mail in the sandbox
 * never counts.
 */
import {
  decideProtectionOperation,
  type ProtectionReason,
  type ProtectionStatus,
  protectionNoticeGivenOperation,
  protectionNoticesOperation,
  type SendingProtection,
  sendingProtectionOperation,
  thresholdsOf,
  warnedOperation,
} from '../accounts/accounts.ts';
import { changedBy, systemOrigin } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Notify } from '../base/notice.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
import { answeredOperation, failingLatelyOperation } from '../statistics/statistics.ts';
import type { Database } from '../storage/database.ts';
import { noticeOf } from './notice.ts';
import { beginnings, findings } from './rates.ts';

const ROUND_MS = 60_000;
/** Time between a warning and the hold. */
const GRACE_MS = 15 * 60_000;
const WARNED_MS = 86_400_000;
/** Counters lag the log by a second or so; rates only rise after failures. */
const LATELY_MS = 3_600_000;
const LOG_MESSAGES: Readonly<Record<ProtectionStatus, string>> = {
  good: 'sending protection: warning ended',
  warned: 'sending protection: account warned',
  held: 'sending protection: live mail held',
};
const ACCOUNTS_AT_ONCE = 500;
const NOTICES_AT_ONCE = 100;

export interface ProtectionOptions {
  database: Database;
  clock: Clock;
  log: Log;
  notify: Notify;
  /** Whether this process runs the checks. */
  isChosen?: () => boolean;
  roundMs?: number;
}

export function startSendingProtection(options: ProtectionOptions): Rounds {
  const { log, isChosen = () => true, roundMs = ROUND_MS } = options;
  return startRounds({
    name: 'sending protection',
    everyMs: roundMs,
    log,
    round: async (isStopping) => {
      if (!isChosen()) return;
      await checkAllAccounts(options, isStopping);
      if (!isStopping()) await sendDueNotices(options);
    },
  });
}

async function checkAllAccounts(options: ProtectionOptions, isStopping: () => boolean): Promise<void> {
  const { database, clock } = options;
  const seen = new Set(await database.execute(warnedOperation, null));
  for (const accountId of seen) if (!isStopping()) await lookAt(options, accountId);
  for (let after: string | null = ''; after !== null && !isStopping(); ) {
    const fromMs = clock.now() - LATELY_MS;
    const found: { accountIds: string[]; next: string | null } = await database.execute(failingLatelyOperation, {
      after,
      accounts: ACCOUNTS_AT_ONCE,
      fromMs,
    });
    for (const accountId of found.accountIds)
      if (!seen.has(accountId) && !isStopping()) await lookAt(options, accountId);
    after = found.next;
  }
}

async function lookAt({ database, clock, log }: ProtectionOptions, accountId: string): Promise<void> {
  const protection = await database.execute(sendingProtectionOperation, accountId);
  if (protection === null || protection.status === 'held') return;
  const nowMs = clock.now();
  const { countedFrom } = protection;
  const fromMs = beginnings(nowMs, countedFrom);
  const counts = await database.execute(answeredOperation, { accountId, fromMs });
  const counted = { counts, fromMs, countedFrom, thresholds: thresholdsOf(protection.set) };
  const decided = decide(protection, {
    high: findings('warning', counted)[0],
    tooHigh: findings('critical', counted)[0],
    nowMs,
  });
  if (decided === undefined) return;
  const { to, reason } = decided;
  const change = { id: accountId, from: protection.status, to, reason, nowMs };
  const changes = changedBy(database, systemOrigin(nowMs, accountId));
  if (await changes.execute(decideProtectionOperation, change)) {
    log[to === 'good' ? 'info' : 'warn']({ accountId, ...reason }, LOG_MESSAGES[to]);
  }
}

interface Found {
  /** The rates over the threshold of a warning, and of a hold. */
  high: ProtectionReason | undefined;
  tooHigh: ProtectionReason | undefined;
  nowMs: number;
}

/** Returns the new state of the account; undefined if it does not change. */
function decide(
  { status, sinceMs }: SendingProtection,
  { high, tooHigh, nowMs }: Found,
): { to: ProtectionStatus; reason: ProtectionReason | null } | undefined {
  const worst = tooHigh ?? high;
  if (status === 'good') return worst && { to: 'warned', reason: worst };
  const warnedMs = nowMs - (sinceMs ?? 0);
  if (tooHigh) return warnedMs >= GRACE_MS ? { to: 'held', reason: tooHigh } : undefined;
  return !worst && warnedMs >= WARNED_MS ? { to: 'good', reason: null } : undefined;
}

async function sendDueNotices({ database, log, notify }: ProtectionOptions): Promise<void> {
  for (const protection of await database.execute(protectionNoticesOperation, NOTICES_AT_ONCE)) {
    const { accountId } = protection;
    try {
      await notify(noticeOf(protection));
    } catch (error) {
      if (error instanceof Unavailable) throw error;
      log.warn({ accountId, error: (error as Error).message }, 'account notification failed');
      continue;
    }
    await database.execute(protectionNoticeGivenOperation, protection);
  }
}

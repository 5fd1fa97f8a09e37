/**
 * Looks every minute at the accounts whose live mail has failed in the last hour. Whose rate reaches a threshold is warned; whose rate is too
 * high a quarter of an hour after the warning, or later, has its live mail rest until somebody decides. A warning lasts a day at least and ends
 * by itself; a rest does not. Each change is a mail to the owners of the account and a row of the audit log. One process does it where
 * several share a database, and a decision is taken once (src/accounts/guard-store.ts). The sandbox is not looked at.
 */
import {
  decideGuardOperation,
  type Guard,
  type GuardReason,
  type GuardStatus,
  guardNoticeGivenOperation,
  guardNoticesOperation,
  guardOperation,
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
/** Between a warning and the rest. */
const GRACE_MS = 15 * 60_000;
const WARNED_MS = 86_400_000;
/** Counters are behind the log by a second or so; rates only rise where something has failed. */
const LATELY_MS = 3_600_000;
const ACCOUNTS_AT_ONCE = 500;
const NOTICES_AT_ONCE = 100;

export interface GuardOptions {
  database: Database;
  clock: Clock;
  log: Log;
  notify: Notify;
  /** Whether this process is the one that does it. */
  isChosen?: () => boolean;
  roundMs?: number;
}

export function startGuard(options: GuardOptions): Rounds {
  const { log, isChosen = () => true, roundMs = ROUND_MS } = options;
  return startRounds({
    ...{ name: 'reputation guard', everyMs: roundMs, log },
    round: async (isStopping) => {
      if (!isChosen()) return;
      await lookAtAll(options, isStopping);
      if (!isStopping()) await giveNotices(options);
    },
  });
}

async function lookAtAll(options: GuardOptions, isStopping: () => boolean): Promise<void> {
  const { database, clock } = options;
  const seen = new Set(await database.execute(warnedOperation, null));
  for (const accountId of seen) if (!isStopping()) await lookAt(options, accountId);
  for (let after: string | null = ''; after !== null && !isStopping(); ) {
    const fromMs = clock.now() - LATELY_MS;
    const found: { accountIds: string[]; next: string | null } = await database.execute(failingLatelyOperation, {
      ...{ after, accounts: ACCOUNTS_AT_ONCE, fromMs },
    });
    for (const accountId of found.accountIds)
      if (!seen.has(accountId) && !isStopping()) await lookAt(options, accountId);
    after = found.next;
  }
}

async function lookAt({ database, clock, log }: GuardOptions, accountId: string): Promise<void> {
  const guard = await database.execute(guardOperation, accountId);
  if (guard === null || guard.status === 'resting') return;
  const nowMs = clock.now();
  const { countedFrom } = guard;
  const fromMs = beginnings(nowMs, countedFrom);
  const counts = await database.execute(answeredOperation, { accountId, fromMs });
  const counted = { counts, fromMs, countedFrom, thresholds: thresholdsOf(guard.set) };
  const decided = decide(guard, {
    ...{ high: findings('warning', counted)[0], tooHigh: findings('critical', counted)[0], nowMs },
  });
  if (decided === undefined) return;
  const { to, reason } = decided;
  const change = { id: accountId, from: guard.status, to, reason, nowMs };
  const changes = changedBy(database, systemOrigin(nowMs, accountId));
  if (await changes.execute(decideGuardOperation, change)) {
    log[to === 'good' ? 'info' : 'warn']({ accountId, ...reason }, `reputation guard: the account is ${to}`);
  }
}

interface Found {
  /** What has reached the threshold of a warning, and that of a rest. */
  high: GuardReason | undefined;
  tooHigh: GuardReason | undefined;
  nowMs: number;
}

/** What the account becomes; undefined where it stays as it is. */
function decide(
  { status, sinceMs }: Guard,
  { high, tooHigh, nowMs }: Found,
): { to: GuardStatus; reason: GuardReason | null } | undefined {
  const worst = tooHigh ?? high;
  if (status === 'good') return worst && { to: 'warned', reason: worst };
  const warnedMs = nowMs - (sinceMs ?? 0);
  if (tooHigh) return warnedMs >= GRACE_MS ? { to: 'resting', reason: tooHigh } : undefined;
  return !worst && warnedMs >= WARNED_MS ? { to: 'good', reason: null } : undefined;
}

async function giveNotices({ database, log, notify }: GuardOptions): Promise<void> {
  for (const guard of await database.execute(guardNoticesOperation, NOTICES_AT_ONCE)) {
    const { accountId } = guard;
    try {
      await notify(noticeOf(guard));
    } catch (error) {
      if (error instanceof Unavailable) throw error;
      log.warn({ accountId, cause: (error as Error).message }, 'the account could not be notified');
      continue;
    }
    await database.execute(guardNoticeGivenOperation, guard);
  }
}

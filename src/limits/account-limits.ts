/**
 * The limits of an account: resources of each kind (live and sandbox together), calls held open, inbound messages per hour, and quotas
 * (quota-store.ts). This table has the standard limits; an operator can set others, which are stored with the account as JSON. A store
 * calls `checkLimit` in the transaction that creates the resource: it locks the account's row, so creates at the same moment are counted.
 * An account above a limit keeps what it has and cannot create more.
 */
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, refuse } from '../base/failure.ts';
import { locked, operation, type SqlValue, type Transaction } from '../storage/operation.ts';

/** By name as in `GET /account`; `noun` is used in error messages. */
const LIMITS = {
  webhooks: { standard: 100, noun: 'webhooks' },
  domains: { standard: 1_000, noun: 'domains' },
  templates: { standard: 5_000, noun: 'templates' },
  apiKeys: { standard: 200, noun: 'API keys' },
  smtpCredentials: { standard: 200, noun: 'SMTP credentials' },
  inboundRoutes: { standard: 100, noun: 'inbound routes' },
  openSubmissions: { standard: 1_000, noun: 'open submissions' },
  eventStreams: { standard: 20, noun: 'open event streams' },
  inboxWaits: { standard: 50, noun: 'open inbox waits' },
  inboundMailPerHour: { standard: 10_000, noun: 'inbound messages per hour' },
} as const;

export type LimitName = keyof typeof LIMITS;

export const LIMIT_NAMES = Object.keys(LIMITS) as LimitName[];
export const HIGHEST_LIMIT = 1_000_000;

/** Messages of an account per UTC day and month (quota-store.ts); unlimited unless an operator sets a number. */
export const QUOTA_NAMES = ['messagesPerDay', 'messagesPerMonth'] as const;
export type QuotaName = (typeof QUOTA_NAMES)[number];
export const HIGHEST_QUOTA = 1_000_000_000;

/** The limits that an operator has set for an account, as they are stored. */
export type SetLimits = Partial<Record<LimitName | QuotaName, number>>;
export type Limits = Record<LimitName, number> & Record<QuotaName, number | null>;

/** Returns all limits of an account: the values that an operator has set, otherwise the standard ones; null if there is no quota. */
export function limitsOf(set: SetLimits): Limits {
  return Object.fromEntries([
    ...LIMIT_NAMES.map((name) => [name, set[name] ?? LIMITS[name].standard]),
    ...QUOTA_NAMES.map((name) => [name, set[name] ?? null]),
  ]) as Limits;
}

export interface LimitReached {
  limit: LimitName;
  most: number;
}

interface CountedAccount {
  accountId: string;
  nowMs: number;
}

type Count = (account: CountedAccount) => readonly [sql: string, ...params: SqlValue[]];

const countOf =
  (table: string): Count =>
  ({ accountId }) => [`SELECT count(*) FROM ${table} WHERE account_id = ?`, accountId];

const countOfValid =
  (table: string): Count =>
  ({ accountId, nowMs }) => [
    `SELECT count(*) FROM ${table} WHERE account_id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`,
    accountId,
    nowMs,
  ];

/** Counts the submissions with valid upload URLs, and those with unsent files. */
const countOfOpenSubmissions: Count = ({ accountId, nowMs }) => {
  const unsent = `SELECT count(*) FROM attachment_submission
    WHERE account_id = ? AND mode IN ('live', 'sandbox') AND used_at IS NULL`;
  const sql = `SELECT (${unsent} AND expires_at > ?) + (${unsent} AND has_files = 1 AND expires_at <= ?)`;
  return [sql, accountId, nowMs, accountId, nowMs];
};

/** Limits whose use is the number of stored rows. The others count calls and mail in each process. */
const COUNTS = {
  webhooks: countOf('webhook'),
  domains: countOf('domain'),
  templates: countOf('template'),
  apiKeys: countOfValid('api_key'),
  smtpCredentials: countOfValid('smtp_credential'),
  inboundRoutes: countOf('inbound_route'),
  openSubmissions: countOfOpenSubmissions,
} as const satisfies Partial<Record<LimitName, Count>>;

type CountedLimit = keyof typeof COUNTS;

export const COUNTED_LIMITS = Object.keys(COUNTS) as CountedLimit[];

export type LimitUsage = Record<CountedLimit, number>;

async function countRows(tx: Transaction, limit: CountedLimit, account: CountedAccount): Promise<number> {
  const [sql, ...params] = COUNTS[limit](account);
  return (await tx.get<{ n: number }>(`SELECT (${sql}) AS n`, ...params))!.n;
}

/** Counts what an account has of each limited resource. */
export const limitUsageOperation = operation('limits.usage', 'read', async (tx, account: CountedAccount) => {
  const counts = COUNTED_LIMITS.map(async (limit) => [limit, await countRows(tx, limit, account)] as const);
  return Object.fromEntries(await Promise.all(counts)) as LimitUsage;
});

/** Returns undefined if the account can have one more of the resource. Locks the account's row until the transaction ends. */
export async function checkLimit(
  tx: Transaction,
  { limit, ...account }: CountedAccount & { limit: CountedLimit },
): Promise<LimitReached | undefined> {
  const { accountId } = account;
  const row = await tx.get<{ limits: string }>(`SELECT limits FROM account WHERE id = ? ${locked(tx)}`, accountId);
  const most = limitsOf(row === undefined ? {} : (JSON.parse(row.limits) as SetLimits))[limit];
  return (await countRows(tx, limit, account)) < most ? undefined : { limit, most };
}

/** Returns the LIMIT_REACHED error, with the limit and its name in `GET /account`. */
export function limitReached({ limit, most }: LimitReached): Failure {
  return failure('LIMIT_REACHED', {
    message: `The account has reached its limit of ${most} ${LIMITS[limit].noun} (limits.${limit} in GET /account). Delete one you no longer need, or ask your operator to raise the limit.`,
  });
}

type OpenAtOnce = Extract<LimitName, 'eventStreams' | 'inboxWaits'>;

const RETRY_SECONDS = 5;
const NOUNS: Record<OpenAtOnce, string> = { eventStreams: 'event streams', inboxWaits: 'inbox waits' };

export interface ConcurrencyLimiter {
  /** Calling `release` again changes nothing. */
  acquire(account: { id: string; limits: SetLimits }): { ok: true; release(): void } | { ok: false; failure: Failure };
}

/**
 * Counts the calls that an account holds open in this process and rejects those above the limit with 429. `share` is this process's
 * part of the limit, above 0 and at most 1: each of several nodes grants its share, at least one.
 */
export function createConcurrencyLimiter(limit: OpenAtOnce, share: () => number): ConcurrencyLimiter {
  const open = new Map<string, number>();
  return {
    acquire: ({ id, limits }) => {
      const most = limitsOf(limits)[limit];
      const has = open.get(id) ?? 0;
      if (has >= Math.min(most, Math.max(1, Math.floor(most * share())))) return refusal(limit, most);
      open.set(id, has + 1);
      let isReleased = false;
      const release = (): void => {
        if (isReleased) return;
        isReleased = true;
        const left = (open.get(id) ?? 1) - 1;
        if (left === 0) open.delete(id);
        else open.set(id, left);
      };
      return { ok: true, release };
    },
  };
}

function refusal(limit: OpenAtOnce, most: number): { ok: false; failure: Failure } {
  const message = `The account has reached its limit of ${most} open ${NOUNS[limit]} (limits.${limit} in GET /account). Close one, then retry.`;
  return refuse(failure('RATE_LIMITED', { message, limit: most, retryAfterSeconds: RETRY_SECONDS }));
}

const HOUR_MS = 3_600_000;

export interface HourlyCount {
  /** Whether the account has used up this process's share of `most` in this hour. */
  isReached(accountId: string, most: number): boolean;
  add(accountId: string): void;
}

/** Counts by account per clock hour, in memory: a restarted process counts from zero. `share` as above. */
export function createHourlyCount({ clock, share }: { clock: Clock; share(): number }): HourlyCount {
  const counts = new Map<string, number>();
  let hour = 0;
  const now = (): Map<string, number> => {
    const present = Math.floor(clock.now() / HOUR_MS);
    if (present !== hour) counts.clear();
    hour = present;
    return counts;
  };
  return {
    isReached: (accountId, most) =>
      (now().get(accountId) ?? 0) >= Math.min(most, Math.max(1, Math.floor(most * share()))),
    add: (accountId) => void now().set(accountId, (counts.get(accountId) ?? 0) + 1),
  };
}

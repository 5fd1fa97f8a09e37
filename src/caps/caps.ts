/**
 * What an account may have at most: of each kind of resource in all, live and sandbox together, held open at once, and in an hour. The
 * standard caps stand in this table; an operator may set others for an account, which are kept with it as JSON. A store that
 * makes one more asks `capReached` in the transaction that makes it: the account's row is held from there on, so that what is
 * made at the same moment elsewhere is counted. Who has more than a cap keeps it, and makes no more.
 */
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, refuse } from '../base/failure.ts';
import { locked, type SqlValue, type Transaction } from '../storage/operation.ts';

/** By name as `GET /account` shows it; `noun` is what a refusal says. */
const CAPS = {
  webhooks: { standard: 100, noun: 'webhooks' },
  domains: { standard: 1_000, noun: 'domains' },
  templates: { standard: 5_000, noun: 'templates' },
  apiKeys: { standard: 200, noun: 'API keys' },
  smtpCredentials: { standard: 200, noun: 'SMTP credentials' },
  inboundRoutes: { standard: 100, noun: 'inbound routes' },
  openSubmissions: { standard: 1_000, noun: 'open submissions' },
  eventStreams: { standard: 20, noun: 'open event streams' },
  inboxWaits: { standard: 50, noun: 'open waits for the inbox' },
  inboundMailPerHour: { standard: 10_000, noun: 'mails for inbound routes in an hour' },
} as const;

export type CapName = keyof typeof CAPS;
export type Caps = Record<CapName, number>;

export const CAP_NAMES = Object.keys(CAPS) as CapName[];
export const HIGHEST_CAP = 1_000_000;

/** Every cap of an account: what an operator has set, else the standard. */
export function capsOf(set: Partial<Caps>): Caps {
  return Object.fromEntries(CAP_NAMES.map((name) => [name, set[name] ?? CAPS[name].standard])) as Caps;
}

export interface CapReached {
  cap: CapName;
  most: number;
}

/**
 * Undefined while the account may have one more of what `count` counts (a statement that answers one row with `n`). Holds the
 * account until the transaction ends.
 */
export async function capReached(
  tx: Transaction,
  { accountId, cap, count }: { accountId: string; cap: CapName; count: readonly [sql: string, ...SqlValue[]] },
): Promise<CapReached | undefined> {
  const row = await tx.get<{ limits: string }>(`SELECT limits FROM account WHERE id = ? ${locked(tx)}`, accountId);
  const most = capsOf(row === undefined ? {} : (JSON.parse(row.limits) as Partial<Caps>))[cap];
  const has = await tx.get<{ n: number }>(...count);
  return (has?.n ?? 0) < most ? undefined : { cap, most };
}

/** LIMIT_REACHED in words. */
export function limitReached({ cap, most }: CapReached): Failure {
  return failure('LIMIT_REACHED', {
    message: `This account may have ${most} ${CAPS[cap].noun} (limits.${cap} of GET /account); remove one first, or ask the operator of this service for more.`,
  });
}

type OpenAtOnce = Extract<CapName, 'eventStreams' | 'inboxWaits'>;

const RETRY_SECONDS = 5;
const NOUNS: Record<OpenAtOnce, string> = { eventStreams: 'event streams', inboxWaits: 'waits for the inbox' };

export interface ConcurrencyLimiter {
  /** Calling `release` again changes nothing. */
  acquire(account: {
    id: string;
    limits: Partial<Caps>;
  }): { ok: true; release(): void } | { ok: false; failure: Failure };
}

/**
 * Permits for what an account holds open in this process; with none left the next one is refused with 429. `share` is the part of
 * the cap that is this process's, above 0 and at most 1: each of several nodes grants its share, at least one.
 */
export function createConcurrencyLimiter(cap: OpenAtOnce, share: () => number): ConcurrencyLimiter {
  const open = new Map<string, number>();
  return {
    acquire: ({ id, limits }) => {
      const most = capsOf(limits)[cap];
      const has = open.get(id) ?? 0;
      if (has >= Math.min(most, Math.max(1, Math.floor(most * share())))) return refusal(cap, most);
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

function refusal(cap: OpenAtOnce, most: number): { ok: false; failure: Failure } {
  const message = `This account may hold ${most} ${NOUNS[cap]} open at once (limits.${cap} of GET /account); end one first.`;
  return refuse(failure('RATE_LIMITED', { message, limit: most, retryAfterSeconds: RETRY_SECONDS }));
}

const HOUR_MS = 3_600_000;

export interface HourlyCount {
  /** Whether the account has had what is this process's share of `most` in this hour. */
  isReached(accountId: string, most: number): boolean;
  add(accountId: string): void;
}

/** Counts by account from one full hour to the next, in memory: a process that starts again counts from zero. `share` as above. */
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

/**
 * Login rate limits, common to all nodes. Each attempt uses some allowance of its address and its user name in advance, and returns it on
 * success (the generic cell rate algorithm, one row for each): ten failures per user and thirty per address at once, then one per minute,
 * and one per twenty seconds. Attempts are counted before they are checked, so that a thousand concurrent ones count like a thousand in a
 * row. Unknown names count like any other.
 *
 * From an address that the user has logged in from before, attempts count only for this user and address: guesses from elsewhere, or from
 * others with the same address, cannot lock the user out.
 *
 * An allowance that is used further ahead than its rate permits was stored before the clock was set back, and has no effect.
 */
import { hash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { CLOCK_TOLERANCE_MS } from '../base/clock.ts';
import type { Transaction } from '../storage/operation.ts';

/** Allows `burst` attempts in a row, then one per interval. */
interface Rate {
  burst: number;
  intervalMs: number;
}

/** Another attempt is possible after waitMs; `limit` is the burst of the rate. */
export interface Wait {
  waitMs: number;
  limit: number;
}

const PER_USER: Rate = { burst: 10, intervalMs: 60_000 };
const PER_ADDRESS: Rate = { burst: 30, intervalMs: 20_000 };
/** Limits of emails with a link, by recipient and by requester. */
const RESETS_PER_USER: Rate = { burst: 3, intervalMs: 600_000 };
const RESETS_PER_ADDRESS: Rate = { burst: 20, intervalMs: 60_000 };
export const KNOWN_FOR_MS = 90 * 86_400_000;

/** The time from now until which an allowance can be used, also according to a node whose clock is ahead. */
function longestTakenMs({ burst, intervalMs }: Rate): number {
  return burst * intervalMs + CLOCK_TOLERANCE_MS;
}

/** Rows whose allowance is used for longer than this from now have no effect. */
export const LONGEST_TAKEN_MS = Math.max(
  ...[PER_USER, PER_ADDRESS, RESETS_PER_USER, RESETS_PER_ADDRESS].map(longestTakenMs),
);

/** The allowances that an attempt has used. */
export type TakenTokens = { key: string; intervalMs: number }[];

/** Returns an address for limits: the network of an IPv6 address, since a host can use any address in it. */
export function limitedAddress(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/, '').replace(/%.*$/, '');
  if (!isIPv6(plain)) return plain;
  const [head = '', tail = ''] = plain.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === '' ? [] : tail.split(':');
  const zeros = plain.includes('::') ? Array<string>(Math.max(0, 8 - before.length - after.length)).fill('0') : [];
  return `${[...before, ...zeros, ...after].slice(0, 4).join(':')}::/64`;
}

/** Returns the hash of a user name, existing or not, so that what was typed is not stored. */
export function limitedName(email: string): string {
  return hash('sha256', email, 'hex').slice(0, 32);
}

export interface Attempt {
  /** Results of limitedName() and limitedAddress(). */
  name: string;
  address: string;
  nowMs: number;
}

/** Uses the allowance of an attempt, or returns when another one is possible. */
export function takeAttempt(
  tx: Transaction,
  { name, address, nowMs }: Attempt,
  isKnown: boolean,
): Promise<TakenTokens | Wait> {
  if (isKnown) return take(tx, [[`known:${name}:${address}`, PER_USER]], nowMs);
  const wanted: Wanted = [
    [`address:${address}`, PER_ADDRESS],
    [`user:${name}`, PER_USER],
  ];
  return take(tx, wanted, nowMs);
}

/** Uses the allowance of a request for a link by email, or returns when another one is possible. */
export function takeReset(tx: Transaction, { name, address, nowMs }: Attempt): Promise<TakenTokens | Wait> {
  const wanted: Wanted = [
    [`reset-from:${address}`, RESETS_PER_ADDRESS],
    [`reset:${name}`, RESETS_PER_USER],
  ];
  return take(tx, wanted, nowMs);
}

type Wanted = [key: string, rate: Rate][];

async function take(tx: Transaction, wanted: Wanted, nowMs: number): Promise<TakenTokens | Wait> {
  const taken: TakenTokens = [];
  for (const [key, rate] of wanted) {
    const { burst, intervalMs } = rate;
    const latestMs = nowMs + longestTakenMs(rate);
    const changed = await tx.run(
      `INSERT INTO sign_in_limit (key, taken_until) VALUES (?, ?)
       ON CONFLICT (key) DO UPDATE SET
         taken_until = CASE WHEN sign_in_limit.taken_until BETWEEN ? AND ? THEN sign_in_limit.taken_until ELSE ? END + ?
       WHERE sign_in_limit.taken_until <= ? OR sign_in_limit.taken_until > ?`,
      key,
      nowMs + intervalMs,
      nowMs,
      latestMs,
      nowMs,
      intervalMs,
      nowMs + (burst - 1) * intervalMs,
      latestMs,
    );
    if (changed === 0) {
      const row = await tx.get<{ until: number }>('SELECT taken_until AS until FROM sign_in_limit WHERE key = ?', key);
      return { waitMs: Math.max(1, (row?.until ?? nowMs) - (burst - 1) * intervalMs - nowMs), limit: burst };
    }
    taken.push({ key, intervalMs });
  }
  return taken;
}

/** Gives back the allowance of a successful attempt. */
export async function returnTokens(tx: Transaction, taken: TakenTokens): Promise<void> {
  for (const { key, intervalMs } of taken)
    await tx.run('UPDATE sign_in_limit SET taken_until = taken_until - ? WHERE key = ?', intervalMs, key);
}

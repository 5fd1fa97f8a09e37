/**
 * How often somebody may try to sign in, for all nodes together. Each attempt takes a little time in advance from its address and
 * from its user name, and gets it back if it was right (the generic cell rate algorithm, one row for each): ten wrong ones at a user
 * and thirty from an address at once, then one a minute, and one in twenty seconds. Attempts are counted before they are checked,
 * so that a thousand at the same moment are no more than a thousand in a row. Names that nobody has count like any other.
 *
 * From an address that the user has signed in from, attempts count for this user and address alone: guesses from elsewhere lock
 * nobody out who is known, nor do those of neighbours behind one address.
 */
import { hash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import type { Transaction } from '../storage/operation.ts';

interface Rate {
  atOnce: number;
  oneInMs: number;
}

/** Another attempt may be made in waitMs; `limit` of them are let through at once. */
export interface Wait {
  waitMs: number;
  limit: number;
}

const PER_USER: Rate = { atOnce: 10, oneInMs: 60_000 };
const PER_ADDRESS: Rate = { atOnce: 30, oneInMs: 20_000 };
/** Mails with a link, by whom it is for and by who asks. */
const RESETS_PER_USER: Rate = { atOnce: 3, oneInMs: 600_000 };
const RESETS_PER_ADDRESS: Rate = { atOnce: 20, oneInMs: 60_000 };
export const KNOWN_FOR_MS = 90 * 86_400_000;

/** What an attempt has taken from. */
export type Taken = { key: string; oneInMs: number }[];

/** An address as limits count it: of IPv6 the network, since a host has as many addresses as it likes. */
export function limitedAddress(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/, '').replace(/%.*$/, '');
  if (!isIPv6(plain)) return plain;
  const [head = '', tail = ''] = plain.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === '' ? [] : tail.split(':');
  const zeros = plain.includes('::') ? Array<string>(Math.max(0, 8 - before.length - after.length)).fill('0') : [];
  return `${[...before, ...zeros, ...after].slice(0, 4).join(':')}::/64`;
}

/** Of a user name, whether somebody has it or not: its hash, so that nothing is kept of what was typed. */
export function limitedName(email: string): string {
  return hash('sha256', email, 'hex').slice(0, 32);
}

export interface Attempt {
  /** limitedName() and limitedAddress(). */
  name: string;
  address: string;
  nowMs: number;
}

/** Takes from what counts this attempt, or answers when another one may be made. */
export function takeAttempt(
  tx: Transaction,
  { name, address, nowMs }: Attempt,
  isKnown: boolean,
): Promise<Taken | Wait> {
  if (isKnown) return take(tx, [[`known:${name}:${address}`, PER_USER]], nowMs);
  const wanted: Wanted = [
    [`address:${address}`, PER_ADDRESS],
    [`user:${name}`, PER_USER],
  ];
  return take(tx, wanted, nowMs);
}

/** The same for asking for a link by mail. */
export function takeReset(tx: Transaction, { name, address, nowMs }: Attempt): Promise<Taken | Wait> {
  const wanted: Wanted = [
    [`reset-from:${address}`, RESETS_PER_ADDRESS],
    [`reset:${name}`, RESETS_PER_USER],
  ];
  return take(tx, wanted, nowMs);
}

type Wanted = [key: string, rate: Rate][];

async function take(tx: Transaction, wanted: Wanted, nowMs: number): Promise<Taken | Wait> {
  const taken: Taken = [];
  for (const [key, { atOnce, oneInMs }] of wanted) {
    const changed = await tx.run(
      `INSERT INTO sign_in_limit (key, taken_until) VALUES (?, ?)
       ON CONFLICT (key) DO UPDATE SET
         taken_until = CASE WHEN sign_in_limit.taken_until > ? THEN sign_in_limit.taken_until ELSE ? END + ?
       WHERE sign_in_limit.taken_until <= ?`,
      key,
      nowMs + oneInMs,
      nowMs,
      nowMs,
      oneInMs,
      nowMs + (atOnce - 1) * oneInMs,
    );
    if (changed === 0) {
      const row = await tx.get<{ until: number }>('SELECT taken_until AS until FROM sign_in_limit WHERE key = ?', key);
      return { waitMs: Math.max(1, (row?.until ?? nowMs) - (atOnce - 1) * oneInMs - nowMs), limit: atOnce };
    }
    taken.push({ key, oneInMs });
  }
  return taken;
}

/** The attempt was right. */
export async function giveBack(tx: Transaction, taken: Taken): Promise<void> {
  for (const { key, oneInMs } of taken)
    await tx.run('UPDATE sign_in_limit SET taken_until = taken_until - ? WHERE key = ?', oneInMs, key);
}

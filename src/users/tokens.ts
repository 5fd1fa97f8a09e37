/** Links with which a user sets a password, each valid once and for a limited time. Only the SHA-256 of their token is stored. */
import { hash } from 'node:crypto';
import { randomText } from '../base/ids.ts';
import type { NewToken } from './store.ts';

const HOUR_MS = 3_600_000;
const LENGTH = 43;

/** How long each kind of link is valid. */
const LIFETIMES_MS = {
  invitation: 7 * 24 * HOUR_MS,
  reset: HOUR_MS,
  'operator-reset': 24 * HOUR_MS,
  'first-run': 30 * 24 * HOUR_MS,
} as const;
export type TokenPurpose = keyof typeof LIFETIMES_MS;

export function tokenHash(token: string): Buffer {
  return hash('sha256', token, 'buffer');
}

/** Returns 256 random bits as text. */
export function newSecret(): string {
  return randomText(LENGTH);
}

export function tokenRow(
  token: string,
  { purpose, byMail, nowMs }: { purpose: TokenPurpose; byMail: boolean; nowMs: number },
): Omit<NewToken, 'userId'> {
  const expiresAt = nowMs + LIFETIMES_MS[purpose];
  return { tokenHash: tokenHash(token), purpose, byMail: byMail ? 1 : 0, createdAt: nowMs, expiresAt };
}

/** After the #, which browsers do not send and proxies do not log. */
export function linkOf(baseUrl: string, purpose: TokenPurpose, token: string): string {
  const page = purpose === 'first-run' || purpose === 'invitation' ? 'welcome' : 'reset';
  return `${baseUrl.replace(/\/$/, '')}/${page}#token=${token}`;
}

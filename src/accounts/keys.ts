/**
 * API keys: `pr_live_` or `pr_test_`, the 21 characters of the key's id, and 32 random ones (190 bits). The id finds the row,
 * so that nothing is compared with another key's secret; of the whole key only its SHA-256 is stored. The secret has too
 * many bits to be guessed from a fast hash, and a slow one would cost every request.
 */
import { hash } from 'node:crypto';
import { newId, randomText } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';

const PREFIXES: Record<Mode, string> = { live: 'pr_live_', sandbox: 'pr_test_' };
const SHAPE = /^pr_(?:live|test)_([0-9A-Za-z]{21})_[0-9A-Za-z]{32}$/;
/** An id that no key has: what does not look like a key is looked up all the same. */
const NOBODY = 'key_000000000000000000000';

export interface NewApiKey {
  keyId: string;
  /** Shown once. */
  apiKey: string;
  secretHash: Uint8Array;
}

export function newApiKey(mode: Mode, nowMs: number): NewApiKey {
  const keyId = newId('key', nowMs);
  const apiKey = `${PREFIXES[mode]}${keyId.slice('key_'.length)}_${randomText(32)}`;
  return { keyId, apiKey, secretHash: apiKeyHash(apiKey) };
}

/** What is stored of a key: the SHA-256 of all of it. */
export function apiKeyHash(apiKey: string): Uint8Array {
  return hash('sha256', apiKey, 'buffer');
}

/** The id of the row that a presented key belongs to, if any; an id without a row when the text is no key at all. */
export function keyIdOf(apiKey: string): string {
  const match = SHAPE.exec(apiKey);
  return match ? `key_${match[1]}` : NOBODY;
}

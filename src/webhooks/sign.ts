/**
 * Signatures of the Standard Webhooks scheme, and their secrets: `whsec_` and the Base64 of 24 to 64 bytes. The signed text is
 * `id.timestamp.body`, so none of the parts can be exchanged or replayed later. Pure.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { open, seal } from '../base/seal.ts';
import { sealContext } from './endpoints.ts';
import { openOwnHeaders } from './own-headers.ts';
import type { EndpointTarget } from './store.ts';

const PREFIX = 'whsec_';
const MIN_BYTES = 24;
const MAX_BYTES = 64;
const NEW_BYTES = 32;

/** Returns a new secret as shown to the account. */
export function newSecret(): string {
  return PREFIX + randomBytes(NEW_BYTES).toString('base64');
}

/** Returns a new secret and its encrypted form for storage. */
export function newSealedSecret(
  secretKey: Uint8Array,
  webhookId: string,
): { secret: string; secretSealed: Uint8Array } {
  const secret = newSecret();
  return { secret, secretSealed: seal(secretKey, secret, sealContext(webhookId)) };
}

/** Returns the key of a secret, or undefined if the text is not a valid secret. */
export function secretKeyOf(secret: string): Buffer | undefined {
  if (!secret.startsWith(PREFIX)) return undefined;
  const text = secret.slice(PREFIX.length);
  const key = Buffer.from(text, 'base64');
  // Node accepts non-canonical Base64; a secret must be canonical.
  if (key.toString('base64') !== text || key.length < MIN_BYTES || key.length > MAX_BYTES) return undefined;
  return key;
}

export interface Signed {
  id: string;
  timestampSeconds: number;
  body: string;
}

/** Returns the value of `webhook-signature`: one `v1,…` for every key, separated by spaces (several only during a rotation). */
export function signatureOf(signed: Signed, keys: readonly Buffer[]): string {
  const text = `${signed.id}.${signed.timestampSeconds}.${signed.body}`;
  let value = '';
  for (const key of keys) {
    const one = `v1,${createHmac('sha256', key).update(text).digest('base64')}`;
    value = value === '' ? one : `${value} ${one}`;
  }
  return value;
}

/**
 * Returns the headers of one attempt; `nowMs` is the real time, whatever clock decides the schedule. The values are repeated under the names
 * that Svix used before Standard Webhooks, for handlers that expect those.
 */
export function signedHeaders(event: { id: string; body: string }, keys: readonly Buffer[], nowMs: number) {
  const timestampSeconds = Math.floor(nowMs / 1000);
  const signature = signatureOf({ id: event.id, timestampSeconds, body: event.body }, keys);
  return {
    'content-type': 'application/json',
    'webhook-id': event.id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signature,
    'svix-id': event.id,
    'svix-timestamp': String(timestampSeconds),
    'svix-signature': signature,
  };
}

const KEPT = 20_000;

export interface Target {
  url: string;
  /** The customer's own headers. */
  headers: Readonly<Record<string, string>>;
  /** The most events of a request; with more than 1, a request carries an array of events. */
  maxBatch: number;
  /** Returns the keys that sign at this time, the current one first. */
  keys(nowMs: number): readonly Buffer[];
}

interface Kept extends Target {
  row: EndpointTarget;
}

type Targets = (row: EndpointTarget) => Target;

/** Returns the key of an encrypted secret; throws if it was encrypted with another secret key. */
function openKey(secretKey: Uint8Array, webhookId: string, sealed: Uint8Array): Buffer {
  const key = secretKeyOf(open(secretKey, sealed, sealContext(webhookId)).toString('utf8'));
  if (!key) throw new Error(`the sealed secret of ${webhookId} is not a valid secret of the form whsec_…`);
  return key;
}

const NONE = new Uint8Array();

function isSame(a: EndpointTarget, b: EndpointTarget): boolean {
  return (
    a.url === b.url &&
    a.max_batch === b.max_batch &&
    a.previous_secret_until === b.previous_secret_until &&
    Buffer.compare(a.secret_sealed, b.secret_sealed) === 0 &&
    Buffer.compare(a.headers_sealed ?? NONE, b.headers_sealed ?? NONE) === 0
  );
}

export function createTargets(secretKey: Uint8Array): Targets {
  const kept = new Map<string, Kept>();
  return (row) => {
    const known = kept.get(row.id);
    if (known && isSame(known.row, row)) return known;
    const current = openKey(secretKey, row.id, row.secret_sealed);
    const alone = [current];
    const both = row.previous_secret_sealed ? [current, openKey(secretKey, row.id, row.previous_secret_sealed)] : alone;
    const made: Kept = {
      row,
      url: row.url,
      maxBatch: row.max_batch,
      headers: openOwnHeaders(secretKey, row.id, row.headers_sealed),
      keys: (nowMs) => (nowMs < (row.previous_secret_until ?? 0) ? both : alone),
    };
    kept.set(row.id, made);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value as string);
    return made;
  };
}

/**
 * Signatures of the Standard Webhooks scheme, and the secrets they are made with: `whsec_` and the Base64 of 24 to 64
 * bytes. What is signed is `id.timestamp.body`, so that neither can be exchanged or replayed later. Pure.
 */
import { createHmac, randomBytes } from 'node:crypto';

const PREFIX = 'whsec_';
const MIN_BYTES = 24;
const MAX_BYTES = 64;
const NEW_BYTES = 32;

/** A fresh secret as it is shown to the account. */
export function newSecret(): string {
  return PREFIX + randomBytes(NEW_BYTES).toString('base64');
}

/** The key inside a secret, or undefined when the text is none. */
export function secretKeyOf(secret: string): Buffer | undefined {
  if (!secret.startsWith(PREFIX)) return undefined;
  const text = secret.slice(PREFIX.length);
  const key = Buffer.from(text, 'base64');
  // Node reads Base64 generously; only the one canonical spelling may become a secret.
  if (key.toString('base64') !== text || key.length < MIN_BYTES || key.length > MAX_BYTES) return undefined;
  return key;
}

export interface Signed {
  id: string;
  timestampSeconds: number;
  body: string;
}

/** Value of `webhook-signature`: one `v1,…` for every key, separated by spaces (several only during a rotation). */
export function signatureOf(signed: Signed, keys: readonly Buffer[]): string {
  const text = `${signed.id}.${signed.timestampSeconds}.${signed.body}`;
  let value = '';
  for (const key of keys) {
    const one = `v1,${createHmac('sha256', key).update(text).digest('base64')}`;
    value = value === '' ? one : `${value} ${one}`;
  }
  return value;
}

/** The headers of one attempt; `nowMs` is the real time, whatever clock decides the schedule. */
export function signedHeaders(event: { id: string; body: string }, keys: readonly Buffer[], nowMs: number) {
  const timestampSeconds = Math.floor(nowMs / 1000);
  return {
    'content-type': 'application/json',
    'user-agent': 'Postrider-Webhooks',
    'webhook-id': event.id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signatureOf({ id: event.id, timestampSeconds, body: event.body }, keys),
  };
}

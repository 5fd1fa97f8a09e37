/**
 * Tokens that carry a JSON value and its signature, for links that work without a login. The key is derived from the service's secret key
 * and the purpose, so a token for one purpose is not valid for another. Payload and signature are compared as text, so each has exactly one
 * valid spelling. The value is signed, not encrypted.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

export interface SealedTokens<T> {
  seal(value: T): string;
  /** Returns undefined if the token was not issued by this service for this purpose. */
  open(token: string): T | undefined;
}

const TOKEN = /^([0-9A-Za-z_-]{1,400})\.([0-9A-Za-z_-]{43})$/;

/** `secretKey` is the service's secret key (32 bytes). */
export function createSealedTokens<T>(secretKey: Uint8Array, purpose: string): SealedTokens<T> {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', purpose, 32));
  const sign = (payload: string): string => createHmac('sha256', key).update(payload).digest('base64url');
  return {
    seal(value) {
      const payload = Buffer.from(JSON.stringify(value)).toString('base64url');
      return `${payload}.${sign(payload)}`;
    },
    open(token) {
      const [, payload, signature] = TOKEN.exec(token) ?? [];
      if (payload === undefined || signature === undefined) return undefined;
      if (!timingSafeEqual(Buffer.from(signature), Buffer.from(sign(payload)))) return undefined;
      return JSON.parse(Buffer.from(payload, 'base64url').toString()) as T;
    },
  };
}

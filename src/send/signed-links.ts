/**
 * Tokens in the addresses of links that recipients follow: a text and its signature, so that nobody can make or alter one.
 * They work for as long as the secret key stays, whatever becomes of the records they speak of.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

/** Without a rest in Base64, so that there is one way to write it. */
const SIGNATURE_BYTES = 18;

export interface SignedText {
  /** Letters, digits, `-`, `_` and one `.`. */
  seal(text: string): string;
  /** The text of a token, or undefined when it was not made here. */
  open(token: string): string | undefined;
}

/** Tokens for one purpose: those of another are not opened. `secretKey` is the service's own (32 bytes). */
export function createSignedText(secretKey: Uint8Array, purpose: string): SignedText {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', `postrider ${purpose}`, 32));
  const sign = (payload: string): string =>
    createHmac('sha256', key).update(payload).digest().subarray(0, SIGNATURE_BYTES).toString('base64url');

  return {
    seal: (text) => {
      const payload = Buffer.from(text).toString('base64url');
      return `${payload}.${sign(payload)}`;
    },
    open: (token) => {
      const [payload = '', signature = '', ...more] = token.split('.');
      // Compared as they are written: decoding passes over what is no Base64.
      const given = Buffer.from(signature);
      const ours = Buffer.from(sign(payload));
      if (more.length > 0 || given.length !== ours.length || !timingSafeEqual(given, ours)) return undefined;
      return Buffer.from(payload, 'base64url').toString();
    },
  };
}

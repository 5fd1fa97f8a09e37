/**
 * Tokens in the addresses of links that recipients follow: a text, encrypted and authenticated, since links are forwarded and
 * logged everywhere: nobody reads whose mail it was, and nobody makes or alters a token. They work for as long as the secret
 * key stays, whatever becomes of the records they speak of.
 *
 * A token is IV and ciphertext. The IV is a MAC of the text (SIV, Rogaway and Shrimpton 2006; RFC 5297 with HMAC-SHA-256 and
 * AES-256-CTR): it needs no nonce, whose random collisions would bound the number of links, adds 16 bytes, and gives one text one
 * token. Links of mail sent before were text and signature in plain Base64 with a dot between; they still open.
 */
import { createCipheriv, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

const IV_BYTES = 16;
/** Of the old form. */
const SIGNATURE_BYTES = 18;

export interface SealedText {
  /** Letters, digits, `-` and `_`. */
  seal(text: string): string;
  /** The text of a token, or undefined when it was not made here. */
  open(token: string): string | undefined;
}

/** Tokens for one purpose: those of another are not opened. `secretKey` is the service's own (32 bytes). */
export function createSealedText(secretKey: Uint8Array, purpose: string): SealedText {
  const derive = (use: string): Buffer =>
    Buffer.from(hkdfSync('sha256', secretKey, '', `postrider ${purpose}${use}`, 32));
  const macKey = derive(': mac');
  const cipherKey = derive(': cipher');
  const signatureKey = derive('');
  const ivOf = (text: Buffer): Buffer => createHmac('sha256', macKey).update(text).digest().subarray(0, IV_BYTES);
  // CTR: the same step both ways.
  const crypt = (iv: Buffer, bytes: Buffer): Buffer => createCipheriv('aes-256-ctr', cipherKey, iv).update(bytes);

  const openSigned = (token: string): string | undefined => {
    const [payload = '', signature = '', ...more] = token.split('.');
    const ours = createHmac('sha256', signatureKey).update(payload).digest().subarray(0, SIGNATURE_BYTES);
    // Compared as they are written: decoding passes over what is no Base64.
    const [given, wanted] = [Buffer.from(signature), Buffer.from(ours.toString('base64url'))];
    if (more.length > 0 || given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined;
    return Buffer.from(payload, 'base64url').toString();
  };

  return {
    seal: (text) => {
      const plain = Buffer.from(text);
      const iv = ivOf(plain);
      return Buffer.concat([iv, crypt(iv, plain)]).toString('base64url');
    },
    open: (token) => {
      if (token.includes('.')) return openSigned(token);
      const bytes = Buffer.from(token, 'base64url');
      // One way to write a token: no padding, no foreign characters, no spare bits.
      if (bytes.length < IV_BYTES || bytes.toString('base64url') !== token) return undefined;
      const iv = bytes.subarray(0, IV_BYTES);
      const plain = crypt(iv, bytes.subarray(IV_BYTES));
      return timingSafeEqual(iv, ivOf(plain)) ? plain.toString() : undefined;
    },
  };
}

/**
 * Encrypts secrets at rest: AES-256-GCM with the service's secret key. The result is a version byte, a random nonce, the ciphertext, and
 * the tag. The context (the id of the row and the purpose) is authenticated too, so a value copied into another row cannot be decrypted.
 * Values that were altered or encrypted with another key are rejected.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
export const SECRET_KEY_BYTES = 32;

/** Encrypts text or bytes; `context` identifies the place of the secret, such as `dkim:dom_…:rsa`. */
export function seal(key: Uint8Array, plaintext: Uint8Array | string, context: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(context));
  const body = Buffer.concat([
    typeof plaintext === 'string' ? cipher.update(plaintext, 'utf8') : cipher.update(plaintext),
    cipher.final(),
  ]);
  return Buffer.concat([Buffer.of(VERSION), nonce, body, cipher.getAuthTag()]);
}

/** Returns the plaintext; throws if the key or the context differs or the bytes were altered. */
export function open(key: Uint8Array, sealed: Uint8Array, context: string): Buffer {
  if (sealed[0] !== VERSION || sealed.length < 1 + NONCE_BYTES + TAG_BYTES) {
    throw new Error(`the sealed secret of ${context} has an unknown form; was it written by a newer version?`);
  }
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(context));
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES));
  try {
    return Buffer.concat([
      decipher.update(sealed.subarray(1 + NONCE_BYTES, sealed.length - TAG_BYTES)),
      decipher.final(),
    ]);
  } catch {
    throw new Error(`the sealed secret of ${context} does not open: another secret key, or the row was altered`);
  }
}

/**
 * A keyed hash of an address (HMAC-SHA-256, RFC 2104), which recognizes the address without storing it. It differs by account, so two
 * accounts cannot compare their lists, and without the secret key nobody can test a guessed address.
 */
import { createHmac, createSecretKey, hkdfSync } from 'node:crypto';

/** Returns the hash of a normalized address of an account: 43 characters of [0-9A-Za-z_-]. */
export type AddressHash = (accountId: string, email: string) => string;

/** `secretKey` is the service's key (32 bytes). */
export function createAddressHash(secretKey: Uint8Array): AddressHash {
  const key = createSecretKey(Buffer.from(hkdfSync('sha256', secretKey, '', 'postrider erased addresses', 32)));
  return (accountId, email) => createHmac('sha256', key).update(`${accountId} ${email}`).digest('base64url');
}

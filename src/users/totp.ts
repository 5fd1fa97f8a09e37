/**
 * Codes of an authenticator app (TOTP, RFC 6238 over HOTP, RFC 4226): six digits of an HMAC-SHA-1 over the current 30-second step. The
 * steps before and after are accepted too, for clocks that differ. Recovery codes replace a lost device: fifty random bits each, stored as
 * an HMAC with the service's key, since a plain hash of so few bits could be brute-forced.
 */
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';

const STEP_MS = 30_000;
const DIGITS = 6;
const SECRET_BYTES = 20;
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const RECOVERY_CODES = 10;
const RECOVERY_LENGTH = 10;

export function newTotpSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** RFC 4648 §6, without padding, as apps expect it. */
export function base32(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    for (bits += 8; bits >= 5; bits -= 5) text += BASE32[(value >>> (bits - 5)) & 31];
  }
  return bits === 0 ? text : text + BASE32[(value << (5 - bits)) & 31];
}

/** RFC 4226 §5.3. */
export function hotp(secret: Uint8Array, counter: number, digits = DIGITS): string {
  const message = Buffer.alloc(8);
  message.writeBigUInt64BE(BigInt(counter));
  const digest = createHmac('sha1', secret).update(message).digest();
  const number = digest.readUInt32BE(digest.at(-1)! & 15) & 0x7fffffff;
  return String(number % 10 ** digits).padStart(digits, '0');
}

export function totpStep(nowMs: number): number {
  return Math.floor(nowMs / STEP_MS);
}

/** Returns the time step of the code; undefined if it is wrong. All steps are compared in any case. */
export function verifyTotp(secret: Uint8Array, code: string, nowMs: number): number | undefined {
  const now = totpStep(nowMs);
  const given = Buffer.from(code.padEnd(DIGITS, ' ').slice(0, DIGITS), 'latin1');
  const fitting = [now - 1, now, now + 1].filter((step) => timingSafeEqual(given, Buffer.from(hotp(secret, step))));
  return /^\d{6}$/.test(code) ? fitting.at(-1) : undefined;
}

/** Returns the URL that an app reads as a QR code. */
export function otpauthUrl(secret: Uint8Array, email: string): string {
  const query = new URLSearchParams({ secret: base32(secret), issuer: 'Postrider' });
  return `otpauth://totp/Postrider:${encodeURIComponent(email)}?${query}`;
}

/** Returns recovery codes, to be shown once, as two groups of five. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: RECOVERY_CODES }, () => {
    const text = Array.from(randomBytes(RECOVERY_LENGTH), (byte) => BASE32[byte & 31]!.toLowerCase()).join('');
    return `${text.slice(0, 5)}-${text.slice(5)}`;
  });
}

/** Returns the stored form of a recovery code, ignoring its formatting. */
export function recoveryCodeHash(secretKey: Uint8Array, code: string): Buffer {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'recovery codes', 32));
  return createHmac('sha256', key)
    .update(code.toLowerCase().replace(/[^a-z2-7]/g, ''))
    .digest();
}

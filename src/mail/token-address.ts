/**
 * Addresses of this service that carry a token: `b+TOKEN@…` receives bounces of one copy of a message (its MAIL FROM), and `u+TOKEN@…` its
 * recipient's unsubscribe requests. The token contains the copy and the day, and a MAC of both: only this service can create one, so mail
 * to any other address can be refused. It is visible in the envelope and the header of that mail, so anyone who has the mail can use it,
 * and it expires.
 *
 * The token is lower-case Base32 (RFC 4648 §6) of the message id (16 bytes), the day (2 bytes), and the MAC (10 bytes of HMAC-SHA-256).
 * With `b+` that is 47 of the 64 characters allowed in a local part (RFC 5321 §4.5.3.1.1). Some servers change local parts to upper case,
 * so both are accepted.
 *
 * Verification takes the same time for every address, so it reveals nothing about a guess.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

/** The content of a token. */
export interface ReturnPathClaim {
  /** `msg_…`, of the first recipient if the transaction had several. */
  messageId: string;
  /** The mail had several recipients in one transaction; the bounce itself must tell which one it is about. */
  isShared: boolean;
  /** Unix days (UTC). */
  day: number;
}

export type TokenUse = 'bounce' | 'unsubscribe';

export interface TokenAddresses {
  /** Returns the local part of the address. */
  make(use: TokenUse, copy: { messageId: string; isShared?: boolean }, nowMs: number): string;
  /** Returns the token's content; undefined if it was not issued by this service or has expired. */
  open(local: string, nowMs: number): ({ use: TokenUse } & ReturnPathClaim) | undefined;
}

const DAY_MS = 86_400_000;
const PREFIX = { bounce: 'b+', unsubscribe: 'u+' } as const;
/** Servers give up after five days and report it then; an unsubscribe address has to work for 30 days (CAN-SPAM), and is kept longer. */
export const LIFE_DAYS = { bounce: 14, unsubscribe: 90 } as const;
/** Tolerance for the clock of the node that issued it. */
const AHEAD_DAYS = 1;
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const ID_ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const ID_PREFIX = 'msg_';
const ID_LENGTH = 21;
const ID_BYTES = 16;
const MAC_BYTES = 10;
const CLAIM_BYTES = ID_BYTES + 2;
const TOKEN_LENGTH = Math.ceil(((CLAIM_BYTES + MAC_BYTES) * 8) / 5);
/** The top bit of the day; the other bits last until 2059. */
const SHARED = 0x8000;

/** `secretKey` is the service's secret key (32 bytes). */
export function createTokenAddresses(secretKey: Uint8Array): TokenAddresses {
  const keyOf = (use: TokenUse): Buffer =>
    Buffer.from(hkdfSync('sha256', secretKey, '', `postrider ${use} addresses`, 32));
  const keys = { bounce: keyOf('bounce'), unsubscribe: keyOf('unsubscribe') };
  const macOf = (use: TokenUse, claim: Uint8Array): Buffer =>
    createHmac('sha256', keys[use]).update(claim).digest().subarray(0, MAC_BYTES);

  return {
    make: (use, { messageId, isShared = false }, nowMs) => {
      const claim = Buffer.alloc(CLAIM_BYTES);
      writeId(claim, messageId);
      claim.writeUInt16BE(Math.floor(nowMs / DAY_MS) | (isShared ? SHARED : 0), ID_BYTES);
      return `${PREFIX[use]}${base32(Buffer.concat([claim, macOf(use, claim)]))}`;
    },
    open: (local, nowMs) => {
      const use = /^u\+/i.test(local) ? 'unsubscribe' : 'bounce';
      const text = local.slice(PREFIX[use].length).toLowerCase();
      const isShaped = local.length === PREFIX[use].length + TOKEN_LENGTH && /^[bu]\+$/i.test(local.slice(0, 2));
      // A malformed token is compared like a well-formed one, for constant time.
      const bytes = (isShaped ? fromBase32(text) : undefined) ?? Buffer.alloc(CLAIM_BYTES + MAC_BYTES);
      const claim = bytes.subarray(0, CLAIM_BYTES);
      const isOurs = timingSafeEqual(macOf(use, claim), bytes.subarray(CLAIM_BYTES));
      if (!isShaped || !isOurs) return undefined;
      const field = claim.readUInt16BE(ID_BYTES);
      const day = field & ~SHARED;
      const age = Math.floor(nowMs / DAY_MS) - day;
      if (age > LIFE_DAYS[use] || age < -AHEAD_DAYS) return undefined;
      return { use, messageId: readId(claim), isShared: (field & SHARED) !== 0, day };
    },
  };
}

/** 21 characters of 62 are a number of 126 bits. */
function writeId(target: Buffer, messageId: string): void {
  if (!messageId.startsWith(ID_PREFIX) || messageId.length !== ID_PREFIX.length + ID_LENGTH)
    throw new Error(`${messageId} is not a message id`);
  let number = 0n;
  for (const character of messageId.slice(ID_PREFIX.length)) {
    const digit = ID_ALPHABET.indexOf(character);
    if (digit === -1) throw new Error(`${messageId} is not a message id`);
    number = number * 62n + BigInt(digit);
  }
  target.writeBigUInt64BE(number >> 64n, 0);
  target.writeBigUInt64BE(number & 0xffff_ffff_ffff_ffffn, 8);
}

function readId(claim: Buffer): string {
  let number = (claim.readBigUInt64BE(0) << 64n) | claim.readBigUInt64BE(8);
  let text = '';
  for (let at = 0; at < ID_LENGTH; at += 1) {
    text = ID_ALPHABET[Number(number % 62n)] + text;
    number /= 62n;
  }
  return ID_PREFIX + text;
}

function base32(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(held >> bits) & 31];
    }
    held &= (1 << bits) - 1;
  }
  return bits === 0 ? text : text + ALPHABET[(held << (5 - bits)) & 31];
}

/** Returns undefined if a character is not in the alphabet or spare bits are set: a token has exactly one spelling. */
function fromBase32(text: string): Buffer | undefined {
  const bytes = Buffer.alloc(Math.floor((text.length * 5) / 8));
  let bits = 0;
  let held = 0;
  let at = 0;
  for (const character of text) {
    const digit = ALPHABET.indexOf(character);
    if (digit === -1) return undefined;
    held = (held << 5) | digit;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at++] = held >> bits;
    held &= (1 << bits) - 1;
  }
  return held === 0 ? bytes : undefined;
}

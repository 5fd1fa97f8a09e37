/**
 * Addresses of our own that carry a claim: `b+TOKEN@…`, to which bounces of one copy of a mail come back (its MAIL FROM), and
 * `u+TOKEN@…`, to which its recipient may write to unsubscribe. The token names the copy and the day, and a MAC of both: nobody
 * else can make one, so that mail to any other address can be refused. It stands in the envelope and the header of that mail, so
 * that it is no secret from those who have the mail, and dies after its time.
 *
 * The token is Base32 (RFC 4648 §6) in lower case of: the id of the message (16 bytes), the day (2 bytes), the MAC (10 bytes), which is
 * HMAC-SHA-256 cut to 80 bits. With `b+` that is 47 characters of the 64 that a local part may have (RFC 5321 §4.5.3.1.1). Some
 * servers write local parts in upper case: both are read.
 *
 * The work that reading takes is the same for every address, ours or not: nobody learns from the time what is right of a guess.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

/** What a token says. */
export interface ReturnPathClaim {
  /** `msg_…`, of the first recipient where the transaction had several. */
  messageId: string;
  /** The mail went to several recipients of its email in one transaction: which of them it is about has to be read in it. */
  isShared: boolean;
  /** Unix days (UTC). */
  day: number;
}

export type TokenUse = 'bounce' | 'unsubscribe';

export interface TokenAddresses {
  /** The local part of the address. */
  make(use: TokenUse, copy: { messageId: string; isShared?: boolean }, nowMs: number): string;
  /** What a local part claims; undefined when it was not made here, or its time is over. */
  open(local: string, nowMs: number): ({ use: TokenUse } & ReturnPathClaim) | undefined;
}

const DAY_MS = 86_400_000;
const PREFIX = { bounce: 'b+', unsubscribe: 'u+' } as const;
/** Servers give mail up after five days and tell of it then; an unsubscribe address has to work for 30 days (CAN-SPAM), and is kept longer. */
export const LIFE_DAYS = { bounce: 14, unsubscribe: 90 } as const;
/** The clock of the node that made it may be ahead. */
const AHEAD_DAYS = 1;
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const ID_ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const ID_PREFIX = 'msg_';
const ID_LENGTH = 21;
const ID_BYTES = 16;
const MAC_BYTES = 10;
const CLAIM_BYTES = ID_BYTES + 2;
const TOKEN_LENGTH = Math.ceil(((CLAIM_BYTES + MAC_BYTES) * 8) / 5);
/** The top bit of the day: it lasts until 2059 without it. */
const SHARED = 0x8000;

/** `secretKey` is the service's own (32 bytes). */
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
      // What is no token at all is compared like one.
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
    throw new Error(`${messageId} is no id of a message`);
  let number = 0n;
  for (const character of messageId.slice(ID_PREFIX.length)) {
    const digit = ID_ALPHABET.indexOf(character);
    if (digit === -1) throw new Error(`${messageId} is no id of a message`);
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

/** Undefined where a character is none of the alphabet, or spare bits are set: a token has one way to be written. */
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

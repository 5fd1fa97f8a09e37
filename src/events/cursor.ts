/**
 * The places of events as callers see them: one block of AES under a key of the service's own, the same on all nodes. Places are
 * counted for all accounts together; in the open they would tell everybody how much the whole service sends. A text that was
 * not made here is refused: it would have to decrypt to two small numbers by chance, one in four million.
 */
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';
import type { EventPlace } from './read-store.ts';

const BLOCK_BYTES = 16;
/** Of 16 bytes in base64url without padding. */
const TEXT = /^[A-Za-z0-9_-]{21}[AQgw]$/;

export interface EventCursors {
  textOf(place: EventPlace): string;
  /** Undefined for whatever textOf did not make. */
  read(text: string): EventPlace | undefined;
}

export function createEventCursors(secretKey: Uint8Array): EventCursors {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'postrider event cursors', 32));
  return {
    textOf: ({ position, seq }) => {
      const block = Buffer.alloc(BLOCK_BYTES);
      block.writeBigUInt64BE(BigInt(position), 0);
      block.writeBigUInt64BE(BigInt(seq), 8);
      // A single block that never repeats needs no mode: it is a permutation of places.
      return createCipheriv('aes-256-ecb', key, null).setAutoPadding(false).update(block).toString('base64url');
    },
    read: (text) => {
      if (!TEXT.test(text)) return undefined;
      const block = createDecipheriv('aes-256-ecb', key, null)
        .setAutoPadding(false)
        .update(Buffer.from(text, 'base64url'));
      const position = Number(block.readBigUInt64BE(0));
      const seq = Number(block.readBigUInt64BE(8));
      return Number.isSafeInteger(position) && Number.isSafeInteger(seq) ? { position, seq } : undefined;
    },
  };
}

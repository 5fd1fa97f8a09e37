/**
 * The token of a link that shows one message to anyone who has it. It contains account, mode, message, what is hidden, its expiry, and the
 * id of the link, and is signed with a separate key derived from the service's secret key. A token with an id works while the link's row
 * exists, so it can be revoked. Tokens of earlier versions have no id and work until they expire, after at most 30 days.
 * Payload and signature are compared as text, so each has exactly one valid spelling.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Mode } from '../base/mode.ts';
import type { MessageKey } from './api-store.ts';

export interface ShareGrant extends MessageKey {
  /** Unix ms. */
  expiresAtMs: number;
  hideSubject: boolean;
  hideContent: boolean;
  /** Undefined for tokens of earlier versions, which cannot be revoked. */
  shareId?: string | undefined;
}

export interface ShareTokens {
  seal(grant: ShareGrant & { shareId: string }): string;
  /** Returns undefined if the token was not issued by this service or has expired. The caller checks whether the link was revoked. */
  open(token: string, nowMs: number): ShareGrant | undefined;
}

const TOKEN = /^([0-9A-Za-z_-]{1,400})\.([0-9A-Za-z_-]{43})$/;

type Sealed = readonly [
  accountId: string,
  mode: Mode,
  messageId: string,
  expiresAtMs: number,
  hidden: string,
  shareId?: string,
];

/** `secretKey` is the service's secret key (32 bytes). */
export function createShareTokens(secretKey: Uint8Array): ShareTokens {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'postrider share links', 32));
  const sign = (payload: string): string => createHmac('sha256', key).update(payload).digest('base64url');
  return {
    seal({ accountId, mode, messageId, expiresAtMs, hideSubject, hideContent, shareId }) {
      const hidden = `${hideSubject ? 's' : ''}${hideContent ? 'c' : ''}`;
      const sealed: Sealed = [accountId, mode, messageId, expiresAtMs, hidden, shareId];
      const payload = Buffer.from(JSON.stringify(sealed)).toString('base64url');
      return `${payload}.${sign(payload)}`;
    },
    open(token, nowMs) {
      const [, payload, signature] = TOKEN.exec(token) ?? [];
      if (payload === undefined || signature === undefined) return undefined;
      if (!timingSafeEqual(Buffer.from(signature), Buffer.from(sign(payload)))) return undefined;
      const sealed = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Sealed;
      const [accountId, mode, messageId, expiresAtMs, hidden, shareId] = sealed;
      if (nowMs >= expiresAtMs) return undefined;
      const hides = { hideSubject: hidden.includes('s'), hideContent: hidden.includes('c') };
      return { accountId, mode, messageId, expiresAtMs, ...hides, shareId };
    },
  };
}

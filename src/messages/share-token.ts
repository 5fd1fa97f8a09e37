/**
 * The token of a link that shows one message to anyone who has it: it names account, mode, message, what is hidden and the end of its life, and is
 * signed under a key of its own that is derived from the service's secret key. Nothing is stored: it cannot be guessed, altered or
 * prolonged, and not called back before its end. What it says and its signature are compared as text, so that there is one way to
 * write each.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Mode } from '../base/mode.ts';
import type { MessageKey } from './api-store.ts';

export interface ShareGrant extends MessageKey {
  /** Unix ms. */
  expiresAtMs: number;
  hideSubject: boolean;
  hideContent: boolean;
}

export interface ShareTokens {
  seal(grant: ShareGrant): string;
  /** Undefined for what was not sealed here, or is over. */
  open(token: string, nowMs: number): ShareGrant | undefined;
}

const TOKEN = /^([0-9A-Za-z_-]{1,400})\.([0-9A-Za-z_-]{43})$/;

type Sealed = readonly [accountId: string, mode: Mode, messageId: string, expiresAtMs: number, hidden: string];

/** `secretKey` is the service's own (32 bytes). */
export function createShareTokens(secretKey: Uint8Array): ShareTokens {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'postrider share links', 32));
  const sign = (said: string): string => createHmac('sha256', key).update(said).digest('base64url');
  return {
    seal({ accountId, mode, messageId, expiresAtMs, hideSubject, hideContent }) {
      const hidden = `${hideSubject ? 's' : ''}${hideContent ? 'c' : ''}`;
      const sealed: Sealed = [accountId, mode, messageId, expiresAtMs, hidden];
      const said = Buffer.from(JSON.stringify(sealed)).toString('base64url');
      return `${said}.${sign(said)}`;
    },
    open(token, nowMs) {
      const [, said, signature] = TOKEN.exec(token) ?? [];
      if (said === undefined || signature === undefined) return undefined;
      if (!timingSafeEqual(Buffer.from(signature), Buffer.from(sign(said)))) return undefined;
      const sealed = JSON.parse(Buffer.from(said, 'base64url').toString()) as Sealed;
      const [accountId, mode, messageId, expiresAtMs, hidden] = sealed;
      if (nowMs >= expiresAtMs) return undefined;
      const hides = { hideSubject: hidden.includes('s'), hideContent: hidden.includes('c') };
      return { accountId, mode, messageId, expiresAtMs, ...hides };
    },
  };
}

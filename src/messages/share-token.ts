/**
 * The token of a link that shows one message to anyone who has it. It contains account, mode, message, what is hidden, its expiry, and the
 * id of the link, and is signed (sealed-token.ts). A token with an id works while the link's row exists, so it can be revoked. Tokens of
 * earlier versions have no id and work until they expire, after at most 30 days.
 */
import type { Mode } from '../base/mode.ts';
import { createSealedTokens } from '../base/sealed-token.ts';
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
  const tokens = createSealedTokens<Sealed>(secretKey, 'postrider share links');
  return {
    seal({ accountId, mode, messageId, expiresAtMs, hideSubject, hideContent, shareId }) {
      const hidden = `${hideSubject ? 's' : ''}${hideContent ? 'c' : ''}`;
      return tokens.seal([accountId, mode, messageId, expiresAtMs, hidden, shareId]);
    },
    open(token, nowMs) {
      const sealed = tokens.open(token);
      if (sealed === undefined) return undefined;
      const [accountId, mode, messageId, expiresAtMs, hidden, shareId] = sealed;
      if (nowMs >= expiresAtMs) return undefined;
      const hides = { hideSubject: hidden.includes('s'), hideContent: hidden.includes('c') };
      return { accountId, mode, messageId, expiresAtMs, ...hides, shareId };
    },
  };
}

/**
 * Signed links to a message and its attachments, for receivers of its event. Each link names one file and its expiry, and is signed with a
 * key of its own. Nothing is stored; links cannot be guessed, altered, or extended.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

/** The path before the token. */
export const FILES_PATH = '/inbound-files/';
/** Longer than webhooks are retried. */
export const LINK_MS = 7 * 86_400_000;

export interface FileGrant {
  inboundId: string;
  /** The number of an attachment, from 0, or the complete message. */
  file: number | 'raw';
  /** Unix ms. */
  expiresAtMs: number;
}

export interface InboundLinks {
  url(grant: FileGrant): string;
  /** Returns undefined for a token with an invalid signature or one that has expired. */
  open(token: string, nowMs: number): FileGrant | undefined;
}

const TOKEN = /^(inb_[0-9A-Za-z]{21})-(raw|0|[1-9][0-9]{0,3})-([0-9a-z]{1,11})-([0-9A-Za-z_-]{43})$/;

/** `secretKey` is the service's key (32 bytes); `baseUrl` is read on each use. */
export function createInboundLinks(base: { readonly secretKey: Uint8Array; readonly baseUrl: string }): InboundLinks {
  const key = Buffer.from(hkdfSync('sha256', base.secretKey, '', 'postrider inbound files', 32));
  const sign = (payload: string): string => createHmac('sha256', key).update(payload).digest('base64url');
  return {
    url: ({ inboundId, file, expiresAtMs }) => {
      const payload = `${inboundId}-${file}-${expiresAtMs.toString(36)}`;
      return `${base.baseUrl}${FILES_PATH}${payload}-${sign(payload)}`;
    },
    open: (token, nowMs) => {
      const [, inboundId, file, expires, signature] = TOKEN.exec(token) ?? [];
      if (inboundId === undefined || file === undefined || expires === undefined || signature === undefined)
        return undefined;
      const expected = sign(`${inboundId}-${file}-${expires}`);
      if (!timingSafeEqual(Buffer.from(signature), Buffer.from(expected))) return undefined;
      const expiresAtMs = Number.parseInt(expires, 36);
      if (nowMs >= expiresAtMs) return undefined;
      return { inboundId, file: file === 'raw' ? file : Number(file), expiresAtMs };
    },
  };
}

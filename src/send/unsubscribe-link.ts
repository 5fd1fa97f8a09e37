/**
 * The links behind `unsubscribe_email_html`: one for each recipient, with all that the unsubscribe page has to know inside, and
 * signed, so that nobody can unsubscribe anybody else. They work for as long as the secret key stays, whatever becomes of
 * the message's records.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Mode } from '../base/mode.ts';

const SIGNATURE_BYTES = 18;

export interface UnsubscribeClaim {
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Bare address. */
  recipient: string;
}

export interface UnsubscribeLinks {
  /** Absolute address of the recipient's own unsubscribe page. */
  url(claim: UnsubscribeClaim): string;
  /** What a token says, or undefined when it was not made here. */
  open(token: string): UnsubscribeClaim | undefined;
}

/** `secretKey` is the service's own (32 bytes); `baseUrl` has no slash at its end. */
export function createUnsubscribeLinks(options: { secretKey: Uint8Array; baseUrl: string }): UnsubscribeLinks {
  const key = Buffer.from(hkdfSync('sha256', options.secretKey, '', 'postrider unsubscribe links', 32));
  const sign = (payload: string): Buffer =>
    createHmac('sha256', key).update(payload).digest().subarray(0, SIGNATURE_BYTES);

  return {
    url: ({ accountId, mode, messageId, recipient }) => {
      const payload = Buffer.from(`${accountId} ${mode} ${messageId} ${recipient}`).toString('base64url');
      return `${options.baseUrl}/unsubscribe/${payload}.${sign(payload).toString('base64url')}`;
    },
    open: (token) => {
      const [payload = '', signature = ''] = token.split('.');
      const given = Buffer.from(signature, 'base64url');
      if (given.length !== SIGNATURE_BYTES || !timingSafeEqual(given, sign(payload))) return undefined;
      const [accountId = '', mode = '', messageId = '', ...recipient] = Buffer.from(payload, 'base64url')
        .toString()
        .split(' ');
      return { accountId, mode: mode as Mode, messageId, recipient: recipient.join(' ') };
    },
  };
}

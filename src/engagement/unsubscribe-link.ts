/**
 * The links behind `unsubscribe_email_html` and List-Unsubscribe: one for each recipient, with all that the unsubscribe page
 * has to know inside, sealed, so that nobody reads it or can unsubscribe anybody else.
 */
import type { Mode } from '../base/mode.ts';
import { createSealedText } from './sealed-links.ts';

export const UNSUBSCRIBE_PATH = '/unsubscribe/';

export interface UnsubscribeClaim {
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Bare address. */
  recipient: string;
}

export interface UnsubscribeLinks {
  /** Whether the links are https: mail programs follow no others of List-Unsubscribe (RFC 8058 §3.1). */
  readonly isHttps: boolean;
  /** Absolute address of the recipient's own unsubscribe page. */
  url(claim: UnsubscribeClaim): string;
  /** What a token says, or undefined when it was not made here. */
  open(token: string): UnsubscribeClaim | undefined;
}

export function isHttps(baseUrl: string): boolean {
  return /^https:/i.test(baseUrl);
}

/** `secretKey` is the service's own (32 bytes); `baseUrl` has no slash at its end and may become known later. */
export function createUnsubscribeLinks(options: { secretKey: Uint8Array; readonly baseUrl: string }): UnsubscribeLinks {
  const sealed = createSealedText(options.secretKey, 'unsubscribe links');
  return {
    get isHttps() {
      return isHttps(options.baseUrl);
    },
    url: ({ accountId, mode, messageId, recipient }) =>
      `${options.baseUrl}${UNSUBSCRIBE_PATH}${sealed.seal(`${accountId} ${mode} ${messageId} ${recipient}`)}`,
    open: (token) => {
      const text = sealed.open(token);
      if (text === undefined) return undefined;
      const [accountId = '', mode = '', messageId = '', ...recipient] = text.split(' ');
      return { accountId, mode: mode as Mode, messageId, recipient: recipient.join(' ') };
    },
  };
}

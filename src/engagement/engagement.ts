/**
 * The links in a mail that lead back to this service: the unsubscribe page of each recipient, and the tracking that is asked for
 * with enableOpenTracking and enableClickTracking, whose links of the html lead through us and whose picture tells that the html
 * was shown. All that such a link has to know stands sealed inside it: nobody reads whose mail it was, unsubscribes anybody else,
 * or makes this service redirect to a place that no mail of it named. Links are forwarded and logged everywhere; they work for as
 * long as the secret key stays, whatever becomes of the records they speak of.
 */

import { createCipheriv, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Mode } from '../base/mode.ts';
import type { HtmlTracking } from '../mail/html/track-html.ts';

export const UNSUBSCRIBE_PATH = '/unsubscribe/';

/** One recipient's copy of a mail. */
export interface Copy {
  accountId: string;
  mode: Mode;
  messageId: string;
}

interface UnsubscribeClaim extends Copy {
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

export const TRACKING_PATH = '/t/';
/** A longer address is left as it is: sealed it would be longer than what clients take. */
const MAX_URL_LENGTH = 4_000;

type TrackedAction = Copy & ({ kind: 'open' } | { kind: 'click'; url: string });

export interface TrackingLinks {
  /** For `trackHtml`: what to do with the html of this copy. */
  trackingOf(copy: Copy, wanted: { opens: boolean; clicks: boolean }): HtmlTracking;
  /** What a token stands for, or undefined when it was not made here. */
  open(token: string): TrackedAction | undefined;
}

/** `secretKey` is the service's own (32 bytes); `baseUrl` has no slash at its end and may become known later. */
export function createTrackingLinks(options: { secretKey: Uint8Array; readonly baseUrl: string }): TrackingLinks {
  const sealed = createSealedText(options.secretKey, 'tracking links');
  return {
    trackingOf: ({ accountId, mode, messageId }, wanted) => {
      const { baseUrl } = options;
      const copy = `${accountId} ${mode} ${messageId}`;
      const address = (text: string): string => `${baseUrl}${TRACKING_PATH}${sealed.seal(text)}`;
      const isOurs = (url: string): boolean =>
        url.startsWith(baseUrl + UNSUBSCRIBE_PATH) || url.startsWith(baseUrl + TRACKING_PATH);
      return {
        ...(wanted.clicks && {
          rewriteLink: (url) => (url.length > MAX_URL_LENGTH || isOurs(url) ? undefined : address(`c ${copy} ${url}`)),
        }),
        ...(wanted.opens && { pixelUrl: address(`o ${copy}`) }),
      };
    },
    open: (token) => {
      const text = sealed.open(token);
      if (text === undefined) return undefined;
      const [kind, accountId = '', mode = '', messageId = '', ...url] = text.split(' ');
      const copy = { accountId, mode: mode as Mode, messageId };
      return kind === 'c' ? { ...copy, kind: 'click', url: url.join(' ') } : { ...copy, kind: 'open' };
    },
  };
}

const IV_BYTES = 16;
/** Of the old form. */
const SIGNATURE_BYTES = 18;

interface SealedText {
  /** Letters, digits, `-` and `_`. */
  seal(text: string): string;
  /** The text of a token, or undefined when it was not made here. */
  open(token: string): string | undefined;
}

/**
 * Tokens for one purpose: those of another are not opened. `secretKey` is the service's own (32 bytes).
 *
 * A token is IV and ciphertext. The IV is a MAC of the text (SIV, Rogaway and Shrimpton 2006; RFC 5297 with HMAC-SHA-256 and
 * AES-256-CTR): it needs no nonce, whose random collisions would bound the number of links, adds 16 bytes, and gives one text one
 * token. Links of mail sent before were text and signature in plain Base64 with a dot between; they still open.
 */
export function createSealedText(secretKey: Uint8Array, purpose: string): SealedText {
  const derive = (use: string): Buffer =>
    Buffer.from(hkdfSync('sha256', secretKey, '', `postrider ${purpose}${use}`, 32));
  const macKey = derive(': mac');
  const cipherKey = derive(': cipher');
  const signatureKey = derive('');
  const ivOf = (text: Buffer): Buffer => createHmac('sha256', macKey).update(text).digest().subarray(0, IV_BYTES);
  // CTR: the same step both ways.
  const crypt = (iv: Buffer, bytes: Buffer): Buffer => createCipheriv('aes-256-ctr', cipherKey, iv).update(bytes);

  const openSigned = (token: string): string | undefined => {
    const [payload = '', signature = '', ...more] = token.split('.');
    const ours = createHmac('sha256', signatureKey).update(payload).digest().subarray(0, SIGNATURE_BYTES);
    // Compared as they are written: decoding passes over what is no Base64.
    const [given, wanted] = [Buffer.from(signature), Buffer.from(ours.toString('base64url'))];
    if (more.length > 0 || given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined;
    return Buffer.from(payload, 'base64url').toString();
  };

  return {
    seal: (text) => {
      const plain = Buffer.from(text);
      const iv = ivOf(plain);
      return Buffer.concat([iv, crypt(iv, plain)]).toString('base64url');
    },
    open: (token) => {
      if (token.includes('.')) return openSigned(token);
      const bytes = Buffer.from(token, 'base64url');
      // One way to write a token: no padding, no foreign characters, no spare bits.
      if (bytes.length < IV_BYTES || bytes.toString('base64url') !== token) return undefined;
      const iv = bytes.subarray(0, IV_BYTES);
      const plain = crypt(iv, bytes.subarray(IV_BYTES));
      return timingSafeEqual(iv, ivOf(plain)) ? plain.toString() : undefined;
    },
  };
}

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
import { createTokenAddresses } from '../mail/token-address.ts';
import type { Copy } from './engagement-store.ts';

export { type Copy, type Unsubscribing, unsubscribe } from './engagement-store.ts';

export const UNSUBSCRIBE_PATH = '/unsubscribe/';

interface UnsubscribeClaim extends Copy {
  /** Bare address. */
  recipient: string;
}

export interface UnsubscribeLinks {
  /** Whether the links are https: mail programs offer no others for one click (RFC 8058 §3.1). */
  readonly isHttps: boolean;
  /** Absolute address of the recipient's own unsubscribe page, for mail from this domain. */
  url(claim: UnsubscribeClaim, fromDomain?: string): string;
  /** The same as a mail to write (RFC 6068), whatever it says; undefined where no mail comes in. `leavesMs`: when the copy leaves. */
  mailto(copy: Copy, leavesMs: number): string | undefined;
  /** What a token says, or undefined when it was not made here. */
  open(token: string): UnsubscribeClaim | undefined;
}

export function isHttps(baseUrl: string): boolean {
  return /^https:/i.test(baseUrl);
}

export interface LinkOptions {
  /** The service's own (32 bytes). */
  secretKey: Uint8Array;
  /** Without a slash at its end; may become known later. */
  readonly baseUrl: string;
  /** Where links of mail from a domain lead, where that is not `baseUrl`; of the same scheme. A token opens wherever it is shown. */
  urlOf?: ((accountId: string, fromDomain: string) => string | undefined) | undefined;
}

function baseOf({ baseUrl, urlOf }: LinkOptions, accountId: string, fromDomain: string | undefined): string {
  return (fromDomain === undefined ? undefined : urlOf?.(accountId, fromDomain)) ?? baseUrl;
}

/** Mail to `bounceDomain` comes in here. */
export function createUnsubscribeLinks(options: LinkOptions, bounceDomain?: string): UnsubscribeLinks {
  const sealed = createSealedText(options.secretKey, 'unsubscribe links');
  const addresses = createTokenAddresses(options.secretKey);
  return {
    get isHttps() {
      return isHttps(options.baseUrl);
    },
    url: ({ accountId, mode, messageId, recipient }, fromDomain) => {
      const token = sealed.seal(`${accountId} ${mode} ${messageId} ${recipient}`);
      return `${baseOf(options, accountId, fromDomain)}${UNSUBSCRIBE_PATH}${token}`;
    },
    mailto: ({ messageId }, leavesMs) =>
      bounceDomain === undefined
        ? undefined
        : `mailto:${addresses.make('unsubscribe', { messageId }, leavesMs)}@${bounceDomain}?subject=unsubscribe`,
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
  /** For `trackHtml`: what to do with the html of this copy of a mail from this domain. */
  trackingOf(copy: Copy, wanted: { opens: boolean; clicks: boolean }, fromDomain?: string): HtmlTracking;
  /** What a token stands for, or undefined when it was not made here. */
  open(token: string): TrackedAction | undefined;
}

export function createTrackingLinks(options: LinkOptions): TrackingLinks {
  const sealed = createSealedText(options.secretKey, 'tracking links');
  return {
    trackingOf: ({ accountId, mode, messageId }, wanted, fromDomain) => {
      const base = baseOf(options, accountId, fromDomain);
      const copy = `${accountId} ${mode} ${messageId}`;
      const address = (text: string): string => `${base}${TRACKING_PATH}${sealed.seal(text)}`;
      const isOurs = (url: string): boolean =>
        [base, options.baseUrl].some(
          (own) => url.startsWith(own + UNSUBSCRIBE_PATH) || url.startsWith(own + TRACKING_PATH),
        );
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

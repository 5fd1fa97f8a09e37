/**
 * Creates the links in an email that point to this service: the unsubscribe page of each recipient, and the links and the tracking image of
 * enableClickTracking and enableOpenTracking. Everything a link needs is encrypted and authenticated in it: links do not reveal the
 * recipient, cannot unsubscribe anyone else, and redirect only to addresses in the email. Links get forwarded and logged; they work as long
 * as the secret key is unchanged, even after the message was deleted.
 */

import { createCipheriv, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Mode } from '../base/mode.ts';
import type { HtmlTracking } from '../mail/html/track-html.ts';
import { createTokenAddresses } from '../mail/token-address.ts';
import type { Copy } from './engagement-store.ts';

export { type Copy, type UnsubscribeRequest, unsubscribe } from './engagement-store.ts';

export const UNSUBSCRIBE_PATH = '/unsubscribe/';

interface UnsubscribeClaim extends Copy {
  /** Bare address. */
  recipient: string;
}

export interface UnsubscribeLinks {
  /** Whether the links use https: email clients offer one-click unsubscribe for https only (RFC 8058 §3.1). */
  readonly isHttps: boolean;
  /** Returns the absolute URL of the recipient's unsubscribe page, for mail from this domain. */
  url(claim: UnsubscribeClaim, fromDomain?: string): string;
  /** Returns a mailto URL for unsubscribing (RFC 6068); undefined if no mail is received. `leavesMs`: when the copy is sent. */
  mailto(copy: Copy, leavesMs: number): string | undefined;
  /** Returns the content of a token, or undefined if it was not created here. */
  open(token: string): UnsubscribeClaim | undefined;
}

export function isHttps(baseUrl: string): boolean {
  return /^https:/i.test(baseUrl);
}

export interface LinkOptions {
  /** The service's secret key (32 bytes). */
  secretKey: Uint8Array;
  /** Without a trailing slash; may become known later. */
  readonly baseUrl: string;
  /**
   * Returns the base URL for links in email of a domain, if it differs from `baseUrl`; with the same scheme. A token works on every host.
   */
  urlOf?: ((accountId: string, fromDomain: string) => string | undefined) | undefined;
}

function baseOf({ baseUrl, urlOf }: LinkOptions, accountId: string, fromDomain: string | undefined): string {
  return (fromDomain === undefined ? undefined : urlOf?.(accountId, fromDomain)) ?? baseUrl;
}

/** Mail to `bounceDomain` is received here. */
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
/** Longer URLs are not tracked: encrypted they would exceed what clients support. */
const MAX_URL_LENGTH = 4_000;

type TrackedAction = Copy & ({ kind: 'open' } | { kind: 'click'; url: string });

export interface TrackingLinks {
  /** Returns the argument for `trackHtml`: what to do with the html of this copy of an email from this domain. */
  trackingOf(copy: Copy, wanted: { opens: boolean; clicks: boolean }, fromDomain?: string): HtmlTracking;
  /** Returns the content of a token, or undefined if it was not created here. */
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
/** The previous token format. */
const SIGNATURE_BYTES = 18;

interface SealedText {
  /** Letters, digits, `-` and `_`. */
  seal(text: string): string;
  /** Returns the text of a token, or undefined if it was not created here. */
  open(token: string): string | undefined;
}

/**
 * Creates tokens for one purpose; tokens for another purpose are rejected. `secretKey` is the service's key (32 bytes).
 *
 * A token is IV and ciphertext. The IV is a MAC of the text (SIV, Rogaway and Shrimpton 2006; RFC 5297 with HMAC-SHA-256 and AES-256-CTR).
 * It needs no nonce, whose random collisions would limit the number of links, adds 16 bytes, and maps each text to one token. Links of an
 * earlier format (text and signature in plain Base64, separated by a dot) still work.
 */
export function createSealedText(secretKey: Uint8Array, purpose: string): SealedText {
  const derive = (use: string): Buffer =>
    Buffer.from(hkdfSync('sha256', secretKey, '', `postrider ${purpose}${use}`, 32));
  const macKey = derive(': mac');
  const cipherKey = derive(': cipher');
  const signatureKey = derive('');
  const ivOf = (text: Buffer): Buffer => createHmac('sha256', macKey).update(text).digest().subarray(0, IV_BYTES);
  // CTR mode: encryption and decryption are the same operation.
  const crypt = (iv: Buffer, bytes: Buffer): Buffer => createCipheriv('aes-256-ctr', cipherKey, iv).update(bytes);

  const openSigned = (token: string): string | undefined => {
    const [payload = '', signature = '', ...more] = token.split('.');
    const ours = createHmac('sha256', signatureKey).update(payload).digest().subarray(0, SIGNATURE_BYTES);
    // Compares the encoded texts, because decoding ignores invalid Base64 characters.
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
      // A token has exactly one spelling: no padding, no foreign characters, no spare bits.
      if (bytes.length < IV_BYTES || bytes.toString('base64url') !== token) return undefined;
      const iv = bytes.subarray(0, IV_BYTES);
      const plain = crypt(iv, bytes.subarray(IV_BYTES));
      return timingSafeEqual(iv, ivOf(plain)) ? plain.toString() : undefined;
    },
  };
}

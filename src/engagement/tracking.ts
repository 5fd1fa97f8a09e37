/**
 * Tracking of one copy of a mail, asked for with enableOpenTracking and enableClickTracking: links of the html lead through
 * this service, and a picture tells that the html was shown. What a link leads to stands sealed inside it: nobody makes
 * this service redirect to a place that no mail of it named.
 */
import type { Mode } from '../base/mode.ts';
import type { HtmlTracking } from '../mail/html/track-html.ts';
import { createSealedText } from './sealed-links.ts';
import { UNSUBSCRIBE_PATH } from './unsubscribe-link.ts';

export const TRACKING_PATH = '/t/';
/** A longer address is left as it is: sealed it would be longer than what clients take. */
const MAX_URL_LENGTH = 4_000;

/** Whose copy it is. */
export interface TrackedCopy {
  accountId: string;
  mode: Mode;
  messageId: string;
}

export type TrackedAction = TrackedCopy & ({ kind: 'open' } | { kind: 'click'; url: string });

export interface TrackingLinks {
  /** For `trackHtml`: what to do with the html of this copy. */
  trackingOf(copy: TrackedCopy, wanted: { opens: boolean; clicks: boolean }): HtmlTracking;
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

/**
 * The return path: the address in MAIL FROM, to which a server that took a mail sends what it has to say of it later (RFC 5321
 * §4.4). It names the copy (src/mail/token-address.ts), and is of the sender's own domain where a name of that leads to us, so that SPF
 * is aligned for DMARC (RFC 9989 §4.4.2), else of the bounce domain. Mail from the null sender keeps it: nobody answers a bounce with
 * a bounce.
 *
 * A copy has a transaction of its own, so that its address names it and nobody has to read a report for whom it is about. Large content
 * goes once to all recipients of its email at a destination: what a report says of its recipient picks the copy then.
 */
import type { Clock } from '../../base/clock.ts';
import type { TokenAddresses } from '../../mail/token-address.ts';
import { type DeliveryJob, INLINE_BYTES } from '../../messages/messages.ts';

export interface ReturnPaths {
  /** The address for MAIL FROM. `ownDomain`: a name of the sender's that leads to us. */
  of(job: DeliveryJob, transaction: { isShared: boolean; ownDomain: string | undefined }): string;
  /** Whether the recipients of an email share a transaction. */
  mayShare(job: DeliveryJob): boolean;
}

/** Without a bounce domain MAIL FROM is the sender. */
export const SENDER_ITSELF: ReturnPaths = { of: (job) => job.envelopeFrom, mayShare: () => true };

export function createReturnPaths(options: {
  tokens: TokenAddresses;
  clock: Clock;
  bounceDomain: string;
}): ReturnPaths {
  const { tokens, clock, bounceDomain } = options;
  return {
    of: ({ envelopeFrom, messageId }, { isShared, ownDomain }) =>
      envelopeFrom === ''
        ? ''
        : `${tokens.make('bounce', { messageId, isShared }, clock.now())}@${ownDomain ?? bounceDomain}`,
    mayShare: ({ sizeBytes }) => sizeBytes > INLINE_BYTES,
  };
}

/**
 * The return path: the address in MAIL FROM, to which a server that accepted a message sends later reports (RFC 5321 §4.4). It identifies
 * the copy (src/mail/token-address.ts). Its domain is a name of the sender's that points to Postrider, if there is one, so that SPF is
 * aligned for DMARC (RFC 9989 §4.4.2); otherwise the bounce domain. Mail from the null sender keeps it, so that bounces never cause
 * bounces.
 *
 * Each copy has its own transaction, so its address identifies it even if the report names no recipient. Large content is sent once to all
 * recipients of its email at a destination: then the recipient in the report identifies the copy.
 */
import type { Clock } from '../../base/clock.ts';
import type { TokenAddresses } from '../../mail/token-address.ts';
import { type DeliveryJob, INLINE_BYTES } from '../../messages/messages.ts';

export interface ReturnPaths {
  /** Returns the address for MAIL FROM. `ownDomain`: a name of the sender's that points to Postrider. */
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

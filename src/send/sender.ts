/**
 * Whether a caller may send from an address: first what its key or credential is bound to, in both modes, and then, live, whether
 * the account has verified the domain. One answer for HTTP, SMTP, dry runs and mail that is sent again.
 */
import { type Caller, maySendAs } from '../accounts/accounts.ts';
import { type Failure, failure } from '../base/failure.ts';
import type { Address } from '../mail/address.ts';

export type SendingCaller = Pick<Caller, 'account' | 'mode' | 'allowedSenders'>;

/** A caller at the time of its request. */
export interface Sender extends SendingCaller {
  /** By the clock of the mode. */
  nowMs: number;
  /** What that clock is ahead of the real time, which ids carry. */
  clockOffsetMs: number;
}

/** Whether the account may send from the domain (or from one above it). */
export type IsVerified = (accountId: string, domain: string) => Promise<boolean>;

/** SENDER_NOT_VERIFIED, or undefined when it may. */
export async function senderFailure(
  { account, mode, allowedSenders }: SendingCaller,
  from: Address,
  isVerified: IsVerified,
): Promise<Failure | undefined> {
  if (!maySendAs(allowedSenders, from)) return notAllowed(from, allowedSenders);
  if (mode === 'sandbox') return undefined;
  return (await isVerified(account.id, from.domain)) ? undefined : notVerified(from.domain);
}

function notVerified(domain: string): Failure {
  return failure('SENDER_NOT_VERIFIED', {
    message: `The domain ${domain} is not verified for this account; add it with POST /domains and verify it first.`,
    details: [{ field: 'from', message: 'must be at a verified domain' }],
  });
}

function notAllowed({ address }: Address, allowed: readonly string[]): Failure {
  return failure('SENDER_NOT_VERIFIED', {
    message: `This key or credential may not send from ${address}; its allowedSenders are ${allowed.join(', ')}.`,
    details: [{ field: 'from', message: 'must be one of its allowedSenders' }],
  });
}

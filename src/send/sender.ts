/**
 * Whether a caller may send from an address: first what its key or credential is bound to, in both modes, and then, live, whether
 * the account has verified the domain. One answer for HTTP, SMTP, dry runs and mail that is sent again.
 */
import { type Caller, maySendAs } from '../accounts/accounts.ts';
import { type Failure, failure } from '../base/failure.ts';
import type { Address } from '../mail/address.ts';

export type SendingCaller = Pick<Caller, 'account' | 'mode' | 'allowedSenders'>;

/** Whether the account may send from the domain (or from one above it). */
export type IsVerified = (accountId: string, domain: string) => boolean | Promise<boolean>;

/** SENDER_NOT_VERIFIED, or undefined when it may; without a promise where that is known already. */
export function senderFailure(
  { account, mode, allowedSenders }: SendingCaller,
  from: Address,
  isVerified: IsVerified,
): Failure | undefined | Promise<Failure | undefined> {
  if (!maySendAs(allowedSenders, from)) return notAllowed(from, allowedSenders);
  if (mode === 'sandbox') return undefined;
  const verified = isVerified(account.id, from.domain);
  if (typeof verified === 'boolean') return verified ? undefined : notVerified(from.domain);
  return verified.then((late) => (late ? undefined : notVerified(from.domain)));
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

/**
 * Accounts that require two-factor authentication. A session meets the requirement if its user has a second factor and signed in with it, or
 * signed in through the identity provider, which is responsible for the second factor. A password alone does not meet it, even if the user
 * has a passkey.
 */
import { type Failure, failure } from '../base/failure.ts';

/** The proof with which a session started. A recovery code and a passkey are second factors. */
export type SignInMethod = 'password' | 'second-factor' | 'identity-provider';

/** setup: the user must set up a second factor. sign-in: the user must sign in again with it. */
export type MissingFactor = 'setup' | 'sign-in';

export interface Proof {
  signedInWith: SignInMethod;
  /** Whether the user has an authenticator app or a passkey. */
  hasSecondFactor: boolean;
}

/** Returns what a session lacks to meet the requirement. */
export function missingFactor({ signedInWith, hasSecondFactor }: Proof): MissingFactor | undefined {
  if (signedInWith === 'identity-provider') return undefined;
  if (!hasSecondFactor) return 'setup';
  return signedInWith === 'second-factor' ? undefined : 'sign-in';
}

const WHAT_TO_DO: Record<MissingFactor, string> = {
  setup: 'Set up two-factor authentication in your profile: an authenticator app or a passkey.',
  'sign-in': 'Sign in again with your passkey or with a code of your authenticator app.',
};

/** Returns the failure of a call to an account that requires two-factor authentication, which the session lacks. */
export function twoFactorFailure(missing: MissingFactor): Failure {
  return failure('FORBIDDEN', { message: `This account requires two-factor authentication. ${WHAT_TO_DO[missing]}` });
}

/** Returns the failure of a user who requires two-factor authentication of others but has not signed in with it. */
export function ownFactorFailure(missing: MissingFactor): Failure {
  const message = `Before you require two-factor authentication of others, use it yourself. ${WHAT_TO_DO[missing]}`;
  return failure('CONFLICT', { message });
}

/** Texts about accounts that require two-factor authentication. */
import { count } from '../parts/time.tsx';
import { quoted } from './quoted.ts';

export const twoFactor = {
  title: 'Set up two-factor authentication',
  lead: (name: string) =>
    `${quoted(name)} requires two-factor authentication. Set up an authenticator app or a passkey to continue.`,
  done: 'Two-factor authentication is set up.',
  next: (name: string) => `Continue to ${quoted(name)}`,
  signInTitle: 'Sign in with your second factor',
  signInLead: (name: string) =>
    `${quoted(name)} requires two-factor authentication, and this session was started with a password alone. Sign in again with your passkey, or with your password and a code of your authenticator app.`,
  signIn: 'Sign in again',
};

const members = (number: number): string => `${count(number)} ${number === 1 ? 'member' : 'members'}`;

export const requirement = {
  title: 'Two-factor authentication',
  required: 'Required',
  optional: 'Optional',
  requiredLead: 'Members need an authenticator app or a passkey to access this account.',
  optionalLead: (number: number, total: number) =>
    number === total
      ? 'All members have an authenticator app or a passkey, but this account doesn’t require it.'
      : `${count(number)} of ${members(total)} ${number === 1 || total === 1 ? 'has' : 'have'} an authenticator app or a passkey.`,
  optionalLeadLong: 'Members can access this account with their password alone.',
  require: 'Require…',
  requireTitle: 'Require two-factor authentication?',
  requireLead:
    'Members without a second factor can still sign in, but they must set one up before they can access this account. This takes effect immediately. API keys and SMTP credentials keep working.',
  lacking: (number: number) => `${members(number)} without a second factor`,
  noneLacking: 'All members already have a second factor.',
  provider: 'Members who sign in through your identity provider keep access.',
  confirm: 'Require',
  requiredNow: 'Two-factor authentication is required',
  stop: 'Make optional',
  stopEffect: 'Members can then access this account with their password alone, and can remove their second factors.',
  stopConfirm: 'Make optional',
  optionalNow: 'Two-factor authentication is optional',
  ownFirst: 'Set up your own second factor before you require it of others.',
  ownSignIn: 'Sign in again with your own second factor before you require it of others.',
  toProfile: 'Open profile',
  signIn: 'Sign in again',
};

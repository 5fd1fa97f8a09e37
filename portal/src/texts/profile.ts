/** Texts about the signed-in user. */
import { count } from '../parts/time.tsx';
import { quoted } from './quoted.ts';

export const profile = {
  title: 'Profile',
  you: 'User',
  email: 'Email',
  operator: 'Operator',
  accounts: 'Accounts',
  noAccounts: 'None',
  appearance: 'Appearance',
  appearanceHint: 'Saved in this browser.',
};

export const again = {
  title: 'Confirm it’s you',
  hint: 'For security, sign in again to change your sign-in settings. You then return to this page.',
  factorHint:
    'Sign in again with your passkey, or with a code of your authenticator app. You then return to this page.',
  action: 'Sign in again',
};

export const password = {
  title: 'Password',
  lead: 'Changing your password signs you out everywhere else.',
  current: 'Current password',
  next: 'New password',
  hint: 'At least 12 characters.',
  submit: 'Change password',
  changed: 'Password changed. You’ve been signed out everywhere else.',
};

export const authenticator = {
  title: 'Authenticator app',
  off: 'Off. If you turn it on, signing in with a password also requires a code from your phone.',
  on: (recoveryCodes: number) => `On. ${count(recoveryCodes)} recovery ${recoveryCodes === 1 ? 'code' : 'codes'} left.`,
  few: 'Few recovery codes are left. Remove the app and set it up again to get ten new ones.',
  begin: 'Set up',
  remove: 'Remove',
  removed: 'Authenticator app removed',
  scan: 'Scan this QR code with your authenticator app.',
  qr: 'QR code for the authenticator app',
  type: 'Or enter this key manually:',
  code: '6-digit code',
  confirm: 'Confirm',
  cancel: 'Cancel',
  confirmTitle: 'Set up authenticator app',
  codesTitle: 'Recovery codes',
  codesLead: 'Use a recovery code if you lose access to your phone. Each code works once.',
  codes: 'Recovery codes',
  download: 'Download',
  fileName: 'postrider-recovery-codes.txt',
};

export const passkeys = {
  title: 'Passkeys',
  lead: 'Sign in with your fingerprint, face, or device PIN.',
  unavailable: 'Passkeys require a current browser, and HTTPS or localhost.',
  none: 'No passkeys yet',
  name: 'Passkey name',
  nameHint: 'e.g. “MacBook”',
  add: 'Add passkey',
  added: 'Passkey added',
  notMade: 'Passkey setup was canceled.',
  remove: 'Remove',
  removeOf: (name: string) => `Remove ${quoted(name)}`,
  removed: (name: string) => `Passkey ${quoted(name)} removed`,
  made: 'Added',
  used: 'Last used',
  never: 'Never',
};

export const sessions = {
  title: 'Active sessions',
  browser: 'Browser',
  unknown: 'Unknown',
  address: 'IP address',
  began: 'Signed in',
  used: 'Last active',
  ends: 'Expires',
  current: 'This device',
  endOf: (browser: string, address: string) => `Sign out ${browser} at ${address}`,
  endOthers: 'Sign out all other sessions',
  ended: 'Session signed out',
  othersEnded: 'All other sessions signed out',
  none: 'None',
};

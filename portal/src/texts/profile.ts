/** What is read about the person who is signed in. */
import { count } from '../parts/time.tsx';

export const profile = {
  title: 'Your profile',
  you: 'You',
  email: 'Email',
  operator: 'Operator of this service',
  accounts: 'Accounts',
  noAccounts: 'None',
  appearance: 'Appearance',
  appearanceHint: 'In this browser.',
};

export const again = {
  title: 'Sign in again first',
  hint: 'To change how you sign in, your session must be at most 15 minutes old. You come back to this page.',
  action: 'Sign in again',
};

export const password = {
  title: 'Password',
  lead: 'Every other session of yours ends when it changes.',
  current: 'Current password',
  next: 'New password',
  hint: 'At least 12 characters. A sentence is good.',
  submit: 'Change the password',
  changed: 'The password is changed. Your other sessions have ended.',
};

export const authenticator = {
  title: 'Authenticator app',
  off: 'Not set up. With it, signing in with the password asks for a code of your phone.',
  on: (recoveryCodes: number) =>
    `Set up. ${count(recoveryCodes)} recovery ${recoveryCodes === 1 ? 'code is' : 'codes are'} left.`,
  few: 'Few recovery codes are left. Remove the app and set it up again to get ten new ones.',
  begin: 'Set up',
  remove: 'Remove',
  removed: 'Authenticator app removed',
  scan: 'Scan this with your authenticator app.',
  qr: 'QR code for the authenticator app',
  type: 'Or type in this secret:',
  code: 'Code that the app shows',
  confirm: 'Confirm',
  cancel: 'Cancel',
  confirmTitle: 'Set up an authenticator app',
  codesTitle: 'Your recovery codes',
  codesLead: 'Each stands in for a code once, when your phone is not at hand.',
  codes: 'Recovery codes',
  download: 'Download',
  fileName: 'postrider-recovery-codes.txt',
};

export const passkeys = {
  title: 'Passkeys',
  lead: 'Sign in with your finger, face or PIN, without a password.',
  unavailable:
    'This browser has no passkeys here. They need a current browser, and an address with https or localhost.',
  none: 'You have none yet.',
  name: 'Name of the passkey',
  nameHint: 'Such as “Laptop”',
  add: 'Add a passkey',
  added: 'Passkey added',
  notMade: 'The browser made no passkey.',
  remove: 'Remove',
  removeOf: (name: string) => `Remove ${name}`,
  removed: (name: string) => `Passkey ${name} removed`,
  made: 'Added',
  used: 'Last used',
  never: 'Never',
};

export const sessions = {
  title: 'Where you are signed in',
  browser: 'Browser',
  unknown: 'Unknown',
  address: 'Address',
  began: 'Signed in',
  used: 'Last used',
  ends: 'Ends',
  current: 'This one',
  actions: 'Actions',
  end: 'End',
  endOf: (browser: string, address: string) => `End ${browser} at ${address}`,
  endOthers: 'End all others',
  ended: 'Session ended',
  othersEnded: 'All other sessions ended',
  none: 'None',
};

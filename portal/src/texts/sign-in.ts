export const signIn = {
  title: 'Sign in',
  email: 'Email',
  password: 'Password',
  code: 'Code',
  codeHint: 'Six digits of your authenticator app, or a recovery code. Leave it empty if you have set up none.',
  withCode: 'I have a code',
  submit: 'Sign in',
  passkey: 'Sign in with a passkey',
  passkeyFailed: 'The passkey was not used.',
  forgot: 'Forgot your password?',
  sent: 'If this address has a user, a link is on its way. It is valid for an hour.',
  sentHint:
    'No mail? The service sends mail only once an account has a verified domain. Ask those who run it for a link.',
  provider: 'Sign in with your organisation',
  or: 'or',
};

export const newPassword = {
  welcome: 'Welcome to Postrider',
  welcomeLead: 'Choose a password. You are signed in at once.',
  reset: 'Choose a new password',
  resetLead: 'Every other session of yours ends.',
  password: 'New password',
  hint: 'At least 12 characters. A sentence is good.',
  submit: 'Set the password and sign in',
  noToken: 'This link is not complete',
  noTokenHint: 'Open it as it stands in the mail or in first-run.json, with everything behind #token=.',
  used: 'A link is valid once. If this one was used, sign in, or ask for another.',
  signInAgain: 'The password is set. Sign in with it and your code.',
  toSignIn: 'Go to sign in',
};

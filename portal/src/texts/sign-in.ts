export const signIn = {
  title: 'Sign in',
  email: 'Email',
  password: 'Password',
  code: 'Code',
  codeHint: 'Enter the 6-digit code from your authenticator app or a recovery code.',
  withCode: 'Use two-factor code (better: ask for it in a second step, only when needed)',
  submit: 'Sign in',
  passkey: 'Sign in with a passkey',
  passkeyFailed: 'Passkey sign-in was canceled.',
  forgot: 'Forgot your password?',
  sent: 'If an account exists for this email, we’ve sent a reset link. It expires in 1 hour.',
  sentHint:
    'Didn’t get it? Ask your operator for a reset link.',
  provider: 'Continue with SSO',
  or: 'or',
};

export const newPassword = {
  welcome: 'Welcome to Postrider',
  welcomeLead: 'Choose a password to get started.',
  reset: 'Choose a new password',
  resetLead: 'This signs you out everywhere else.',
  password: 'New password',
  hint: 'At least 12 characters. A sentence is good.',
  submit: 'Set password and continue',
  noToken: 'This link is incomplete',
  noTokenHint: 'Copy the full link from the email or first-run.json, including everything after #token=.',
  used: 'Links work once. Sign in, or request a new link.',
  signInAgain: 'Password set. Sign in with your new password and two-factor code.',
  toSignIn: 'Go to sign in',
};
